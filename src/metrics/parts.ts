/** Time breakdown of a step. Every moment of a rank belongs to one category, so the categories add up to the step. */
import { axisTitles, type MeshAxis, meshAxes, rankOrder } from '../base/index.js'

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

/** Exposed communication per axis: the share of the step in which ranks wait for a collective or a message. */
export const exposedOf = (
  parts: Readonly<Record<MeshAxis, number>>,
  step: number,
): Readonly<Record<MeshAxis, number>> =>
  Object.fromEntries(meshAxes.map(axis => [axis, parts[axis] / step])) as Record<MeshAxis, number> // every axis is there
