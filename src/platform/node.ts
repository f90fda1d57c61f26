/** Node: worker threads, files, native addons. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { getEnvironmentData, parentPort, setEnvironmentData, Worker } from 'node:worker_threads'
import { builtKernels, type Found, userCache } from './node-cache.js'
import { nodeDisk } from './node-disk.js'
import { answer, enclose } from './node-enclosure.js'
import type { Addon, Caches, Platform, ThreadEvents, ThreadHandle } from './platform.js'

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

const shared = 'lockstep native kernels'

/**
 * A checkout has built its kernels beside itself, or has said why not. An installed package builds them where it is first
 * used, into the user's cache: the script finds or makes them, and threads are told what the first one found.
 */
function findNative(): Found {
  const known = getEnvironmentData(shared) as unknown as Found | undefined // set below
  if (known) return known
  const built = builtKernels(at('../../kernels'))
  const found = built ?? buildNative()
  if (found.damaged) process.stderr.write(`lockstep: warning: ${found.reason}; WebAssembly runs instead\n`)
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

/** A checkout remembers beside its build, an installed package in the user's cache. */
function memoryOf(name: string): string | undefined {
  const beside = at('../../kernels')
  const folder = existsSync(beside) ? beside : userCache()
  return folder && join(folder, `${name}.json`)
}

function recall(name: string): string | undefined {
  try {
    const path = memoryOf(name)
    return path && readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

/** At once: others may be reading it. A folder that cannot be written to only means that nothing is remembered. */
function remember(name: string, text: string): void {
  const path = memoryOf(name)
  if (path === undefined) return
  const scratch = `${path}.${process.pid}`
  try {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(scratch, text)
    renameSync(scratch, path)
  } catch {}
}

/** As Linux lists them, or macOS, whose quick cores come first. */
function caches(): Caches | undefined {
  const sizes = process.platform === 'darwin' ? darwinCaches() : linuxCaches()
  const [first, second, third] = [1, 2, 3].map(level => sizes.get(level))
  return first && second ? { first, second, last: third ?? second } : undefined
}

function linuxCaches(): Map<number, number> {
  const folder = '/sys/devices/system/cpu/cpu0/cache'
  const read = (index: string, file: string) => readFileSync(join(folder, index, file), 'utf8').trim()
  try {
    const data = readdirSync(folder).filter(name => /^index/.test(name) && read(name, 'type') !== 'Instruction')
    return new Map(data.map(name => [Number(read(name, 'level')), 1024 * Number.parseInt(read(name, 'size'), 10)]))
  } catch {
    return new Map()
  }
}

function darwinCaches(): Map<number, number> {
  try {
    const names = ['hw.perflevel0.l1dcachesize', 'hw.perflevel0.l2cachesize']
    const said = execFileSync('sysctl', ['-n', ...names], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()
    return new Map(said.split('\n').flatMap((line, i) => (Number(line) > 0 ? [[i + 1, Number(line)] as const] : [])))
  } catch {
    return new Map()
  }
}

function spawn<To, From>(module: URL, { message, death }: ThreadEvents<From>): ThreadHandle<To> {
  const worker = new Worker(module, { stderr: false })
  worker.on('message', message)
  worker.on('error', error => death((error as Error).message))
  worker.on('exit', code => death({ phrase: '.thread/code', values: { code } }))
  return {
    post: given => worker.postMessage(given),
    keepAlive: alive => (alive ? worker.ref() : worker.unref()),
    async end() {
      await worker.terminate()
    },
    leaveBehind() {
      worker.unref()
      // Node waits for its threads before it ends, however long that takes.
      process.once('exit', code => nodePlatform.loadNative().leave(code))
    },
  }
}

export const nodePlatform: Platform = {
  cores: availableParallelism(),
  cpu: `${cpus()[0]?.model ?? ''}, ${process.arch}`,
  runtime: `Node ${process.version}`,
  caches,
  variants: (process.env.LOCKSTEP_VARIANT ?? '').split(',').filter(name => name !== ''),
  recall,
  remember,
  // 0: nobody set a limit.
  memoryBytes: Math.min(totalmem(), process.constrainedMemory() || Infinity),
  spawn,
  listen<To, From>(hear: (message: To) => void) {
    const port = parentPort
    if (!port) throw new Error('internal: this file is a worker')
    port.on('message', (message: To) => hear(message))
    return (message: From) => port.postMessage(message)
  },
  enclose,
  answer,
  die: () => process.exit(1),
  cpuSeconds() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  },
  fetch: async () => {},
  read: file => readFileSync(file),
  write: (path, text) => writeFileSync(path, text),
  disk: nodeDisk,
  nativeMissing,
  loadNative: () => createRequire(import.meta.url)(findNative().path ?? '') as Addon,
  enableRelaxedSimd: () => setFlagsFromString('--experimental-wasm-relaxed-simd'),
  pause: () => new Promise(resolve => setImmediate(resolve)),
  later: (ms, call) => void setTimeout(call, ms).unref(),
}
