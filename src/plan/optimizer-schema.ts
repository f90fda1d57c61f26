/** What a job may say of its optimizer and its learning rate: settings, their limits and defaults. */
import { z } from 'zod'
import type { OptimizerKind, OptimizerOf } from '../base/index.js'

const lr = z.number().positive().max(1000).describe('learning rate')
const weightDecay = z.number().min(0).max(1000).default(0).describe('weight decay')
const beta = z.number().min(0).lt(1)

const adamw = z.strictObject({
  kind: z.literal('adamw'),
  lr,
  weightDecay,
  beta1: beta.default(0.9).describe('decay rate of the first moment'),
  beta2: beta.default(0.95).describe('decay rate of the second moment'),
  eps: z.number().positive().max(1).default(1e-8).describe('added to the square root of the second moment'),
  coupled: z.boolean().optional().describe('L2 decay: added to the gradient, as in Adam'),
  amsgrad: z.boolean().optional().describe('AMSGrad: use the maximum of all second moments'),
  uncorrected: z.boolean().optional().describe('no bias correction of the moments'),
})

const optimizers = {
  adamw,
  sgd: z.strictObject({
    kind: z.literal('sgd'),
    lr,
    momentum: beta.default(0).describe('momentum'),
    nesterov: z.boolean().optional().describe('Nesterov momentum'),
    dampening: beta.optional().describe('dampening of momentum'),
    weightDecay,
  }),
  lamb: z.strictObject({
    kind: z.literal('lamb'),
    lr,
    weightDecay,
    beta1: beta.default(0.9).describe('decay rate of the first moment'),
    beta2: beta.default(0.999).describe('decay rate of the second moment'),
    eps: z.number().positive().max(1).default(1e-6).describe('added to the square root of the second moment'),
    always: z.boolean().optional().describe('also apply the trust ratio to parameters without weight decay'),
  }),
  muon: z.strictObject({
    kind: z.literal('muon'),
    lr,
    weightDecay,
    momentum: beta.default(0.95).describe('momentum'),
    nesterov: z.boolean().default(true).describe('Nesterov momentum'),
    steps: z.int().min(1).max(20).default(5).describe('Newton-Schulz iterations'),
    adjust: z
      .enum(['shape', 'rms'])
      .default('shape')
      .describe('scale of the update: sqrt(max(1, outputs / inputs)), or 0.2 sqrt(max(outputs, inputs))'),
    adamw: adamw
      .omit({ kind: true })
      .partial({ lr: true })
      .prefault({})
      .describe('AdamW settings for all other parameters; lr defaults to that of muon'),
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
      .describe('exponent of the second-moment decay: 1 - beta2 = n^beta2Decay at step n'),
    eps1: z
      .number()
      .positive()
      .max(1)
      .default(2 ** -23)
      .describe('minimum root of the second moment'),
    eps2: z.number().positive().max(1000).default(1e-3).describe('minimum RMS of a parameter'),
    clipThreshold: z.number().positive().max(1000).default(1).describe('maximum RMS of an update'),
  }),
  lion: z.strictObject({
    kind: z.literal('lion'),
    lr,
    weightDecay,
    beta1: beta.default(0.9).describe('interpolation rate of the update direction'),
    beta2: beta.default(0.99).describe('decay rate of the moment'),
  }),
} satisfies { readonly [K in OptimizerKind]: z.ZodType<OptimizerOf<K> & { readonly lr: number }> }

const [first, ...others] = Object.values(optimizers)
export const Optimizer = z.discriminatedUnion('kind', [first, ...others])

const steps = z
  .int()
  .min(0)
  .max(2 ** 30)

export const Multipliers = z.strictObject({
  lr: z.number().min(0).max(1000).optional().describe('learning-rate multiplier'),
  weightDecay: z
    .number()
    .min(0)
    .max(1000)
    .optional()
    .describe('weight-decay multiplier; default 0 for norms and biases'),
})

export const LrSchedule = z.strictObject({
  kind: z
    .enum(['constant', 'linear', 'cosine', 'inverse-sqrt', 'wsd'])
    .default('constant')
    .describe('learning-rate decay from lr to minLr after the warmup; wsd: only in the last steps'),
  warmup: steps.default(0).describe('warmup steps'),
  warmupFrom: z
    .number()
    .min(0)
    .max(1000)
    .optional()
    .describe('learning rate of the first warmup step; default lr / warmup'),
  minLr: z.number().min(0).max(1000).default(0).describe('final (minimum) learning rate'),
  decaySteps: steps.min(1).optional().describe('step at which minLr is reached; default: the last step'),
  cooldown: steps.optional().describe('wsd: decay steps at the end; default: a tenth of all steps'),
  cooldownShape: z
    .enum(['linear', 'cosine', 'exponential', 'minus-sqrt'])
    .optional()
    .describe('wsd: shape of the decay; default linear'),
})

export type Optimizer = z.output<typeof Optimizer>
export type LrSchedule = z.output<typeof LrSchedule>
