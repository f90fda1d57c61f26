/**
 * The table of laws. SPEC.md explains each number and the tests quote them in their titles. A law finds places
 * where a program breaks it; `verify` adds the title and the rank.
 */
import type { Told } from './phrases.js'

export const laws = {
  W1: 'every name and index refers to something that exists',
  W2: 'every instruction has the operands of its signature',
  W3: 'a layout splits dims that are there, and is flat, over axes of the mesh other than pp, each once',
  W4: 'a call that only starts has nothing but collectives',
  W5: 'sizes, byte counts and offsets are integers',
  M1: 'every recv has its send, channel by channel, in order',
  M2: 'both ends of a message have the same bytes',
  M3: 'every send, every recv and every call that only starts is waited for exactly once',
  M4: 'a tag names one message, or one call of a stream',
  G1: 'the stages of a group run the same collectives in the same order',
  G2: 'a group lists stages that exist, and all of them take part',
  S1: 'no deadlock',
  S2: 'no deadlock when a send blocks until its recv is posted',
  L1: 'a frame is used between its alloc and its free, once each',
  L2: 'live frames do not overlap and stay inside the arena of their space',
  L3: 'the peak of each memory category is the declared one, in each space',
  L4: 'before the wait, a frame being received or computed is not accessed, one being sent or read not written or freed',
  L5: 'a buffer, with the room of all shards where it has shards, is inside its role, and a role inside its frame',
  L6: 'nothing is read before it is written',
  L7: 'nothing is read after its bytes have been overwritten',
  L8: 'a collective is waited for once; until then its result is not accessed and its operand not written',
  L9: 'an element is at a multiple of its size, and disk allocations are page-aligned',
  L10: 'a value stored in two spaces is not read from one after it was written in the other',
  P1: 'the blocks are the model’s, in order, each in one stage',
  P2: 'every microbatch passes once forward and (in training) once backward through every block, in order',
  P3: 'every parameter is updated exactly once on each owner (never if it is frozen, and never in an evaluation)',
  P4: 'the loss of every microbatch is accumulated exactly once',
  P5: 'every gradient is counted exactly once in the grad norm',
  P6: 'a call reads the values of its own microbatch',
  P7: 'nothing is accumulated after the reduction',
  P8: 'one grad norm, one limit and one loss scale decide what a step changes',
  P9: 'every scalar of the program is updated exactly once, from its value at the step’s start, which all others read',
  P10: 'a scalar of the program is on every stream, and ends the step with the same value there',
  P11: 'a frozen parameter has no gradient and no optimizer state, and does not change',
  T1: 'operands are sharded as the instruction needs them',
  T2: 'a buffer is sharded as declared',
  T3: 'dims and dtypes fit',
  T4: 'a value is read as it was written',
  T5: 'a gradient reaches the optimizer fully reduced, in the layout of its optimizer state',
  T6: 'the grad norm counts each element once',
  T7: 'quantized values are only moved, or dequantized with the scales they were quantized with',
  T8: 'the operands of an instruction are in one memory space; only a move copies to another',
  E1: 'no gradient is lost: the new error-feedback residual is the gradient plus the old residual, less what was sent',
  B1: 'no split of a dim divides a quantization block',
  R1: 'expert buffers have capacity for the worst case, or the step stops on overflow',
  R2: 'tokens are combined with the indices they were dispatched with',
  I1: 'every value is one that the single-rank reference computes',
  I2: 'every gradient equals that of the single-rank reference',
  I3: 'loss, grad norm, updated parameters and scalars equal those of the single-rank reference',
  I4: 'every parameter and every scalar starts as in the single-rank reference',
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
