/**
 * T1 to T3 of stacks: lines of alike tensors that lie one after the other, so that each rank may have whole ones of them. How a line is made
 * up follows from the tensors that were stacked, and what reads it must say the same.
 */
import {
  type Axis,
  type Dim,
  elementsOf,
  flatAxes,
  heldElements,
  type Lines,
  type Mesh,
  matricesIn,
  type Spoken,
  sameDims,
  sameLayout,
  sizeOfAll,
  splitOf,
} from '../../base/index.js'
import { type Instr, type InstrOf, isCollective, pairsOf, type Ref } from '../instr.js'
import type { Segment } from '../program.js'
import { showShaped } from '../text/codec.js'
import { traitsOf } from '../traits.js'
import { clause } from './phrases.js'
import { unfinished } from './turns.js'
import { type Case, type Type, typeOf } from './type.js'

/** The axes that cut a tensor, in the order in which its parts lie in a line. */
const cutting = ({ dims, layout }: Type): Axis[] => [
  ...dims.flatMap(({ name }) => [...splitOf(layout, name)]),
  ...flatAxes(layout),
]

/** One line for each tensor: in equal parts, whatever cuts it. */
export function stacked(of: Case<InstrOf<'stack' | 'unstack'>>): readonly Type[] | undefined {
  const { instr, operands, claimed } = of
  return instr.kind === 'stack' ? putOnStack(of, operands, claimed[0]) : takenFromStack(of, operands[0], claimed)
}

function putOnStack({ program: { mesh }, say }: Case, xs: readonly Type[], stack: Type) {
  const wrong = unlike(xs) ?? tooMany(xs.length, stack)
  if (wrong) return void say('T1', wrong)
  return [stackOf(mesh, xs[0], stack)]
}

function takenFromStack({ program: { mesh }, say }: Case, stack: Type, xs: readonly Type[]) {
  const expected = stackOf(mesh, xs[0], stack)
  const lies = sameLayout(expected.layout, stack.layout) && sameDims(expected.dims, stack.dims)
  const wrong =
    unlike(xs) ??
    tooMany(xs.length, stack) ??
    (lies
      ? undefined
      : clause('T/stack', { type: showShaped(xs[0]), expected: showShaped(expected), stack: showShaped(stack) }))
  return wrong ? void say('T1', wrong) : xs
}

function unlike([first, ...others]: readonly Type[]): Spoken | undefined {
  const other = others.find(type => showShaped(type) !== showShaped(first))
  if (other) return clause('T/stack-unlike', { type: showShaped(first), other: showShaped(other) })
  if (Object.keys(first.layout.partial).length > 0) return clause('T/stack-partial', { type: showShaped(first) })
  return unfinished(first)
}

const tooMany = (count: number, { dims: [matrices] }: Type): Spoken | undefined =>
  matrices && count <= matrices.size ? undefined : clause('T/stack-room', { size: matrices?.size ?? 0, count })

/** Of so many as the other has. */
function stackOf(mesh: Mesh, x: Type, { dims: [matrices], dtype }: Type): Type {
  const axes = cutting(x)
  const dims: Dim[] = [
    { name: 'matrix', size: matrices?.size ?? 0 },
    { name: 'line', size: heldElements(mesh, x.dims, x.layout) },
  ]
  return { dtype, dims, layout: { splits: axes.length > 0 ? { line: axes } : {}, partial: {} } }
}

/** Lines are whole but for experts, and are made up as those that were stacked are cut. */
export function linesMisread(mesh: Mesh, segment: Segment, instr: Instr, at: number): Spoken[] {
  if (instr.kind !== 'newtonSchulz' || !instr.lines) return []
  const [ref] = instr.ins
  const made = stackBefore(segment.instrs, ref, at)
  if (!made) return [clause('T/no-stack', { ref })]
  const x = typeOf(mesh, segment.buffers[made.ins[0]])
  const stack = typeOf(mesh, segment.buffers[instr.ins[0]])
  const experts = splitOf(x.layout, 'expert')
  const expected = wholeLines(mesh, x)
  if (splitOf(stack.layout, 'line').join() !== experts.join())
    return [clause('T/lines-cut', { ref, type: showShaped(stack) })]
  return showLines(expected) === showLines(instr.lines)
    ? []
    : [clause('T/lines', { ref, expected: showLines(expected), given: showLines(instr.lines) })]
}

const showLines = ({ dims, blocks }: Lines) => dims.map(({ name, size }, i) => `${name}:${size}/${blocks[i]}`).join()

/** As many experts as a rank has, of everything else all. */
function wholeLines(mesh: Mesh, { dims, layout }: Type): Lines {
  const blocks = dims.map(({ name }) => (name === 'expert' ? 1 : sizeOfAll(mesh, splitOf(layout, name))))
  return { dims: dims.map(({ name, size }, i) => ({ name, size: size * blocks[i] })), blocks }
}

/** The stack that lies there, before others moved it. */
function stackBefore(instrs: readonly Instr[], ref: Ref, before: number): InstrOf<'stack'> | undefined {
  const at = instrs.findLastIndex((instr, i) => i < before && traitsOf(instr).writes.includes(ref))
  const made = instrs[at]
  if (made?.kind === 'slice') return stackBefore(instrs, made.in, at)
  if (!made || !isCollective(made)) return made?.kind === 'stack' ? made : undefined
  const pair = pairsOf(made).find(({ out }) => out === ref)
  return pair && stackBefore(instrs, pair.in, at)
}

/** Room is nobody's tensor, but there must be enough of it: for a matrix (two, where it lies in blocks) and two squares of its shorter side. */
export function orthogonal({ instr, operands, claimed, say }: Case<InstrOf<'newtonSchulz'>>, made: readonly Type[]) {
  const [room] = claimed.slice(1)
  const { rows, columns } = matricesIn(operands[0].dims, instr.inputs, instr.lines)
  const copies = instr.lines?.blocks.some(ways => ways > 1) ? 2 : 1
  const needed = copies * rows * columns + 2 * Math.min(rows, columns) ** 2
  if (room.dims.length !== 1 || elementsOf(room.dims) < needed || !sameLayout(room.layout, { splits: {}, partial: {} }))
    say('T3', clause('T/room', { ref: instr.outs[1], numbers: needed, type: showShaped(room) }))
  return [...made, room]
}
