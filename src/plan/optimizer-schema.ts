/** What a job may say of its optimizer and its learning rate: settings, their limits and defaults. */
import { z } from 'zod'
import type { OptimizerKind, OptimizerOf } from '../base/index.js'

const lr = z.number().positive().max(1000).describe('learning rate')
const weightDecay = z.number().min(0).max(1000).default(0).describe('decay of the parameters')
const beta = z.number().min(0).lt(1)

const adamw = z.strictObject({
  kind: z.literal('adamw'),
  lr,
  weightDecay,
  beta1: beta.default(0.9).describe('memory of the first moment'),
  beta2: beta.default(0.95).describe('memory of the second moment'),
  eps: z.number().positive().max(1).default(1e-8).describe('added to the root of the second moment'),
  coupled: z.boolean().optional().describe('the decay is added to the gradient, as Adam does'),
  amsgrad: z.boolean().optional().describe('the greatest second moment so far counts'),
  uncorrected: z.boolean().optional().describe('moments are taken as they are, though they start from 0'),
})

const optimizers = {
  adamw,
  sgd: z.strictObject({
    kind: z.literal('sgd'),
    lr,
    momentum: beta.default(0).describe('memory of the gradient'),
    nesterov: z.boolean().optional().describe('the direction looks one step ahead'),
    dampening: beta.optional().describe('the part of a gradient that momentum leaves out'),
    weightDecay,
  }),
  lamb: z.strictObject({
    kind: z.literal('lamb'),
    lr,
    weightDecay,
    beta1: beta.default(0.9).describe('memory of the first moment'),
    beta2: beta.default(0.999).describe('memory of the second moment'),
    eps: z.number().positive().max(1).default(1e-6).describe('added to the root of the second moment'),
    always: z.boolean().optional().describe('parameters that are not decayed are moved in proportion, too'),
  }),
  muon: z.strictObject({
    kind: z.literal('muon'),
    lr,
    weightDecay,
    momentum: beta.default(0.95).describe('memory of the gradient'),
    nesterov: z.boolean().default(true).describe('the direction looks one step ahead'),
    steps: z.int().min(1).max(20).default(5).describe('steps of Newton and Schulz'),
    adjust: z
      .enum(['shape', 'rms'])
      .default('shape')
      .describe('how far a matrix is moved: sqrt(max(1, outputs / inputs)), or 0.2 sqrt(max(outputs, inputs))'),
    rest: adamw
      .omit({ kind: true })
      .partial({ lr: true })
      .prefault({})
      .describe(
        'what AdamW is told, which moves all that is no matrix of a block; its lr is that of muon unless it is said',
      ),
  }),
  adafactor: z.strictObject({
    kind: z.literal('adafactor'),
    lr,
    weightDecay,
    beta2Decay: z
      .number()
      .min(-10)
      .max(0)
      .default(-0.8)
      .describe('the n-th step is n^beta2Decay of the mean of squares'),
    eps: z
      .number()
      .positive()
      .max(1)
      .default(2 ** -23)
      .describe('what the root of a mean of squares is at least'),
    least: z
      .number()
      .positive()
      .max(1000)
      .default(1e-3)
      .describe('as large, by its root mean square, a parameter counts at least'),
    most: z.number().positive().max(1000).default(1).describe('steps of a larger root mean square are made shorter'),
  }),
  lion: z.strictObject({
    kind: z.literal('lion'),
    lr,
    weightDecay,
    beta1: beta.default(0.9).describe('memory of the mean whose sign is the direction'),
    beta2: beta.default(0.99).describe('memory of the mean that is kept'),
  }),
} satisfies { readonly [K in OptimizerKind]: z.ZodType<OptimizerOf<K> & { readonly lr: number }> }

const [first, ...others] = Object.values(optimizers)
export const Optimizer = z.discriminatedUnion('kind', [first, ...others])

const steps = z
  .int()
  .min(0)
  .max(2 ** 30)

export const Multipliers = z.strictObject({
  lr: z.number().min(0).max(1000).optional().describe('what the learning rate is multiplied by'),
  weightDecay: z
    .number()
    .min(0)
    .max(1000)
    .optional()
    .describe('what the decay is multiplied by; else 0 for norms and biases'),
})

export const LrSchedule = z.strictObject({
  kind: z
    .enum(['constant', 'linear', 'cosine', 'inverse-sqrt', 'wsd'])
    .default('constant')
    .describe('how the learning rate falls from lr to minLr after the warm-up; wsd: only in the last steps'),
  warmup: steps.default(0).describe('steps in which it rises to lr'),
  warmupFrom: z
    .number()
    .min(0)
    .max(1000)
    .optional()
    .describe('what the first step of the warm-up has; else one part of as many as it has steps'),
  minLr: z.number().min(0).max(1000).default(0).describe('what all but constant end at, or never go below'),
  decaySteps: steps.min(1).optional().describe('when it has fallen to minLr; else after the last step'),
  cooldown: steps.optional().describe('the last steps, in which wsd falls; else a tenth of all'),
  cooldownShape: z
    .enum(['linear', 'cosine', 'exponential', 'minus-sqrt'])
    .optional()
    .describe('how wsd falls in its last steps; else linear'),
})

export type Optimizer = z.output<typeof Optimizer>
export type LrSchedule = z.output<typeof LrSchedule>
