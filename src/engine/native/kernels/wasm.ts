/**
 * The kernels as WebAssembly, for machines without a C compiler and for browsers: nothing here needs Node.
 * All ranks share one memory. Its first bytes hold the module's constants, and every rank that attaches grows the memory
 * by a stack of its own: instances of one module would otherwise all push onto the same one.
 */
import type { Kernels, SharedMemory } from './kernels.js'
import { type Global, type Memory, type Module, WebAssembly } from './webassembly.js'

interface Exports {
  readonly exec: (base: number, list: number, status: number) => number
  readonly workspace_bytes: () => number
  readonly __stack_pointer: Global
  readonly __heap_base: Global
}

const page = 65536
const stackPages = 2
const mostRanks = 1024

/** Rounded up to a page, so that what the runtime lays out does not depend on the build. */
const start = 2 * page

/** One clock for all threads: each counts `now` from its own start. */
const now = () => (performance.timeOrigin + performance.now()) / 1000

function instantiate(module: Module, memory: Memory): Exports {
  const instance = new WebAssembly.Instance(module, { env: { memory, now } })
  return instance.exports as Exports // what kernels/wasm.c exports
}

function wasmMemory(bytes: number): SharedMemory {
  const initial = Math.ceil((start + bytes) / page)
  const maximum = Math.min(65536, initial + mostRanks * stackPages)
  if (initial + stackPages > 65536)
    throw new Error(`WebAssembly has 4 GiB of memory, and this run needs ${((start + bytes) / 2 ** 30).toFixed(2)} GiB`)
  const memory = new WebAssembly.Memory({ initial, maximum, shared: true })
  return { buffer: memory.buffer, start, memory }
}

function attach(module: Module, { memory }: SharedMemory) {
  if (!memory) throw new Error('internal: this memory was not made for WebAssembly kernels')
  const exports = instantiate(module, memory)
  if (exports.__heap_base.value > start) throw new Error('internal: the constants of the kernels overlap the ranks')
  const stack = memory.grow(stackPages)
  exports.__stack_pointer.value = (stack + stackPages) * page
  return (list: number, status: number) => exports.exec(0, list, status)
}

/** Kernels from a compiled module; `description` names what it was compiled for. */
export function wasmKernels(module: Module, description: string): Kernels {
  const probe = instantiate(module, new WebAssembly.Memory({ initial: 4, maximum: 65536, shared: true }))
  return {
    kind: 'wasm',
    description,
    workspaceBytes: probe.workspace_bytes(),
    memory: wasmMemory,
    attach: memory => attach(module, memory),
    bind: () => {},
    wake: ({ buffer }, offset) => void Atomics.notify(new Int32Array(buffer), offset / 4),
  }
}
