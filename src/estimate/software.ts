/**
 * What a training framework of a certain age does with the same plan: which kernels it fuses, what it hides behind
 * compute, what it keeps. The physics is the device's; these are the habits of programs.
 */
import type { Habits } from './habits.js'

export interface Software {
  readonly name: string
  /** unfused: scores go through memory. The others are the generations of fused attention. */
  readonly attention: 'unfused' | 'flash-1' | 'flash-2' | 'cudnn'
  /** Passes over memory of an unfused chain of elementwise ops become one. */
  readonly fusedElementwise: boolean
  /** A weight gradient is added to the accumulated one inside its matmul. */
  readonly fusedAccumulation: boolean
  /** Of each axis's communication: how much is left exposed where compute could hide it. 1: nothing is hidden. */
  readonly exposed: {
    readonly tp: number
    readonly pp: number
    readonly dp: number
    readonly cp: number
    readonly ep: number
  }
  /** How much slower compute is while a collective runs beside it: 0.12 is 12 %. */
  readonly contention: number
  /** Host seconds to launch one layer forward and backward: the floor of a small layer's time. 0: compiled or captured. */
  readonly launch: { readonly forward: number; readonly backward: number }
  /** Bytes a parameter's gradient is reduced in. */
  readonly reduceBytes: 2 | 4
  /** What it keeps in memory, where that is not what `usual` says. */
  readonly memory?: Partial<Habits>
  readonly sources: readonly string[]
}
