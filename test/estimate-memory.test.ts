/** The memory formulas everybody knows come out of the closed form; schedules hold what it says they hold. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import {
  type capacityOf,
  EstimateBook,
  fits,
  footprint,
  frameworks,
  type Holding,
  type MemoryProfile,
  type Placed,
  pipelineIn,
  rankFootprint,
  type Shape,
  type Split,
  totalBytes,
  usual,
} from '../src/estimate/index.js'
import { scheduleFacts, scheduleNames } from '../src/plan/index.js'
import { makeSchedule, schedules, tasksOf } from '../src/schedule/index.js'

/** GPT-3 without its ends, so that layers can be counted. */
const shape: Shape = {
  layers: 96,
  embed: 12288,
  heads: 96,
  kvHeads: 96,
  headDim: 128,
  ffn: 4 * 12288,
  gated: false,
  vocab: 0,
  tied: true,
  biases: true,
  norm: 'layer',
  dropout: true,
  positions: 'alibi',
  seq: 2048,
}
const one: Split = {
  ...{ tp: 1, pp: 1, dp: 1, cp: 1, ep: 1, sequenceParallel: false, zero: 0 },
  ...{ schedule: '1f1b', chunks: 1, microbatches: 1, microbatch: 1, recompute: 'none' },
}
interface Given extends Partial<Split> {
  readonly shape?: Partial<Shape>
  readonly memory?: Partial<MemoryProfile>
  readonly precision?: Placed['precision']
  readonly attention?: Placed['software']['attention']
}
const place = ({ shape: more, memory = {}, precision = 'bf16', attention = 'unfused', ...split }: Given): Placed => ({
  shape: { ...shape, ...more },
  split: { ...one, ...split },
  precision,
  software: { ...frameworks['megatron-2021'], attention, memory },
})

const near = (actual: number, expected: number, within = 1e-3) =>
  ok(Math.abs(actual / expected - 1) < within, `${actual} is not ${expected}`)

/** Bytes of states per parameter. */
const perParameter = (given: Given) => {
  const { parameters, gradients, optimizer } = footprint(place(given))
  const { parameters: all } = footprint(place({ precision: 'f32' }))
  return (parameters + gradients + optimizer) / (all / 4)
}

const N = 64
for (const [title, given, bytes] of [
  ['DDP', {}, 16],
  ['ZeRO-1 on N', { dp: N, zero: 1 }, 4 + 12 / N],
  ['ZeRO-2 on N', { dp: N, zero: 2 }, 2 + 14 / N],
  ['f32', { precision: 'f32' }, 16],
  ['f32, ZeRO-1', { precision: 'f32', dp: N, zero: 1 }, 8 + 8 / N],
  ['gradients in f32', { memory: { gradient: 4 } }, 18],
  ['gradients in f32, distributed optimizer', { memory: { gradient: 4 }, dp: N / 2, cp: 2, zero: 1 }, 6 + 12 / N],
  ['fp16 with an f32 copy of the gradient', { memory: { state: 16 } }, 20],
  ['fp16, distributed optimizer', { memory: { state: 16 }, dp: N, zero: 1 }, 4 + 16 / N],
  ['ZeRO-3, nothing gathered', { memory: { whole: 0 }, dp: N, zero: 3 }, 16 / N],
] as const)
  test(`${title}: ${bytes} bytes a parameter`, () => near(perParameter(given), bytes))

test('12Lh² parameters in 96 layers of GPT-3, and 13h a layer beside the matrices', () => {
  const { parameters } = footprint(place({ precision: 'f32' }))
  near(parameters / 4, 96 * (12 * 12288 ** 2 + 13 * 12288) + 2 * 12288, 1e-12)
})

/** Activations of one layer and microbatch, in units of sbh bytes. */
const perLayer = (given: Given) => {
  const { activations } = footprint(place(given))
  return activations / (96 * 2048 * 12288)
}

const scores = (5 * 96 * 2048) / 12288
for (const [title, given, expected] of [
  ['34 + 5as/h', {}, 34 + scores],
  ['tp: 10 + 24/t + 5as/ht', { tp: 8 }, 10 + 24 / 8 + scores / 8],
  ['tp and sequence parallel: (34 + 5as/h)/t', { tp: 8, sequenceParallel: true }, (34 + scores) / 8],
  ['selective: 34', { recompute: 'selective' }, 34],
  ['selective, tp and sequence parallel: 34/t', { recompute: 'selective', tp: 8, sequenceParallel: true }, 34 / 8],
  ['full: 2', { recompute: 'full' }, 2],
  ['context parallel halves it', { cp: 2 }, (34 + scores) / 2],
  ['fused attention keeps no scores, and a sum a query', { attention: 'flash-2' }, 34 + (4 * 96) / 12288],
  ['no dropout: no masks', { shape: { dropout: false }, attention: 'flash-2' }, 32 + (4 * 96) / 12288],
  ['f32', { precision: 'f32', attention: 'flash-2', shape: { dropout: false } }, 64 + (4 * 96) / 12288],
] as const)
  test(`activations of a layer, ${title}`, () => near(perLayer(given), expected, 1e-12))

