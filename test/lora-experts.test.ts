/**
 * Adapters of experts: each expert has a pair of its own, which lies where the expert does. `LORA=100 npm test -- lora-experts` draws so many
 * plans; SEED=2 others.
 */
import assert from 'node:assert/strict'
import { elementsOf, hasErrors } from '../src/base/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { type Law, parse, print, verify } from '../src/ir/index.js'
import { activeParametersOf, adapterParametersOf, buildModel, flopsPerToken, withAdapters } from '../src/model/index.js'
import { adaptersOf, check, Job, type JobInput } from '../src/plan/index.js'
import { drop, swap } from './broken.js'
import { expertModels } from './expert-models.js'
import { family, test } from './families.js'
import { computesWhatOneRankComputes, titleOf } from './jobs.js'
import { routedJobs } from './routed-jobs.js'

type Plan = NonNullable<JobInput['plan']>
type Targets = NonNullable<JobInput['training']['lora']>['targets']

const jobOf = (model: keyof typeof expertModels, plan: Plan, targets: Targets = 'all-linear', dropout = 0): Job =>
  Job.parse({
    model: expertModels[model],
    training: { seq: 8, globalBatch: 8, clip: 0.5, lora: { rank: 2, alpha: 3, targets, dropout } },
    plan,
  })

const shown = family('LoRA of experts', 3)
const computes = (model: keyof typeof expertModels, plan: Plan, targets?: Targets) =>
  shown(`${model}, ${titleOf(plan)}, ${targets ?? 'all-linear'}`, () =>
    computesWhatOneRankComputes(jobOf(model, plan, targets)),
  )

computes('mixtral', { dp: 2, ep: 2, zero: 3 })
computes('deepseek', { dp: 2, tp: 2, ep: 2, etp: 2, zero: 1, microbatches: 2 })
computes('latent', { tp: 2, etp: 2, sequenceParallel: true, recompute: 'full' })
computes('qwen', { dp: 2, tp: 2, ep: 4, zero: 2, precision: 'bf16' }, ['gate', 'down'])
computes('gshard', { dp: 2, pp: 2, ep: 2, schedule: 'zb-h1', microbatches: 4 }, ['up', 'q'])
computes('deepseek', { dp: 2, cp: 2, ep: 2, etp: 2, zero: 3, sequenceParallel: true }, ['down'])

const asked = Number(process.env.LORA ?? 0)
const lora = { rank: 3, alpha: 4, targets: 'all-linear' } as const
const drawn = routedJobs(Number(process.env.SEED ?? 1), { lora })
for (let n = 0; n < asked; n++) {
  const { title, job } = drawn.next().value!
  test(title, () => computesWhatOneRankComputes(job))
}

test('every expert has adapters of its own, and so has what all tokens pass; FLOPs count those that a token meets', () => {
  const job = jobOf('deepseek', {})
  const adapters = adaptersOf(job)!
  const { params } = withAdapters(buildModel(job.model, { batch: 1, seq: 8 }), adapters)
  const own = params.filter(({ frozen }) => !frozen)
  const shapeOf = (name: string) => own.find(param => param.name === name)?.dims.map(({ size }) => size)
  assert.deepEqual(shapeOf('layers.1.mlp.experts.down.lora.a'), [8, 4, 2])
  assert.deepEqual(shapeOf('layers.1.mlp.experts.down.lora.b'), [8, 2, 8])
  assert.deepEqual(shapeOf('layers.1.mlp.shared.up.lora.a'), [8, 2])
  const trained = own.reduce((sum, { dims }) => sum + elementsOf(dims), 0)
  assert.equal(adapterParametersOf(job.model, adapters), trained)
  // Four experts of eight, each with three matrices of 8 and 4.
  const met = trained - 4 * 3 * 2 * (8 + 4)
  const frozen = activeParametersOf(job.model, 8)
  assert.equal(flopsPerToken(job.model, 8, adapters), flopsPerToken(job.model, 8) - 2 * frozen + 6 * met)
})

test('refused: dropout of what experts see', () => {
  const problems = check(jobOf('mixtral', {}, ['q', 'down'], 0.1))
  assert.ok(hasErrors(problems))
  assert.match(problems[0].message, /inputs of down are tokens dispatched to experts/)
  assert.match(problems[0].suggestion ?? '', /targets to \[q, k, v, out\]/)
  assert.ok(!hasErrors(check(jobOf('mixtral', {}, ['q', 'v'], 0.1))))
})

const split = jobOf('mixtral', { tp: 2, etp: 2 })
const text = print(compileJob(split))
const breaks = (law: Law, what: string, edit: (text: string) => string) =>
  test(`[${law}] ${what}`, () => {
    const found = verify(parse(edit(text)), compileJob(serialJob(split)))
    assert.ok(
      found.some(violation => violation.law === law),
      `instead: ${JSON.stringify(found.slice(0, 3))}`,
    )
  })
breaks(
  'P3',
  'an adapter of experts that is not updated',
  drop(/^ {2}call "?update routed.mlp.experts.up.lora.b"? .*\n/),
)
breaks('T2', 'a sum over the width of experts that is taken for whole', swap(/(buffer %down\.low .*) sum:tp/, '$1'))
breaks(
  'T1',
  'an adapter of other experts',
  swap(
    'expertContract %up.scaled %routes.2 %mlp.experts.up.lora.b',
    'expertContract %up.scaled %routes.1 %mlp.experts.up.lora.b',
  ),
)
