/**
 * Bubble rates beside those of the zero-bubble authors (Qi et al., arXiv 2401.10241), to 4 digits.
 * A rate is idle time over the span of the rank that takes longest, from its first task to its last.
 *
 * Where the numbers come from. The paper's tables of profiled times and of rates (4 models, 12 settings, milliseconds)
 * were written down from memory; that they are right is confirmed by what comes out: the 36 rates of 1F1B, ZB-H1 and
 * ZB-H2 equal ours to 4 digits, and so do the 24 of ZB-1p (which is ZB-H1's column again) and ZB-2p for the authors'
 * heuristic, typed again from its public source and run on these times. The orders in zero-bubble.json are of that
 * re-typed heuristic, for 8 stages and for the examples in its source; they are not output of the original program.
 *
 * Compared: our fixed schedules, equal; the orders in zero-bubble.json, compiled and simulated, equal; and what our own
 * search finds (zb-auto), which must equal ZB-1p and be at most ZB-2p: it is the same in two settings and better in ten.
 * Not compared: the example with another time for each stage, and 1F1B-I, which is no zero-bubble schedule.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { Program } from '../src/ir/index.js'
import {
  autoSchedule,
  makeSchedule,
  type Schedule,
  type ScheduleName,
  type TaskCost,
  timing,
} from '../src/schedule/index.js'
import { type Simulation, simulate } from '../src/simulate/index.js'
import { family } from './families.js'
import { layersOn, taskPrices } from './toy-prices.js'

// model, p, m; F, I, W, C; 1F1B, ZB-H1 = ZB-1p, ZB-H2, ZB-2p; ours in place of ZB-2p
const published = `
  1.5B   8  24   18.522 18.086  9.337 0.601   0.2431 0.1585 0.1083 0.0433   0.0433
  1.5B   8  32   18.513 18.086  9.331 0.626   0.1985 0.1242 0.0837 0.0039   0.0034
  1.5B   8  64   18.546 18.097  9.321 0.762   0.1240 0.0674 0.0444 0.0026   0.0018
  6.2B   8  24   29.718 29.444 19.927 0.527   0.2347 0.1323 0.0698 0.0029   0.0012
  6.2B   8  32   29.802 29.428 19.530 0.577   0.1898 0.1045 0.0559 0.0022   0.0019
  6.2B   8  64   29.935 29.621 19.388 0.535   0.1091 0.0554 0.0294 0.0010   0.0006
  14.6B 16  48   11.347 11.248  8.132 0.377   0.2552 0.1397 0.0672 0.0066   0.0035
  14.6B 16  64   11.307 11.254  8.101 0.379   0.2082 0.1088 0.0516 0.0054   0.0029
  14.6B 16 128   11.325 11.308  8.109 0.378   0.1251 0.0576 0.0266 0.0028   0.0015
  28.3B 32  96   10.419 10.207  7.715 0.408   0.2646 0.1421 0.0641 0.0038   0.0035
  28.3B 32 128   10.408 10.204  7.703 0.408   0.2168 0.1106 0.0490 0.0029   0.0027
  28.3B 32 256   10.402 10.248  7.698 0.460   0.1352 0.0594 0.0257 0.0018   0.0018`

const rows = published
  .trim()
  .split('\n')
  .map(line => {
    const [model, ...numbers] = line.trim().split(/\s+/)
    const [p, m, F, I, W, C] = numbers.map(Number)
    return { model, p, m, cost: { F, I, W, C }, rates: numbers.slice(6, 9), twice: numbers[9], ours: numbers[10] }
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

const tested = family('zero-bubble schedules', 3)
for (const { model, p, m, cost, rates } of rows)
  tested(
    `${model}, ${p} stages, ${m} microbatches: 1F1B ${rates[0]}, ZB-H1 ${rates[1]}, ZB-H2 ${rates[2]} on paper`,
    () => {
      const ours = names.map(name => {
        return rateOf(timing(makeSchedule(name, { ranks: p, chunks: 1, microbatches: m }), cost).span, m, cost)
      })
      deepEqual(ours, rates)
    },
  )

/** Half of an activation is kept for the weight gradient: no less than the authors count. */
const half = { I: 1, W: 0.5 }

/** The shortest longest span that our search finds within the limit. */
function searched(ranks: number, microbatches: number, cost: TaskCost, limit: number): number {
  const schedule = autoSchedule({ ranks, microbatches, cost, limit, held: half, goal: 'span' })
  const { span, peak } = timing(schedule, cost, half)
  ok(Math.max(...peak) <= limit, `${Math.max(...peak)} held, ${limit} allowed`)
  return span
}

for (const { model, p, m, cost, rates, twice, ours } of rows) {
  tested(`${model}, ${p} stages, ${m} microbatches: zb-auto in the memory of 1F1B has ZB-1p's rate, ${rates[1]}`, () =>
    equal(rateOf(searched(p, m, cost, p), m, cost), rates[1]),
  )

  tested(
    `${model}, ${p} stages, ${m} microbatches: zb-auto in twice the memory reaches ${ours}, ZB-2p ${twice}`,
    () => {
      equal(rateOf(searched(p, m, cost, 2 * p), m, cost), ours)
      ok(Number(ours) <= Number(twice))
    },
  )
}

const programs = new Map<string, Program>()
const programOf = (pp: number, microbatches: number, schedule: ScheduleName): Program => {
  const key = `${schedule} ${pp} ${microbatches}`
  const program = programs.get(key) ?? layersOn({ pp, microbatches, schedule })
  programs.set(key, program)
  return program
}

for (const { model, p, m, cost, rates } of rows.filter(({ p, m }) => p * m <= 1024))
  tested(`${model}, ${p} stages, ${m} microbatches: the same of the compiled program, simulated`, () => {
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
  /** The time of the longest stage, as the heuristic reckons it. */
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
  tested(`${source}: F ${F} I ${I} W ${W} C ${C}, ${p} stages, ${m} microbatches, ${limit} held: rate ${rate}`, () => {
    const program = layersOn({ pp: p, microbatches: m, schedule: 'zb-h1' }, scheduleOf(theirs))
    equal(rateOf(longestOf(program, simulate(program, taskPrices(theirs))), m, theirs), rate)
  })
  tested(
    `${source}: F ${F} I ${I} W ${W} C ${C}, ${p} stages, ${m} microbatches, ${limit} held: zb-auto is no longer`,
    () => {
      const ours = searched(p, m, { F, I, W, C }, limit)
      ok(ours <= longest, `${ours} against ${longest}`)
    },
  )
}
