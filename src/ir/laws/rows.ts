/**
 * R2: rows go back the way they came. What was made of dispatched rows remembers the routes it came by, through every op on rows
 * and into backward; `combine` must be given these and no others, and rows that meet must have come by the same.
 */
import type { Act } from './acts.js'
import { type CallFrame, valueIn } from './call.js'
import { type Told, told } from './phrases.js'
import { hashValues, keyOf, nothing, same, type Value } from './value.js'

type RowsAct = Extract<Act, { op: 'rows' }>

export class RowRoutes {
  /** By the key of a value that has rows. */
  readonly #routes = new Map<number, Value>()

  /** Says what is wrong, if anything is. */
  follow(frame: CallFrame, { ins, outs, how }: RowsAct): Told | undefined {
    const given = ins.map(slot => valueIn(frame, slot))
    const named = how === 'work' ? undefined : hashValues(nothing, given.slice(1))
    const known: Value[] = []
    for (const { a, b } of how === 'become' ? [] : how === 'leave' ? given.slice(0, 1) : given) {
      const routes = this.#routes.get(keyOf(a, b))
      if (routes) known.push(routes)
    }
    const routes = named ?? known[0]
    if (routes && how !== 'leave')
      for (const slot of outs) this.#routes.set(keyOf(frame.a[slot], frame.b[slot]), routes)
    if (!routes || known.every(other => same(other, routes))) return undefined
    return how === 'leave' ? told('R/back') : told('R/meet')
  }
}
