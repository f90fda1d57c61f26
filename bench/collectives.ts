/**
 * Collectives over 2 and 4 ranks of one machine, against Open MPI and gloo, 16 KB to 64 MB. Operands are rewritten
 * before every run: a collective whose operands lie in its own cache since the last run would look twice as fast as it
 * is in training. The time of a run is that of its slowest rank. What memory allows is measured too: the same ranks
 * copying as many bytes at the same time, without synchronising.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { showBytes } from '../src/base/index.js'
import { createGroup } from '../src/engine/native/index.js'
import type { Child } from './child.js'
import type { Options, Say } from './main.js'
import { digest, wholeNumber } from './numbers.js'
import { mpi, torch, unlessMissing } from './peers.js'
import { type Contender, type Result, run } from './race.js'
import { showResults, type Versus } from './report.js'
import { heapBytes, type Operation, operations, type Request } from './requests.js'

const sizes = [16, 64, 256, 1024, 4096, 16384, 65536].map(kibibytes => kibibytes * 1024)
const worlds = [2, 4]

/** Runs in one request: about as long for every size. */
const runsOf = (bytes: number): number => Math.max(5, Math.min(50, Math.round(3e7 / bytes)))

/** Our ranks, as threads that wait for requests. */
class Ranks {
  readonly #workers: readonly Worker[]
  private constructor(workers: readonly Worker[]) {
    this.#workers = workers
  }

  static async start(count: number): Promise<Ranks> {
    const { token } = await createGroup(count, { bytes: heapBytes(sizes.at(-1)!), threads: false })
    const file = new URL('./rank.js', import.meta.url)
    const ranks = new Ranks(
      Array.from({ length: count }, (_, rank) => new Worker(file, { workerData: { token, rank } })),
    )
    await ranks.#replies()
    return ranks
  }

  /** Of every rank, its numbers. */
  ask(request: Request): Promise<number[][]> {
    const replies = this.#replies()
    for (const worker of this.#workers) worker.postMessage(request)
    return replies
  }

  async stop(): Promise<void> {
    await Promise.all(this.#workers.map(worker => worker.terminate()))
  }

  #replies(): Promise<number[][]> {
    return Promise.all(
      this.#workers.map(
        worker =>
          new Promise<number[]>((resolve, reject) => {
            worker.once('message', numbers => {
              worker.off('error', reject)
              resolve(numbers)
            })
            worker.once('error', reject)
          }),
      ),
    )
  }
}

function ours(name: string, ranks: Ranks, operation: Operation, bytes: number): Contender {
  return {
    name,
    answer: async () => (await ranks.ask({ operation, bytes, runs: 0 })).flat(),
    time: async () => {
      const times = await ranks.ask({ operation, bytes, runs: runsOf(bytes) })
      return Math.min(...times[0].map((_, i) => Math.max(...times.map(own => own[i]))))
    },
  }
}

const theirs = (name: string, child: Child, operation: Operation, bytes: number): Contender => ({
  name,
  answer: () => child.askNumbers('answer', operation, bytes),
  time: async () => (await child.askNumbers('time', operation, bytes, runsOf(bytes)))[0],
})

/** As many bytes read and written as an all-reduce must, by ranks that never meet. Its answer is right if it has copied. */
function limit(ranks: Ranks, bytes: number, expected: readonly number[]): Contender {
  const copy = ours('copy', ranks, 'copy', bytes)
  const wanted = expectedOf('copy', bytes, expected.length)
  return {
    ...copy,
    answer: async () => {
      const found = Array.from(await copy.answer())
      return found.every((value, i) => value === wanted[i]) ? expected : found
    },
  }
}

/** Digests of all ranks' results, from the definition. */
function expectedOf(operation: Operation, bytes: number, world: number): number[] {
  const [whole, part] = [bytes / 4, bytes / 4 / world]
  const ranks = Array.from({ length: world }, (_, rank) => rank)
  const sum = (i: number) => ranks.reduce((total, rank) => total + wholeNumber(i, rank), 0)
  const results: Record<Operation, (rank: number) => [number, (i: number) => number]> = {
    'all-reduce': () => [whole, sum],
    'all-gather': () => [whole, i => wholeNumber(i % part, Math.floor(i / part))],
    'reduce-scatter': rank => [part, i => sum(rank * part + i)],
    'all-to-all': rank => [whole, i => wholeNumber(rank * part + (i % part), Math.floor(i / part))],
    'send-recv': rank => [whole, i => wholeNumber(i, (rank + world - 1) % world)],
    copy: rank => [whole, i => wholeNumber(i, rank)],
  }
  return ranks.map(rank => {
    const [length, value] = results[operation](rank)
    return digest(Float32Array.from({ length }, (_, i) => value(i)))
  })
}

const titleOf = (operation: Operation, world: number, bytes: number): string =>
  `${operation}, ${world} ranks, ${showBytes(bytes)}`

interface Field {
  readonly world: number
  readonly ranks: Ranks
  readonly peers: readonly { readonly name: string; readonly child: Child }[]
}

async function race(
  { world, ranks, peers }: Field,
  operation: Operation,
  bytes: number,
  rounds: number,
): Promise<Result> {
  const contenders = [
    ours('ours', ranks, operation, bytes),
    ...peers.map(({ name, child }) => theirs(name, child, operation, bytes)),
  ]
  const expected = expectedOf(operation, bytes, world)
  if (operation === 'all-reduce') contenders.push(limit(ranks, bytes, expected))
  return run({ title: titleOf(operation, world, bytes), expected, tolerance: 0, contenders }, { rounds })
}

async function compete(world: number, { rounds = 7, only = '' }: Options, say: Say): Promise<Result[]> {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-bench-'))
  const peers: { name: string; child: Child }[] = []
  const ranks = await Ranks.start(world)
  try {
    const starts = {
      'Open MPI': () => mpi(world),
      gloo: () => torch('gloo', 'gloo.py', world, join(folder, 'rendezvous')),
    }
    for (const [name, start] of Object.entries(starts)) {
      const child = await unlessMissing(async () => start(), say)
      if (child) peers.push({ name, child })
    }
    const results: Result[] = []
    for (const operation of operations)
      for (const bytes of sizes.filter(bytes => titleOf(operation, world, bytes).includes(only))) {
        results.push(await race({ world, ranks, peers }, operation, bytes, rounds))
        say(`${results.at(-1)!.title} done`)
      }
    return results
  } finally {
    await Promise.all([ranks.stop(), ...peers.map(({ child }) => child.stop())])
    rmSync(folder, { recursive: true })
  }
}

export async function collectives(say: Say, options: Options = {}): Promise<Result[]> {
  const results: Result[] = []
  for (const world of worlds) results.push(...(await compete(world, options, say)))
  return results
}

const versus: readonly Versus[] = [
  { name: 'ours', peer: 'Open MPI' },
  { name: 'ours', peer: 'gloo' },
  { name: 'ours', peer: 'copy' },
]

export const showCollectives = (results: readonly Result[]): string => showResults(results, versus)
