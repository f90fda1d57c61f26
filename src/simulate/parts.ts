/** Where the time of a rank goes. Every moment of a step belongs to one part, so the parts add up to the step. */
import type { Group, Phase } from '../ir/index.js'

export const partNames = [
  'compute',
  'recompute',
  'tp',
  'cp',
  'ep',
  'dp',
  'pp',
  'bubble',
  'stragglers',
  'optimizer',
  'other',
] as const
export type Part = (typeof partNames)[number]

/** Seconds. */
export type Parts = Readonly<Record<Part, number>>

/** What each means, for people. */
export const partTitles: Readonly<Record<Part, string>> = {
  compute: 'compute',
  recompute: 'recomputation',
  tp: 'tensor parallel',
  cp: 'context parallel',
  ep: 'expert parallel',
  dp: 'data parallel',
  pp: 'pipeline messages',
  bubble: 'pipeline bubble',
  stragglers: 'waiting for slower ranks',
  optimizer: 'optimizer',
  other: 'other',
}

/** The part that the arithmetic of a phase belongs to. */
export const partOfPhase: Readonly<Record<Phase, Part>> = {
  F: 'compute',
  I: 'compute',
  W: 'compute',
  B: 'compute',
  begin: 'other',
  load: 'other',
  count: 'other',
  gather: 'other',
  reduce: 'other',
  norm: 'optimizer',
  update: 'optimizer',
}

/** The part of a collective that nothing hides: its axis; `dp` for several data axes; `other` for sums over the mesh. */
export function partOfGroup({ axes }: Group): Part {
  const bases = [...new Set(axes.map(axis => axis.split('.')[0]))] as Part[] // the names of mesh axes are parts
  if (bases.length === 1) return bases[0]
  return bases.every(base => base === 'dp' || base === 'cp' || base === 'ep') ? 'dp' : 'other'
}
