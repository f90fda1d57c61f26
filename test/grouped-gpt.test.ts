/** Models of the gpt family whose query heads share key-value heads, and mixtures by two of their sizes. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { test } from 'node:test'
import { elementsOf } from '../src/base/index.js'
import { exportJob, importConfig } from '../src/interop/index.js'
import { buildModel, ModelConfig, parametersOf, sizesOf, toHuggingFace } from '../src/model/index.js'
import { check, Job, type JobInput, parseJob } from '../src/plan/index.js'
import { computesWhatOneRankComputes, titleOf } from './jobs.js'

const sizes = { family: 'gpt', layers: 2, embed: 8, heads: 4, ffn: 8, vocab: 8 } as const
const jobOf = (kvHeads: number, plan: JobInput['plan']): Job =>
  Job.parse({ model: { ...sizes, kvHeads, dropout: 0.1 }, training: { seq: 4, globalBatch: 8 }, plan })

const computes = (kvHeads: number, plan: NonNullable<JobInput['plan']>) =>
  test(`kvHeads ${kvHeads}, ${titleOf(plan)}`, () => computesWhatOneRankComputes(jobOf(kvHeads, plan)))
computes(1, { tp: 2, pp: 2, sequenceParallel: true, microbatches: 2 })
computes(2, { tp: 4, dp: 2, zero: 3 })
computes(2, { cp: 2, attention: 'ulysses', dp: 2 })

test('parameters and cached numbers are counted as the model is built', () => {
  for (const kvHeads of [1, 2, 4]) {
    const config = ModelConfig.parse({ ...sizes, kvHeads })
    const built = buildModel(config, { batch: 1, seq: 4 }).params.reduce((sum, { dims }) => sum + elementsOf(dims), 0)
    equal(parametersOf(config, 4), built)
    equal(sizesOf(config, 4).cache, 2 * 2 * kvHeads * 2 * 2)
  }
})

test('heads that key-value heads do not divide, or tp cannot split, are refused', () => {
  match(check(jobOf(3, {}))[0].message, /heads 4 % kvHeads 3 = 1/)
  match(
    check(jobOf(2, { tp: 8 }))
      .map(problem => problem.message)
      .join('\n'),
    /heads \/ kvHeads = 2 not 4 ways/,
  )
})

test('Megatron is told of groups, and says them again; transformers has no such gpt2', () => {
  const { files, given } = exportJob(jobOf(2, {}), 'megatron')
  const text = [...files.values()][0]
  match(text, /--num-query-groups 2/)
  const { job } = importConfig(text, given)
  match(JSON.stringify(job?.model), /"family":"gpt".*"kvHeads":2|"kvHeads":2.*"family":"gpt"/)
  const { config, problems } = toHuggingFace(ModelConfig.parse({ ...sizes, kvHeads: 2 }), { seq: 4 })
  equal(config, undefined)
  deepEqual(
    problems.map(({ path }) => path),
    ['model.kvHeads'],
  )
})

const mixture = (model: string) =>
  parseJob(`model: { family: llama, layers: 2, embed: 8, heads: 2, ffn: 16, vocab: 8, ${model} }
training: { seq: 4, globalBatch: 4 }`)

test('experts and topK make a mixture; what moe says beside them must agree', () => {
  const said = mixture('experts: 4, topK: 2, moe: { dense: 1 }').job?.model
  deepEqual(said, mixture('moe: { experts: 4, topK: 2, ffn: 16, dense: 1 }').job?.model)
  match(mixture('experts: 4, topK: 2, moe: { topK: 1 }').problems[0].message, /2, but moe.topK is 1/)
  equal(mixture('experts: 4').problems[0].path, 'model.moe.topK')
})
