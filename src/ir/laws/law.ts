/**
 * The table of laws. SPEC.md explains each number and the tests quote them in their titles. A law finds places
 * where a program breaks it; `verify` adds the title and the rank.
 */
import type { Told } from './phrases.js'

export const laws = {
  W1: 'every name and index means something',
  W2: 'every instruction has the operands of its signature',
  W3: 'a layout splits dims that are there, and is flat, over axes of the mesh other than pp, each once',
  W4: 'a call that only starts has nothing but collectives',
  W5: 'sizes, bytes and offsets are whole numbers',
  M1: 'every recv has its send, channel by channel, in order',
  M2: 'both ends of a message have the same bytes',
  M3: 'every send, every recv and every call that only starts is waited for exactly once',
  M4: 'a tag names one message, or one call of a stream',
  G1: 'the stages of a group meet in one order, for the same thing',
  G2: 'a group names stages that are there and take part',
  S1: 'no deadlock',
  S2: 'no deadlock when a send blocks until its recv is posted',
  L1: 'a frame is used between its alloc and its free, once each',
  L2: 'live frames do not overlap and lie inside the arena of their space',
  L3: 'the peak of each kind is the declared one, in each space',
  L4: 'before the wait, a frame being received or made is not touched, one being sent or read not written or freed',
  L5: 'a buffer, with the room of all parts where it has parts, lies inside its role, and a role inside its frame',
  L6: 'nothing is read before it is written',
  L7: 'nothing is read after its bytes have been overwritten',
  L8: 'a collective is waited for once; until then its result is not touched and its operand not written',
  L9: 'an element lies at a multiple of its size, and what a disk keeps on whole pages',
  L10: 'what lies in two spaces is not read in one after it was written in the other',
  P1: 'the blocks are the model’s, in order, each in one stage',
  P2: 'every microbatch goes once forward and (in training) once backward through every block, in order',
  P3: 'every parameter is updated exactly once on each holder (one that is frozen, and in an evaluation: never)',
  P4: 'the loss of every microbatch is accumulated exactly once',
  P5: 'every gradient enters the norm exactly once',
  P6: 'a call reads what its own microbatch left',
  P7: 'nothing is added to a sum after its reduction',
  P8: 'one norm, one limit and one scale decide what a step changes',
  P9: 'every scalar of the program moves exactly once, from its value at the step’s start, which all others read',
  P10: 'a scalar of the program is on every stream, and becomes the same there',
  P11: 'a frozen parameter has no gradient and no states, and is left as it was',
  T1: 'operands lie as the instruction needs them',
  T2: 'a buffer lies as declared',
  T3: 'dims and dtypes fit',
  T4: 'a value is read as it was written',
  T5: 'a gradient reaches the optimizer whole, in the layout of its state',
  T6: 'the norm counts each element once',
  T7: 'codes are no numbers: they move, and are read with the scale or the units they were made with',
  T8: 'what an instruction works on lies in one space; only a move goes to another',
  E1: 'nothing is lost: an error is what was given, with the error before, less what was sent',
  B1: 'blocks are whole: no split of a dim cuts one',
  R1: 'rows have room for the worst case, or the step stops where they do not fit',
  R2: 'rows go back by the routes they came by',
  I1: 'every value is one that the serial program computes',
  I2: 'every gradient is the serial program’s',
  I3: 'loss, norm, updated parameters and scalars are the serial program’s',
  I4: 'every parameter and every scalar starts as the serial program’s',
} as const

export type Law = keyof typeof laws

export interface Place {
  /** Pipeline coordinate: the stream's index. */
  readonly pipeline?: number
  /** Index into the stream's steps. */
  readonly step?: number
  readonly segment?: string
  /** Index into the segment's instructions. */
  readonly instr?: number
}

/** A place without what is not known of it. */
export const placeOf = (place: { readonly [K in keyof Place]: Place[K] | undefined }): Place => {
  const { pipeline, step, segment, instr } = place
  return Object.fromEntries(
    Object.entries({ pipeline, step, segment, instr }).filter(([, value]) => value !== undefined),
  )
}

export interface Finding extends Place, Told {
  readonly law: Law
}

/** Findings of one law are usually echoes of the first: keep the first of each instruction, and not too many. */
export function distinct(findings: readonly Finding[], most = 10): Finding[] {
  const seen = new Set<string>()
  const count = new Map<Law, number>()
  return findings.filter(({ law, segment, instr, step, pipeline, message }) => {
    const key = instr === undefined ? `${law} ${pipeline} ${step} ${message}` : `${law} ${segment} ${instr}`
    const n = count.get(law) ?? 0
    if (seen.has(key) || n >= most) return false
    seen.add(key)
    count.set(law, n + 1)
    return true
  })
}
