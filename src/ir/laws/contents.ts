/** What frames hold while streams are replayed: entries, each a value, how it lies and its bytes. */
import { flatAxes, sameDims } from '../../base/index.js'
import type { HeldType, Shelf, Slot } from './ready.js'
import type { Spot } from './spots.js'
import { nothing, same, type Value } from './value.js'

/** What a frame holds from an offset (its key) on. */
export interface Entry extends Value, HeldType {
  readonly to: number
  /** Whose it is; -1 if nobody's alone. */
  readonly microbatch: number
  /** Whole, and what would be padding of the own part is zero. */
  readonly gathered?: boolean
}

export type Contents = Map<number, Entry>

/** A value may be read as it was written; a view also of what is whole; and zeros are zeros in every layout. */
export function fits(shelf: Shelf, entry: Entry, slot: Pick<Slot, 'type' | 'inside' | 'padded'>): boolean {
  if (entry.type === slot.type && entry.inside === slot.inside) return true
  const slices = slot.inside && !entry.inside && (!slot.padded || entry.gathered === true)
  if (slices && shelf.wholeOf(slot.type) === entry.type) return true
  const [written, read] = [shelf.typeOf(entry.type), shelf.typeOf(slot.type)]
  const parts = flatAxes(written.layout).join() === flatAxes(read.layout).join() && entry.inside === slot.inside
  return same(entry, nothing) && written.dtype === read.dtype && sameDims(written.dims, read.dims) && (parts || slices)
}

/** What overlaps the bytes written is gone. */
export function wipe(contents: Contents, spot: Spot): void {
  for (const [from, { to }] of contents) if (from < spot.to && spot.from < to) contents.delete(from)
}
