/**
 * LoRA: adapters are parameters like any other, and everything else is frozen: no gradient, no states, nothing sent. `LORA=150 npm test
 * lora` draws so many plans.
 */
import assert from 'node:assert/strict'
import { choices, elementsOf, hasErrors, ranksOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileEvaluation, compileJob, serialJob } from '../src/compile/index.js'
import { estimate, placedOf, totalBytes } from '../src/estimate/index.js'
import { type Law, parse, print, type Violation, verify } from '../src/ir/index.js'
import {
  activeParametersOf,
  adapterParametersOf,
  buildModel,
  flopsPerToken,
  presets,
  withAdapters,
} from '../src/model/index.js'
import { adaptersOf, check, Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { drop, swap } from './broken.js'
import { family, later, test } from './families.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, shallow, titleOf } from './jobs.js'
import { lockstep } from './memory-io.js'
import { randomJob } from './random-job.js'

type Lora = NonNullable<JobInput['training']['lora']>
const usual: Lora = { rank: 2, alpha: 3, targets: ['q', 'v'] }

const loraJob = (model: ModelName, plan: JobInput['plan'], lora: Lora = usual): Job =>
  shallow(jobOf(model, plan ?? {}, { lora, globalBatch: 8 }))

const shown = family('LoRA', 3)
const computes = (model: ModelName, plan: JobInput['plan'], lora?: Lora) =>
  shown(`${model}, ${titleOf(plan ?? {})}, ${titleOf({ ...lora } as object)}`, () =>
    computesWhatOneRankComputes(loraJob(model, plan, lora)),
  )

computes('llama', { dp: 2, zero: 3, tp: 2 })
computes('gpt tied', { pp: 2, tp: 2, schedule: 'zb-h1', microbatches: 4 }, { targets: 'all-linear', dropout: 0.3 })
computes('latent', { dp: 2, cp: 2, zero: 1, precision: 'bf16' }, { targets: ['out', 'gate'] })
computes(
  'latent',
  { tp: 2, pp: 2, sequenceParallel: true, microbatches: 2 },
  { targets: ['q', 'k', 'v'], dropout: 0.2 },
)
computes('latent', { dp: 2, tp: 2, zero: 3 }, { targets: 'all-linear' })

/** Any plan of any sound job. */
const tested = process.env.LORA ? test : family('LoRA: random plans', 24)
for (let n = 0; n < Number(process.env.LORA ?? 24); n++) {
  const seed = 5000 + 1000 * Number(process.env.SEED ?? 1) + n
  const { pick, int } = choices(seed)
  const { training, ...rest } = randomJob(seed)
  const some = rest.model.family === 'mlp' ? (['up', 'down'] as const) : (['q', 'v', 'out', 'down'] as const)
  const targets = pick(['all-linear' as const, [some[0]], [some[1]], [...some]])
  const lora = { rank: 1 + int(4), alpha: 3, targets, dropout: pick([0, 0.3]) }
  const job = Job.parse({ ...rest, training: { ...training, lora } })
  const { dp, tp, pp, zero, schedule } = job.plan
  tested(`${job.model.family}, ${titleOf({ dp, tp, pp, zero, schedule })} (SEED=${process.env.SEED ?? 1} #${n})`, () =>
    computesWhatOneRankComputes(job),
  )
}

test('what is frozen has no gradient, no states and no flights; its place is as large as it was', () => {
  const whole = compileJob(shallow(jobOf('llama', { dp: 2, zero: 1 }, { globalBatch: 8 })))
  const program = compileJob(loraJob('llama', { dp: 2, zero: 1 }))
  const frozen = program.params.filter(param => param.frozen)
  assert.deepEqual(
    frozen.map(({ name }) => name),
    whole.params.map(({ name }) => name),
  )
  for (const { frames } of frozen) assert.deepEqual(Object.keys(frames[0]), ['param', 'states'])
  const adapters = program.params.filter(param => !param.frozen)
  const elements = adapters.flatMap(({ dims }) => dims.reduce((n, { size }) => n * size, 1)).reduce((a, b) => a + b)
  assert.equal(elements, 2 * ((8 + 8) * 2 + (8 + 4) * 2))
  // Adam's two moments of a half, in f32, each with room for whole lines.
  assert.ok(program.streams[0].peak.optimizer <= (2 * 4 * elements) / 2 + adapters.length * 128)
  assert.ok(whole.streams[0].peak.optimizer > 4 * program.streams[0].peak.optimizer)
})

const mla = { qLoraRank: 512, kvLoraRank: 256, qkRopeHeadDim: 32, qkNopeHeadDim: 64, vHeadDim: 64 }
const priced = (plan: JobInput['plan'], more: object = {}) =>
  later(`${titleOf({ ...plan, ...more })}: without compiling, memory and time are nearly those of the program`, () => {
    const sizes = { layers: 4, embed: 1024, heads: 16, ffn: 2816, vocab: 8192 }
    const model = { family: 'llama', ...sizes, ...('moe' in more || 'mla' in more ? more : { kvHeads: 8 }) } as const
    const targets = 'moe' in more || 'mla' in more ? 'all-linear' : (['q', 'v'] as const)
    const globalBatch = 'moe' in more ? 128 : 16
    const training = { seq: 1024, globalBatch, lora: { rank: 16, targets: targets as Lora['targets'] } }
    const job = Job.parse({ model, training, plan: { ...plan, precision: 'bf16' } })
    const cluster = clusterOf('h100', ranksOf(job.plan))
    const program = compileJob(job)
    const { step, memory } = estimate({ ...placedOf(job)!, cluster })
    const within = (share: number, a: number, b: number) => assert.ok(Math.abs(a / b - 1) < share, `${a} for ${b}`)
    within(0.06, step, simulate(program, clusterPrices(program, cluster)).step)
    within(0.06, totalBytes(memory), Math.max(...program.streams.map(({ arena }) => arena)))
  })
priced({ dp: 4, zero: 3, microbatches: 2 })
priced({ tp: 2, pp: 2, microbatches: 4 })
priced({ tp: 2, sequenceParallel: true, microbatches: 4 }, { mla })
priced({ dp: 4, zero: 1, ep: 4, microbatches: 4 }, { moe: { experts: 8, topK: 2, ffn: 1024, shared: 512 } })

test('an evaluation has adapters, frozen parameters and no masks', () => {
  const job = loraJob('llama', { dp: 2, zero: 3 }, { ...usual, dropout: 0.5 })
  const program = compileEvaluation(job)
  assert.deepEqual(verify(program, compileEvaluation(serialJob(job))), [])
  assert.ok(!print(program).includes('dropout'))
})

test('a program with frozen parameters is its text', () => {
  const program = compileJob(loraJob('llama', { dp: 2, zero: 3, precision: 'bf16' }))
  assert.deepEqual(parse(print(program)), program)
})

const serial = compileJob(serialJob(loraJob('llama', { tp: 2 })))
const breaks = (law: Law, what: string, edit: (text: string) => string) =>
  test(`[${law}] ${what}`, () => {
    const found: Violation[] = verify(parse(edit(print(compileJob(loraJob('llama', { tp: 2 }))))), serial)
    assert.ok(
      found.some(violation => violation.law === law),
      `instead: ${JSON.stringify(found.slice(0, 3))}`,
    )
  })

breaks('P3', 'a trained parameter that is not updated', drop(/^ {2}call "?update layers.attn.q.lora.a"? .*\n/))
const freeze = swap(/^(param layers\.0\.attn\.q\.lora\.a [^\n]*\n {2}init .*\n)/, '$1  frozen\n')
breaks('P3', 'a frozen parameter that is updated', freeze)
breaks('P11', 'a frozen parameter with a gradient, states and other numbers at the end', freeze)
breaks('I4', 'a parameter that is trained here and frozen there', swap('  frozen\n', ''))

const refuses = (what: string, input: JobInput, message: RegExp) =>
  test(`refused: ${what}`, () => {
    const problems = check(Job.parse(input))
    assert.ok(hasErrors(problems))
    assert.match(problems.map(problem => problem.message).join('\n'), message)
  })
const training = (targets: Lora['targets']) => ({ seq: 4, globalBatch: 4, lora: { targets } })
const sizes = { layers: 2, embed: 8, heads: 2, ffn: 8, vocab: 8 }

refuses('no gate', { model: { family: 'gpt', ...sizes }, training: training(['gate']) }, /gpt model has no matrix gate/)

test('plan --lora: the search knows what is frozen, in the words of a job', async () => {
  const asked = '--model llama3-8b --cluster h100 --devices 8 --seq 4k --global-batch 64 --no-simulate --no-why --top 1'
  const plan = (...more: string[]) => lockstep(['plan', ...asked.split(' '), ...more])
  const { out } = await plan('--json', '--lora', '{ rank: 16, targets: all-linear }')
  const { request, best } = JSON.parse(out)
  assert.deepEqual(request.lora, { rank: 16, alpha: 16, targets: 'all-linear', dropout: 0 })
  const { parameters, gradients, optimizer } = best[0].memory
  assert.ok(gradients + optimizer < parameters / 4, `${gradients} and ${optimizer} beside ${parameters}`)
  assert.match((await plan('--lora', '{ rnk: 16 }')).err, /unknown key `rnk`; did you mean `rank`/)
  assert.match((await plan('--lora', '[')).err, /--lora: `\[` cannot be read; write it as a job does/)
  assert.match(
    (await plan('--lora', '--software', 'megatron-2024')).err,
    /--lora: is not in the cost model of megatron/,
  )
})

later('adapters in every place of every axis at once', () =>
  computesWhatOneRankComputes(
    loraJob(
      'llama tied',
      { dp: 2, tp: 2, pp: 2, cp: 2, zero: 2, sequenceParallel: true, microbatches: 2 },
      {
        targets: 'all-linear',
      },
    ),
  ),
)

test('FLOPs of a run of adapters: what is frozen has no gradient, and every factor counts as the model has it', () => {
  const lora = { rank: 3, alpha: 6, targets: 'all-linear' } as const
  for (const model of [presets['llama-tiny'], presets['gpt-tiny'], presets['deepseek-tiny'], presets['mlp-tiny']]) {
    const job = Job.parse({ model, training: { seq: 8, globalBatch: 4, lora }, plan: {} })
    const adapters = adaptersOf(job)!
    const { params } = withAdapters(buildModel(job.model, { batch: 1, seq: 8 }), adapters)
    const trained = params.filter(({ frozen }) => !frozen).reduce((sum, { dims }) => sum + elementsOf(dims), 0)
    assert.equal(adapterParametersOf(job.model, adapters), trained)
    const [met, own] = [activeParametersOf(job.model, 8), adapterParametersOf(job.model, adapters, 'met')]
    assert.equal(flopsPerToken(job.model, 8, adapters), flopsPerToken(job.model, 8) - 2 * met + 6 * own)
  }
})
