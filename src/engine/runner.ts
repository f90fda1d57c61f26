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
  /** An input over the global batch, row-major; microbatch k starts at sample k times its size. */
  inputs(name: string): ArrayLike<number>
  readonly lr: number
  /** The limit of the squared gradient norm, if the program has one; by default infinity. */
  readonly limit?: number
  /** The number of the step, from 0, including skipped ones; dropout masks depend on it. */
  readonly step: number
}

/** The results of a training step: loss, gradient norm and whether it was skipped. */
export interface StepResult {
  /** The mean loss per label (or element) over the global batch, and auxiliary losses. */
  readonly loss: number
  /** The sum of losses. */
  readonly lossSum: number
  readonly count: number
  /** Auxiliary losses, such as load balancing of experts; 0 if there are none. */
  readonly terms: number
  readonly normSquared: number
  /** Applied steps so far, including this one. */
  readonly taken: number
  /** The step was skipped: the gradient norm was NaN, Inf or above the limit. Parameters and states are unchanged. */
  readonly skipped: boolean
  /** The loss scale of this step and of the next, if losses are scaled. */
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
  /** A description for people: kernels, ranks, device; with its template for translation, if it has one. */
  readonly description: string
  readonly said?: Spoken
  /** Ranks run in parallel; if not, waiting times are meaningless. */
  readonly concurrent: boolean
  /** Runs one step. If a rank fails or all ranks hang, the error names rank and instruction. */
  step(data: StepData): Answer
  /** Replays a step and checks every result. Changes nothing. Undefined: the runner cannot. */
  look?(data: StepData): Promise<Look>
  /** Runs a step twice and compares every result. */
  replay?(data: StepData): Promise<Replay>
  /** Full tensors, row-major over the parameter's dims, assembled from the shards of the ranks. */
  parameter(name: string): Float64Array
  /**
   * Loads a full tensor: every rank takes its shard, of the master copy too. Gradients and other states are
   * unchanged.
   */
  setParameter(name: string, values: ArrayLike<number>): void
  /** Its state across steps. */
  states(name: string): States<Float64Array>
  setStates(name: string, states: States<ArrayLike<number>>): void
  /** Scalars of the program that persist across steps. */
  scalars(): Scalars<number>
  setScalars(scalars: Scalars<number>): void
  /** The persistent contents of a frame, in the order of the parameter's dims, possibly with padding. Not a copy. */
  held(at: Held): Cells
  /** Writes numbers, rounded to the stored dtype. */
  hold(at: Held, values: Cells): void
  /** The gradient that the optimizer received in the last step, if gradients are kept. */
  gradient(name: string): Float64Array
  /** The largest difference between two ranks that should hold the same values of this parameter or of its states. */
  spread(name: string): number
  /** Replicas of parameters and optimizer states whose bits differ although they should not; undefined: unknown. */
  replicas?(): Disagreement[]
  /** Peak live bytes so far, per rank and category. */
  readonly peaks: readonly Readonly<Record<Kind, number>>[]
  /** The same in other memory tiers than the device's. */
  readonly peaksElsewhere: readonly Readonly<Record<Elsewhere, Readonly<Record<Kind, number>>>>[]
  /** Routing decisions of the last step, in token order per rank, if they are recorded. */
  readonly choices: Choices
  /** Spans of the last step by rank, if they are measured. Seconds from the runner's start. */
  readonly columns: readonly SpanColumns[]
  /** The same as objects. */
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
