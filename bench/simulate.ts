/**
 * How long the simulator takes: nothing else simulates a compiled program rank for rank, so it races against nobody.
 * A run counts if the parts of the step add up to the step. Memory is of the whole process, the compiler included.
 */
import { choices, worldOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { partNames } from '../src/metrics/index.js'
import { presets } from '../src/model/index.js'
import { Job } from '../src/plan/index.js'
import { clusterPrices, type Simulation, simulate } from '../src/simulate/index.js'
import type { Options, Say } from './main.js'
import { type Result, run } from './race.js'
import { showSeconds } from './report.js'

interface Case {
  readonly title: string
  readonly dp: number
  /** Ranks that are slow, each by another factor. */
  readonly slow: number
  readonly use: (simulation: Simulation, ranks: number) => void
}

const [tp, pp] = [8, 16]

/** The spans of a rank for every role; those of the other ranks are the same. */
const everyTimeline = ({ spansOf }: Simulation, ranks: number): void => {
  for (let rank = 0; rank < ranks; rank += ranks / pp) spansOf(rank)
}

/** The same as columns. */
const everyColumn = ({ roles, columnsOf }: Simulation): void => {
  for (const { rank } of roles) columnsOf(rank)
}

const cases: readonly Case[] = [
  { title: '405B on 16,384 ranks, timelines of all', dp: 128, slow: 0, use: everyTimeline },
  { title: '405B on 16,384 ranks, columns of all', dp: 128, slow: 0, use: everyColumn },
  { title: '405B on 100,096 ranks, 1,000 slow', dp: 782, slow: 1000, use: () => {} },
]

const programOf = (dp: number) =>
  compileJob(
    Job.parse({
      model: presets['llama3-405b'],
      training: { seq: 8192, globalBatch: 16 * dp, clip: 1 },
      plan: {
        ...{ tp, pp, dp, zero: 1, sequenceParallel: true, microbatches: 16, schedule: 'interleaved' },
        ...{ recompute: 'selective', layers: { first: 3, last: 3 } },
      },
    }),
  )

export async function simulation(say: Say, { rounds = 5, only = '' }: Options): Promise<Result[]> {
  const results: Result[] = []
  for (const each of cases.filter(({ title }) => title.includes(only))) {
    say(`${each.title} ...`)
    results.push(await timed(each, rounds))
  }
  return results
}

async function timed({ title, dp, slow: count, use }: Case, rounds: number): Promise<Result> {
  const program = programOf(dp)
  const ranks = worldOf(program.mesh)
  const prices = clusterPrices(program, clusterOf('h100', ranks))
  const { int } = choices(1)
  const slow = new Map(Array.from({ length: count }, (_, i) => [int(ranks), 1 + (0.3 * (i + 1)) / count]))
  let roles = 0
  const contender = {
    name: 'simulate',
    answer: async () => {
      const { parts, step, roles: found } = simulate(program, prices, { slow })
      roles = found.length
      return [partNames.reduce((sum, name) => sum + parts[name], 0) / step]
    },
    time: async () => {
      const started = performance.now()
      use(simulate(program, prices, { slow }), ranks)
      return (performance.now() - started) / 1000
    },
  }
  const result = await run({ title, expected: [1], tolerance: 1e-9, contenders: [contender] }, { rounds })
  return { ...result, notes: [`${roles} roles`, `${Math.round(process.memoryUsage().rss / 1e6)} MB`] }
}

export const showSimulation = (results: readonly Result[]): string =>
  results
    .map(({ title, entries: [entry], notes = [] }) =>
      'wrong' in entry
        ? `${title}: wrong: ${entry.wrong}`
        : `${title}: best ${showSeconds(entry.best)}, median ${showSeconds(entry.median)}; ${notes.join(', ')}`,
    )
    .join('\n')
