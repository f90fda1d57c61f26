/** zb-auto: an order made for given costs within a limit is lawful, within it, and no slower than what is written by hand. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { choices } from '../src/base/index.js'
import { Clocks } from '../src/schedule/clocks.js'
import { answersAlike, type Policy, runGreedy } from '../src/schedule/greedy.js'
import {
  type AutoOptions,
  autoProblems,
  autoSchedule,
  draw,
  makeSchedule,
  type Schedule,
  searchingOrders,
  type TaskCost,
  timing,
  validate,
} from '../src/schedule/index.js'
import { family, test } from './families.js'
import { lockstep } from './memory-io.js'

const cost = (F: number, I: number, W: number, C = 0): TaskCost => ({ F, I, W, C })
const unit = cost(1, 1, 1)

const draws = (options: AutoOptions, picture: string) =>
  equal(draw(autoSchedule(options)), picture.replace(/^\n/, '').replaceAll(/^ +(?=\d \|)/gm, ''))

test('with room for one, a microbatch must leave before the next may enter', () =>
  draws(
    { ranks: 2, microbatches: 2, cost: unit, limit: 1 },
    `
    0 | F0 I0 W0 F1 I1 W1
    1 | F0 I0 W0 F1 I1 W1`,
  ))

test('in the memory of 1F1B at equal costs it is zb-h1', () =>
  draws(
    { ranks: 3, microbatches: 4, cost: unit },
    draw(makeSchedule('zb-h1', { ranks: 3, chunks: 1, microbatches: 4 })),
  ))

test('the search reports its progress as a share that only grows', () => {
  const shares = [...searchingOrders({ ranks: 3, microbatches: 6, cost: cost(2, 1, 1, 1) })].map(Number)
  ok(shares.length > 10)
  ok(
    shares.every((share, i) => share <= 1 && share >= (shares[i - 1] ?? 0)),
    shares.join(' '),
  )
})

test('one rank has nobody to wait for', () =>
  equal(timing(autoSchedule({ ranks: 1, microbatches: 5, cost: cost(3, 2, 1) }), cost(3, 2, 1)).makespan, 30))

test('what holds nothing needs no room', () =>
  deepEqual(validate(autoSchedule({ ranks: 3, microbatches: 4, cost: unit, held: { I: 0, W: 0 }, limit: 0 })), []))

test('tasks that take no time end', () =>
  deepEqual(validate(autoSchedule({ ranks: 3, microbatches: 4, cost: cost(0, 0, 0) })), []))

test('a slow rank in the middle idles only until its first task comes and its last leaves', () => {
  const costs = [cost(1, 1, 1), cost(3, 3, 3), cost(1, 1, 1)]
  const { slots } = timing(autoSchedule({ ranks: 3, microbatches: 8, cost: costs, limit: 8, goal: 'span' }), costs)
  const [{ start }] = slots[1]
  equal(slots[1][slots[1].length - 1].end - start, 8 * 9)
})

/** Shorter than this is the same: costs are decimals. */
const rounding = 1 + 1e-9

function holds(schedule: Schedule, { ranks, microbatches, cost: costs, limit = ranks, held }: AutoOptions): void {
  deepEqual(validate(schedule), [])
  deepEqual([schedule.rows.length, schedule.stages, schedule.microbatches], [ranks, ranks, microbatches])
  const most = Math.max(...timing(schedule, costs, held).peak)
  ok(most <= limit * rounding, `${most} held, ${limit} allowed`)
}

const seeds = process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: 16 }, (_, i) => i + 1)

for (const seed of seeds) {
  const { int, pick, chance } = choices(seed)
  const [ranks, microbatches] = [2 + int(9), 1 + int(30)]
  const draw = () => cost(1 + int(200) / 10, 1 + int(200) / 10, int(200) / 10, pick([0, 0.3, 2]))
  const [same, each] = [draw(), Array.from({ length: ranks }, draw)]
  const costs = chance(0.5) ? same : each
  const held = { I: 1, W: pick([1, 0.5, 0.37]) }

  for (const [hand, limit] of [
    ['zb-h1', ranks],
    ['zb-h2', 2 * ranks],
  ] as const)
    test(`random costs: lawful, within ${limit}, no slower than ${hand} (SEED=${seed})`, () => {
      const rival = timing(makeSchedule(hand, { ranks, chunks: 1, microbatches }), costs)
      for (const goal of ['makespan', 'span'] as const) {
        const options: AutoOptions = { ranks, microbatches, cost: costs, limit, held, goal }
        const schedule = autoSchedule(options)
        holds(schedule, options)
        ok(timing(schedule, costs)[goal] <= rival[goal] * rounding, `${goal} longer than that of ${hand}`)
      }
    })

  test(`random limit, activations that grow too: lawful and within it (SEED=${seed})`, () => {
    const grows = { I: 1, W: pick([0.2, 1, 1.5]) }
    const options: AutoOptions = { ranks, microbatches, cost: costs, held: grows, limit: 1.5 + int(20 * ranks) / 10 }
    holds(autoSchedule(options), options)
  })
}

