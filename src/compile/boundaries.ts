/**
 * What layers hand to each other, where it waits elsewhere for the backward pass: for each kind of block, and each carry that its
 * backward reads, what takes it there and what brings it back.
 */
import { offloadOf } from '../plan/index.js'
import { type ByKind, evaluates, type Sharding } from './compiled.js'
import { awaySlot, draftMoves } from './offload.js'
import type { SegmentDraft } from './segment.js'

export interface BoundaryDrafts {
  readonly out: SegmentDraft
  readonly back: SegmentDraft
}

/** By the block's own name of the carry. */
export type Boundaries = ByKind<Readonly<Record<string, BoundaryDrafts>>>

export function draftBoundaries(sharding: Sharding): Boundaries {
  if (offloadOf(sharding.plan).activations === 'none' || evaluates(sharding)) return {}
  return Object.fromEntries(
    Object.entries(sharding.blocks).map(([kind, { segments }]) => {
      const { F: _, ...backward } = segments
      const read = Object.values(backward).flatMap(({ buffers }) => [...buffers.values()])
      return [kind, Object.fromEntries(read.flatMap(draft => movesOf(sharding, kind, draft)))]
    }),
  )
}

type Buffers = SegmentDraft['buffers'] extends ReadonlyMap<string, infer Draft> ? Draft : never

function movesOf({ s, plan }: Sharding, kind: string, { tensor, layout, slot }: Buffers): [string, BoundaryDrafts][] {
  if (typeof slot === 'string' || slot.role.is !== 'in') return []
  const { of } = slot.role
  const [here, there] = [
    { layout, slot },
    { layout, slot: awaySlot(of, 'activations', offloadOf(plan).layerInputs) },
  ]
  const move = (way: string, from: typeof here, to: typeof here) =>
    draftMoves(s, `${way} ${kind}.${of}`, [{ tensor, from, to }])
  return [[of, { out: move('out', here, there), back: move('back', there, here) }]]
}
