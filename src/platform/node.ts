/** Node: worker threads, files, native addons. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { parentPort, Worker } from 'node:worker_threads'
import type { Addon, Platform, ThreadEvents, ThreadHandle } from './platform.js'

const addonPath = fileURLToPath(new URL('../../kernels/lockstep.node', import.meta.url))
const recordPath = fileURLToPath(new URL('../../kernels/native.json', import.meta.url))

function nativeMissing(): string | undefined {
  if (existsSync(addonPath)) return undefined
  if (!existsSync(recordPath)) return 'they were not built: run `npm run setup`'
  const { reason } = JSON.parse(readFileSync(recordPath, 'utf8')) as { reason?: string } // written by build-kernels.mjs
  return reason ?? 'the build is gone: run `npm run setup`'
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
  loadNative: () => createRequire(import.meta.url)(addonPath) as Addon,
  enableRelaxedSimd: () => setFlagsFromString('--experimental-wasm-relaxed-simd'),
  later: (ms, call) => void setTimeout(call, ms).unref(),
}
