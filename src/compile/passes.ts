/** The passes of the compiler in order, by name, with what each makes. A caller can watch them. */
import type { Program, Segment, Stream } from '../ir/index.js'
import type { Model } from '../model/index.js'
import type { Boundaries } from './boundaries.js'
import type { ByKind, CompileInput, Drafts } from './compiled.js'
import type { FlightDrafts } from './data.js'
import type { DerivedGraph } from './differentiate.js'
import type { Phases } from './recompute.js'
import type { SegmentDraft } from './segment.js'
import type { StreamScript } from './stream/streams.js'

/** The result of each pass of the compiler. */
export interface PassResults {
  /** The model, its experts with room for as many tokens as the plan allows. */
  'expert rows': Model
  /** The model with the dtype of every value. */
  store: Model
  /** The model with quantized operands of matmuls (FP8). */
  quantize: Model
  /** Forward and backward graph of each kind of block. */
  differentiate: ByKind<DerivedGraph>
  /** The nodes that each phase of a block runs. */
  recompute: ByKind<Phases>
  /** The pipeline stage of each block. */
  cut: readonly number[]
  /** Segments in layouts, with their collectives. */
  shard: Drafts
  /** Buckets of parameter gathers and gradient reductions, per pipeline rank. */
  'data parallel': readonly FlightDrafts[]
  /** Copies of layer inputs to other memory. */
  offload: Boundaries
  /** Segments whose collectives start early and wait late. */
  overlap: readonly SegmentDraft[]
  /** Segments with addresses of their buffers. */
  'place segments': Readonly<Record<string, Segment>>
  /** The steps of each pipeline rank. */
  schedule: readonly StreamScript[]
  /** The same with addresses and peaks. */
  'place streams': readonly Stream[]
  program: Program
}

/** The name of a pass of the compiler. */
export type Pass = keyof PassResults

/** The passes of the compiler, in order. */
export const passes = [
  'expert rows',
  'store',
  'quantize',
  'differentiate',
  'recompute',
  'cut',
  'shard',
  'data parallel',
  'offload',
  'overlap',
  'place segments',
  'schedule',
  'place streams',
  'program',
] as const satisfies readonly Pass[]

/** Is called after each pass with what it made. */
export type Watch = <P extends Pass>(pass: P, made: PassResults[P]) => void

/** Shows the result of each pass to the caller who watches, if one does. */
export const watching =
  ({ watch }: Pick<CompileInput, 'watch'>) =>
  <P extends Pass, Made extends PassResults[P]>(pass: P, made: Made): Made => {
    watch?.(pass, made)
    return made
  }
