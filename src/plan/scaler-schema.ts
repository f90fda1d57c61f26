/** What a job may say of the scale of its losses. */
import { z } from 'zod'
import type { ScalerKind } from '../base/index.js'

const scale = z
  .number()
  .positive()
  .max(2 ** 126)
const factor = z
  .number()
  .gt(1)
  .max(2 ** 20)
  .default(2)
  .describe('what the scale is multiplied with when it grows')
const backoff = z.number().positive().lt(1).default(0.5).describe('what it is multiplied with after an overflow')
const min = scale.default(1).describe('no overflow takes it below; one that would ends the run')
const interval = (usual: number) =>
  z
    .int()
    .min(1)
    .max(2 ** 24)
    .default(usual)
    .describe('clean steps after which the scale grows')
const hysteresis = z
  .int()
  .min(1)
  .max(2 ** 20)
  .default(2)
  .describe('overflows until the scale falls')
const initial = (usual: number) => scale.default(usual).describe('the scale of the first step')

/** Each machine with its own settings and defaults. */
const scalers = {
  static: z.strictObject({ kind: z.literal('static'), scale: scale.describe('the scale, which stays') }),
  torch: z.strictObject({
    ...{ kind: z.literal('torch'), initial: initial(2 ** 16), growth: factor, backoff, interval: interval(2000) },
  }),
  megatron: z.strictObject({
    ...{ kind: z.literal('megatron'), initial: initial(2 ** 32), min, growth: factor, backoff },
    ...{ interval: interval(1000), hysteresis },
  }),
  deepspeed: z.strictObject({
    ...{ kind: z.literal('deepspeed'), initial: initial(2 ** 16), min, growth: factor },
    ...{ interval: interval(1000), hysteresis },
    consecutive: z.boolean().default(false).describe('every clean step refills the hysteresis'),
  }),
} satisfies { readonly [K in ScalerKind]: z.ZodType<{ readonly kind: K }> }

export const LossScale = z.preprocess(
  given => (typeof given === 'number' ? { kind: 'static', scale: given } : given),
  z.discriminatedUnion('kind', [scalers.static, scalers.torch, scalers.megatron, scalers.deepspeed]),
)

export type LossScale = z.output<typeof LossScale>
