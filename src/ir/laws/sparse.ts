/**
 * T1 to T3 of addends that lie side by side, of what is kept of them and of what that becomes again. A rank keeps of its own block, so the numbers
 * of a tensor that is split lie in as many runs as it has blocks.
 */
import {
  type Axis,
  addendsIn,
  elementsOf,
  flatAxes,
  keptSizes,
  partialAxes,
  type Spoken,
  splitOf,
  summedDims,
} from '../../base/index.js'
import type { InstrOf } from '../instr.js'
import { showShaped } from '../text/codec.js'
import { clause } from './phrases.js'
import type { Case, Type } from './type.js'

export function sparse(of: Case<InstrOf<'beside' | 'greatest' | 'scatter'>>): readonly Type[] | undefined {
  const { instr } = of
  if (instr.kind === 'beside') return laid({ ...of, instr })
  return instr.kind === 'greatest' ? kept({ ...of, instr }) : scattered({ ...of, instr })
}

/** One rank has the addends of all, each whole. */
function laid({ instr, operands, claimed, say }: Case<InstrOf<'beside'>>): readonly Type[] | undefined {
  const [x] = operands
  const odd = operands.findIndex(other => showShaped(other) !== showShaped(x) || !isValue(other, []))
  if (odd >= 0)
    return void say('T1', clause('T/addend-whole', { ref: instr.ins[odd], type: showShaped(operands[odd]) }))
  const dims = [{ name: 'addend', size: operands.length }, ...x.dims]
  return [{ dtype: claimed[0].dtype, dims, layout: x.layout }]
}

/** Of the addends of ranks each keeps its own; of those that lie side by side one rank keeps all. */
function kept({ instr, operands: [x], claimed, say }: Case<InstrOf<'greatest'>>): readonly Type[] | undefined {
  const refuse = (why: Spoken) => void say('T1', clause('T/is-but', { ref: instr.ins[0], type: showShaped(x), why }))
  const [along, axes] = [splitOf(claimed[0].layout, 'addend'), partialAxes(x.layout)]
  if (!isValue(x, axes)) return refuse(clause('.no-numbers'))
  if (axes.some(axis => x.layout.partial[axis] !== 'sum')) return refuse(clause('.only-sums'))
  if (!sameAxes(along, axes)) return refuse(clause('.addends-of', { axes: along.join() || clause('.one-rank') }))
  return claimed.map(({ dtype }) => ({ dtype, ...keptOf(x, instr, along) }))
}

/** What a result must have been made of follows from it: of its own addend, of those it has side by side, or of all. */
function scattered({ instr, operands, claimed, say }: Case<InstrOf<'scatter'>>): readonly Type[] | undefined {
  const [x] = claimed
  const [along, axes] = [splitOf(operands[0].layout, 'addend'), partialAxes(x.layout)]
  if (!isValue(x, axes) || !sameAxes(along, axes))
    return void say('T1', clause('T/no-addends', { axes: along.join() || clause('.one-rank'), type: showShaped(x) }))
  const isApart = axes.length > 0 || summedDims(x.dims).length < x.dims.length
  const expected = showShaped(keptOf(x, instr, along, isApart ? undefined : addendsIn(operands[0].dims)))
  const odd = operands.findIndex(type => showShaped(type) !== expected)
  if (odd >= 0)
    return void say(
      'T1',
      clause('T/kept-of', { ref: instr.ins[odd], type: showShaped(operands[odd]), of: showShaped(x), expected }),
    )
  return claimed
}

/** The dims and layout of what is kept of a tensor. */
function keptOf(x: Type, instr: InstrOf<'greatest' | 'scatter'>, along: readonly Axis[], addends = addendsIn(x.dims)) {
  const { lines, kept } = keptSizes(elementsOf(summedDims(x.dims)), instr)
  const split = x.dims.flatMap(({ name }) => [...splitOf(x.layout, name)])
  return {
    dims: [
      { name: 'addend', size: addends },
      { name: 'kept', size: lines * kept },
    ],
    layout: {
      splits: { ...(along.length > 0 && { addend: along }), ...(split.length > 0 && { kept: split }) },
      partial: {},
    },
  }
}

/** It is a block, partial over these axes alone; addends that lie side by side are all there. */
const isValue = ({ dims, layout }: Type, axes: readonly Axis[]): boolean =>
  flatAxes(layout).length === 0 &&
  !layout.turn &&
  !layout.shares &&
  partialAxes(layout).every(axis => axes.includes(axis)) &&
  splitOf(layout, 'addend').length === 0 &&
  (axes.length === 0 || summedDims(dims).length === dims.length)

const sameAxes = (a: readonly Axis[], b: readonly Axis[]): boolean => [...a].sort().join() === [...b].sort().join()
