/**
 * Rotary positions: how fast each pair of a head turns. A model that was trained on short sequences is stretched to longer
 * ones by turning its slow pairs more slowly; who turns how much is worked out here, once, and everybody else is given
 * the table. Formulas: linear, Chen et al. 2023; llama3, the code published with Llama 3.1; yarn, Peng et al. 2023.
 */

export type RopeScaling =
  /** Every pair turns `factor` times more slowly. */
  | { readonly kind: 'linear'; readonly factor: number }
  /** Pairs that turn more than `high` times in `original` positions stay, those below `low` are slowed; between, a mix. */
  | {
      readonly kind: 'llama3'
      readonly factor: number
      readonly low: number
      readonly high: number
      readonly original: number
    }
  /**
   * Pairs that turn more than `fast` times in `original` positions stay, those below `slow` are slowed; between, a ramp
   * over their indices. What is turned grows by growth(scale) / growth(scaleAll), where growth(m) = 0.1 m ln(factor) + 1.
   */
  | {
      readonly kind: 'yarn'
      readonly factor: number
      readonly original: number
      readonly fast: number
      readonly slow: number
      readonly scale: number
      readonly scaleAll: number
    }

export type RopeScalingOf<K extends RopeScaling['kind']> = Extract<RopeScaling, { kind: K }>

/** The numbers of each kind, in the order of the text form. */
export const ropeScalingNumbers = {
  linear: ['factor'],
  llama3: ['factor', 'low', 'high', 'original'],
  yarn: ['factor', 'original', 'fast', 'slow', 'scale', 'scaleAll'],
} as const satisfies { readonly [K in RopeScaling['kind']]: readonly Exclude<keyof RopeScalingOf<K>, 'kind'>[] }

/** What turns: a whole head, or a part of heads that was projected apart. */
export const ropeDims: readonly string[] = ['headDim', 'qkRopeHeadDim']

export interface Rotation {
  /** Angle of pair i from one position to the next. */
  readonly frequencies: readonly number[]
  /** What is turned is multiplied by this; so is its gradient. */
  readonly growth: number
}

/** `width` numbers are width / 2 pairs: i and i + width / 2. */
export function rotationOf(width: number, theta: number, scaling?: RopeScaling): Rotation {
  const plain = Array.from({ length: width / 2 }, (_, i) => theta ** ((-2 * i) / width))
  if (!scaling) return { frequencies: plain, growth: 1 }
  const keeps = keepersOf(width, theta, scaling)
  const frequencies = plain.map((frequency, i) => {
    const kept = keeps(frequency, i)
    return kept * frequency + ((1 - kept) * frequency) / scaling.factor
  })
  return { frequencies, growth: growthOf(scaling) }
}

/** Which share of a pair's frequency stays as it is: 1 all of it, 0 none. */
function keepersOf(width: number, theta: number, scaling: RopeScaling): (frequency: number, pair: number) => number {
  switch (scaling.kind) {
    case 'linear':
      return () => 0
    case 'llama3': {
      const { low, high, original } = scaling
      return frequency => share(low, high, (original * frequency) / (2 * Math.PI))
    }
    case 'yarn': {
      const { fast, slow, original } = scaling
      // The pair that turns so many times in `original` positions, as if pairs had no gaps.
      const pairOf = (turns: number) => (width * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(theta))
      const first = Math.max(Math.floor(pairOf(fast)), 0)
      const last = Math.min(Math.ceil(pairOf(slow)), width - 1)
      return (_, pair) => 1 - share(first, last === first ? last + 0.001 : last, pair)
    }
  }
}

const share = (from: number, to: number, x: number): number => Math.min(1, Math.max(0, (x - from) / (to - from)))

const growth = (factor: number, m: number): number => (factor <= 1 ? 1 : 0.1 * m * Math.log(factor) + 1)

const growthOf = (scaling: RopeScaling): number =>
  scaling.kind === 'yarn' ? growth(scaling.factor, scaling.scale) / growth(scaling.factor, scaling.scaleAll) : 1

/** What latent attention multiplies its scores by besides: queries and keys both grow, the part without positions too. */
export const scoreGrowthOf = (scaling: RopeScaling | undefined): number =>
  scaling?.kind === 'yarn' ? growth(scaling.factor, scaling.scaleAll) ** 2 : 1
