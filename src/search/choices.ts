/**
 * Choices that change what numbers are stored in, how parameters are updated, where state lives and what is sent: each with what a job
 * has of it, what it would have without, and what else it might. What they cost is found by pricing both (choice-prices.ts).
 */
import {
  elsewheres,
  gradientIn,
  gradientsFor,
  optimizerKinds,
  planPrecisions,
  sparings,
  wireFormats,
} from '../base/index.js'
import { fp8Recipes, Job, type JobInput } from '../plan/index.js'

export const choiceNames = [
  'precision',
  'gradients',
  'lossScale',
  'fp8',
  'optimizer',
  'ema',
  'offload.optimizer',
  'offload.parameters',
  'offload.activations',
  'compress.reduce',
  'compress.gather',
  'recompute',
] as const
export type ChoiceName = (typeof choiceNames)[number]

interface ChoiceFacts {
  /** What a job has, in a word of its file. */
  readonly of: (job: Job) => string
  /** What a job that does not say has. */
  readonly usual: (job: Job) => string
  readonly others: (job: Job) => readonly string[]
  /** The same job with another. */
  readonly set: (job: Job, word: string) => JobInput
}

const none = 'none'
const offDevice = { optimizer: 'device', parameters: 'device', activations: none } as const

const inPlan = ({ plan, ...job }: Job, change: object): JobInput =>
  ({ ...job, plan: { ...plan, ...change } }) as JobInput // as it was read
const inTraining = ({ training, ...job }: Job, change: object): JobInput =>
  ({ ...job, training: { ...training, ...change } }) as JobInput // likewise

/** Absent where nothing of it is left. */
const inCompression = (job: Job, change: object): JobInput => {
  const compress = { ...job.plan.compress, ...change }
  return inPlan(job, { compress: (compress.reduce ?? compress.gather) ? compress : undefined })
}

const compressed = (field: 'reduce' | 'gather', others: readonly string[]): ChoiceFacts => ({
  of: ({ plan }) => plan.compress?.[field] ?? none,
  usual: () => none,
  others: () => others,
  set: (job, word) => inCompression(job, { [field]: word === none ? undefined : word }),
})

const offloaded = (field: keyof typeof offDevice, others: readonly string[]): ChoiceFacts => ({
  of: ({ plan }) => plan.offload?.[field] ?? offDevice[field],
  usual: () => offDevice[field],
  others: () => others,
  set: (job, word) => inPlan(job, { offload: { ...job.plan.offload, [field]: word } }),
})

export const choiceFacts: Readonly<Record<ChoiceName, ChoiceFacts>> = {
  precision: {
    of: ({ plan }) => plan.precision,
    usual: () => 'f32',
    others: () => planPrecisions,
    set: (job, word) => {
      const precision = word as Job['plan']['precision'] // a plan's own, or one of those above
      const { gradients } = job.plan
      const keeps = gradients !== undefined && gradientsFor(precision).includes(gradients)
      const rounding = precision === 'pure-bf16' ? job.plan.rounding : 'nearest'
      return inPlan(job, { precision, rounding, gradients: keeps ? gradients : undefined })
    },
  },
  gradients: {
    of: ({ plan }) => gradientIn(plan),
    usual: ({ plan: { precision } }) => gradientIn({ precision }),
    others: ({ plan: { precision } }) => gradientsFor(precision),
    set: (job, word) => inPlan(job, { gradients: word }),
  },
  lossScale: {
    of: ({ training }) => training.lossScale?.kind ?? none,
    usual: () => none,
    others: () => ['torch'],
    set: (job, word) => inTraining(job, { lossScale: word === none ? undefined : { kind: word } }),
  },
  fp8: {
    of: ({ plan }) => plan.fp8?.recipe ?? none,
    usual: () => none,
    others: () => fp8Recipes,
    set: (job, word) => inPlan(job, { fp8: word === none ? undefined : { recipe: word } }),
  },
  optimizer: {
    of: ({ training }) => training.optimizer.kind,
    usual: () => 'adamw',
    others: () => optimizerKinds,
    set: (job, kind) => inTraining(job, { optimizer: { kind, lr: job.training.optimizer.lr } }),
  },
  ema: {
    of: ({ training }) => (training.ema ? 'kept' : none),
    usual: () => none,
    others: () => ['kept'],
    set: (job, word) => inTraining(job, { ema: word === none ? undefined : {} }),
  },
  'offload.optimizer': offloaded('optimizer', elsewheres),
  'offload.parameters': offloaded('parameters', elsewheres),
  'offload.activations': offloaded('activations', ['layer-inputs']),
  'compress.reduce': compressed('reduce', [...wireFormats, ...sparings]),
  'compress.gather': compressed('gather', ['bf16', 'int8']),
  recompute: {
    of: ({ plan }) => (typeof plan.recompute === 'string' ? plan.recompute : 'some ops'),
    usual: () => none,
    others: () => ['cheap', 'selective', 'full'],
    set: (job, word) => inPlan(job, { recompute: word }),
  },
}

/** What a job has, or might have, in the place of the usual. */
export interface Choice {
  readonly name: ChoiceName
  readonly chosen: string
  readonly instead: string
  /** The job has it. */
  readonly taken: boolean
  /** The job without it, or where it is not taken with it; nothing, where none can be written down. */
  readonly other: Job | undefined
}

/** What a job has that is not the usual, each beside the usual; and what it might have where it has the usual. */
export const choicesIn = (job: Job): Choice[] =>
  choiceNames.flatMap((name): readonly Choice[] => {
    const { of, usual, others, set } = choiceFacts[name]
    const [now, instead] = [of(job), usual(job)]
    const made = (word: string) => Job.safeParse(set(job, word)).data
    if (now !== instead) return [{ name, chosen: now, instead, taken: true, other: made(instead) }]
    return others(job)
      .filter(word => word !== instead)
      .map(chosen => ({ name, chosen, instead, taken: false, other: made(chosen) }))
  })
