/** Exercises: something to complete, which the core checks. */
import type { LessonEntry } from './lessons.js'

export const exercises: readonly LessonEntry[] = [
  {
    name: 'exercise/tp-backward',
    group: 'exercises',
    title: { en: 'Complete a tensor-parallel backward', zh: '补全张量并行的反向' },
    what: {
      en: 'Two instructions are missing from a program: put them back until every law holds.',
      zh: '一段程序缺了两条指令：补回来，直到每条定律都成立。',
    },
    notes: ['D2.2'],
    load: () => import('./exercise/tp-backward.js'),
  },
  {
    name: 'exercise/pp-backward',
    group: 'exercises',
    title: { en: 'Write a pipeline’s backward', zh: '写出流水线的反向' },
    what: {
      en: 'Add the backwards to the rows of four ranks so that nobody waits for ever.',
      zh: '给四个 rank 的调度补上反向，谁也不会永远等下去。',
    },
    notes: ['D2.3'],
    load: () => import('./exercise/pp-backward.js'),
  },
  {
    name: 'exercise/bubble',
    group: 'exercises',
    title: { en: 'Beat 1F1B by hand', zh: '动手赢过 1F1B' },
    what: {
      en: 'Split backwards in two and fill the bubble; ZB-H1 is the one to reach.',
      zh: '把反向拆成两半去填气泡，目标是追上 ZB-H1。',
    },
    notes: ['D', 'A2.2'],
    load: () => import('./exercise/bubble.js'),
  },
  {
    name: 'exercise/hybrid',
    group: 'exercises',
    title: { en: 'Data and tensor parallel at once', zh: '数据并行加张量并行' },
    what: {
      en: 'Build a mesh of eight ranks, name its groups and what each axis says, and when.',
      zh: '搭一个八个 rank 的网格，说出各组有谁、各轴在何时通信。',
    },
    notes: ['D', 'E1.2.3'],
    load: () => import('./exercise/hybrid.js'),
  },
  {
    name: 'exercise/communication',
    group: 'exercises',
    title: { en: 'Who sends most?', zh: '谁发得最多？' },
    what: {
      en: 'Rank data, tensor and pipeline parallelism and ZeRO by bytes, then have them counted.',
      zh: '给数据并行、张量并行、流水线和 ZeRO 按字节数排个序，再来数一数。',
    },
    notes: ['D'],
    load: () => import('./exercise/communication.js'),
  },
]
