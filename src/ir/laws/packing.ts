/**
 * T7, and T1 to T3 of what makes codes and reads them. Codes know no dims: they lie as lines, cut as the numbers are that they stand for, and
 * what was an addend on each rank is one of several along `addend`.
 */
import {
  type Axis,
  addendsIn,
  codedSizes,
  elementsOf,
  flatAxes,
  type Mesh,
  partialAxes,
  sizeOfAll,
  splitOf,
  summedDims,
} from '../../base/index.js'
import { type Instr, type InstrOf, isCollective, type Ref } from '../instr.js'
import type { DType } from '../program.js'
import { showShaped } from '../text/codec.js'
import { traitsOf } from '../traits.js'
import type { Case, Type } from './type.js'

/** Who computes with codes as if they were numbers, in words. */
export function misread(instr: Instr, dtypeOf: (ref: Ref) => DType): string[] {
  const read = traitsOf(instr).reads.find(ref => dtypeOf(ref) === 'i8')
  if (read === undefined || instr.kind === 'unpack' || instr.kind === 'slice') return []
  const moves = isCollective(instr) && instr.kind !== 'all-reduce' && instr.kind !== 'reduce-scatter'
  return moves ? [] : [`%${read} holds codes, which only move and are unpacked`]
}

/** The axes that split the dims of a tensor, in the order of its dims. */
const splitting = ({ dims, layout }: Type): Axis[] => dims.flatMap(({ name }) => [...splitOf(layout, name)])

/** The types of codes and units, or of what they are unpacked to. */
export function coded(of: Case<InstrOf<'pack' | 'unpack'>>): readonly Type[] | undefined {
  const { instr } = of
  return instr.kind === 'pack' ? packed({ ...of, instr }) : unpacked({ ...of, instr })
}

function packed({ program: { mesh }, instr, operands, claimed, say }: Case<InstrOf<'pack'>>) {
  const [x] = operands
  const refuse = (message: string) => void say('T1', `%${instr.ins[0]} is ${showShaped(x)}; ${message}`)
  const unlike = operands.find(other => showShaped(other) !== showShaped(x))
  if (unlike) return refuse(`another operand is ${showShaped(unlike)}`)
  const addends = partialAxes(x.layout)
  if (x.layout.turn || x.layout.shares) return refuse('it is not a value yet')
  if (addends.some(axis => x.layout.partial[axis] !== 'sum')) return refuse('only sums have addends')
  const flat = flatAxes(x.layout)
  if (flat.length > 0 && (addends.length > 0 || instr.parts !== 1 || instr.blocks)) return refuse('a part is one line')
  if (flat.length > 0 && instr.signs === 'line') return refuse('a part does not know the unit of its line')
  const side = has(x, 'addend') ? addendsIn(x.dims) : 1
  if (splitOf(x.layout, 'addend').length > 0 || (addends.length > 0 && has(x, 'addend')))
    return refuse('addends that lie side by side are all there')
  const along = splitOf(claimed[0].layout, 'addend')
  if ([...along].sort().join() !== [...addends].sort().join())
    return refuse(`its addends are not those of ${along.join()}`)
  return ['line', 'unit'].map((name, i) => ({
    dtype: claimed[i].dtype,
    ...linesOf(mesh, x, instr, { name, addends: has(claimed[0], 'addend') ? operands.length * side : 0, along }),
  }))
}

const has = ({ dims }: Type, dim: string) => dims.some(({ name }) => name === dim)

interface Lines {
  readonly name: string
  /** 0: there is no such dim. */
  readonly addends: number
  readonly along: readonly Axis[]
}

/** The dims and layout of the codes (`line`) or units of a tensor. */
function linesOf(mesh: Mesh, x: Type, coding: InstrOf<'pack' | 'unpack'>, { name, addends, along }: Lines) {
  const flat = flatAxes(x.layout)
  const cut = flat.length > 0 ? { ...coding, parts: sizeOfAll(mesh, flat) } : coding
  const { codes, allUnits } = codedSizes(elementsOf(summedDims(x.dims)), cut)
  return {
    dims: [
      ...(addends > 0 ? [{ name: 'addend', size: addends }] : []),
      { name, size: name === 'line' ? codes : allUnits },
    ],
    layout: {
      splits: { ...(along.length > 0 && { addend: along }), ...(splitting(x).length > 0 && { [name]: splitting(x) }) },
      partial: {},
      ...(flat.length > 0 && { flat }),
    },
  }
}

/**
 * What a result must have been coded as follows from it: as a whole, or of one part the addends of all ranks; what is not added up yet as
 * the rank's own addend, or as those it has side by side.
 */
function unpacked(of: Case<InstrOf<'unpack'>>): readonly Type[] | undefined {
  const { program, instr, operands, claimed, say } = of
  const { mesh } = program
  const [x] = claimed
  const refuse = (message: string) => void say('T7', message)
  const own = partialAxes(x.layout)
  if (own.some(axis => x.layout.partial[axis] !== 'sum') || x.layout.turn || x.layout.shares)
    return refuse(`a result is ${showShaped(x)}`)
  const [coded, apart] = [has(operands[0], 'addend'), has(x, 'addend')]
  const along = splitOf(operands[0].layout, 'addend')
  if ([...along].sort().join() !== [...own].sort().join() || (apart && own.length > 0))
    return refuse(`%${instr.ins[0]} has addends of ${along.join() || 'one rank'}, a result is ${showShaped(x)}`)
  const inParts = flatAxes(x.layout).length > 0
  if (coded && inParts && (instr.parts !== 1 || instr.blocks || own.length > 0 || apart))
    return refuse('a part is one line')
  for (const [i, name] of ['line', 'unit'].entries()) {
    const addends = apart ? addendsIn(x.dims) : coded ? addendsIn(operands[0].dims) : 0
    const expected =
      coded && inParts ? partOfLines(mesh, x, instr, name, addends) : linesOf(mesh, x, instr, { name, addends, along })
    const given = operands[i]
    if (showShaped(given) !== showShaped(expected))
      return refuse(`%${instr.ins[i]} is ${showShaped(given)}; codes of ${showShaped(x)} are ${showShaped(expected)}`)
  }
  return claimed
}

/** A rank's addend of a mean: what it adds to the gradient is its share of the mean, which is there whole. */
export function blended({ program: { mesh }, instr, operands, claimed, say }: Case<InstrOf<'blend'>>) {
  const [m, grad] = operands
  const expected = { ...grad, dims: summedDims(grad.dims), layout: { ...grad.layout, partial: {} } }
  const refuse = (message: string) => void say('T1', `%${instr.ins[0]} is ${showShaped(m)}; ${message}`)
  if (showShaped(m) !== showShaped(expected)) return refuse(`the gradient is ${showShaped(grad)}`)
  const ranks = sizeOfAll(mesh, partialAxes(grad.layout)) * addendsIn(grad.dims)
  if (instr.ranks !== ranks) return refuse(`a gradient of ${ranks} addends has ${instr.ranks} shares of it`)
  return claimed.map(({ dtype }) => ({ ...grad, dtype }))
}

/** Of every addend the part that the result is. */
function partOfLines(mesh: Mesh, x: Type, { run, signs }: InstrOf<'unpack'>, name: string, addends: number) {
  const flat = flatAxes(x.layout)
  const { bytes, units } = codedSizes(elementsOf(x.dims), { run, signs, parts: sizeOfAll(mesh, flat) })
  const dims = [
    { name: 'addend', size: addends },
    { name, size: name === 'line' ? bytes : units },
  ]
  return { dims, layout: { splits: { [name]: [...splitting(x), ...flat] }, partial: {} } }
}
