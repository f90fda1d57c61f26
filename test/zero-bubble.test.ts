/**
 * Bubble rates beside those of the zero-bubble authors (Qi et al., arXiv 2401.10241; sail-sg/zero-bubble), to 4 digits.
 * A rate is idle time over the span of the rank that takes longest, from its first task to its last.
 *
 * Compared: the paper's table of rates for its table of profiled times (4 models, 12 settings, milliseconds), where
 * ZB-1p equals ZB-H1 in every setting; and, in zero-bubble.json, what their scheduler finds for those of 8 stages and
 * for the examples in its own source, order for order. Not compared: its example with another time for each stage
 * (prices here are of a segment), and 1F1B-I, which is no zero-bubble schedule.
 */
import { deepEqual, equal } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { makeSchedule, type Schedule, type ScheduleName, type TaskCost, timing } from '../src/compile/index.js'
import type { Program } from '../src/ir/index.js'
import { type Simulation, simulate } from '../src/simulate/index.js'
import { layersOn, taskPrices } from './toy-prices.js'

// model, p, m; F, I, W, C; 1F1B, ZB-H1 = ZB-1p, ZB-H2
const published = `
  1.5B   8  24   18.522 18.086  9.337 0.601   0.2431 0.1585 0.1083
  1.5B   8  32   18.513 18.086  9.331 0.626   0.1985 0.1242 0.0837
  1.5B   8  64   18.546 18.097  9.321 0.762   0.1240 0.0674 0.0444
  6.2B   8  24   29.718 29.444 19.927 0.527   0.2347 0.1323 0.0698
  6.2B   8  32   29.802 29.428 19.530 0.577   0.1898 0.1045 0.0559
  6.2B   8  64   29.935 29.621 19.388 0.535   0.1091 0.0554 0.0294
  14.6B 16  48   11.347 11.248  8.132 0.377   0.2552 0.1397 0.0672
  14.6B 16  64   11.307 11.254  8.101 0.379   0.2082 0.1088 0.0516
  14.6B 16 128   11.325 11.308  8.109 0.378   0.1251 0.0576 0.0266
  28.3B 32  96   10.419 10.207  7.715 0.408   0.2646 0.1421 0.0641
  28.3B 32 128   10.408 10.204  7.703 0.408   0.2168 0.1106 0.0490
  28.3B 32 256   10.402 10.248  7.698 0.460   0.1352 0.0594 0.0257`

const rows = published
  .trim()
  .split('\n')
  .map(line => {
    const [model, ...numbers] = line.trim().split(/\s+/)
    const [p, m, F, I, W, C] = numbers.map(Number)
    return { model, p, m, cost: { F, I, W, C }, rates: numbers.slice(6) }
  })

const names = ['1f1b', 'zb-h1', 'zb-h2'] as const satisfies ScheduleName[]

const rateOf = (longest: number, m: number, { F, I, W }: TaskCost) => (1 - (m * (F + I + W)) / longest).toFixed(4)

/** The longest span of a rank, from the start of its first task to the end of its last. */
const longestOf = ({ streams }: Program, simulation: Simulation): number =>
  Math.max(
    ...streams.map((_, rank) => {
      const spans = simulation.spansOf(rank).filter(({ lane }) => lane === 'compute')
      return spans[spans.length - 1].end - spans[0].start
    }),
  )

for (const { model, p, m, cost, rates } of rows)
  test(`${model}, ${p} stages, ${m} microbatches: 1F1B ${rates[0]}, ZB-H1 ${rates[1]}, ZB-H2 ${rates[2]} on paper`, () => {
    const ours = names.map(name => {
      const { slots } = timing(makeSchedule(name, { ranks: p, chunks: 1, microbatches: m }), cost)
      return rateOf(Math.max(...slots.map(row => row[row.length - 1].end - row[0].start)), m, cost)
    })
    deepEqual(ours, rates)
  })

const programs = new Map<string, Program>()
const programOf = (pp: number, microbatches: number, schedule: ScheduleName): Program => {
  const key = `${schedule} ${pp} ${microbatches}`
  const program = programs.get(key) ?? layersOn({ pp, microbatches, schedule })
  programs.set(key, program)
  return program
}

for (const { model, p, m, cost, rates } of rows.filter(({ p, m }) => p * m <= 1024))
  test(`${model}, ${p} stages, ${m} microbatches: the same of the compiled program, simulated`, () => {
    const ours = names.map(name => {
      const program = programOf(p, m, name)
      return rateOf(longestOf(program, simulate(program, taskPrices(cost))), m, cost)
    })
    deepEqual(ours, rates)
  })

interface Theirs extends TaskCost {
  readonly source: string
  readonly p: number
  readonly m: number
  /** Microbatches whose activations a stage may hold. */
  readonly limit: number
  /** What their scheduler prints as the time of the longest stage. */
  readonly longest: number
  /** Of each stage; the n-th F is of microbatch n. */
  readonly order: readonly string[]
}

const scheduleOf = ({ p, m, order }: Theirs): Schedule => ({
  stages: p,
  microbatches: m,
  rows: order.map((letters, stage) => {
    const next = { F: 0, I: 0, W: 0 }
    return [...letters].map(letter => {
      const kind = letter as keyof typeof next // the file has these letters only
      return { kind, stage, microbatch: next[kind]++ }
    })
  }),
})

for (const theirs of JSON.parse(readFileSync('test/zero-bubble.json', 'utf8')) as Theirs[]) {
  const { source, p, m, limit, longest } = theirs
  const { F, I, W, C } = theirs
  const rate = rateOf(longest, m, theirs)
  test(`${source}: F ${F} I ${I} W ${W} C ${C}, ${p} stages, ${m} microbatches, ${limit} held: rate ${rate}`, () => {
    const program = layersOn({ pp: p, microbatches: m, schedule: 'zb-h1' }, scheduleOf(theirs))
    equal(rateOf(longestOf(program, simulate(program, taskPrices(theirs))), m, theirs), rate)
  })
}
