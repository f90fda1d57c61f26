/** Where the time of a rank goes. Every moment of a step belongs to one part, so the parts add up to the step. */
import { axisTitles, rankOrder } from '../base/index.js'
import type { Phase } from '../ir/index.js'

/** The categories of step time. Every moment of a rank belongs to one, so they add up to the step. */
export const partNames = [
  'compute',
  'recompute',
  ...rankOrder,
  'bubble',
  'stragglers',
  'optimizer',
  'offload',
  'other',
] as const
/** A category of step time, one of `partNames`. */
export type Part = (typeof partNames)[number]

/** Seconds of a step by category. */
export type Parts = Readonly<Record<Part, number>>

/** A description of each category of step time. */
export const partTitles: Readonly<Record<Part, string>> = {
  compute: 'compute',
  recompute: 'recomputation',
  ...axisTitles,
  bubble: 'pipeline bubble',
  stragglers: 'waiting for slower ranks',
  optimizer: 'optimizer',
  offload: 'waiting for offload transfers',
  other: 'other',
}

/** The part that the arithmetic of a phase belongs to. */
export const partOfPhase: Readonly<Record<Phase, Part>> = {
  F: 'compute',
  I: 'compute',
  W: 'compute',
  B: 'compute',
  C: 'other',
  begin: 'other',
  load: 'other',
  count: 'other',
  gather: 'other',
  reduce: 'other',
  add: 'other',
  move: 'offload',
  norm: 'optimizer',
  update: 'optimizer',
}
