/**
 * B1, and T1 and T3 of what has a number for each block of a tensor: its dims count blocks. What follows is judged as if each element had
 * the number of its block, so splits, sums and maxima are those of any other op.
 */
import {
  type Blocks,
  type Dim,
  isZigzagCut,
  type Mesh,
  type Spoken,
  sizeOfAll,
  splitOf,
  zigzagAxes,
} from '../../base/index.js'
import type { Compute, Ref } from '../instr.js'
import { scalesOf } from './codes.js'
import { clause } from './phrases.js'
import { type Case, namesOf, type Say, type Type } from './type.js'

/** A tensor, the place of its numbers among the operands, and how it is cut; a result has no place there. */
interface Cut {
  readonly of: Type
  readonly ref: Ref
  readonly numbers?: number
  readonly blocks: Blocks
}

function cutsOf({ instr, operands }: Case<Compute>): readonly Cut[] {
  const cut = (at: number, blocks: Blocks = {}): Cut => ({ of: operands[at], ref: instr.ins[at], blocks })
  switch (instr.kind) {
    case 'absMax':
      return [cut(0, instr.blocks)]
    case 'quantize':
      return [{ ...cut(0, instr.blocks), numbers: 1 }]
    case 'scaledContract':
    case 'scaledExpertContract':
    case 'scaledExpertWeightGrad':
      return scalesOf[instr.kind].map(([at, numbers], i) => ({ ...cut(at, instr.blocks?.[i]), numbers }))
    default:
      return []
  }
}

/** Operands as if blocks were elements, and what a result is then; nothing where a finding says what is wrong. */
export interface Unblocked {
  readonly operands: readonly Type[]
  readonly finish: (result: Type) => Type
}

export function unblocked(of: Case<Compute>): Unblocked | undefined {
  const operands = [...of.operands]
  const cuts = cutsOf(of)
  for (const cut of cuts) {
    const broken = cutBlock(of.program.mesh, cut)
    if (broken) return void of.say('B1', broken)
    if (cut.numbers === undefined) continue
    const elements = perElement(cut, of.operands[cut.numbers], of.instr.ins[cut.numbers], of.say)
    if (!elements) return undefined
    operands[cut.numbers] = elements
  }
  const counts = of.instr.kind === 'absMax' ? cuts[0].blocks : undefined
  return {
    operands,
    finish: type => (counts ? { ...type, dims: type.dims.map(dim => ({ ...dim, size: countOf(dim, counts) })) } : type),
  }
}

const countOf = ({ name, size }: Dim, blocks: Blocks): number => Math.ceil(size / (blocks[name] ?? size))

/**
 * What cuts a block, in words: where a dim is split, every rank begins and ends with one; where documents are cut one by one, a block of
 * tokens would hold others than elsewhere.
 */
function cutBlock(mesh: Mesh, { of: { dims, layout }, ref, blocks }: Cut): Spoken | undefined {
  for (const { name, size } of dims) {
    const [axes, block] = [splitOf(layout, name), blocks[name] ?? 1]
    const turning = isZigzagCut(mesh, axes, name) ? zigzagAxes(mesh, axes).length : 0
    const chunk = turning > 0 ? (size * sizeOfAll(mesh, axes.slice(turning))) / 2 : size
    const odd = [size, chunk].find(run => run % block !== 0)
    if (axes.length > 0 && odd !== undefined) return clause('B/runs', { ref, run: odd, dim: name, block })
    if (block > 1 && mesh.zigzag?.documents && mesh.zigzag.dim === name)
      return clause('B/documents', { block, dim: name, ref })
  }
  return undefined
}

/** The numbers of blocks, each repeated for all elements of its block. */
function perElement({ of, blocks }: Cut, numbers: Type, ref: Ref, say: Say): Type | undefined {
  const [wanted, given] = [Object.keys(blocks), namesOf(numbers)]
  if (wanted.length !== given.length || !given.every(name => wanted.includes(name)))
    return void say('T3', clause('B/dims', { ref, given: given.join(' '), wanted: wanted.join(' ') }))
  const sizes = new Map(of.dims.map(({ name, size }) => [name, size]))
  const other = numbers.dims.find(({ name, size }) => countOf({ name, size: sizes.get(name)! }, blocks) !== size)
  if (other) {
    const whole = sizes.get(other.name)!
    const { name: dim, size: count } = other
    const wanted = countOf({ ...other, size: whole }, blocks)
    return void say('T3', clause('B/counts', { ref, count, dim, block: blocks[dim] ?? whole, size: whole, wanted }))
  }
  return { ...numbers, dims: numbers.dims.map(({ name }) => ({ name, size: sizes.get(name)! })) }
}
