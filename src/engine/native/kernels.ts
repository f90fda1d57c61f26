/** The two builds of the kernels behind one interface: the addon of this machine, and WebAssembly for all others. */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { bufferOf, type SharedMemory } from './protocol.js'

export type KernelName = 'native' | 'wasm'

/** How a thread finds its kernels. */
export type KernelSource = { readonly name: 'native'; readonly path: string }

export interface Kernels {
  /** Runs the list at a byte offset of the memory; 0, or an error code. */
  exec(list: number, status: number): number
}

interface Addon {
  exec(memory: Uint8Array, list: number, status: number): number
  info(): { target: string; workspaceBytes: number }
}

const addonPath = fileURLToPath(new URL('../../../../build/lockstep.node', import.meta.url))

const loadAddon = (path: string): Addon => createRequire(import.meta.url)(path) as Addon // what kernels/addon.c exports

export async function openKernels(source: KernelSource, memory: SharedMemory, _rank: number): Promise<Kernels> {
  const addon = loadAddon(source.path)
  const bytes = new Uint8Array(bufferOf(memory))
  return { exec: (list, status) => addon.exec(bytes, list, status) }
}

export interface KernelChoice {
  readonly source: KernelSource
  /** In words: what it was built for. */
  readonly target: string
  readonly workspaceBytes: number
  readonly reserved: number
  allocate(bytes: number): SharedMemory
}

export function chooseKernels(_name: KernelName | 'auto'): KernelChoice {
  if (!existsSync(addonPath)) throw new Error('the native kernels are not built')
  const { target, workspaceBytes } = loadAddon(addonPath).info()
  return {
    source: { name: 'native', path: addonPath },
    target,
    workspaceBytes,
    reserved: 0,
    allocate: bytes => new SharedArrayBuffer(bytes),
  }
}
