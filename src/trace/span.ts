/**
 * One instruction, on one lane of one rank, once. Simulated and measured runs both produce these; what is written over
 * spans (shares, timelines, traces) cannot tell which it was given.
 */
import { coordinatesOf, type Rank, type Seconds, seconds } from '../base/index.js'
import { type Instr, type Lane, type Program, type Step, traitsOf } from '../ir/index.js'

/** One interval on a lane of a rank: a kernel, a collective, a send or a wait. */
export interface Span {
  readonly rank: Rank
  readonly lane: Lane
  /** Which network, where there are several: nvlink, infiniband. */
  readonly link?: string
  /** Index into the steps of the rank's stream. */
  readonly step: number
  /** Index into the instructions of the segment that the step calls; -1: the step itself (a send, a recv, its wait). */
  readonly instr: number
  readonly start: Seconds
  readonly end: Seconds
}

export const streamOf = ({ mesh, streams }: Program, rank: Rank) => streams[coordinatesOf(mesh, rank).pp ?? 0]

/** The step and, where it calls a segment, the instruction that a span is of. */
export function doneBy(
  program: Program,
  { rank, step, instr }: Pick<Span, 'rank' | 'step' | 'instr'>,
): { step: Step; instr?: Instr } {
  const found = streamOf(program, rank)?.steps[step]
  if (!found) throw new Error(`rank ${rank} has no step ${step}`)
  const inner = found.kind === 'call' && instr >= 0 ? program.segments[found.segment]?.instrs[instr] : undefined
  return inner ? { step: found, instr: inner } : { step: found }
}

/** The lane of what an engine did. Waiting for a collective is where it does its work: that belongs to the network. */
export function laneOf(program: Program, at: Pick<Span, 'rank' | 'step' | 'instr'>): Lane {
  const { step, instr } = doneBy(program, at)
  if (instr) return instr.kind === 'wait' ? 'network' : traitsOf(instr).lane
  return step.kind === 'call' ? 'compute' : step.kind === 'alloc' || step.kind === 'free' ? 'host' : 'network'
}

// A spread would overflow the stack at 100k spans.
export const startOf = (spans: readonly Span[]): Seconds =>
  seconds(spans.reduce((start, span) => Math.min(start, span.start), Number.POSITIVE_INFINITY))
export const endOf = (spans: readonly Span[]): Seconds =>
  seconds(spans.reduce((end, span) => Math.max(end, span.end), 0))
