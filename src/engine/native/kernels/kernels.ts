/**
 * The fast kernels: C, compiled for this CPU where there is a compiler (`scripts/build-kernels.mjs`), and WebAssembly
 * everywhere else. Both execute the command lists of commands.ts. Every worker thread loads its own, and attaches to
 * the one memory it was sent.
 */
import { described } from '../../../base/index.js'
import { type Addon, platform } from '../../../platform/index.js'
import { contract } from '../lower/commands.js'
import { type Probed, probed } from './probe.js'
import type { Kernels } from './target.js'
import { columnsOf, type Tuning, tuningFor, wordsOf } from './tuning.js'
import { wasmKernels } from './wasm.js'
import { WebAssembly } from './webassembly.js'

export type { Attempt, Probed } from './probe.js'
export * from './target.js'
export { type Tuning, tuningFor, type Variant } from './tuning.js'

const wasmFile = (flavour: WasmFlavour) =>
  new URL(`../../../../../kernels/lockstep${flavour === 'relaxed' ? '-relaxed' : ''}.wasm`, import.meta.url)

/** Fetches what `loadKernels` needs (in a page). Does nothing where files can be read. */
export const prepareKernels = (): Promise<void> => platform.fetch((['plain', 'relaxed'] as const).map(wasmFile))

/** Why there are no native kernels here, or undefined if there are. */
export function nativeMissing(load: () => Pick<Addon, 'info'> = platform.loadNative): string | undefined {
  const missing = platform.nativeMissing()
  if (missing !== undefined || load().info().contract === contract) return missing
  return 'they were built for another version of this program; npm run setup builds them again'
}

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

/** The native kernels (Node-API addon); throws if they are not built. */
export function nativeKernels(kind: 'native' | 'vectors', addon: Addon = platform.loadNative()): Kernels {
  const { target, vector, tiles, variants, workspaceBytes } = addon.info()
  const withTiles = kind === 'native' && tiles
  const tunedTo = (tuning: Tuning): Kernels => ({
    kind,
    ...described(withTiles ? '.kernels/tiles' : '.kernels/native', { target, bits: 8 * vector }),
    workspaceBytes,
    variants,
    tuning,
    panelColumns: withTiles ? 0 : columnsOf(tuning, variants),
    tuned: tunedTo,
    memory(bytes) {
      const buffer = alignedBuffer(64 + bytes)
      addon.enlargePages(new Uint8Array(buffer))
      return { buffer, start: 64 }
    },
    attach({ buffer }) {
      const [memory, words] = [new Uint8Array(buffer), wordsOf(tuning, variants, withTiles)]
      return (list, status) => addon.exec(memory, list, status, words)
    },
    bind: (rank, ranks) => addon.bind(rank, ranks),
    wake: ({ buffer }, offset) => addon.wake(new Uint8Array(buffer), offset),
  })
  return tunedTo(tuningFor(kind, variants[0]))
}

/** The WebAssembly build: plain SIMD or relaxed SIMD. */
export type WasmFlavour = 'plain' | 'relaxed'

/** Relaxed SIMD has a multiply-add; Node 20 keeps it behind a flag. */
function relaxedAllowed(bytes: Uint8Array): boolean {
  if (WebAssembly.validate(bytes)) return true
  platform.enableRelaxedSimd()
  return WebAssembly.validate(bytes)
}

/** The faster flavour that this runtime takes, or the one asked for, tuned to nothing yet. */
function wasmOf(asked: WasmFlavour | undefined, fileOf: (flavour: WasmFlavour) => string | URL) {
  if (asked !== 'plain') {
    const bytes = platform.read(fileOf('relaxed'))
    if (relaxedAllowed(bytes)) return { flavour: 'relaxed' as const, bytes }
    if (asked === 'relaxed') throw new Error('this runtime has no relaxed SIMD')
  }
  return { flavour: 'plain' as const, bytes: platform.read(fileOf('plain')) }
}

/** The last word of a hash that every byte goes into: which build a file is. */
const digestOf = (bytes: Uint8Array): string =>
  bytes.reduce((hash, byte) => Math.imul(hash ^ byte, 16777619), bytes.length).toString(16)

/** The tuning of kernels on this machine, and the measurements it rests on. */
export interface Chosen {
  readonly tuning: Tuning
  /** undefined: nothing was measured, because a variant was asked for or there is only one. */
  readonly probed?: Probed
}

/** `build` and the CPU, and for WebAssembly its engine, are what a choice holds for. */
function choose(kernels: Kernels, name: string, build: string): Chosen {
  const { variants } = kernels
  const asked = platform.variants
  const forced = variants.find(({ name }) => asked.includes(name))
  if (asked.length > 0 && !forced)
    throw new Error(`there is no variant ${asked.join(', ')}, but ${variants.map(({ name }) => name).join(', ')}`)
  if (forced || variants.length === 1)
    return { tuning: tuningFor(kernels.kind, forced ?? variants[0], platform.caches()) }
  const machine = `${platform.cpu}; ${kernels.kind === 'wasm' ? platform.runtime : 'native'}; ${build}`
  const found = probed(kernels, name, machine)
  return { tuning: found.chosen, probed: found }
}

/** Matrix tiles would multiply in the place of every variant: they are left out of what is measured. */
const chooseNative = (addon = platform.loadNative()): Chosen =>
  choose(nativeKernels('vectors', addon), 'tuning-native', addon.info().build)

/** The default tuning of kernels for a target. */
export function chosenFor(target: 'native' | WasmFlavour): Chosen {
  if (target === 'native') return chooseNative()
  const { bytes, flavour } = wasmOf(target, wasmFile)
  return choose(wasmKernels(new WebAssembly.Module(bytes), flavour), `tuning-${target}`, digestOf(bytes))
}

/** Loads WebAssembly kernels from a file, with the given tuning or that of this machine. */
export function loadWasm(
  flavour?: WasmFlavour,
  tuning?: Tuning,
  fileOf: (flavour: WasmFlavour) => string | URL = wasmFile,
): Kernels {
  const { bytes, flavour: taken } = wasmOf(flavour, fileOf)
  const kernels = wasmKernels(new WebAssembly.Module(bytes), taken)
  return kernels.tuned(tuning ?? choose(kernels, `tuning-${taken}`, digestOf(bytes)).tuning)
}

/**
 * Loads the kernels. `auto` picks native ones if they are built. Threads of a run share the tuning of its first
 * thread.
 */
export function loadKernels(kind: Kernels['kind'] | 'auto' = 'auto', tuning?: Tuning): Kernels {
  if (kind === 'wasm') return loadWasm(undefined, tuning)
  if (!['auto', 'native', 'vectors'].includes(kind)) throw new Error(`there are no ${kind} kernels`)
  const missing = nativeMissing()
  if (!missing) return nativeKernels(kind === 'vectors' ? kind : 'native').tuned(tuning ?? chooseNative().tuning)
  if (kind !== 'auto') throw new Error(`there are no native kernels: ${missing}`)
  return loadWasm(undefined, tuning)
}