test('Megatron without dropout and with fused attention: sbh(18 + 4 ffn/h) a layer, over t', () => {
  const given = {
    tp: 8,
    sequenceParallel: true,
    attention: 'flash-2',
    shape: { dropout: false, ffn: 3 * 12288 },
  } as const
  // Of its 18 two were masks: here 16 without them.
  near(perLayer(given), (16 + (4 * 3 * 12288) / 12288 + (4 * 96) / 12288) / 8, 1e-12)
})

test('grouped queries keep fewer keys and values, and copies where tp has more ranks than there are heads', () => {
  const kv = (tp: number, kvHeads: number) =>
    footprint(place({ tp, sequenceParallel: true, attention: 'flash-2', shape: { kvHeads } })).activations / (96 * 2048)
  near(kv(1, 96) - kv(1, 8), 2 * 2 * 88 * 128, 1e-9)
  near(kv(16, 8), (kv(1, 8) - 2 * 2 * 8 * 128) / 16 + (2 * 2 * 8 * 128) / 8, 1e-9)
})

/** Of a model of as many layers as there are stages: what each rank holds, in stages. */
const holdingsWith = (given: Partial<Split>): readonly Holding[] => {
  const { pp, chunks } = { ...one, ...given }
  return pipelineIn(place({ ...given, shape: { layers: pp * chunks } })).holdings.all
}
const held = (given: Partial<Split>): number[] => holdingsWith(given).map(holding => holding.held)

test('1F1B holds min(m, p - r), interleaving p(1 + (p - 1)/(pv)) on the first rank', () => {
  deepEqual(held({ pp: 4, microbatches: 8 }), [4, 3, 2, 1])
  deepEqual(held({ pp: 4, microbatches: 2 }), [2, 2, 2, 1])
  for (const v of [2, 3, 6])
    near(held({ pp: 8, chunks: v, schedule: 'interleaved', microbatches: 64 })[0] / v, 8 * (1 + 7 / (8 * v)), 1e-12)
})

test('weight gradients that are put off: as many as 1F1B holds on its first rank, on every rank', () =>
  deepEqual(held({ pp: 4, schedule: 'zb-h1', microbatches: 8 }), [4, 4, 4, 4]))

test('forwards first: all microbatches, however many', () => {
  deepEqual(held({ pp: 2, schedule: 'gpipe', microbatches: 100 }), [100, 100])
  deepEqual(held({ pp: 2, chunks: 3, schedule: 'looped-bfs', microbatches: 100 }), [300, 300])
})

/** Open, pending, and both together, at their most, counted in the schedule itself. */
function counted(row: ReturnType<typeof makeSchedule>['rows'][number]) {
  let [open, held, mostOpen, mostHeld] = [0, 0, 0, 0]
  for (const { kind } of tasksOf(row)) {
    if (kind === 'F') [open, held] = [open + 1, held + 1]
    if (kind === 'I' || kind === 'B') open--
    if (kind === 'W' || kind === 'B') held--
    mostOpen = Math.max(mostOpen, open)
    mostHeld = Math.max(mostHeld, held)
  }
  return { open: mostOpen, held: mostHeld }
}

for (const schedule of scheduleNames)
  test(`${schedule}: what is in flight, for 1 to 9 ranks and few or many microbatches`, () => {
    const { chunks: usualChunks, chunksFixed } = scheduleFacts[schedule]
    for (const pp of [1, 2, 3, 4, 8, 9])
      for (const microbatches of [1, 2, 3, 5, 8, 16, 24, 60])
        for (const chunks of chunksFixed ? [usualChunks] : [1, 2, 3]) {
          const holdings = holdingsWith({ schedule, pp, chunks, microbatches })
          const { rows } = makeSchedule(schedule, { ranks: pp, chunks, microbatches })
          for (const [rank, row] of rows.entries()) {
            const { open, held } = holdings[rank]
            deepEqual({ open, held }, counted(row), `pp ${pp} chunks ${chunks} m ${microbatches} rank ${rank}`)
          }
        }
  })

/** Whether a rank holds all that another does, of the same part of the model. */
const holdsAll = (rank: Holding, other: Holding): boolean =>
  rank.layers === other.layers && rank.first === other.first && rank.open >= other.open && rank.held >= other.held

for (const schedule of scheduleNames)
  test(`${schedule}: what ranks are known to hold without their order they hold in it`, () => {
    const { chunks: usualChunks, chunksFixed } = scheduleFacts[schedule]
    for (const pp of [1, 2, 5, 8])
      for (const microbatches of [1, 3, 8, 60])
        for (const chunks of chunksFixed ? [usualChunks] : [1, 3]) {
          const { ends, holdings } = pipelineIn(place({ schedule, pp, chunks, microbatches, shape: { layers: 30 } }))
          const other = scheduleFacts[schedule].placement === 'both ends' ? Math.ceil(pp / 2) - 1 : pp - 1
          const ranks = [...new Set([0, other])]
          const title = `pp ${pp} chunks ${chunks} m ${microbatches}`
          const whole = ranks.map(rank => holdings.all[rank])
          if (!schedules[schedule].leads) deepEqual(ends, whole, title)
          else
            for (const end of ends)
              ok(
                holdings.all.some(rank => holdsAll(rank, end)),
                title,
              )
        }
  })

