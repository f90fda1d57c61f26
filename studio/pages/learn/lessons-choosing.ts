/** Lessons on choosing among plans: studies of a few jobs beside each other. */
import type { LessonEntry } from './lessons.js'

export const choosingLessons: readonly LessonEntry[] = [
  {
    name: 'pipeline',
    group: 'splitting',
    title: { en: 'Pipelines and their bubble', zh: '流水线与气泡' },
    what: {
      en: 'What stages, microbatches and schedules do to idle time and to memory.',
      zh: '级数、微批次和调度怎样影响空闲与显存。',
    },
    notes: ['A2.2', 'B3b', 'C', 'D2.3', 'E1.2.2'],
    load: () => import('./pipeline.js'),
  },
  {
    name: 'context',
    group: 'splitting',
    title: { en: 'Context parallelism', zh: '上下文并行' },
    what: {
      en: 'One long sequence on many ranks: keys gathered, or passed around a ring.',
      zh: '一条长序列放到多个 rank 上：key 一次收齐，或沿环传递。',
    },
    notes: ['A3.2'],
    load: () => import('./context.js'),
  },
  {
    name: 'experts',
    group: 'splitting',
    title: { en: 'Experts', zh: '专家并行' },
    what: {
      en: 'Tokens that travel to the weights, instead of weights to the tokens.',
      zh: '把 token 送到权重那里，而不是把权重送到 token 这里。',
    },
    notes: ['A3.2', 'D', 'E1.2.4', 'E3.2.2', 'E5.1'],
    load: () => import('./experts.js'),
  },
  {
    name: 'placement',
    group: 'choosing',
    title: { en: 'Placement', zh: '摆放' },
    what: {
      en: 'Which axis gets the fast links, and what it costs to get that wrong.',
      zh: '哪个轴该用快链路，放错了代价有多大。',
    },
    notes: ['A3.1', 'B4', 'C', 'D', 'E1.2.3', 'E4.2'],
    load: () => import('./placement.js'),
  },
  {
    name: 'batch',
    group: 'choosing',
    title: { en: 'Batch as a resource', zh: 'batch 也是资源' },
    what: {
      en: 'Data parallelism and pipelines both spend it, and it can be spent once.',
      zh: '数据并行和流水线都要花 batch，而它只能花一次。',
    },
    notes: ['A3.1', 'E4.3'],
    load: () => import('./batch.js'),
  },
  {
    name: 'scaling',
    group: 'choosing',
    title: { en: 'Strong and weak scaling', zh: '强扩展与弱扩展' },
    what: {
      en: 'What more devices buy, and the part of a step that does not shrink.',
      zh: '多加设备能换来什么，一步里哪部分不会缩小。',
    },
    notes: ['E2.2', 'E6.2'],
    load: () => import('./scaling.js'),
  },
  {
    name: 'precision',
    group: 'choosing',
    title: { en: 'Precision', zh: '精度' },
    what: {
      en: 'What sixteen bits save, and why weights are updated in thirty-two.',
      zh: '16 位省了什么，为什么权重仍用 32 位更新。',
    },
    notes: ['E2.1', 'E4.3'],
    load: () => import('./precision.js'),
  },
  {
    name: 'offload',
    group: 'choosing',
    title: { en: 'Offload', zh: '卸载' },
    what: {
      en: 'What the host’s memory holds for a device, and what fetching it costs.',
      zh: '让主机内存替设备存东西，取回来要花多少时间。',
    },
    notes: ['C', 'E3.1.3', 'E4.1'],
    load: () => import('./offload.js'),
  },
  {
    name: 'compression',
    group: 'choosing',
    title: { en: 'Gradient compression', zh: '梯度压缩' },
    what: {
      en: 'When fewer bytes of gradient make a faster step, and when they do not.',
      zh: '少传梯度字节什么时候更快，什么时候反而更慢。',
    },
    notes: ['E3.1.1', 'E4.3'],
    load: () => import('./compression.js'),
  },
  {
    name: 'roofline',
    group: 'choosing',
    title: { en: 'The roofline', zh: '屋顶线' },
    what: { en: 'Which kernels wait for arithmetic and which for memory.', zh: '哪些 kernel 在等算力，哪些在等显存。' },
    notes: ['B3b', 'E2.2', 'E6.2'],
    load: () => import('./roofline.js'),
  },
  {
    name: 'faults',
    group: 'choosing',
    title: { en: 'Checkpoints and faults', zh: '检查点与故障' },
    what: { en: 'How often to save, and what failures leave of a run.', zh: '多久存一次，故障会吃掉多少时间。' },
    notes: ['E6.1'],
    load: () => import('./faults.js'),
  },
]
