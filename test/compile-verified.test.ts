/** What callers of the API compile is checked before and verified after, and errors of their input say what is wrong. */
import { deepEqual, equal, match, ok, rejects, throws } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { choices, type Problem, ProblemsError } from '../src/base/index.js'
import { compileJob as compilePasses } from '../src/compile/index.js'
import * as api from '../src/index.js'
import { requireLawful, verify } from '../src/ir/index.js'
import type { BlockBuilder, Carry } from '../src/model/builder.js'
import { test } from './families.js'
import { jobOf } from './jobs.js'

const { Job, Plan, Training } = api

/** What a call throws. */
function problemsOf(call: () => unknown): readonly Problem[] {
  try {
    call()
  } catch (e) {
    ok(e instanceof ProblemsError, `not a ProblemsError: ${e}`)
    return e.problems
  }
  throw new Error('nothing was thrown')
}

const job = Job.parse({
  model: { family: 'gpt', layers: 2, embed: 16, heads: 2, ffn: 32, vocab: 32 },
  training: { seq: 8, globalBatch: 8 },
  plan: { dp: 2, pp: 2, microbatches: 2, zero: 3 },
})

test('each pass is watched, in the order of the list', () => {
  const seen: string[] = []
  let last: unknown
  const program = api.compileJob(job, undefined, {
    watch: (pass, made) => {
      seen.push(pass)
      last = made
    },
  })
  deepEqual(seen, [...api.passes])
  equal(last, program)
})

test('ARCHITECTURE.md lists the passes', () => {
  const [, table] = readFileSync('ARCHITECTURE.md', 'utf8').split(
    '| pass | file in src/compile | what it does |\n|---|---|---|\n',
  )
  const rows = table.split('\n\n')[0].split('\n')
  deepEqual(
    rows.map(row => row.split(' | ')[0].slice(2)),
    [...api.passes],
  )
})

test('passes without verification make the same program', () => {
  deepEqual(api.print(api.compileJob(job, undefined, { verify: false })), api.print(api.compileJob(job)))
  deepEqual(api.print(compilePasses(job)), api.print(api.compileJob(job)))
})

test('compileJob refuses what check refuses, with the same problems', () => {
  const wrong = Job.parse({
    model: { family: 'gpt', layers: 2, embed: 16, heads: 4, ffn: 32, vocab: 32 },
    training: { seq: 8, globalBatch: 8 },
    plan: { tp: 3, dp: 3 },
  })
  const errors = api.check(wrong).filter(({ severity }) => severity === 'error')
  ok(errors.length > 1)
  deepEqual(
    problemsOf(() => api.compileJob(wrong)),
    errors,
  )
  deepEqual(
    problemsOf(() => api.compileJob(wrong, undefined, { verify: false })),
    errors,
  )
})

test('a program that breaks an invariant is not returned', () => {
  const serial = compilePasses(api.serialJob(job, job.plan.microbatches))
  const program = compilePasses(job)
  const broken = {
    ...program,
    streams: [{ ...program.streams[0], steps: program.streams[0].steps.slice(0, -1) }, program.streams[1]],
  }
  ok(verify(broken, serial).length > 0)
  const [{ code }] = problemsOf(() => requireLawful(broken, serial))
  equal(code, 'program/law')
})

const seed = Number(process.env.SEED ?? 11)
test(`the one-rank job of a job that check passes is passed too (seed ${seed})`, () => {
  const { pick, chance } = choices(seed)
  for (let i = 0; i < 40; i++) {
    const zero = pick([0, 1, 2, 3] as const)
    const many = jobOf(pick(['gpt', 'llama']), {
      ...{ dp: pick([2, 4]), tp: pick([1, 2]), pp: pick([1, 2]), zero, microbatches: 2, precision: 'f32' },
      ...(zero === 3 && chance(0.5) && { compress: { gather: 'bf16' } }),
      ...(zero === 3 && chance(0.5) && { offload: { parameters: 'host' } }),
    })
    deepEqual(errorsOf(many), [])
    deepEqual(errorsOf(api.serialJob(many)), [])
  }
})

const errorsOf = (of: api.Job) => api.check(of).filter(({ severity }) => severity === 'error')

test('Job.parse throws the problems that parseJob returns', () => {
  const slip = { modle: 1, training: { seq: 8, globalBatch: 8 } } as unknown
  const thrown = problemsOf(() => Job.parse(slip))
  const { problems } = api.parseJob(JSON.stringify(slip))
  const plain = ({ code, path, message, suggestion }: Problem) => ({ code, path, message, suggestion })
  deepEqual(thrown.map(plain), problems.filter(({ severity }) => severity === 'error').map(plain))
  ok(
    thrown.some(({ code, suggestion }) => code === 'schema/key' && suggestion?.includes('model')),
    `${thrown.map(api.showProblem)}`,
  )
  equal(problemsOf(() => Plan.parse({ tpp: 2 }))[0].code, 'schema/key')
  equal(problemsOf(() => Training.parse({ seq: 8 }))[0].code, 'schema/missing')
  equal(problemsOf(() => api.ModelConfig.parse({ family: 'gpt', layers: 0 }))[0].code, 'schema/range')
})

