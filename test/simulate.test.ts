/** The event simulation on prices one can reckon with: schedules, overlap, lanes, messages, slow ranks, parts that add up. */
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { choices, coordinatesOf, worldOf } from '../src/base/index.js'
import type { Program } from '../src/ir/index.js'
import { partNames } from '../src/metrics/index.js'
import { scheduleFacts } from '../src/plan/index.js'
import { makeSchedule, scheduleNames, timing } from '../src/schedule/index.js'
import { type Prices, type Simulation, scaledPrices, simulate } from '../src/simulate/index.js'
import { type Toy, toy } from './toy.js'
import { free, layersOn, taskPrices } from './toy-prices.js'

const close = (a: number, b: number, what = '') =>
  ok(Math.abs(a - b) <= 1e-9 * Math.max(1, b), `${what} ${a} is not ${b}`)
const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0)
const addsUp = ({ step, parts, stages }: Simulation, what = '') => {
  for (const each of [parts, ...stages]) close(sum(partNames.map(name => each[name])), step, what)
}

// DualPipe sends two messages after a pair, which share a lane; on paper they travel at once.
const onPaper = scheduleNames.filter(name => !name.startsWith('dualpipe'))
for (const name of onPaper)
  test(`${name}: the simulated program takes as long as the schedule on paper`, () => {
    for (const [pp, microbatches] of [
      [2, 5],
      [4, 8],
      [3, 7],
    ]) {
      const { chunks } = scheduleFacts[name]
      const cost = { F: 1.1, I: 1.3, W: 0.7, C: 0.1 }
      const paper = timing(makeSchedule(name, { ranks: pp, chunks, microbatches }), cost)
      const simulation = simulate(layersOn({ pp, chunks, microbatches, schedule: name }), taskPrices(cost))
      close(simulation.step, paper.makespan, `p=${pp} m=${microbatches}`)
      const idle = simulation.stages.map(({ bubble, pp: messages }) => bubble + messages)
      for (const [rank, time] of paper.idle.entries()) close(idle[rank], time, `idle of ${rank}`)
      addsUp(simulation)
    }
  })

test('zb-h1 with equal tasks: a third of the bubble of 1f1b', () => {
  const program = layersOn({ pp: 4, microbatches: 8, schedule: 'zb-h1' })
  const { parts, step } = simulate(program, taskPrices({ F: 1, I: 1, W: 1, C: 0 }))
  close(parts.bubble / step, 1 / 9)
})

/** One layer on two tensor-parallel ranks: every instruction that computes takes 1, every collective `network`. */
const layer = layersOn({ tp: 2 })
const phases = ['F', 'I', 'W', 'B']
const instrPrices = (network: number, contention = 0): Prices => ({
  ...free,
  compute: (_, { phase }) => (phases.includes(phase) ? 1 : 0),
  collective: (_, { phase }) => ({ seconds: phases.includes(phase) ? network : 0, link: 0 }),
  contention: { compute: contention, network: 0 },
})

test('a collective is paid for where nothing hides it, and hides behind what comes before its wait', () => {
  const none = simulate(layer, instrPrices(0))
  const some = simulate(layer, instrPrices(0.5))
  const long = simulate(layer, instrPrices(1000))
  equal(none.parts.tp, 0)
  close(none.step, none.parts.compute)
  close(some.step, none.step + some.parts.tp)
  // Two all-reduces, one forward and one backward. The second has the weight gradient of `down` beside it.
  ok(long.step < none.step + 2000 && long.step > 2000 - none.step, `${long.step}`)
  for (const each of [none, some, long]) addsUp(each)
})

test('work is slower while a collective runs beside it, and only then', () => {
  const calm = simulate(layer, instrPrices(1000))
  const rough = simulate(layer, instrPrices(1000, 0.5))
  const hidden = 1000 * 2 - calm.parts.tp
  close(rough.parts.compute, calm.parts.compute + hidden * 0.5)
  close(rough.step, calm.step) // as long as the collectives, which end when they did
  equal(simulate(layer, instrPrices(0, 0.5)).step, simulate(layer, instrPrices(0)).step)
})

test('what a collective loses to work beside it is the share they have in common', () => {
  const prices = instrPrices(1000)
  const rough = { ...prices, contention: { compute: 0, network: 0.1 } }
  const hidden = 1000 * 2 - simulate(layer, prices).parts.tp
  close(simulate(layer, rough).step, simulate(layer, prices).step + 0.1 * hidden)
})

/** Two layers forward and backward, each call 1; parameters of both gathered at once, each gradient scattered for itself. */
const started = (seconds: Record<string, number>) => {
  const program = toy({ zero: 1, dp: 2 })
  const prices: Prices = {
    ...free,
    compute: (instr, { phase, instrs }) => (phases.includes(phase) && instr === instrs.at(-1) ? 1 : 0),
    collective: (_, { name }) => ({ seconds: seconds[name.replace('.both', '')] ?? 0, link: 0 }),
  }
  return { program, simulation: simulate(program, prices) }
}

