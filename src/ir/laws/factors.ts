/**
 * T1 and T3 of Adafactor: what is known of the rows and columns of a matrix lies as these do, whole where they are. Means over
 * what is cut are partial there, whichever way it is cut: by a dim, or as a line.
 */
import {
  type Dim,
  factorsOf,
  type Layout,
  type Spoken,
  sameDims,
  sameLayout,
  shapeOfMatrix,
  sizeOfAll,
  splitOf,
} from '../../base/index.js'
import type { InstrOf } from '../instr.js'
import type { Program } from '../program.js'
import { showShaped } from '../text/codec.js'
import { traitsOf } from '../traits.js'
import { clause } from './phrases.js'
import { unfinished } from './turns.js'
import { axesThatMatter, type Case, dimsSplitBy, isWhole, type Type } from './type.js'

type Factoring = InstrOf<'factorSquares' | 'adafactorSquares' | 'adafactor'>

/** What a tensor is to the gradient. */
type Lying = Pick<Type, 'dims' | 'layout'>

export function factored(of: Case<Factoring>): readonly Type[] | undefined {
  const { program, instr, operands, claimed, say } = of
  const [grad] = operands
  const { reads } = traitsOf(instr)
  const isUpdate = instr.kind === 'adafactor'
  const why = unfinished(grad)
  if (why || Object.keys(grad.layout.partial).length > 0)
    return void say(isUpdate && !why ? 'T5' : 'T1', clause('T/is', { ref: reads[0], type: showShaped(grad) }))
  const told = count(program, instr, grad)
  if (told) return void say('T3', told)
  const { ins, outs } = lyingsOf(program, instr, grad)
  const wanted = isUpdate ? [...ins, ...outs] : ins
  const wrong = operands.findIndex((type, i) => !wanted[i] || !alike(type, wanted[i]))
  if (wrong >= 0 || operands.length !== wanted.length) {
    const at = wrong >= 0 ? wrong : operands.length - 1
    const one = { ref: reads[at], type: showShaped(operands[at]) }
    return void say(
      'T1',
      wanted[at] ? clause('T/must-lie', { ...one, wanted: showShaped(wanted[at]) }) : clause('T/too-many', one),
    )
  }
  return claimed.map(({ dtype }, i) => ({ ...outs[i], dtype }))
}

const alike = (a: Lying, b: Lying): boolean => sameDims(a.dims, b.dims) && sameLayout(a.layout, b.layout)

/** How operands and results of each of these must lie, those of a matrix or of what is none. */
function lyingsOf(program: Program, instr: Factoring, grad: Type): Record<'ins' | 'outs', readonly Lying[]> {
  const { rows, columns, mean } = factorsOf(grad.dims, instr.inputs ?? 0)
  const known = [rows, columns, mean].map(dims => ({ dims, layout: restricted(grad.layout, dims) }))
  const partial = (dims: readonly Dim[]): Lying => ({ dims, layout: summed(program, grad.layout, dims) })
  const scalar: Lying = { dims: [], layout: { splits: {}, partial: {} } }
  const isMatrix = instr.inputs !== undefined
  const states = isMatrix ? known : [grad]
  const means = isMatrix ? known : []
  switch (instr.kind) {
    case 'factorSquares':
      return { ins: [grad, scalar], outs: [rows, columns, mean].map(partial) }
    case 'adafactorSquares':
      return { ins: [grad, scalar, scalar, grad, ...states, ...means], outs: [partial([]), partial([])] }
    case 'adafactor':
      return { ins: [grad, scalar, scalar, scalar, scalar, scalar, ...means], outs: [grad, ...states] }
  }
}

const restricted = ({ splits }: Layout, dims: readonly Dim[]): Layout => ({
  splits: Object.fromEntries(Object.entries(splits).filter(([name]) => dims.some(dim => dim.name === name))),
  partial: {},
})

/** Partial on every axis that cuts it, but those that cut one of these dims. */
function summed({ mesh }: Program, layout: Layout, dims: readonly Dim[]): Layout {
  const { splits } = restricted(layout, dims)
  const axes = axesThatMatter(mesh).filter(
    axis => !isWhole(layout, axis) && !dimsSplitBy(layout, axis).some(name => name in splits),
  )
  return { splits, partial: Object.fromEntries(axes.map(axis => [axis, 'sum'])) }
}

/** Rows, columns and elements that are not those of the whole, in words. */
function count({ mesh }: Program, instr: Factoring, { dims, layout }: Type): Spoken | undefined {
  const all = dims.map(({ name, size }) => ({ name, size: size * sizeOfAll(mesh, splitOf(layout, name)) }))
  const { each, rows, columns } = shapeOfMatrix(all, instr.inputs ?? 0)
  if (instr.kind === 'factorSquares' && (instr.rows !== rows || instr.columns !== columns))
    return clause('T/means', { rows: instr.rows, columns: instr.columns, own: rows, others: columns })
  if (instr.kind === 'adafactor' && instr.elements !== each * rows * columns)
    return clause('T/elements', { elements: instr.elements ?? 0, all: each * rows * columns })
  return undefined
}
