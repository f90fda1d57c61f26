/**
 * Everything the price of a step depends on. The plan here is plain numbers, not a job: other people's runs are priced
 * too, and some of them do what our compiler does not (yet).
 */
import {
  type AxisSizes,
  dataRanks,
  type Elsewhere,
  type MeshAxis,
  type OpKind,
  type Optimizer,
  type Seconds,
  type Wire,
} from '../base/index.js'
import type { Cluster, Precision } from '../cluster/index.js'
import type { Fp8Recipe, ScheduleName } from '../plan/index.js'
import type { EstimateBook } from './book.js'
import type { Software } from './others/software.js'
import type { Shape } from './shape.js'

export interface Split extends AxisSizes {
  readonly sequenceParallel: boolean
  readonly zero: 0 | 1 | 2 | 3
  /** One that is made from counts: an order from a file is not. */
  readonly schedule: ScheduleName
  /** Stages a pipeline rank holds. */
  readonly chunks: number
  readonly microbatches: number
  /** Sequences of one microbatch on one data-parallel rank. */
  readonly microbatch: number
  readonly recompute: 'none' | 'cheap' | 'selective' | 'full' | 'per-op'
  /** Ops that are repeated, where a plan names them. */
  readonly ops?: readonly OpKind[]
  /** Collectives are waited for where they start. */
  readonly overlap?: false
  /** cp: contiguous sharding instead of zigzag, so the last rank has most work. */
  readonly inOrder?: true
  /** cp: size of the Ulysses (all-to-all) factor, if not 1. */
  readonly ulysses?: number
  /** cp: ring attention; otherwise keys and values are gathered. */
  readonly ring?: true
  /** tp of the experts, where that is not 1. */
  readonly etp?: number
  /** Rows of the busiest rank over those of the average, where choices are not balanced. */
  readonly imbalance?: number
  /** Our own program: the room for rows that the plan names, where that is not the usual. */
  readonly rows?: number | 'worst'
  /** Layers of each stage where they are not shared out evenly. */
  readonly layers?: readonly number[]
  /** ZeRO-2 and 3: gradients are reduced once a step, not after each microbatch. */
  readonly reduce?: 'step'
  /** ZeRO-3: parameters are gathered once a step, not for each use. */
  readonly gather?: 'step'
  /** Bytes of what moves once a step that travel together, where that is not the usual. */
  readonly bucket?: number
  /** ZeRO-3: blocks ahead of which parameters are gathered, where that is not the usual. */
  readonly prefetch?: number
  /** What our own program sends in fewer bits. */
  readonly wire?: Wire
  /** Linear layers use FP8 matmuls; the precision of the setup is then fp8. */
  readonly fp8?: Fp8Recipe
  /** Our own program keeps the optimizer's states there, and updates there. */
  readonly offload?: Elsewhere
  /** ZeRO-3: our own program keeps parts of parameters there, and lifts them before they are gathered. */
  readonly lifted?: Elsewhere
  /** Layer boundaries are offloaded there until the backward pass. */
  readonly waiting?: Elsewhere
  /**
   * HSDP: ZeRO shards over this many adjacent data-parallel ranks, and groups of that many are replicas.
   */
  readonly sharded?: number
}

/** Data ranks that share what ZeRO splits. */
export const shardRanks = (split: Split): number =>
  split.zero > 0 && split.sharded !== undefined ? split.sharded : dataRanks(split)

export interface Setup {
  readonly shape: Shape
  readonly split: Split
  readonly cluster: Cluster
  readonly precision: Precision
  readonly software: Software
  /** AdamW, where a run does not say. */
  readonly optimizer?: Optimizer
  /** Averages of the weights are kept, in f32. */
  readonly averages?: boolean
  /** Losses are scaled: gradients are divided by it before they are used. */
  readonly scaled?: boolean
  /** What was worked out for other plans; without it everything is computed. */
  readonly book?: EstimateBook
}

/** What memory depends on: all but the machine. */
export type Placed = Omit<Setup, 'cluster'>

/** Where the time of a step goes. The parts add up to the step; those of axes are communication that nothing hides. */
export interface Parts extends Readonly<Record<MeshAxis, Seconds>> {
  readonly compute: Seconds
  /** Computing forward values again. */
  readonly recompute: Seconds
  readonly bubble: Seconds
  readonly optimizer: Seconds
  /** The host not keeping up, stragglers, what no other part explains. */
  readonly other: Seconds
}

/** Bytes on the heaviest rank. */
export interface Footprint {
  readonly parameters: number
  readonly gradients: number
  readonly optimizer: number
  readonly activations: number
  readonly workspace: number
  /** What the framework and its libraries hold beside the tensors. */
  readonly framework: number
}

/** The predicted step time by category, memory and FLOPs of a plan, without compiling it. */
export interface Estimate {
  readonly step: Seconds
  readonly parts: Parts
  readonly memory: Footprint
  /** FLOPs of a step over all devices: useful, and executed. */
  readonly flops: { readonly model: number; readonly hardware: number }
}