test('a policy that answers alike has the same outcome: it need not be run (SEED=1..40)', () => {
  let alike = 0
  for (let seed = 1; seed <= 40; seed++) {
    const { int, pick } = choices(seed)
    const [ranks, microbatches] = [2 + int(6), 1 + int(12)]
    const costs = Array.from({ length: ranks }, () => cost(1 + int(4), 1 + int(4), int(4), pick([0, 0.5])))
    const pipeline = { ranks, microbatches, costs, limit: 1 + int(2 * ranks), held: { I: 1, W: pick([1, 0.5]) } }
    const tolerant = { ...pipeline, tolerance: 1e-9 }
    const draw = (): Policy => ({
      lead: pick([1, 1.5, 2, Number.POSITIVE_INFINITY]),
      first: pick(['I', 'F', 'WF']),
      holdsBack: pick(['never', 'patiently', 'always']),
      patience: pick(['fair', 0, int(5), int(20)]),
    })
    for (let i = 0; i < 40; i++) {
      const [policy, other] = [draw(), draw()]
      const { outcome, questions } = runGreedy(tolerant, policy, () => false)
      if (!answersAlike(policy, other, questions, 1e-9)) continue
      alike++
      deepEqual(runGreedy(tolerant, other, () => false).outcome, outcome, `SEED=${seed}`)
    }
  }
  ok(alike > 100, `${alike} pairs`)
})

test('the earliest clock is the one a scan of all finds, however near the others are (SEED=1..20)', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const { int } = choices(seed)
    const times = new Array<number>(1 + int(40)).fill(0)
    const clocks = new Clocks(times.length, 1)
    const scanned = () => times.reduce((first, time, rank) => (time < times[first] - 1 ? rank : first), 0)
    for (let i = 0; i < 200; i++) {
      equal(clocks.earliest(), scanned(), `SEED=${seed}`)
      const rank = i % 3 === 0 ? int(times.length) : scanned()
      times[rank] += int(60) / 10
      clocks.set(rank, times[rank])
    }
  }
})

for (const [what, options, message] of [
  ['no ranks', { ranks: 0, microbatches: 2, cost: unit }, /0 is not an integer/],
  ['too many cells', { ranks: 100, microbatches: 501, cost: unit }, /pp 100 x microbatches 501 > 50000/],
  ['a cost too few', { ranks: 3, microbatches: 2, cost: [unit, unit] }, /2 costs for 3 ranks/],
  ['a negative cost', { ranks: 2, microbatches: 2, cost: cost(1, -1, 1) }, /finite number of at least 0/],
  [
    'no room for one',
    { ranks: 2, microbatches: 2, cost: unit, limit: 0.5 },
    /limit 0\.5 < 1, the memory of one microbatch/,
  ],
  ['no number for a limit', { ranks: 2, microbatches: 2, cost: unit, limit: Number.NaN }, /limit NaN < 1/],
  ['less than nothing held', { ranks: 2, microbatches: 2, cost: unit, held: { I: 1, W: -1 } }, /I 1, W -1/],
] as const satisfies readonly (readonly [string, AutoOptions, RegExp])[])
  test(`${what}: refused`, () => {
    match(
      autoProblems(options)
        .map(problem => problem.message)
        .join('\n'),
      message,
    )
    throws(() => autoSchedule(options), message)
  })

const job = `
model: { family: gpt, layers: 4, embed: 16, heads: 2, vocab: 32 }
training: { seq: 8, globalBatch: 12 }
plan: { pp: 4, dp: 2, microbatches: 6, zero: 2, schedule: zb.csv }
`

const run = family('automatic schedules', 2)
for (const given of ['F=5,I=6,W=4,C=0.2', 'F=4,I=4,W=2;F=5,I=6,W=4;F=5,I=6,W=4;F=7,I=8,W=5'])
  run(`lockstep schedule zb-auto --cost '${given}' writes a csv that a plan runs, equal to one rank`, async () => {
    const options = ['--pp', '4', '--microbatches', '6', '--limit', '6', '--held', 'W=0.5', '--cost', given]
    const made = await lockstep(['schedule', 'zb-auto', ...options, '--format', 'csv', '--out', 'zb.csv'])
    equal(made.code, 0, made.err)
    match(made.err, /makespan .*, bubble .*, longest rank .*\n.*peak held/)
    const { code, out, err } = await lockstep(['verify', 'job.yaml'], {
      'job.yaml': job,
      'zb.csv': made.written['zb.csv'],
    })
    equal(code, 0, err)
    match(out, /static checks passed[\s\S]*numeric check passed: 8 ranks/)
  })

test('zb-auto --json has the rows and the timing', async () => {
  const { out } = await lockstep('schedule zb-auto --pp 2 --microbatches 2 --cost F=2,I=2,W=1 --json'.split(' '))
  const { rows, makespan, span, ranks } = JSON.parse(out)
  deepEqual([ranks, rows.length, makespan, span], [2, 2, 13, 13])
})

for (const [words, message] of [
  ['zb-auto --pp 2 --microbatches 2 --chunks 2', /--chunks: zb-auto has one chunk/],
  ['zb-auto --pp 2 --microbatches 2 --goal speed', /--goal speed: must be makespan or span/],
  ['zb-auto --pp 2 --microbatches 2 --held Q=1', /'Q=1' is not I or W = a number/],
  ['zb-auto --pp 2 --microbatches 2 --limit few', /--limit few: not a number/],
  ['zb-h1 --pp 2 --microbatches 2 --limit 2', /--limit: only zb-auto looks for an order/],
  ['1f1b --pp 3 --microbatches 2 --cost F=1;F=2', /2 costs for 3 ranks/],
] as const)
  test(`schedule ${words}: refused`, async () => {
    const { code, err } = await lockstep(['schedule', ...words.split(' ')])
    equal(code, 2)
    match(err, message)
  })
