/** Node: worker threads, files, native addons. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { getEnvironmentData, parentPort, setEnvironmentData, Worker } from 'node:worker_threads'
import type { Addon, Platform, ThreadEvents, ThreadHandle } from './platform.js'

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** Where the native kernels are, or why there are none. */
interface Found {
  readonly path?: string
  readonly reason?: string
}

const shared = 'lockstep native kernels'

/**
 * A checkout has built its kernels beside itself, or has said why not. An installed package builds them where it is first
 * used, into the user's cache: the script finds or makes them, and threads are told what the first one found.
 */
function findNative(): Found {
  const [built, record] = [at('../../kernels/lockstep.node'), at('../../kernels/native.json')]
  if (existsSync(built)) return { path: built }
  if (existsSync(record)) return JSON.parse(readFileSync(record, 'utf8')) as Found // written by build-kernels.mjs
  const known = getEnvironmentData(shared) as unknown as Found | undefined // set below
  const found = known ?? buildNative()
  setEnvironmentData(shared, { ...found })
  return found
}

function buildNative(): Found {
  try {
    const script = at('../../../scripts/build-kernels.mjs')
    const said = execFileSync(process.execPath, [script, '--cached'], { stdio: ['ignore', 'pipe', 'inherit'] })
    return JSON.parse(said.toString()) as Found // printed by the script
  } catch (error) {
    return { reason: `they could not be built: ${(error as Error).message}` }
  }
}

function nativeMissing(): string | undefined {
  const { path, reason } = findNative()
  return path === undefined ? (reason ?? 'the build is gone: run `npm run setup`') : undefined
}

function spawn<To, From>(module: URL, { message, death }: ThreadEvents<From>): ThreadHandle<To> {
  const worker = new Worker(module, { stderr: false })
  worker.on('message', message)
  worker.on('error', error => death((error as Error).message))
  worker.on('exit', code => death(`its thread ended with code ${code}`))
  return {
    post: given => worker.postMessage(given),
    keepAlive: alive => (alive ? worker.ref() : worker.unref()),
    async end() {
      await worker.terminate()
    },
  }
}

export const nodePlatform: Platform = {
  cores: availableParallelism(),
  // 0: nobody set a limit.
  memoryBytes: Math.min(totalmem(), process.constrainedMemory() || Infinity),
  spawn,
  listen<To, From>(hear: (message: To) => void) {
    const port = parentPort
    if (!port) throw new Error('internal: this file is a worker')
    port.on('message', (message: To) => hear(message))
    return (message: From) => port.postMessage(message)
  },
  cpuSeconds() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  },
  fetch: async () => {},
  read: file => readFileSync(file),
  write: (path, text) => writeFileSync(path, text),
  nativeMissing,
  loadNative: () => createRequire(import.meta.url)(findNative().path ?? '') as Addon,
  enableRelaxedSimd: () => setFlagsFromString('--experimental-wasm-relaxed-simd'),
  later: (ms, call) => void setTimeout(call, ms).unref(),
}
