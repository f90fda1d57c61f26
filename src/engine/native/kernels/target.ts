/** What kernels are, wherever they run: native or WebAssembly. kernels.ts loads them. */
import type { Described } from '../../../base/index.js'
import type { Tuning, Variant } from './tuning.js'
import type { Memory } from './webassembly.js'

/** A memory that all ranks share. It can be posted to a worker. */
export interface SharedMemory {
  readonly buffer: SharedArrayBuffer
  /** The first byte that is free: offsets in commands count from the start of the buffer, but 0 is nowhere. */
  readonly start: number
  /** What WebAssembly calls it. */
  readonly memory?: Memory
}

/** Executes the command list at a byte offset, with the status block at another. Returns 0 or an error code. */
export type Exec = (list: number, status: number) => number

/** The kernels of a run: native code or WebAssembly, their memory and entry points. */
export interface Kernels extends Described {
  /** vectors: native, but without the CPU's matrix tiles, where it has any. */
  readonly kind: 'native' | 'vectors' | 'wasm'
  /** What `config` must give each rank. */
  readonly workspaceBytes: number
  /** Of matmul's register tile, those that were compiled: the first where nothing was measured. */
  readonly variants: readonly Variant[]
  readonly tuning: Tuning
  /** How wide a panel of a packed operand is, or 0 where none is packed beforehand: matrix tiles pack for themselves. */
  readonly panelColumns: number
  /** The same, tuned otherwise. */
  tuned(tuning: Tuning): Kernels
  /** A memory with at least this many bytes. */
  memory(bytes: number): SharedMemory
  attach(memory: SharedMemory): Exec
  /** Gives the calling thread its part of the cores, where the runtime can. */
  bind(rank: number, ranks: number): void
  /** Wakes the ranks that sleep on the i32 at a byte offset. */
  wake(memory: SharedMemory, offset: number): void
}

/** The error codes of `Exec`, as in kernels/kernels.h. */
export const execErrors = {
  1: 'the run was aborted',
  2: 'another rank did not arrive in time',
  3: 'unknown command',
  4: 'a kernel needs more workspace than was allocated',
  5: 'experts receive more tokens than their capacity',
  6: 'an offload file could not be read or written',
} as const
