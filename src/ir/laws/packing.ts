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
  type Spoken,
  sizeOfAll,
  splitOf,
  summedDims,
} from '../../base/index.js'
import { type Instr, type InstrOf, isCollective, type Ref } from '../instr.js'
import type { DType } from '../program.js'
import { showShaped } from '../text/codec.js'
import { traitsOf } from '../traits.js'
import { clause } from './phrases.js'
import type { Case, Type } from './type.js'

/** Who computes with codes as if they were numbers, in words. */
export function misread(instr: Instr, dtypeOf: (ref: Ref) => DType): Spoken[] {
  const read = traitsOf(instr).reads.find(ref => dtypeOf(ref) === 'i8')
  if (read === undefined || instr.kind === 'unpack' || instr.kind === 'slice') return []
  const moves = isCollective(instr) && instr.kind !== 'all-reduce' && instr.kind !== 'reduce-scatter'
  return moves ? [] : [clause('T/holds-codes', { ref: read })]
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
  const refuse = (why: Spoken) => void say('T1', clause('T/is-but', { ref: instr.ins[0], type: showShaped(x), why }))
  const unlike = operands.find(other => showShaped(other) !== showShaped(x))
  if (unlike) return refuse(clause('.another', { type: showShaped(unlike) }))
  const addends = partialAxes(x.layout)
  if (x.layout.turn || x.layout.shares) return refuse(clause('.no-value'))
  if (addends.some(axis => x.layout.partial[axis] !== 'sum')) return refuse(clause('.only-sums'))
  const flat = flatAxes(x.layout)
  if (flat.length > 0 && (addends.length > 0 || instr.parts !== 1 || instr.blocks)) return refuse(clause('.one-line'))
  if (flat.length > 0 && instr.signs === 'line') return refuse(clause('.no-unit'))
  const side = has(x, 'addend') ? addendsIn(x.dims) : 1
  if (splitOf(x.layout, 'addend').length > 0 || (addends.length > 0 && has(x, 'addend')))
    return refuse(clause('.addends-there'))
  const along = splitOf(claimed[0].layout, 'addend')
  if ([...along].sort().join() !== [...addends].sort().join())
    return refuse(clause('.addends-of', { axes: along.join() }))
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
  const refuse = (said: Spoken) => void say('T7', said)
  const own = partialAxes(x.layout)
  if (own.some(axis => x.layout.partial[axis] !== 'sum') || x.layout.turn || x.layout.shares)
    return refuse(clause('T/result', { type: showShaped(x) }))
  const [coded, apart] = [has(operands[0], 'addend'), has(x, 'addend')]
  const along = splitOf(operands[0].layout, 'addend')
  if ([...along].sort().join() !== [...own].sort().join() || (apart && own.length > 0))
    return refuse(
      clause('T/addends', { ref: instr.ins[0], axes: along.join() || clause('.one-rank'), type: showShaped(x) }),
    )
  const inParts = flatAxes(x.layout).length > 0
  if (coded && inParts && (instr.parts !== 1 || instr.blocks || own.length > 0 || apart))
    return refuse(clause('T/one-line'))
  for (const [i, name] of ['line', 'unit'].entries()) {
    const addends = apart ? addendsIn(x.dims) : coded ? addendsIn(operands[0].dims) : 0
    const expected =
      coded && inParts ? partOfLines(mesh, x, instr, name, addends) : linesOf(mesh, x, instr, { name, addends, along })
    const given = operands[i]
    if (showShaped(given) !== showShaped(expected))
      return refuse(
        clause('T/codes-of', {
          ...{ ref: instr.ins[i], type: showShaped(given) },
          ...{ of: showShaped(x), expected: showShaped(expected) },
        }),
      )
  }
  return claimed
}

/** A rank's addend of a mean: what it adds to the gradient is its share of the mean, which is there whole. */
export function blended({ program: { mesh }, instr, operands, claimed, say }: Case<InstrOf<'blend'>>) {
  const [m, grad] = operands
  const expected = { ...grad, dims: summedDims(grad.dims), layout: { ...grad.layout, partial: {} } }
  const refuse = (why: Spoken) => void say('T1', clause('T/is-but', { ref: instr.ins[0], type: showShaped(m), why }))
  if (showShaped(m) !== showShaped(expected)) return refuse(clause('.gradient-is', { type: showShaped(grad) }))
  const ranks = sizeOfAll(mesh, partialAxes(grad.layout)) * addendsIn(grad.dims)
  if (instr.ranks !== ranks) return refuse(clause('.gradient-shares', { addends: ranks, shares: instr.ranks }))
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
