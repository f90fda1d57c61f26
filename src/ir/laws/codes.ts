/** T7: what codes are made of tells what they mean. They move between ranks as they are, and nothing adds them up. */
import { isCodeType, type Spoken } from '../../base/index.js'
import { type Instr, type InstrOf, isCollective, pairsOf, type Ref } from '../instr.js'
import type { DType, Segment } from '../program.js'
import { traitsOf } from '../traits.js'
import { misread } from './packing.js'
import { clause } from './phrases.js'

/** What is wrong with the codes an instruction reads, in words. Those that come from another call are told apart by identity (I1). */
export function miscoded(segment: Segment, instr: Instr, at: number): Spoken[] {
  if (instr.kind === 'all-reduce' || instr.kind === 'reduce-scatter')
    return instr.ins.filter(ref => holdsCodes(segment.buffers[ref].dtype)).map(ref => clause('T/adds-codes', { ref }))
  if (!isScaled(instr)) return misread(instr, ref => segment.buffers[ref].dtype)
  return scalesOf[instr.kind].flatMap(([i, scale]) => {
    const { instrs } = segment
    const made = instrs[rootOf(instrs, instr.ins[i], at).maker]
    const amax = instr.ins[scale]
    if (made?.kind === 'quantize' && made.by !== instr.by)
      return [
        clause('T/scaled-as', {
          ...{ ref: instr.ins[i], amax: made.ins[1] },
          ...{ made: made.by ?? 'amax', read: instr.by ?? 'amax' },
        }),
      ]
    return made?.kind === 'quantize' && rootOf(instrs, made.ins[1], at).ref !== rootOf(instrs, amax, at).ref
      ? [clause('T/scaled-by', { ref: instr.ins[i], made: made.ins[1], amax })]
      : []
  })
}

type ScaledKind = 'scaledContract' | 'scaledExpertContract' | 'scaledExpertWeightGrad'

/** Operands that are codes, each with the one that says how it was scaled. */
export const scalesOf: Readonly<Record<ScaledKind, readonly (readonly [number, number])[]>> = {
  scaledContract: [
    [0, 2],
    [1, 3],
  ],
  scaledExpertContract: [
    [0, 3],
    [2, 4],
  ],
  scaledExpertWeightGrad: [
    [0, 3],
    [1, 4],
  ],
}

const isScaled = (instr: Instr): instr is InstrOf<ScaledKind> => Object.hasOwn(scalesOf, instr.kind)

const holdsCodes = (dtype: DType): boolean => isCodeType(dtype) || dtype === 'i8'

/** What lay there before others moved it, and the instruction of this segment that made it; -1: none did. */
function rootOf(instrs: readonly Instr[], ref: Ref, before: number): { readonly ref: Ref; readonly maker: number } {
  const maker = instrs.findLastIndex((instr, i) => i < before && traitsOf(instr).writes.includes(ref))
  const made = instrs[maker]
  if (made?.kind === 'slice') return rootOf(instrs, made.in, maker)
  const isMove = made && isCollective(made) && made.kind !== 'all-reduce' && made.kind !== 'reduce-scatter'
  const pair = isMove ? pairsOf(made).find(({ out }) => out === ref) : undefined
  return pair ? rootOf(instrs, pair.in, maker) : { ref, maker }
}