test('a call that only starts runs beside what follows, until the wait for its tag', () => {
  close(started({}).simulation.step, 8)
  // Nothing is before the first forward; both parameters are one collective.
  const gathered = started({ gather: 0.3 }).simulation
  close(gathered.step, 8.3)
  close(gathered.parts.dp, 0.3)
  // The gradient of the head is scattered while the layer below goes backward, the layer's own after that.
  for (const [reduce, step] of [
    [0.4, 8.4],
    [1, 9],
    [1.5, 8 + 1.5 + 0.5],
  ]) {
    const { simulation } = started({ reduce })
    close(simulation.step, step, `${reduce}`)
    addsUp(simulation)
  }
})

test('collectives of a call that only starts are spans of that call', () => {
  const { program, simulation } = started({ reduce: 0.4, gather: 0.3 })
  const calls = simulation
    .spansOf(0)
    .filter(({ lane, start, end }) => lane === 'network' && end > start)
    .map(({ step }) => program.streams[0].steps[step])
  deepEqual(
    calls.map(step => (step.kind === 'call' ? step.tag : step.kind)),
    ['params', 'v.sum', 'w.sum'],
  )
})

test('stages that start a sum and wait for it later meet when the last has started', () => {
  const both = (text: string) =>
    text.replace('  wait %g\n', '').replace(/^( {2}call tie .*)$/gm, '$1 tag=tie\n  wait tag=tie')
  const prices: Prices = { ...free, collective: ({ group }) => ({ seconds: group.stages ? 2 : 0, link: 0 }) }
  const plan: Toy = { zero: 1, dp: 2, pp: 2, tied: true }
  const [plain, tagged] = [toy(plan), toy(plan, both)].map(program => simulate(program, prices))
  close(tagged.step, plain.step)
  close(tagged.step, 2)
})

test('links of different kinds do not wait for each other', () => {
  const program = layersOn({ tp: 2, dp: 2, zero: 3, gather: 'use' })
  const prices = (links: number): Prices => ({
    ...instrPrices(0),
    links: ['near', 'far'].slice(0, links),
    // What is gathered ahead is still on its way when the layer sums over tp.
    collective: ({ group: { axes } }) =>
      axes.includes('dp') ? { seconds: 12, link: links - 1 } : { seconds: 3, link: 0 },
  })
  const [one, two] = [1, 2].map(links => simulate(program, prices(links)))
  ok(two.step < one.step, `${two.step} is not less than ${one.step}`)
  deepEqual([...new Set(two.spansOf(0).map(({ link }) => link))].filter(link => link !== undefined).sort(), [
    'far',
    'near',
  ])
})

test('no lane of a rank does two things at once, and nothing is outside the step', () => {
  const program = layersOn({ tp: 2, dp: 2, pp: 2, zero: 2, microbatches: 4, schedule: 'zb-h1' })
  const simulation = simulate(program, {
    ...instrPrices(0.7, 0.2),
    message: () => ({ seconds: 0.3, link: 0, held: 0.3 }),
  })
  for (let rank = 0; rank < worldOf(program.mesh); rank++) {
    const spans = simulation.spansOf(rank)
    const lanes = new Set(spans.map(({ lane, link }) => `${lane} ${link}`))
    ok(lanes.size >= 2)
    for (const name of lanes) {
      const sorted = spans.filter(({ lane, link }) => `${lane} ${link}` === name).sort((a, b) => a.start - b.start)
      for (const [i, { start, end }] of sorted.entries()) {
        ok(
          start >= (sorted[i - 1]?.end ?? 0) - 1e-9,
          `${name} of rank ${rank}: ${start} is before ${sorted[i - 1]?.end}`,
        )
        ok(end <= simulation.step + 1e-9)
      }
    }
  }
})

test('recomputation is a part of its own, as long as the forward it repeats', () => {
  const parts = (recompute: 'none' | 'full') => simulate(layersOn({ recompute }), instrPrices(0)).parts
  equal(parts('none').recompute, 0)
  ok(parts('full').recompute > 0)
  close(parts('full').compute, parts('none').compute)
})

test('ranks that are alike are simulated once, and share their spans', () => {
  const plan = { tp: 2, pp: 2, microbatches: 2 } as const
  const [few, many] = [layersOn({ ...plan, dp: 2 }), layersOn({ ...plan, dp: 64 })].map(program =>
    simulate(program, instrPrices(0.5)),
  )
  deepEqual(
    [few.roles, many.roles].map(roles => roles.map(({ pp, ranks }) => [pp, ranks])),
    [
      [
        [0, 4],
        [1, 4],
      ],
      [
        [0, 128],
        [1, 128],
      ],
    ],
  )
  for (const [role, { rank }] of many.roles.entries()) equal(many.roleOf(rank), role)
  close(few.step, many.step)
  const withoutRank = (simulation: Simulation, rank: number) =>
    simulation.spansOf(rank).map(({ rank: _, ...span }) => span)
  deepEqual(withoutRank(many, 0), withoutRank(many, 126))
})

