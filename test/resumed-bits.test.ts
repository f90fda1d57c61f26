/**
 * A run that is resumed in the middle under the same plan is the run that was never interrupted, to the bit: losses, gradient norms, parameters, states and
 * scalars on every rank. Cases are drawn until every pair of choices that go together has been met.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { choices, hasErrors, worldOf } from '../src/base/index.js'
import { shardsOf } from '../src/checkpoint/index.js'
import { type KernelName, nativeMissing, Pool } from '../src/engine/index.js'
import { check, Job } from '../src/plan/index.js'
import { type Session, startSession, syntheticOf } from '../src/train/index.js'
import { expertModels } from './expert-models.js'
import { family } from './families.js'
import { models } from './jobs.js'
import { savedFrom } from './saved.js'

type Part = { readonly [K in 'model' | 'training' | 'plan']?: Readonly<Record<string, unknown>> }

const sparing = (compress: object): Part => ({ plan: { compress, reduce: 'step' } })
const adamw = { kind: 'adamw', lr: 1e-2 } as const

/** What may be chosen, each with all that may be chosen of it. */
const facets: Readonly<Record<string, Readonly<Record<string, Part>>>> = {
  optimizer: {
    adamw: { training: { optimizer: adamw } },
    amsgrad: { training: { optimizer: { ...adamw, amsgrad: true } } },
    uncorrected: { training: { optimizer: { ...adamw, uncorrected: true } } },
    sgd: { training: { optimizer: { kind: 'sgd', lr: 0.05 } } },
    momentum: { training: { optimizer: { kind: 'sgd', lr: 0.05, momentum: 0.9, dampening: 0.1 } } },
    lion: { training: { optimizer: { kind: 'lion', lr: 1e-3 } } },
    lamb: { training: { optimizer: { kind: 'lamb', lr: 1e-2 } } },
    muon: { training: { optimizer: { kind: 'muon', lr: 1e-2 } } },
    adafactor: { training: { optimizer: { kind: 'adafactor', lr: 1e-2 } } },
  },
  compress: {
    exact: {},
    bf16: { plan: { compress: { reduce: 'bf16' } } },
    f16: { plan: { compress: { reduce: 'f16' } } },
    int8: { plan: { compress: { reduce: 'int8', run: 8 } } },
    gathered: { plan: { zero: 3, compress: { gather: 'int8', run: 8 } } },
    powersgd: sparing({ reduce: 'powersgd', rank: 1, rate: 0.5 }),
    topk: sparing({ reduce: 'topk', ratio: 0.1 }),
    'topk from 1': sparing({ reduce: 'topk', ratio: 0.1, from: 1 }),
    onebit: sparing({ reduce: 'onebit', from: 1 }),
    'onebit from 3': sparing({ reduce: 'onebit', from: 3 }),
  },
  zero: {
    'zero 0': {},
    'zero 1': { plan: { zero: 1 } },
    'zero 2': { plan: { zero: 2 } },
    'zero 3': { plan: { zero: 3 } },
  },
  mesh: {
    'dp 2': { plan: { dp: 2, microbatches: 2 } },
    'dp 2 tp 2': { plan: { dp: 2, tp: 2, sequenceParallel: true } },
    'dp 2 pp 2': { plan: { dp: 2, pp: 2, microbatches: 2 } },
    'dp 2 cp 2': { plan: { dp: 2, cp: 2 } },
    'tp 2': { plan: { tp: 2 } },
    'dp 4 ep 2': { model: expertModels.deepseek, plan: { dp: 4, ep: 2, expertCapacity: 'worst' } },
  },
  model: { gpt: { model: models['gpt tied'] }, llama: { model: models['llama tied'] } },
  precision: {
    f32: {},
    bf16: { plan: { precision: 'bf16' } },
    'pure-bf16': { plan: { precision: 'pure-bf16', rounding: 'stochastic' } },
  },
  offload: {
    device: {},
    host: { plan: { offload: { optimizer: 'host' } } },
    parameters: { plan: { zero: 3, offload: { optimizer: 'host', parameters: 'host' } } },
    boundaries: { plan: { offload: { activations: 'layer-inputs' } } },
  },
  average: { last: {}, ema: { training: { ema: { decay: 0.9 } } } },
  scale: {
    unscaled: {},
    static: { training: { lossScale: 1024 } },
    torch: { training: { lossScale: { kind: 'torch', initial: 2 ** 20, interval: 2 } } },
    megatron: { training: { lossScale: { kind: 'megatron', initial: 2 ** 20, interval: 3, hysteresis: 2 } } },
    deepspeed: { training: { lossScale: { kind: 'deepspeed', initial: 2 ** 20, interval: 2 } } },
  },
  fp8: {
    plain: {},
    current: { plan: { fp8: { recipe: 'current' } } },
    delayed: { plan: { fp8: { recipe: 'delayed', history: 3 } } },
  },
  batch: {
    'one batch': {},
    ramp: { training: { batchRamp: [{ globalBatch: 4, until: 12 }] } },
  },
  adapters: { full: {}, lora: { training: { lora: { rank: 1 } } } },
  spikes: { kept: {}, skipped: { training: { spikes: 'skip' } } },
}

