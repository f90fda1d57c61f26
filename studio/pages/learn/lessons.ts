/**
 * The lessons, in the order in which one reads them. A lesson is a component that is loaded when it is opened; what is not written is
 * not listed. `notes` are the sections of the course notes it settles: a letter for the set, then the section.
 */
import type { ComponentType } from 'preact'
import type { Language } from '../../base/language.js'
import { choosingLessons } from './lessons-choosing.js'
import { exercises } from './lessons-exercises.js'

export type Group = 'memory' | 'talking' | 'splitting' | 'choosing' | 'exercises'

export interface LessonEntry {
  readonly name: string
  readonly group: Group
  readonly title: Readonly<Record<Language, string>>
  /** What one can do after it, in one line. */
  readonly what: Readonly<Record<Language, string>>
  readonly notes: readonly string[]
  readonly load: () => Promise<{ readonly default: ComponentType }>
}

export const groupTitles: Readonly<Record<Language, Readonly<Record<Group, string>>>> = {
  en: {
    memory: 'What has to fit',
    talking: 'How ranks talk',
    splitting: 'Ways to split the work',
    choosing: 'Choosing a plan, and keeping it alive',
    exercises: 'Exercises',
  },
  zh: {
    memory: '显存里放什么',
    talking: 'rank 之间怎样通信',
    splitting: '切分的几种办法',
    choosing: '选方案，跑下去',
    exercises: '练习',
  },
}

