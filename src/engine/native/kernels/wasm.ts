/**
 * The kernels as WebAssembly, for machines without a C compiler and for browsers: nothing here needs Node, but for what goes to files.
 * All ranks share one memory. Its first bytes hold the module's constants, and every rank that attaches grows the memory
 * by a stack of its own: instances of one module would otherwise all push onto the same one.
 */

import { described, failureClause, SpokenError } from '../../../base/index.js'
import { platform } from '../../../platform/index.js'
import type { WasmFlavour } from './kernels.js'
import type { Kernels, SharedMemory } from './target.js'
import { columnsOf, type Tuning, tuningFor, type Variant, wordsOf } from './tuning.js'
import { type Global, type Memory, type Module, WebAssembly } from './webassembly.js'

interface Exports {
  readonly exec: (base: number, list: number, status: number, tuning: number) => number
  readonly variant_name: (index: number) => number
  readonly variant_rows: (index: number) => number
  readonly variant_columns: (index: number) => number
  readonly workspace_bytes: () => number
  readonly __stack_pointer: Global
  readonly __heap_base: Global
}

const page = 65536
const stackPages = 2
const mostRanks = 1024
const tuningBytes = 256

/** Rounded up to a page, so that what the runtime lays out does not depend on the build. */
const start = 2 * page

/** One clock for all threads: each counts `now` from its own start. */
const now = () => (performance.timeOrigin + performance.now()) / 1000

/** Bytes of the memory to a file, or from one: only programs with files ask for it. */
const transferIn = (memory: Memory) => (file: number, writes: number, at: number, bytes: number, position: number) =>
  platform.disk?.transfer(file, writes !== 0, new Uint8Array(memory.buffer, at, bytes), position) ?? -1

function instantiate(module: Module, memory: Memory): Exports {
  const instance = new WebAssembly.Instance(module, { env: { memory, now, transfer: transferIn(memory) } })
  return instance.exports as Exports // what kernels/wasm.c exports
}

function wasmMemory(bytes: number): SharedMemory {
  const initial = Math.ceil((start + bytes) / page)
  const maximum = Math.min(65536, initial + mostRanks * stackPages)
  if (initial + stackPages > 65536)
    throw new SpokenError(failureClause('.wasm-memory', { size: ((start + bytes) / 2 ** 30).toFixed(2) }))
  const memory = new WebAssembly.Memory({ initial, maximum, shared: true })
  return { buffer: memory.buffer, start, memory }
}

/** The words of a tuning lie above the stack. */
function attach(module: Module, { memory }: SharedMemory, tuning: Int32Array) {
  if (!memory) throw new Error('internal: this memory was not made for WebAssembly kernels')
  const exports = instantiate(module, memory)
  if (exports.__heap_base.value > start) throw new Error('internal: the constants of the kernels overlap the ranks')
  const stack = memory.grow(stackPages)
  const top = (stack + stackPages) * page - tuningBytes
  new Int32Array(memory.buffer, top).set(tuning)
  exports.__stack_pointer.value = top
  return (list: number, status: number) => exports.exec(0, list, status, top)
}

/** A text of C. */
function textAt(memory: Memory, offset: number): string {
  const bytes = new Uint8Array(memory.buffer, offset)
  return String.fromCharCode(...bytes.subarray(0, bytes.indexOf(0)))
}

function variantsOf({ variant_name, variant_rows, variant_columns }: Exports, memory: Memory): Variant[] {
  const variants: Variant[] = []
  for (let i = 0; variant_name(i) !== 0; i++)
    variants.push({ name: textAt(memory, variant_name(i)), rows: variant_rows(i), columns: variant_columns(i) })
  return variants
}

/** WebAssembly kernels from a compiled module. */
export function wasmKernels(module: Module, flavour: WasmFlavour, tuning?: Tuning): Kernels {
  const memory = new WebAssembly.Memory({ initial: 4, maximum: 65536, shared: true })
  const look = instantiate(module, memory)
  const variants = variantsOf(look, memory)
  const workspaceBytes = look.workspace_bytes()
  const tunedTo = (tuning: Tuning): Kernels => ({
    kind: 'wasm',
    ...described(`.kernels/${flavour}`),
    workspaceBytes,
    variants,
    tuning,
    panelColumns: columnsOf(tuning, variants),
    tuned: tunedTo,
    memory: wasmMemory,
    attach: memory => attach(module, memory, wordsOf(tuning, variants, false)),
    bind: () => {},
    wake: ({ buffer }, offset) => void Atomics.notify(new Int32Array(buffer), offset / 4),
  })
  return tunedTo(tuning ?? tuningFor('wasm', variants[0]))
}