type Choice = Readonly<Record<string, string>>

const merged = (parts: readonly Part[], key: keyof Part): object => Object.assign({}, ...parts.map(part => part[key]))

/** The job of a choice; undefined where these do not go together. */
function jobOf(choice: Choice): Job | undefined {
  const parts = Object.entries(choice).map(([facet, name]) => facets[facet][name])
  const parsed = Job.safeParse({
    model: { ...merged(parts, 'model'), layers: 2 },
    training: { seq: 4, globalBatch: 8, clip: 0.5, steps: 8, evalBatches: 0, ...merged(parts, 'training') },
    plan: merged(parts, 'plan'),
  })
  return parsed.success && !hasErrors(check(parsed.data)) ? parsed.data : undefined
}

/** Choices that hold every pair of values that some job can hold. */
function pairwise(seed: number, draws: number): Choice[] {
  const { pick } = choices(seed)
  const met = new Set<string>()
  const pairsOf = (choice: Choice) => {
    const names = Object.entries(choice).map(pair => pair.join(' '))
    return names.flatMap((a, i) => names.slice(i + 1).map(b => `${a}, ${b}`))
  }
  return Array.from({ length: draws }, () =>
    Object.fromEntries(Object.entries(facets).map(([facet, values]) => [facet, pick(Object.keys(values))])),
  ).filter(choice => {
    const fresh = pairsOf(choice).filter(pair => !met.has(pair))
    if (fresh.length === 0 || !jobOf(choice)) return false
    for (const pair of fresh) met.add(pair)
    return true
  })
}

/** All that a step leaves to the next, rank by rank. */
function* heldBy({ program, trainer }: Session): Iterable<readonly [string, Float64Array]> {
  for (let rank = 0; rank < worldOf(program.mesh); rank++)
    for (const shard of shardsOf(program, rank)) {
      const size = shard.line ? shard.line[1] - shard.line[0] : shard.shape.reduce((n, size) => n * size, 1)
      yield [`${shard.tensor} of rank ${rank}`, Float64Array.from(trainer.held(shard).subarray(0, size))]
    }
}

/** The records of so many steps, without times, and what they leave. */
async function taken(session: Session, steps: number) {
  const records = []
  for (let step = 0; step < steps; step++) {
    const { loss, gradientNorm, lr, taken, skipped, scale, normLimit } = await session.step()
    records.push({ loss, gradientNorm, lr, taken, skipped, scale, normLimit })
  }
  return { records, held: new Map(heldBy(session)), scalars: session.trainer.scalars() }
}

async function resumesWithTheSameBits(job: Job, kernels: KernelName, saveAt = 2, steps = 5): Promise<void> {
  const [dataset, options] = [syntheticOf(job), { kernels, pool }]
  const straight = await startSession(job, dataset, options)
  await taken(straight, saveAt)
  const checkpoint = savedFrom(straight)
  const expected = await taken(straight, steps - saveAt)
  await straight.stop()
  const beginning = { path: 'memory', checkpoint, share: 'everything' as const }
  const resumed = await startSession(job, dataset, { ...options, beginning })
  const actual = await taken(resumed, steps - saveAt)
  await resumed.stop()
  deepEqual(actual.records, expected.records)
  deepEqual(actual.scalars, expected.scalars)
  deepEqual([...actual.held.keys()], [...expected.held.keys()])
  for (const [name, values] of expected.held) ok(sameBits(values, actual.held.get(name)!), name)
}

const sameBits = (a: Float64Array, b: Float64Array): boolean =>
  a.length === b.length && a.every((value, i) => Object.is(value, b[i]))

const pool = new Pool()
after(() => pool.close())

const titleOf = (choice: Choice): string => Object.values(choice).join(', ')

const kinds = family('resumed bits: compression', 3)
for (const compress of Object.keys(facets.compress))
  for (const kernels of ['reference', 'native'] as const)
    kinds(
      `${kernels}, gradients sent ${compress}: the same bits`,
      { skip: (kernels === 'native' && nativeMissing()) || false },
      () => resumesWithTheSameBits(jobOf({ optimizer: 'uncorrected', model: 'gpt', mesh: 'dp 2', compress })!, kernels),
    )

const cases = pairwise(1, 500)
const drawn = family('resumed bits', 40)
for (const choice of cases)
  drawn(`reference: ${titleOf(choice)}`, () => resumesWithTheSameBits(jobOf(choice)!, 'reference'))
