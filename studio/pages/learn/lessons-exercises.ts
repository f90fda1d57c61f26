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
]