type Block = BlockBuilder<'batch' | 'seq' | 'embed' | 'vocab'>

/** A model of three blocks, the middle one as a test wants it. */
const modelWith = (layer: (b: Block, carry: Carry) => Carry, batch = 2) =>
  api.defineModel('own', { batch, seq: 8, embed: 8, vocab: 16 }, model => {
    model.block('embed', b => ({
      x: b.embed(b.input('tokens', ['batch', 'seq'], 'i32'), b.param('tokens', ['vocab', 'embed'], api.normal(0.2))),
    }))
    model.repeat('layers', 2, layer)
    model.block('head', (b, { x }) => {
      b.crossEntropy(
        b.contract(x, b.tied('embed.tokens'), ['batch', 'seq', 'vocab']),
        b.input('labels', ['batch', 'seq'], 'i32'),
      )
      return {}
    })
  })

const normed = (b: Block, { x }: Carry): Carry => ({ x: b.add(x, b.layerNorm(x, 'norm', ['embed'], 1e-5)) })

test('a block that returns nothing is named where the next one reads', () => {
  const [found] = problemsOf(() => modelWith(() => ({})))
  equal(found.code, 'model/blocks')
  match(found.message, /block layers\.1 gets nothing, but the first of its kind got x \[batch seq embed\]/)
  const [renamed] = problemsOf(() => modelWith((b, { y }) => normed(b, { x: y })))
  match(renamed.message, /block layers\.0 reads y, which the block before does not return/)
  match(renamed.suggestion ?? '', /it returns x/)
})

test('a dim that is not declared, or is no size, is named', () => {
  const [found] = problemsOf(() =>
    modelWith((b, { x }) => ({ x: b.add(x, b.param('bias', ['ffn' as 'embed'], api.zeros)) })),
  )
  equal(found.code, 'model/dims')
  match(found.message, /dim ffn is not declared/)
  match(found.suggestion ?? '', /batch, seq, embed, vocab/)
  match(problemsOf(() => modelWith(normed, 1.5))[0].message, /dim batch is 1\.5/)
})

test('two parameters of one name in a block are refused', () => {
  const [found] = problemsOf(() =>
    modelWith((b, { x }) => ({
      x: b.add(x, b.param('bias', ['embed'], api.zeros), b.param('bias', ['embed'], api.zeros)),
    })),
  )
  equal(found.code, 'model/blocks')
  match(found.message, /two parameters named bias/)
})

/** What `compile` takes, for a global batch of 64. */
function inputOf(plan: Partial<api.Plan>, batch: number) {
  const parsed = Plan.parse(plan)
  return {
    ...{ model: modelWith(normed, batch), plan: parsed, schedule: api.scheduleOf(parsed) },
    training: Training.parse({ seq: 8, globalBatch: 64 }),
  }
}

test('sizes of a model of your own must agree with its training and plan', () => {
  ok(api.compile(inputOf({ dp: 2, microbatches: 4 }, 16)).streams.length > 0)
  const [batch] = problemsOf(() => api.compile(inputOf({}, 2)))
  equal(batch.path, 'model.dims.batch')
  match(batch.message, /batch 2 x microbatches 1 = 2, but globalBatch is 64/)
  match(batch.suggestion ?? '', /64$/)
  equal(problemsOf(() => api.compile(inputOf({ dp: 3 }, 64)))[0].code, 'plan/batch')
  equal(problemsOf(() => api.compile(inputOf({ tp: 3 }, 64)))[0].path, 'plan.tp')
  equal(problemsOf(() => api.compile(inputOf({ cp: 3 }, 64)))[0].path, 'plan.cp')
  const other = { ...inputOf({}, 64), schedule: api.makeSchedule('1f1b', { ranks: 2, chunks: 1, microbatches: 4 }) }
  deepEqual(
    problemsOf(() => api.compile(other)).map(({ message }) => message),
    [
      'the schedule has 2 ranks, the plan 1',
      'the schedule has 2 stages, the plan 1',
      'the schedule has 4 microbatches, the plan 1',
    ],
  )
})

test('a step without inputs, and a session without data, say so', async () => {
  const runner = api.boot(api.compileJob(job), { seed: 1 })
  const [found] = problemsOf(() => runner.step({ lr: 1 } as unknown as api.StepData))
  equal(found.code, 'step/data')
  match(found.suggestion ?? '', /the inputs are .*tokens/)
  throws(() => runner.step(undefined as unknown as api.StepData), ProblemsError)
  await rejects(
    api.startSession(job, undefined as unknown as api.Dataset),
    (e: unknown) => e instanceof ProblemsError && /needs a dataset/.test(e.problems[0].message),
  )
})
