/** The closed form of our own program's memory, held to the arenas the compiler lays out. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { placedOf, rankFootprint, rankLeastBytes, totalBytes } from '../src/estimate/index.js'
import { presets } from '../src/model/index.js'
import { check, Job, type JobInput, scheduleNames } from '../src/plan/index.js'

type Random = ReturnType<typeof choices>

/** Large enough that tensors count and not the scalars beside them. */
function sensibleJob({ pick, chance, int }: Random): JobInput {
  const heads = pick([4, 8])
  const embed = pick([64, 128, 256])
  const sizes = { layers: pick([4, 6, 8, 12]), embed, heads, vocab: pick([256, 1024, 4096]), tied: chance(0.5) }
  const model = chance(0.5)
    ? { family: 'gpt' as const, ...sizes, dropout: pick([0, 0.1]) }
    : { family: 'llama' as const, ...sizes, kvHeads: pick([2, 4, heads]), ffn: pick([2, 3]) * embed }
  const [tp, pp, dp, microbatches] = [pick([1, 1, 2, 4]), pick([1, 2, 4]), pick([1, 2, 4]), pick([1, 2, 4, 8])]
  const plan = {
    ...{ tp, pp, dp, microbatches, zero: int(4), schedule: pick(scheduleNames) },
    sequenceParallel: tp > 1 && chance(0.5),
    recompute: pick(['none', 'cheap', 'selective', 'full'] as const),
    precision: pick(['f32', 'bf16'] as const),
  }
  return { model, plan, training: { seq: pick([32, 64, 128]), globalBatch: dp * microbatches * pick([1, 2, 4]) } }
}

/** Anything that compiles: odd sizes, uneven stages, every knob. */
function anyJob({ pick, chance, int }: Random): JobInput {
  const heads = pick([1, 2, 3, 4, 6])
  const headDim = 2 * (1 + int(3))
  const sizes = { layers: 1 + int(8), heads, ffn: 4 * (1 + int(8)), vocab: 4 * (2 + int(8)), tied: chance(0.5) }
  const extras = { qkvBias: chance(0.3), qkNorm: chance(0.3), ...(chance(0.3) ? { window: 1 + int(4) } : {}) }
  const kvHeads = pick([1, 2, 3].filter(n => heads % n === 0))
  const model = chance(0.5)
    ? { family: 'gpt' as const, ...sizes, embed: heads * headDim, dropout: pick([0, 0.1]) }
    : { family: 'llama' as const, ...sizes, embed: 2 * (1 + int(8)), headDim, kvHeads, ...extras }
  const [tp, pp, dp, microbatches] = [pick([1, 2, 3, 4]), pick([1, 2, 3, 4]), pick([1, 2, 3]), 1 + int(6)]
  const recompute = pick(['none', 'selective', 'full', ['gelu', 'contract']] as const) as 'none'
  const plan = {
    ...{
      tp,
      pp,
      dp,
      microbatches,
      zero: int(4),
      sequenceParallel: chance(0.5),
      schedule: pick(scheduleNames),
      recompute,
    },
    ...{ gather: pick(['use', 'step'] as const), reduce: pick(['microbatch', 'step'] as const), overlap: chance(0.7) },
    precision: pick(['f32', 'bf16', 'bf16-no-masters', 'pure-bf16'] as const),
    gradients: pick([undefined, undefined, 'f32', 'bf16'] as const),
    ...(chance(0.3) && pp > 1 ? { layers: { first: int(2) } } : {}),
  }
  return { model, plan, training: { seq: 12, globalBatch: dp * microbatches * (1 + int(2)) } }
}

function* jobs(seeds: number, make: (random: Random) => JobInput): Generator<{ seed: number; job: Job }> {
  for (let seed = 1; seed <= seeds; seed++) {
    const job = Job.safeParse(make(choices(seed)))
    if (job.success && check(job.data).every(({ severity }) => severity === 'warning')) yield { seed, job: job.data }
  }
}

