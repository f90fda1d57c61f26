/**
 * The fast kernels: C, compiled for this CPU where there is a compiler (`scripts/build-kernels.mjs`), and WebAssembly
 * everywhere else. Both execute the command lists of commands.ts. Every worker thread loads its own, and attaches to
 * the one memory it was sent.
 */
import { platform } from '../../../platform/index.js'
import { wasmKernels } from './wasm.js'
import { type Memory, WebAssembly } from './webassembly.js'

/** A memory that all ranks share. It can be sent to a worker as it is. */
export interface SharedMemory {
  readonly buffer: SharedArrayBuffer
  /** The first byte that is free: offsets in commands count from the start of the buffer, but 0 is nowhere. */
  readonly start: number
  /** What WebAssembly calls it. */
  readonly memory?: Memory
}

/** Executes the list at a byte offset for the rank whose status block is at another; returns 0, or what went wrong. */
export type Exec = (list: number, status: number) => number

export interface Kernels {
  /** vectors: native, but without the CPU's matrix tiles, where it has any. */
  readonly kind: 'native' | 'vectors' | 'wasm'
  readonly description: string
  /** What `config` must give each rank. */
  readonly workspaceBytes: number
  /** A memory with at least so many bytes from its start on. */
  memory(bytes: number): SharedMemory
  attach(memory: SharedMemory): Exec
  /** Gives the calling thread its part of the cores, where the runtime can. */
  bind(rank: number, ranks: number): void
  /** Wakes the ranks that sleep on the i32 at a byte offset. */
  wake(memory: SharedMemory, offset: number): void
}

/** What an exec that did not return 0 met, as in kernels/kernels.h. */
export const execErrors = {
  1: 'the run was aborted',
  2: 'a peer did not come in time',
  3: 'unknown command',
  4: 'a kernel needs more workspace than it was given',
  5: 'experts get more rows than there is room for',
} as const

const wasmFile = (flavour: WasmFlavour) =>
  new URL(`../../../../../kernels/lockstep${flavour === 'relaxed' ? '-relaxed' : ''}.wasm`, import.meta.url)

/** Brings what `loadKernels` needs to where it can be loaded at once; where files can be read there is nothing to bring. */
export const prepareKernels = (): Promise<void> => platform.fetch((['plain', 'relaxed'] as const).map(wasmFile))

/** Why there are no native kernels, or undefined when there are. */
export const nativeMissing = (): string | undefined => platform.nativeMissing()

const page = 65536

/**
 * Node's own shared memory begins 16 bytes into a cache line, so that every wide load would read two lines. That of
 * WebAssembly begins at a page, but ends at 4 GiB.
 */
function alignedBuffer(bytes: number): SharedArrayBuffer {
  const pages = Math.ceil(bytes / page)
  if (pages > 65536) return new SharedArrayBuffer(bytes)
  return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true }).buffer
}

function nativeKernels(kind: 'native' | 'vectors'): Kernels {
  const addon = platform.loadNative()
  const { target, vector, tiles, workspaceBytes } = addon.info()
  const withTiles = kind === 'native' && tiles
  return {
    kind,
    description: `native, ${target}, ${8 * vector}-bit vectors${withTiles ? ', AMX tiles' : ''}`,
    workspaceBytes,
    memory(bytes) {
      const buffer = alignedBuffer(64 + bytes)
      addon.enlargePages(new Uint8Array(buffer))
      return { buffer, start: 64 }
    },
    attach({ buffer }) {
      const memory = new Uint8Array(buffer)
      return (list, status) => addon.exec(memory, list, status, withTiles)
    },
    bind: (rank, ranks) => addon.bind(rank, ranks),
    wake: ({ buffer }, offset) => addon.wake(new Uint8Array(buffer), offset),
  }
}

export type WasmFlavour = 'plain' | 'relaxed'

/** Relaxed SIMD has a multiply-add; Node 20 keeps it behind a flag. */
function relaxedAllowed(bytes: Uint8Array): boolean {
  if (WebAssembly.validate(bytes)) return true
  platform.enableRelaxedSimd()
  return WebAssembly.validate(bytes)
}

/** WebAssembly kernels from a file: the faster flavour that this runtime takes, or the one asked for. */
export function loadWasm(flavour?: WasmFlavour, fileOf: (flavour: WasmFlavour) => string | URL = wasmFile): Kernels {
  if (flavour !== 'plain') {
    const bytes = platform.read(fileOf('relaxed'))
    if (relaxedAllowed(bytes)) return wasmKernels(new WebAssembly.Module(bytes), 'WebAssembly, relaxed SIMD')
    if (flavour === 'relaxed') throw new Error('this runtime has no relaxed SIMD')
  }
  return wasmKernels(new WebAssembly.Module(platform.read(fileOf('plain'))), 'WebAssembly, SIMD')
}

/** `auto` takes native kernels where they were built. */
export function loadKernels(kind: Kernels['kind'] | 'auto' = 'auto'): Kernels {
  if (kind === 'wasm') return loadWasm()
  if (!['auto', 'native', 'vectors'].includes(kind)) throw new Error(`there are no ${kind} kernels`)
  const missing = nativeMissing()
  if (!missing) return nativeKernels(kind === 'vectors' ? kind : 'native')
  if (kind !== 'auto') throw new Error(`there are no native kernels: ${missing}`)
  return loadWasm()
}
