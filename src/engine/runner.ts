/** What runs a program, on whatever kernels: the one interface of the reference interpreter and of the native engine. */
import type { Rank } from '../base/index.js'
import type { DType, Kind, Program } from '../ir/index.js'
import type { Span } from '../trace/index.js'

/** The data of one training step. */
export interface StepData {
  /** An input's whole global batch, row-major over its dims; microbatch k holds the samples from k times its size. */
  inputs(name: string): ArrayLike<number>
  readonly lr: number
  /** Counts from 0. */
  readonly step: number
}

/** What a step leaves in the frames of the program's results. */
export interface StepResult {
  /** The mean loss per counted label (or element) over the global batch. */
  readonly loss: number
  /** The sum it is the mean of. */
  readonly lossSum: number
  readonly count: number
  readonly normSquared: number
}

/** Where a rank keeps something: an index into the frames of its stream. */
export interface Held {
  readonly rank: Rank
  readonly frame: number
  readonly dtype: DType
}

/** A program on all its ranks. */
export interface Runner {
  /** For people: which kernels, how many ranks, where. */
  readonly description: string
  /** Ranks run beside each other; if not, how long each waits says nothing. */
  readonly concurrent: boolean
  step(data: StepData): StepResult | Promise<StepResult>
  /** Whole tensors, row-major over the parameter's dims. */
  parameter(name: string): ArrayLike<number>
  setParameter(name: string, values: ArrayLike<number>): void
  /** What lives in a frame from step to step, in the order of the parameter's dims, and maybe more behind it. Not a copy. */
  held(at: Held): Float32Array | Float64Array
  /** Puts numbers there, rounded as they are kept. */
  hold(at: Held, values: Float32Array | Float64Array): void
  /** Per rank, the greatest sum of live bytes of each kind so far. */
  readonly peaks: readonly Readonly<Record<Kind, number>>[]
  /** Of the last step, where the engine was asked to measure. Seconds from the engine's start. */
  readonly spans: readonly Span[]
  stop(): void | Promise<void>
}

export interface StartOptions {
  readonly seed: number
  /** Write down when each instruction begins and ends. */
  readonly measure: boolean
  /** Where the flight record of a failed step goes. */
  readonly flightRecord?: string
}

export type Start = (program: Program, options: StartOptions) => Promise<Runner>
