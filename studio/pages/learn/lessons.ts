/**
 * The lessons, in the order in which one reads them. A lesson is a component that is loaded when it is opened; what is not written is
 * not listed. `notes` are the sections of the course notes it settles: a letter for the set, then the section.
 */
import type { ComponentType } from 'preact'
import type { Language } from '../../base/language.js'

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
]

export const lessonOf = (name: string): LessonEntry | undefined => lessons.find(lesson => lesson.name === name)

/** The letters of the five sets of notes. */
export const noteSets = ['A', 'B', 'C', 'D', 'E'] as const
