/** Python programs that need torch, started as copies of one process that has loaded it (forked.py). */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Finished } from './emitted.js'
import { oneThread } from './python.js'

export interface Copy {
  kill(signal: NodeJS.Signals): void
  /** Once it has printed something, or has ended. */
  printed(): Promise<void>
  /** The code is negative where a signal ended it. */
  readonly done: Promise<Finished>
}

interface Report {
  readonly into: string
  readonly pid?: number
  readonly code?: number
}

const script = fileURLToPath(new URL('../../test/forked.py', import.meta.url))
/** What emitted folders have of it, they have word for word. */
const runtime = fileURLToPath(new URL('../../src/emit/runtime', import.meta.url))
const lookMs = 20

const freePort = (): Promise<number> =>
  new Promise(resolve => {
    const server = createServer().listen(0, () => {
      const { port } = server.address() as AddressInfo // it listens on a port
      server.close(() => resolve(port))
    })
  })

export class Forking {
  readonly #folder = mkdtempSync(join(tmpdir(), 'lockstep-forked-'))
  readonly #reports = new Map<string, (report: Report) => void>()
  readonly #server
  readonly #closed: Promise<unknown>

  constructor(python: string) {
    const env = { ...oneThread, TORCH_CPP_LOG_LEVEL: 'ERROR' }
    this.#server = spawn(python, [script, runtime], { env, stdio: ['pipe', 'pipe', 'inherit'] })
    this.#closed = new Promise(resolve => this.#server.once('close', resolve))
    createInterface({ input: this.#server.stdout }).on('line', line => {
      const report: Report = JSON.parse(line)
      this.#reports.get(report.into)?.(report)
    })
  }

  /** What `python ...args` starts, once it has started. */
  async start(args: readonly string[], { cwd = process.cwd(), env = {} as object } = {}): Promise<Copy> {
    const into = join(this.#folder, String(this.#reports.size))
    mkdirSync(into)
    for (const name of ['out', 'err']) writeFileSync(join(into, name), '')
    const read = (name: string) => readFileSync(join(into, name), 'utf8')
    let ended = false
    let done!: Promise<Finished>
    const pid = await new Promise<number>((started, failed) => {
      done = new Promise(finished =>
        this.#reports.set(into, report => {
          if (report.pid !== undefined) started(report.pid)
          if (report.code === undefined) return
          ended = true
          finished({ code: report.code, out: read('out'), err: read('err') })
        }),
      )
      this.#closed.then(() => failed(new Error('the Python that is copied has ended')))
      this.#server.stdin.write(`${JSON.stringify({ args, cwd, env, into })}\n`)
    })
    return {
      kill: signal => void process.kill(pid, signal),
      async printed() {
        while (!ended && statSync(join(into, 'out')).size === 0) await setTimeout(lookMs)
      },
      done,
    }
  }

  /** The ranks of an emitted program as torchrun would start them, on a port that is free. */
  async ranks(
    world: number,
    args: readonly string[],
    cwd: string,
    which: readonly number[] = [...Array(world).keys()],
  ): Promise<Copy[]> {
    const size = { WORLD_SIZE: String(world), LOCAL_WORLD_SIZE: String(world) }
    const env = { ...size, MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(await freePort()) }
    return Promise.all(which.map(rank => this.start(args, { cwd, env: { ...env, RANK: String(rank) } })))
  }

  /** Ends whatever still runs. */
  async close(): Promise<void> {
    this.#server.stdin.end()
    await this.#closed
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