const even = { pp: 8, microbatches: 32 } as const

test('the heaviest rank is the heaviest of all, whatever the schedule and however layers are shared out', () => {
  for (const software of [frameworks.lockstep, frameworks['megatron-2024'], frameworks.torchtitan])
    for (const schedule of scheduleNames)
      for (const layers of [30, 32, 43, 64])
        for (const recompute of ['none', 'full'] as const) {
          const chunks = scheduleFacts[schedule].chunks
          const placed = {
            ...place({ ...even, schedule, chunks, recompute, shape: { layers, vocab: 50000 } }),
            ...{ software, book: new EstimateBook() },
          }
          const ranks = Array.from({ length: 8 }, (_, rank) => totalBytes(rankFootprint(placed, rank)))
          const title = `${software.name} ${schedule} ${layers} ${recompute}`
          equal(totalBytes(footprint(placed)), Math.max(...ranks), title)
        }
})

/** Any pipeline, layers shared out by chance too. */
function anyPipeline(seed: number): Placed {
  const { pick, chance, int } = choices(seed)
  const schedule = pick(scheduleNames)
  const { chunks: fixed, chunksFixed } = scheduleFacts[schedule]
  const [pp, chunks] = [1 + int(12), chunksFixed ? fixed : 1 + int(4)]
  const layers = Array.from({ length: pp * chunks }, () => int(4))
  const split = {
    ...{ schedule, pp, chunks, tp: pick([1, 2]), microbatches: 1 + int(40), zero: int(4) as Split['zero'], dp: 4 },
    ...{ recompute: pick(['none', 'selective', 'full'] as const), ...(chance(0.5) && { layers }) },
  }
  const sizes = { layers: chance(0.5) ? 1 + int(100) : pp * chunks, vocab: pick([64, 50000]), tied: chance(0.5) }
  return {
    ...place({ ...split, shape: sizes }),
    software: pick([frameworks.lockstep, frameworks['megatron-2024'], frameworks.torchtitan]),
  }
}

test('no rank is heavier or busier than those that are weighed (seeds 1 to 500)', () => {
  for (let seed = 1; seed <= 500; seed++) {
    const placed = { ...anyPipeline(seed), book: new EstimateBook() }
    const { pipeline, holdings } = pipelineIn(placed)
    const ranks = pipeline.ranks.map((_, rank) => rankFootprint(placed, rank))
    const heaviest = ranks.reduce((a, b) => (totalBytes(b) > totalBytes(a) ? b : a))
    deepEqual(footprint(placed), heaviest, `seed ${seed}`)
    for (const [rank, { layers, first, last }] of pipeline.ranks.entries()) {
      const asBusy = (h: Holding) => h.layers >= layers && (h.first || !first) && (h.last || !last)
      ok(holdings.lumped.some(asBusy), `seed ${seed} rank ${rank}`)
    }
  }
})

test('uneven layers: the fullest stage counts, not the mean', () => {
  const uneven = footprint(place({ ...even, layers: [5, 13, 13, 13, 13, 13, 13, 13] }))
  ok(totalBytes(uneven) > totalBytes(footprint(place(even))))
})

test('the head is on the last stage, and both ends hold a copy of a tied table', () => {
  const at = (rank: number, tied: boolean) =>
    rankFootprint(place({ ...even, shape: { vocab: 51200, tied } }), rank).parameters
  equal(at(0, true) - at(1, true), 2 * 51200 * 12288)
  equal(at(7, true), at(7, false))
  const alone = (tied: boolean) => footprint(place({ shape: { vocab: 51200, tied } })).parameters
  equal(alone(false) - alone(true), 2 * 51200 * 12288)
})

test('the loss counts where the head is: logits in all the copies the software makes', () => {
  const profile = { logit: 10, splitLogit: 12, gathersLogits: false }
  const loss = (tp: number, memory: Partial<MemoryProfile>) =>
    rankFootprint(place({ ...even, tp, memory, shape: { vocab: 51200 } }), 7).workspace
  equal(loss(1, profile), 2048 * 51200 * 10)
  equal(loss(8, profile), (2048 * 51200 * 12) / 8)
  equal(loss(8, { ...profile, gathersLogits: true }), 2048 * 51200 * 10)
})

test('a plan fits if the device has room beside its reserve', () => {
  const placed = place({ ...even, tp: 8 })
  const bytes = totalBytes(footprint(placed))
  const device = (memory: number) =>
    ({ memory, reserve: { bytes: 1e9, fraction: 0.1 } }) as Parameters<typeof capacityOf>[0]
  ok(fits(placed, device((bytes + 1e9) / 0.9 + 1)))
  ok(!fits(placed, device((bytes + 1e9) / 0.9 - 1e3)))
})

test('what is not said of a software is as usual', () => {
  equal(totalBytes(footprint(place({ memory: {} }))), totalBytes(footprint(place({ memory: usual }))))
})
