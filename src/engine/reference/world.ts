/** What all ranks of a machine share: the program, what has been prepared of it, and the step that is under way. */
import type { Rank } from '../../base/index.js'
import type { Buffer, Call, Instr, Program, Ref } from '../../ir/index.js'
import type { StepData } from '../runner.js'
import type { Precision } from './memory.js'
import type { Mail, RendezvousTable } from './rendezvous.js'
import type { PreparedSegment } from './segment.js'

/** An instruction that has just been done. */
export interface Observation {
  readonly rank: Rank
  readonly call: Call
  /** Index into the stream's steps. */
  readonly step: number
  readonly instr: Instr
  /** A copy of what a buffer of the segment holds now. */
  read(ref: Ref): Float64Array
}

export interface Options {
  readonly seed: number
  /** f64 unless said. */
  readonly precision?: Precision
  readonly observe?: (done: Observation) => void
}

/** The gradient an optimizer instruction was given: its buffer, and what each rank held. */
export interface CapturedGradient {
  readonly buffer: Buffer
  readonly parts: Map<Rank, Float64Array>
}

export interface World {
  readonly program: Program
  readonly options: Options
  readonly cellBytes: number
  readonly prepared: Map<string, PreparedSegment>
  /** Gradients by parameter. */
  readonly gradients: Map<string, CapturedGradient>
  collectives: RendezvousTable
  mail: Mail
  data: StepData
}
