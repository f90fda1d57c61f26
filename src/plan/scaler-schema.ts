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
  .describe('growth factor of the loss scale')
const backoff = z.number().positive().lt(1).default(0.5).describe('backoff factor after an overflow')
const min = scale.default(1).describe('minimum loss scale; an overflow at the minimum ends the run')
const interval = (usual: number) =>
  z
    .int()
    .min(1)
    .max(2 ** 24)
    .default(usual)
    .describe('steps without overflow before the loss scale grows')
const hysteresis = z
  .int()
  .min(1)
  .max(2 ** 20)
  .default(2)
  .describe('overflows before the loss scale falls')
const initial = (usual: number) => scale.default(usual).describe('initial loss scale')

/** Each machine with its own settings and defaults. */
const scalers = {
  static: z.strictObject({ kind: z.literal('static'), scale: scale.describe('fixed loss scale') }),
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
    consecutive: z.boolean().default(false).describe('every step without overflow resets the hysteresis'),
  }),
} satisfies { readonly [K in ScalerKind]: z.ZodType<{ readonly kind: K }> }

export const LossScale = z.preprocess(
  given => (typeof given === 'number' ? { kind: 'static', scale: given } : given),
  z.discriminatedUnion('kind', [scalers.static, scalers.torch, scalers.megatron, scalers.deepspeed]),
)

export type LossScale = z.output<typeof LossScale>
