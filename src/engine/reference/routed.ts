/** Rows that move between the ranks that share the experts: every rank takes from the others what its routes name. */
import {
  type Axis,
  coordinatesAlong,
  elementsOf,
  type Mesh,
  partAlong,
  positionIn,
  sizeOfAll,
  splitOf,
} from '../../base/index.js'
import { type Cells, offsets } from '../../geometry/index.js'
import type { Buffer, InstrOf, Ref } from '../../ir/index.js'
import { choicesIn, fillRows, fillTokens, routedOf } from './experts.js'

interface Routes {
  readonly to: Cells
  readonly from: Cells
}

/** From what all members have, in their order, and the own routes, to what one of them gets. */
type RoutedMove = (routes: Routes, parts: readonly Cells[], out: Cells) => void

export function routedMove(
  mesh: Mesh,
  { kind, ins, outs, group }: InstrOf<'all-dispatch' | 'all-combine'>,
  buffer: (ref: Ref) => Buffer,
): RoutedMove {
  const [x, to, out] = [ins[0], ins[1], outs[0]].map(ref => ({ ...buffer(ref), whole: [] }))
  const [tokens, rows] = kind === 'all-dispatch' ? [x, out] : [out, x]
  const routed = routedOf(tokens, rows, to)
  if (kind === 'all-combine') {
    const choices = choicesIn(to)
    const room = routed.rows.length
    return (routes, parts, result) =>
      fillTokens(
        routed,
        i => routes.to[choices[i]],
        row => ({ cells: parts[Math.floor(row / room)], at: routed.rows[row % room] }),
        result,
      )
  }
  const places = placesOf(mesh, group.axes, buffer(ins[0]))
  return (routes, parts, result) =>
    fillRows(
      routed,
      routes.from,
      choice => {
        const { member, token } = places[Math.floor(choice / routed.chosen)]
        return { cells: parts[member], at: routed.tokens[token] + (choice % routed.chosen) * routed.stride }
      },
      result,
    )
}

/** For each token of the group, counted through all of them: who has it, and which of its own it is. */
function placesOf(mesh: Mesh, axes: readonly Axis[], { dims, layout }: Buffer): { member: number; token: number }[] {
  const own = ['batch', 'seq'].map(name => dims.find(dim => dim.name === name) ?? { name, size: 1 })
  const along = own.map(({ name }) => splitOf(layout, name).filter(axis => axes.includes(axis)))
  const all = own.map(({ name, size }, i) => ({ name, size: size * sizeOfAll(mesh, along[i]) }))
  const [batches, sequences] = own.map(dim => offsets(own, [dim]))
  const places: { member: number; token: number }[] = new Array(elementsOf(all))
  for (let member = 0; member < sizeOfAll(mesh, axes); member++) {
    const at = coordinatesAlong(mesh, axes, member)
    const parts = own.map((dim, i) => partAlong(mesh, along[i], dim, at))
    for (let token = 0; token < elementsOf(own); token++) {
      const [batch, seq] = [positionIn(parts[0], batches[token]), positionIn(parts[1], sequences[token])]
      places[batch * all[1].size + seq] = { member, token }
    }
  }
  return places
}