test('a slow rank holds up its group at every collective and its pipeline at every message', () => {
  const program = layersOn({ tp: 2, dp: 4, pp: 2, microbatches: 4 })
  const even = simulate(program, instrPrices(0.5))
  const slowed = simulate(program, instrPrices(0.5), { slow: new Map([[5, 2]]) })
  ok(slowed.step > 1.4 * even.step, `${slowed.step}`)
  ok(slowed.parts.stragglers > 0)
  equal(even.parts.stragglers, 0)
  addsUp(slowed)
  close(simulate(program, instrPrices(0.5), { slow: new Map([[5, 1]]) }).step, even.step)
})

test('all ranks twice as slow, and free messages: twice the step', () => {
  const program = layersOn({ tp: 2, dp: 2, pp: 2, microbatches: 4 })
  const slow = new Map(Array.from({ length: 8 }, (_, rank) => [rank, 2]))
  close(simulate(program, instrPrices(0), { slow }).step, 2 * simulate(program, instrPrices(0)).step)
})

test('prices scaled by 3: a step three times as long', () => {
  const program = layersOn({ tp: 2, pp: 2, microbatches: 4 })
  const prices = { ...instrPrices(0.5, 0.1), message: () => ({ seconds: 0.2, link: 0, held: 0.1 }) }
  close(simulate(program, scaledPrices(prices, 3)).step, 3 * simulate(program, prices).step)
})

/** Every rank for itself: what classes of ranks are held against. Luck of no spread tells all ranks apart. */
const oneByOne = { share: 0, seed: 1 }

for (let seed = 1; seed <= 12; seed++)
  test(`classes of ranks give what every rank for itself gives (SEED=${seed})`, () => {
    const { pick, int } = choices(seed)
    const [tp, dp, pp] = [pick([1, 2, 4]), pick([1, 2, 4]), pick([1, 2, 3])]
    const plan = {
      tp,
      dp,
      pp,
      zero: pick([0, 1, 2, 3] as const),
      microbatches: 1 + int(4),
      schedule: pick(['1f1b', 'zb-h1'] as const),
    }
    const program = layersOn(plan)
    const slow = new Map(Array.from({ length: 1 + int(3) }, () => [int(tp * dp * pp), 1 + int(4) / 2]))
    const [classes, all] = [
      simulate(program, instrPrices(0.3, 0.1), { slow }),
      simulate(program, instrPrices(0.3, 0.1), { slow, jitter: oneByOne }),
    ]
    ok(classes.roles.length <= all.roles.length)
    equal(all.roles.length, tp * dp * pp)
    equal(classes.step, all.step)
    for (const name of partNames) close(classes.parts[name], all.parts[name], name)
    addsUp(classes, JSON.stringify(plan))
  })

test('the same seed has the same luck, another another; none at all is no jitter', () => {
  const program = layersOn({ tp: 2, dp: 2, pp: 2, microbatches: 4 })
  const step = (share: number, seed: number) => simulate(program, instrPrices(0.5), { jitter: { share, seed } }).step
  equal(step(0.05, 7), step(0.05, 7))
  ok(step(0.05, 7) !== step(0.05, 8))
  equal(step(0, 7), simulate(program, instrPrices(0.5)).step)
  ok(step(0.05, 7) > step(0, 7), 'who waits for the slowest of many waits longer')
})

test('spans are kept of whom it was asked for', () => {
  const program = layersOn({ dp: 16 })
  const jitter = { share: 0.01, seed: 1 }
  const simulation = simulate(program, instrPrices(0), { jitter, watch: [11] })
  deepEqual([simulation.watched(11), simulation.watched(10)], [true, false])
  ok(simulation.spansOf(11).length > 0)
  throws(() => simulation.spansOf(10), /spans of rank 10 were not kept/)
  equal(coordinatesOf(program.mesh, 11).dp, 11)
})

test('a program that is not lawful stops the simulation with the place, not with a hang', () => {
  const program = layersOn({ pp: 2, microbatches: 2 })
  const [first, second] = program.streams
  const deaf: Program = {
    ...program,
    streams: [{ ...first, steps: first.steps.filter(({ kind }) => kind !== 'send') }, second],
  }
  throws(() => simulate(deaf, free), /internal: the simulation stopped at pp 0 step \d+ of \d+ \(wait\); pp 1 step/)
})