interface Weighed {
  readonly title: string
  readonly schedule: string
  readonly arena: number
  readonly estimate: number
  readonly least: number
}

function* weighed(seeds: number, make: (random: Random) => JobInput): Generator<Weighed> {
  for (const { seed, job } of jobs(seeds, make)) {
    const placed = placedOf(job)!
    for (const [rank, { arena }] of compileJob(job).streams.entries()) {
      const { schedule } = placed.split
      const estimate = totalBytes(rankFootprint(placed, rank))
      yield { title: `seed ${seed} rank ${rank}`, schedule, arena, estimate, least: rankLeastBytes(placed, rank) }
    }
  }
}

const mean = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0) / numbers.length
const plain = ['gpipe', '1f1b', 'looped-bfs', 'interleaved']
const all = [...weighed(160, sensibleJob)]
const isPlain = ({ schedule }: Weighed) => plain.includes(schedule)
const ofWholeBackwards = all.filter(isPlain)
const pure = (make: (random: Random) => JobInput) => (random: Random) => {
  const job = make(random)
  return { ...job, plan: { ...job.plan, precision: 'pure-bf16' as const } }
}

/** [mean error, how far below and above it may be] */
for (const [title, rows, most, below, above] of [
  ['whole backwards', ofWholeBackwards, 0.02, 0.12, 0.2],
  ['every schedule', all, 0.04, 0.25, 0.35],
  ['pure-bf16, whole backwards', [...weighed(100, pure(sensibleJob))].filter(isPlain), 0.03, 0.12, 0.25],
] as const)
  test(`${title}: on average within ${100 * most} % of the compiled arena, never more than ${100 * below} % below`, () => {
    ok(rows.length > 35)
    const error = mean(rows.map(({ estimate, arena }) => Math.abs(estimate / arena - 1)))
    ok(error <= most, `${(100 * error).toFixed(2)} %`)
    for (const { title: which, estimate, arena } of rows) {
      const off = estimate / arena - 1
      ok(off >= -below && off <= above, `${which}: ${(100 * off).toFixed(1)} %`)
    }
  })

/** At real sizes nothing but tensors counts. */
for (const [model, plan, globalBatch] of [
  ['llama3-8b', { dp: 8, zero: 1, precision: 'bf16' }, 8],
  ['llama3-8b', { dp: 8, zero: 3, precision: 'bf16', recompute: 'full' }, 16],
  ['llama3-8b', { dp: 8, zero: 2, precision: 'pure-bf16' }, 8],
  ['gpt3-175b', { tp: 8, pp: 8, microbatches: 8 }, 8],
  ['llama3-70b', { tp: 8, sequenceParallel: true, pp: 4, dp: 2, microbatches: 8, zero: 1, precision: 'bf16' }, 16],
] as const)
  test(`${model} ${JSON.stringify(plan)}: within 1 % of the compiled arena on every rank`, () => {
    const job = Job.parse({ model: presets[model], training: { seq: 2048, globalBatch }, plan })
    const placed = placedOf(job)!
    for (const [rank, { arena }] of compileJob(job).streams.entries()) {
      const off = totalBytes(rankFootprint(placed, rank)) / arena - 1
      ok(Math.abs(off) <= 0.01, `rank ${rank}: ${(100 * off).toFixed(2)} %`)
      ok(rankLeastBytes(placed, rank) <= arena, `rank ${rank}`)
    }
  })

test('no arena is smaller than the least bytes (seeds 1 to 160, and 1 to 150 of anything that compiles)', () => {
  for (const { title, least, arena } of [...all, ...weighed(150, anyJob)])
    ok(least <= arena, `${title}: at least ${least}, but the arena has ${arena}`)
})

test('the least bytes are most of the arena: a search that prunes with them prunes well', () => {
  ok(mean(ofWholeBackwards.map(({ least, arena }) => least / arena)) > 0.85)
  ok(mean(all.map(({ least, arena }) => least / arena)) > 0.65)
})
