/**
 * What is priced: a kernel, in the few numbers its time depends on. Instructions of a program become kernels
 * (`instr.ts`), and so does a layer that nobody has compiled (`estimate`): one price list for both.
 */
import type { CollectiveKind, Precision } from '../cluster/index.js'

/** A kernel as the cost model sees it: its shape and the bytes it moves. */
export type Kernel =
  /** `batch` matmuls of [m x k] by [k x n]. */
  | {
      readonly kind: 'matmul'
      readonly m: number
      readonly n: number
      readonly k: number
      readonly batch: number
      readonly precision: Precision
      /** Bytes of an element of the result (a weight gradient may be wider than its operands). */
      readonly resultBytes: number
    }
  /** Fused: the matrix of scores never reaches memory. */
  | {
      readonly kind: 'attention'
      readonly pass: 'forward' | 'backward'
      readonly batch: number
      readonly heads: number
      readonly kvHeads: number
      readonly queries: number
      readonly keys: number
      readonly headDim: number
      readonly causal: boolean
      /** Work of the busiest rank over the average, if a sequence is sharded unevenly. */
      readonly unevenness?: number
      /** With dropout of scores; random numbers take time. */
      readonly dropout?: true | undefined
      readonly precision: Precision
      readonly generation: AttentionGeneration
    }
  /** Memory-bound kernels: norms, activations, sums, copies, the optimizer. */
  | {
      readonly kind: 'memory'
      readonly read: number
      readonly written: number
      /** The op, if known: some devices were measured op by op. */
      readonly op?: string
    }

/** Fused attention kernels by age: what a device was measured with is the newest. */
export type AttentionGeneration = 'flash-1' | 'flash-2' | 'cudnn'

/** `bytes` is the whole: what is reduced or sent, what is there after a gather, before a scatter, on one rank of an exchange. */
export interface Collective {
  readonly kind: CollectiveKind
  readonly bytes: number
  readonly group: Members
}

/**
 * Who meets, in the only form a price needs: `size` ranks, `stride` apart (tp is 1 apart, dp is tp apart). All groups of
 * the same shape meet at the same time: the whole cluster does the same.
 */
export interface Members {
  readonly size: number
  readonly stride: number
}
