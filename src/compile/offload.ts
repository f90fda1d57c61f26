/**
 * What a parameter's update needs where its state lives elsewhere: its gradient goes down to the host when it is whole, and the
 * parameter itself where no master keeps it there; the host updates, and what was updated goes up. States on a disk come to the
 * host for the length of the update.
 */
import { alone, type Holding, type Kind } from '../ir/index.js'
import type { ShardedMesh } from './layouts.js'
import { type SegmentDraft, SegmentWriter, type Slot, type Tensor } from './segment.js'

/** Something that is moved: how it lies on both sides. */
export interface Moved {
  readonly tensor: Tensor
  readonly from: Holding & { readonly slot: Slot }
  readonly to: Holding & { readonly slot: Slot }
}

/** The same place on the host. */
export const onHost = (slot: Slot): Slot => ({ ...slot, space: 'host' })

/** The copy that a move makes, or is made of. */
export const awaySlot = (of: string, kind: Kind, space: Slot['space']): Slot => ({
  ...{ role: { is: 'away', of }, kind, offset: 0 },
  ...(space && { space }),
})

/** A segment that only starts: every tensor by itself, since they may differ in dtype. */
export function draftMoves(s: ShardedMesh, name: string, moves: readonly Moved[]): SegmentDraft {
  const w = new SegmentWriter(s)
  for (const { tensor, from, to } of moves) {
    const there = w.held(`${tensor.name} there`, tensor, from, from.slot)
    const here = w.held(`${tensor.name} here`, { ...tensor, name: `${tensor.name}.moved` }, to, to.slot)
    w.emit({ kind: 'move', ins: [there.ref], outs: [here.ref], group: alone })
  }
  return w.draft(name, 'move')
}
