/**
 * Loss scaling: gradients begin `scale` times as large, so that 16 bits hold the small ones, and are divided by it before
 * anything looks at them. A *scaler* says how the scale moves from step to step: a closed union, and beside it the tables of
 * its numbers and of the scalars it moves.
 */
import type { ScalarName } from './optimizer.js'

/**
 * What each scaler is told. An overflow is a step whose gradient norm is not finite; `interval` clean steps let the scale grow.
 * torch: an overflow takes `backoff` of it. megatron: only once `hysteresis` overflows have been, refilled where it grows, and no
 * further than `min`. deepspeed: likewise by 1 / growth, clean steps are counted from the last overflow, and a clean step refills
 * where `consecutive` is 1.
 */
export const scalerNumbers = {
  static: [],
  torch: ['growth', 'backoff', 'interval'],
  megatron: ['growth', 'backoff', 'interval', 'min', 'hysteresis'],
  deepspeed: ['growth', 'interval', 'min', 'hysteresis', 'consecutive'],
} as const

export type ScalerKind = keyof typeof scalerNumbers
export const scalerKinds = Object.keys(scalerNumbers) as readonly ScalerKind[] // its own keys

type ScalerOf<K extends ScalerKind> = { readonly kind: K } & {
  readonly [N in (typeof scalerNumbers)[K][number]]: number
}
export type Scaler = { readonly [K in ScalerKind]: ScalerOf<K> }[ScalerKind]

/** Scalars of the program that it moves, in the order of its results. */
export const scalerScalars: Readonly<Record<ScalerKind, readonly ScalarName[]>> = {
  static: ['scale'],
  torch: ['scale', 'growth'],
  megatron: ['scale', 'growth', 'hysteresis'],
  deepspeed: ['scale', 'growth', 'hysteresis'],
}

/** All scalars that the end of a step moves, in the order of the results of `take`. */
export const scalarsMoved = (scaler: Scaler | undefined): readonly ScalarName[] => [
  'taken',
  ...(scaler ? scalerScalars[scaler.kind] : []),
]
