/**
 * What a training framework of a certain age does with the same plan: which kernels it fuses, what it hides behind
 * compute, what it keeps. The physics is the device's; these are facts about programs.
 */
import type { MeshAxis } from '../../base/index.js'
import type { Transport } from '../../cost/index.js'
import type { MemoryProfile } from './memory-profile.js'

export interface Software {
  readonly name: string
  /** Our own program, whose pieces are known one by one. */
  readonly own?: true
  /** unfused: scores go through memory. The others are the generations of fused attention. */
  readonly attention: 'unfused' | 'flash-1' | 'flash-2' | 'cudnn'
  /** Chains of elementwise ops (bias and activation; bias, dropout and residual; rotation) are one pass over memory. */
  readonly fusedElementwise: boolean
  /** A norm is one kernel; otherwise a chain of passes, in f32. */
  readonly fusedNorm: boolean
  /**
   * Scale, mask and softmax of unfused attention are one kernel, up to this sequence and for a multiple of 4 matrices of
   * scores. 0: never.
   */
  readonly fusedSoftmax: number
  /** Bytes of traffic for each logit, forward and backward together: the cast, the loss and its gradient. */
  readonly lossBytes: number
  /** Tables are padded to whole tiles also where tp does not split them. */
  readonly padsVocab: boolean
  /** A weight gradient is added to the accumulated one inside its matmul. */
  readonly fusedAccumulation: boolean
  /** Bytes of an element of the accumulated gradient. */
  readonly gradientBytes: 2 | 4
  /** Bytes of an element of what an optimizer keeps. */
  readonly stateBytes: 2 | 4
  /** Where parameters are narrower than that, no copy of them as wide is among it. */
  readonly withoutMasters?: true
  /** Bytes of traffic for each parameter an optimizer step updates: copies, unscaling, norm, clipping, Adam. */
  readonly optimizerBytes: number
  /** Of each axis's communication: how much is left exposed where compute could hide it. 1: nothing is hidden. */
  readonly exposed: Readonly<Record<MeshAxis, number>> & {
    /** tp in the backward pass, where weight gradients can hide it. */
    readonly tpBackward: number
    /** What ZeRO-3 gathers and reduces layer by layer. */
    readonly shards: number
    /** The same where it fetches whole layers ahead: forward is computed again, or backward is split in two. */
    readonly wholeShards?: number
  }
  /** Sequence parallel: what was gathered for forward is gathered again for the weight gradients, not kept. */
  readonly regathers: boolean
  /** What it does to rows on their way: bytes of traffic for each element in one direction, and seconds of the host for each layer. */
  readonly routing?: { readonly bytes: number; readonly seconds: number }
  /** How rows travel to experts; each choice by itself, where it does not say. */
  readonly exchange?: Transport
  /** Of the rate of the links, what its tensor-parallel collectives reach. */
  readonly tensorCollectives: number
  /** How much slower compute is while a collective runs beside it: 0.12 is 12 %. */
  readonly contention: number
  /** Seconds of the host. 0: compiled or captured. */
  readonly launch: {
    /** One layer forward and backward: the floor of a small layer's time. */
    readonly forward: number
    readonly backward: number
    /** Of the above, what is added where a softmax that is usually one kernel is several. */
    readonly softmax: number
    /** What every stage does before a microbatch while its device has nothing to do: fetch, broadcast, read back. */
    readonly batch: number
  }
  /** The host waits for what it launched (CUDA_LAUNCH_BLOCKING): its time is added to the device's. */
  readonly synchronous: boolean
  /**
   * What is computed again ends when all that backward needs is there: the last product of a layer and the sum of it over tp are
   * not repeated.
   */
  readonly stopsEarly?: true
  /** Bytes a parameter's gradient is reduced in. */
  readonly reduceBytes: 2 | 4
  /** Collectives that the parameters of one layer travel in; 0: all of a rank's in one, or one for each layer under ZeRO-3. */
  readonly pieces: number
  /** Bytes of gradients that are reduced together, once a step; 0: all of a rank's. Each of many ranks has a small part. */
  readonly bucket: number
  /** ZeRO-3 gathers parameters in the precision they are multiplied in, where that is narrower than 2 bytes. */
  readonly narrowGathers: boolean
  /** Step time lost to stragglers, for each doubling of the devices above 64. */
  readonly jitter: number
  /** What it keeps in memory, where that is not what `usual` says. */
  readonly memory?: Partial<MemoryProfile>
  readonly sources: readonly string[]
}
