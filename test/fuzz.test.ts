/**
 * The fuzzer itself (test/fuzz): what it draws reaches every feature, and a stage that fails is caught and the job made small. And a
 * few of the jobs it draws compute what one rank computes: `SEED=7 JOBS=300 npm test -- fuzz` takes so many others.
 */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { Pool } from '../src/engine/native/index.js'
import { earlierJobs, isSound, Job, type JobInput, jobFields } from '../src/plan/index.js'
import { family, later, test } from './families.js'
import { draw, featuresIn } from './fuzz/draw.js'
import { families, features } from './fuzz/features.js'
import { Fuzzer } from './fuzz/fuzz.js'
import type { Stages } from './fuzz/stages.js'
import { computesWhatOneRankComputes } from './jobs.js'

const tools = { pool: new Pool(), emitted: undefined }
after(() => tools.pool.close())

/** `plan.tp`, `training.batchRamp[].until`: every field a value has. */
function fieldsIn(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap(inner => fieldsIn(inner, `${path}[]`))
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => {
    const at = path === '' ? key : `${path}.${key}`
    return [at, ...fieldsIn(inner, at)]
  })
}

/** Fields that name files, and those that only `compile` writes. */
const notDrawn =
  /^(name|model\.preset|training\.steps|data\.(source|pairs|tokenizer|vocab|width|routing|evalFraction)|plan\.(schedule\.file|compress\.(waiting|virtual)))\b/

test('every field of a job is in a feature', () => {
  const patches = Object.values(features).flatMap(group => Object.values(group))
  const drawn = new Set(
    [...Object.values(families).map(model => ({ model })), ...patches].flatMap(patch => fieldsIn(patch)),
  )
  const left = jobFields().map(({ path }) => path)
  assert.deepEqual(
    left.filter(path => !drawn.has(path) && !notDrawn.test(path)),
    [],
  )
})

function accepted(input: JobInput): boolean {
  const { success, data } = Job.safeParse(input)
  return success && isSound(data)
}

later('2000 draws: every feature is in jobs that check accepts, and some jobs are refused', () => {
  const counts = new Map<string, number>()
  let taken = 0
  for (let seed = 1; seed <= 2000; seed++) {
    const { input } = draw(seed)
    if (!accepted(input)) continue
    taken++
    for (const name of featuresIn(input)) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  const names = Object.entries(features).flatMap(([group, patches]) =>
    Object.keys(patches).map(name => `${group} ${name}`),
  )
  assert.deepEqual(
    names.filter(name => (counts.get(name) ?? 0) < 3),
    [],
  )
  assert.ok(taken > 1800 && taken < 2000, `${taken} accepted`)
})

/** A stage that cannot bear two features together. */
const sabotaged: Stages = {
  sound: () => undefined,
  sabotaged: ({ job: { plan, training } }) => {
    if (plan.zero === 3 && training.optimizer.kind === 'lion') throw new Error(`no ${plan.zero}`)
    return plan.zero === 0 ? 'no ZeRO' : undefined
  },
}

test('a stage that fails is caught, and shrinks to the features that it takes', async () => {
  const fuzzer = new Fuzzer({ tools, stages: sabotaged })
  const large = {
    ...{ model: { ...families.llama, layers: 4, tied: true }, data: { documents: { eod: 0 } } },
    training: { seq: 16, globalBatch: 16, clip: 0.5, ema: {}, optimizer: { kind: 'lion', lr: 1e-3, weightDecay: 0.1 } },
    plan: { dp: 2, tp: 2, pp: 2, zero: 3, microbatches: 4, schedule: 'zb-h1', precision: 'bf16', recompute: 'full' },
  } as const
  assert.equal(await fuzzer.take({ seed: 1, input: { ...large, plan: { dp: 2 } } }), undefined)
  const failure = await fuzzer.take({ seed: 2, input: large })
  assert.equal(failure?.stage, 'sabotaged')
  assert.match(failure.reason, /no 3/)
  const { training, plan, data } = failure.smallest
  assert.deepEqual(
    { training, plan, data },
    {
      training: { seq: 1, globalBatch: 1, optimizer: { kind: 'lion', lr: 1e-3 } },
      plan: { zero: 3 },
      data: undefined,
    },
  )
  assert.equal(await fuzzer.take({ seed: 3, input: { ...large, plan: { tp: 3 } } }), undefined)
  assert.deepEqual(fuzzer.summary, {
    ...{ drawn: 3, accepted: 2, failed: 1 },
    stages: {
      check: { passed: 3, skipped: 0, failed: 0 },
      sound: { passed: 2, skipped: 0, failed: 0 },
      sabotaged: { passed: 0, skipped: 1, failed: 1 },
    },
  })
})

const seed = Number(process.env.SEED ?? 1)
const jobs = Number(process.env.JOBS ?? 24)
const tested = process.env.JOBS ? test : family('random jobs of every feature', 18)
for (let n = 0; n < jobs; n++) {
  const own = 1000 * seed + n
  const { input } = draw(own)
  if (accepted(input))
    tested(`${featuresIn(input).join(', ')} (SEED=${own}): computes what one rank computes`, () => {
      const job = Job.parse(input)
      for (const one of [...earlierJobs(job), job]) computesWhatOneRankComputes(one)
    })
}
