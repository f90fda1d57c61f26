/**
 * Precisions are of two kinds, with a table each. That of a plan says what is stored in what; that of a price says what
 * numbers are multiplied in, at which rate of a device.
 */
import { bytesPer, type DType } from './dtype.js'

/** The values of `plan.precision`: mixed-precision recipes by the dtypes of weights, gradients and optimizer state. */
export const planPrecisions = ['f32', 'bf16', 'f16', 'bf16-no-masters', 'pure-bf16'] as const
export type PlanPrecision = (typeof planPrecisions)[number]

export interface PlanPrecisionFacts {
  /** What belongs to a token: activations, their gradients, and the parameters they are multiplied with. */
  readonly token: DType
  /** Optimizer state, a master among it where the token's dtype is narrower; and gradients, where a plan does not say. */
  readonly state: DType
  /** What is updated is the parameter itself, however few digits it has. */
  readonly withoutMasters?: true
  /** For people; the plainest needs no words. */
  readonly words?: string
}

export const planPrecisionFacts: Readonly<Record<PlanPrecision, PlanPrecisionFacts>> = {
  f32: { token: 'f32', state: 'f32' },
  bf16: {
    token: 'bf16',
    state: 'f32',
    words: 'tokens and parameters in bf16, gradients and optimizer state with master weights in f32',
  },
  f16: { token: 'f16', state: 'f32', words: 'as bf16, in f16' },
  'bf16-no-masters': { token: 'bf16', state: 'f32', withoutMasters: true, words: 'as bf16, without master weights' },
  'pure-bf16': { token: 'bf16', state: 'bf16', words: 'everything in bf16, without master weights' },
}

/** What gradients of parameters may be summed in. */
export const gradientTypes = ['f32', 'bf16'] as const satisfies readonly DType[]
export type GradientType = (typeof gradientTypes)[number]

/** What of a plan says what is stored in what. */
export interface Stored {
  readonly precision: PlanPrecision
  /** As wide as the optimizer state, where it does not say. */
  readonly gradients?: GradientType | undefined
}

/** A parameter's gradient, from the op that makes it to the optimizer. */
export const gradientIn = ({ precision, gradients }: Stored): DType => gradients ?? planPrecisionFacts[precision].state

/** What a gradient may be in: what ops compute in, or all digits that they have. */
export const gradientsFor = (precision: PlanPrecision): readonly GradientType[] =>
  gradientTypes.filter(dtype => dtype === 'f32' || dtype === planPrecisionFacts[precision].token)

/** What numbers are multiplied in. */
export const precisions = ['f32', 'tf32', 'f16', 'bf16', 'fp8'] as const
export type Precision = (typeof precisions)[number]

export interface PrecisionFacts {
  /** Bytes of an operand as it is multiplied. */
  readonly bytes: number
  /** The plan that is multiplied so: it says what is kept between products. */
  readonly plan: PlanPrecision
  /** Plans say so apart (`fp8`): products read codes of what is kept. */
  readonly coded?: true
  /** Whose rate a device has in its place, the nearest first. */
  readonly instead: readonly Precision[]
}

export const precisionFacts: Readonly<Record<Precision, PrecisionFacts>> = {
  f32: { bytes: 4, plan: 'f32', instead: ['tf32'] },
  tf32: { bytes: 4, plan: 'f32', instead: ['f32'] },
  f16: { bytes: 2, plan: 'f16', instead: ['bf16', 'f32'] },
  bf16: { bytes: 2, plan: 'bf16', instead: ['f16', 'f32'] },
  fp8: { bytes: 1, plan: 'bf16', coded: true, instead: ['bf16', 'f16', 'f32'] },
}

/** What the numbers of a buffer are multiplied in, where nothing says otherwise. Whole numbers are not multiplied. */
export const multipliedIn: Readonly<Record<DType, Precision>> = {
  f32: 'f32',
  bf16: 'bf16',
  f16: 'f16',
  i32: 'f32',
  i8: 'f32',
  f8e4m3: 'fp8',
  f8e5m2: 'fp8',
}

const tokenOf = (precision: Precision): DType => planPrecisionFacts[precisionFacts[precision].plan].token

/** Bytes of an activation, and of a parameter as it is multiplied. */
export const activationBytes = (precision: Precision): number => bytesPer[tokenOf(precision)]

/** Operands are cast to fewer bits than they are kept in. */
export const isCast = (precision: Precision): boolean => precisionFacts[precision].bytes < activationBytes(precision)

/** What everything but the products with weights is multiplied in: no less than what is kept. */
export const uncast = (precision: Precision): Precision =>
  isCast(precision) ? multipliedIn[tokenOf(precision)] : precision

/** Programs multiply so by themselves: what they keep, or codes of it. */
export const isOwnPrecision = (precision: Precision): boolean =>
  multipliedIn[tokenOf(precision)] === precision || precisionFacts[precision].coded === true

export const hasMaster = (precision: PlanPrecision): boolean => {
  const { token, state, withoutMasters } = planPrecisionFacts[precision]
  return token !== state && !withoutMasters
}