export const lessons: readonly LessonEntry[] = [
  {
    name: 'memory-wall',
    group: 'memory',
    title: { en: 'The memory wall', zh: '显存墙' },
    what: {
      en: 'Why a large model does not fit on one device, and how long one device would take.',
      zh: '大模型为什么放不进一张卡，一张卡又要训练多久。',
    },
    notes: ['A1.1', 'A2.1', 'B2', 'C', 'E1.1', 'E2.1'],
    load: () => import('./memory-wall.js'),
  },
  {
    name: 'zero',
    group: 'memory',
    title: { en: 'ZeRO: no copy twice', zh: 'ZeRO：不存重复的东西' },
    what: {
      en: 'Which of state, gradients and parameters each stage splits, and what that costs on the wire.',
      zh: '每一级切掉的是优化器状态、梯度还是参数，通信上要付出什么。',
    },
    notes: ['A1.1', 'A2.1', 'D', 'E1.2.3', 'E3.1.3'],
    load: () => import('./zero.js'),
  },
  {
    name: 'hardware',
    group: 'talking',
    title: { en: 'Hardware: a ladder of bandwidths', zh: '硬件：带宽的台阶' },
    what: {
      en: 'How much slower bytes get the further they go, and what that does to a group of eight.',
      zh: '字节走得越远慢多少，八个设备的一组又会怎样。',
    },
    notes: ['A1.2', 'C0', 'D1.2', 'E4.1'],
    load: () => import('./hardware.js'),
  },
  {
    name: 'collectives',
    group: 'talking',
    title: { en: 'Collectives', zh: '集合通信' },
    what: {
      en: 'Nine operations on your own numbers: what every rank has before and after.',
      zh: '九种操作，用你自己的数试：每个 rank 之前有什么、之后有什么。',
    },
    notes: ['A1.3', 'D1.1', 'D1.4'],
    load: () => import('./collectives/index.js'),
  },
  {
    name: 'all-reduce',
    group: 'talking',
    title: { en: 'All-reduce, taken apart', zh: '拆开 all-reduce' },
    what: {
      en: 'Why it is a reduce-scatter and an all-gather, to the bit, and how a ring does it in 2(n − 1) steps.',
      zh: '为什么它就是 reduce-scatter 加 all-gather（逐位相同），以及环怎样用 2(n − 1) 步完成。',
    },
    notes: ['A1.3', 'D1.1.7', 'D1.4', 'E3.1.1'],
    load: () => import('./all-reduce.js'),
  },
  {
    name: 'bandwidth',
    group: 'talking',
    title: { en: 'Bandwidth and latency', zh: '带宽与延迟' },
    what: {
      en: 'What a message costs by its size: priced on clusters, measured on threads here.',
      zh: '消息多大要多久：在集群上计价，在本页的线程上实测。',
    },
    notes: ['D1.2', 'D1.3', 'D1.5', 'E2.2'],
    load: () => import('./bandwidth.js'),
  },
  {
    name: 'data-parallel',
    group: 'splitting',
    title: { en: 'Data parallelism', zh: '数据并行' },
    what: {
      en: 'Own samples, own gradients, one mean: why all ranks end with the same weights.',
      zh: '各读各的样本、各算各的梯度，取一次平均：为什么所有 rank 的权重始终相同。',
    },
    notes: ['A2.1', 'B1', 'C', 'D2.1', 'E1.2.1', 'E2.1', 'E3.1.1'],
    load: () => import('./data-parallel.js'),
  },
  {
    name: 'overlap',
    group: 'talking',
    title: { en: 'Overlap', zh: '通信与计算重叠' },
    what: {
      en: 'What a step takes when ranks go on computing while bytes travel.',
      zh: '字节在路上时 rank 接着算，一步能省多少。',
    },
    notes: ['A2.1', 'D', 'E3.1.1', 'E4.3'],
    load: () => import('./overlap.js'),
  },
  {
    name: 'tensor-parallel',
    group: 'splitting',
    title: { en: 'Tensor parallelism', zh: '张量并行' },
    what: {
      en: 'Two matrices cut over ranks, number by number, and why it stays inside a node.',
      zh: '两个矩阵切给各 rank，逐个数字地看；以及它为什么只适合在节点之内。',
    },
    notes: ['A2.2', 'B3a', 'C', 'D2.2', 'E1.2.2'],
    load: () => import('./tensor-parallel.js'),
  },
  {
    name: 'sequence-parallel',
    group: 'splitting',
    title: { en: 'Sequence parallelism', zh: '序列并行' },
    what: {
      en: 'What tensor parallelism leaves whole, cut along the tokens for no more traffic.',
      zh: '张量并行没切的部分沿 token 切开，而通信量不变。',
    },
    notes: ['A2.3', 'B3c', 'E3.2.1'],
    load: () => import('./sequence-parallel.js'),
  },
  {
    name: 'activations',
    group: 'memory',
    title: { en: 'Activations and recomputation', zh: '激活值与重计算' },
    what: {
      en: 'What the backward pass needs, how it grows, and what computing it again costs.',
      zh: '反向传播需要什么、怎样增长，重算一遍又要多少时间。',
    },
    notes: ['A2.3', 'D', 'E2.1'],
    load: () => import('./activations.js'),
  },
  ...choosingLessons,
  {
    name: 'cases',
    group: 'choosing',
    title: { en: 'Runs that were published', zh: '公开过的训练' },
    what: {
      en: 'Megatron-LM, Llama 3, DeepSeek-V3, Yi, TPUs: their plans, their steps, and ours beside them.',
      zh: 'Megatron-LM、Llama 3、DeepSeek-V3、Yi、TPU：它们的方案、步时，旁边是我们算出的。',
    },
    notes: ['A3.2', 'E3.1.2', 'E3.1.4'],
    load: () => import('./cases.js'),
  },
  {
    name: 'clinic',
    group: 'choosing',
    title: { en: 'The clinic', zh: '训练诊所' },
    what: {
      en: 'Five ways in which runs are ill: who names the cause, and what repairs it.',
      zh: '训练的五种毛病：谁来点出病因，怎样治好。',
    },
    notes: ['E6.1', 'E6.2'],
    load: () => import('./clinic.js'),
  },
  ...exercises,
]

export const lessonOf = (name: string): LessonEntry | undefined => lessons.find(lesson => lesson.name === name)

/** The letters of the five sets of notes. */
export const noteSets = ['A', 'B', 'C', 'D', 'E'] as const
