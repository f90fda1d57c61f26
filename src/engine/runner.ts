/** What runs a program, on whatever kernels: the one interface of the reference interpreter and of the native engine. */
import type { Elsewhere, FaultBook, Rank, Scalars, Spoken, States, Watcher } from '../base/index.js'
import type { Cells } from '../geometry/index.js'
import type { DType, Kind, Program } from '../ir/index.js'
import type { Span, SpanColumns } from '../trace/index.js'
import type { Choices } from './choices.js'
import type { Look, Replay } from './look.js'
import type { Disagreement } from './replicas.js'

/** The inputs, learning rate and number of a training step. */
export interface StepData {
  /** An input's whole global batch, row-major over its dims; microbatch k holds the samples from k times its size. */
  inputs(name: string): ArrayLike<number>
  readonly lr: number
  /** What the square of its gradient norm must be below, where the program asks; without it anything finite is. */
  readonly limit?: number
  /** Which step of the run it is, from 0, those that were skipped included: it fixes masks. */
  readonly step: number
}

/** The results of a training step: loss, gradient norm and whether it was skipped. */
export interface StepResult {
  /** The mean loss per counted label (or element) over the global batch, and the terms beside it. */
  readonly loss: number
  /** The sum that the mean is of. */
  readonly lossSum: number
  readonly count: number
  /** Losses of single blocks, such as those that balance experts; 0 where there are none. */
  readonly terms: number
  readonly normSquared: number
  /** Steps taken so far, this one included. */
  readonly taken: number
  /** The step was skipped: the gradient norm was NaN, Inf or above the limit. Parameters and states are unchanged. */
  readonly skipped: boolean
  /** What gradients were multiplied with in this step, and what they will be in the next, where losses are scaled. */
  readonly scale?: { readonly before: number; readonly after: number }
}

/** Where a rank keeps something: an index into the frames of its stream. */
export interface Held {
  readonly rank: Rank
  readonly frame: number
  readonly dtype: DType
  /** Elements of the frame before it: a rank's part may lie at its place among all parts. */
  readonly first: number
}

/**
 * A program running on all its ranks. Steps are synchronous on the reference interpreter and promises on the engine.
 */
export interface Runner<Answer extends StepResult | Promise<StepResult> = StepResult | Promise<StepResult>> {
  /** For people: which kernels, how many ranks, where; and as a phrase, where it is one. */
  readonly description: string
  readonly said?: Spoken
  /** Ranks run beside each other; if not, how long each waits says nothing. */
  readonly concurrent: boolean
  /** Runs the program once. Fails with an error that names rank and instruction where a rank fails or no rank can move. */
  step(data: StepData): Answer
  /** Runs a step again and looks at every result. Nothing changes. Undefined: the runner cannot. */
  look?(data: StepData): Promise<Look>
  /** Runs it twice, and compares every result. */
  replay?(data: StepData): Promise<Replay>
  /** Full tensors, row-major over the parameter's dims, assembled from the shards of the ranks. */
  parameter(name: string): Float64Array
  /**
   * Loads a full tensor: every rank takes its shard, of the master copy too. Gradients and other states are
   * unchanged.
   */
  setParameter(name: string, values: ArrayLike<number>): void
  /** What is kept of it from step to step. */
  states(name: string): States<Float64Array>
  setStates(name: string, states: States<ArrayLike<number>>): void
  /** Numbers of the program that live from step to step. */
  scalars(): Scalars<number>
  setScalars(scalars: Scalars<number>): void
  /** What lives in a frame from step to step, in the order of the parameter's dims, and maybe more behind it. Not a copy. */
  held(at: Held): Cells
  /** Puts numbers there, rounded as they are kept. */
  hold(at: Held, values: Cells): void
  /** The gradient the optimizer was given in the last step, where the runner was asked to keep it. */
  gradient(name: string): Float64Array
  /** The largest difference between two ranks that should hold the same values of this parameter or of its states. */
  spread(name: string): number
  /** Replicas of parameters and optimizer states whose bits differ although they should not; undefined: unknown. */
  replicas?(): Disagreement[]
  /** Peak live bytes so far, per rank and category. */
  readonly peaks: readonly Readonly<Record<Kind, number>>[]
  /** The same in other spaces than the device's. */
  readonly peaksElsewhere: readonly Readonly<Record<Elsewhere, Readonly<Record<Kind, number>>>>[]
  /** The experts that the tokens of the last step chose, as these lay, where the runner was asked to keep them. */
  readonly choices: Choices
  /** What the last step did, by rank, where the runner was asked to measure. Seconds from the runner's start. */
  readonly columns: readonly SpanColumns[]
  /** The same, an object a span. */
  readonly spans: readonly Span[]
  stop(): void | Promise<void>
}

export interface StartOptions {
  readonly seed: number
  /** Write down when each instruction begins and ends. */
  readonly measure?: boolean
  /** Keep the choices of experts that a step makes. */
  readonly choices?: boolean
  /** Where the flight record of a failed step goes. */
  readonly flightRecord?: string
  /** A folder of the disk on which files lie where a plan keeps anything there. */
  readonly offloadFolder?: string | undefined
  /** How long a rank may wait for another before all give up. Without it, by what each command has taken in the steps before. */
  readonly timeoutMs?: number | undefined
  /** What is to go wrong. The interpreter has no ranks of its own that could fail. */
  readonly faults?: FaultBook | undefined
  /** Is shown how far the start is, where it takes long. */
  readonly watcher?: Watcher
}

export type Start = (program: Program, options: StartOptions) => Promise<Runner>
