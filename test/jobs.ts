/** Jobs for tests, small enough to be interpreted by the thousand, and the comparison with one rank. */
import assert from 'node:assert/strict'
import { compileJob, serialJob } from '../src/compile/index.js'
import {
  type CompareOptions,
  type Comparison,
  compare,
  runSerial,
  type SerialRun,
  worstOf,
} from '../src/engine/index.js'
import { verify } from '../src/ir/index.js'
import { check, Data, Job, type JobInput } from '../src/plan/index.js'

type ModelInput = JobInput['model']
type PlanInput = NonNullable<JobInput['plan']>
type TrainingInput = Partial<JobInput['training']>

/** Every family, tied and untied, with fewer key-value heads than tp, with everything a relative of Llama may have. */
export const models = {
  mlp: { family: 'mlp', layers: 4, embed: 4, ffn: 8 },
  gpt: { family: 'gpt', layers: 4, embed: 8, heads: 4, ffn: 8, vocab: 8, tied: false },
  'gpt tied': { family: 'gpt', layers: 4, embed: 8, heads: 4, ffn: 8, vocab: 8, tied: true, dropout: 0.2 },
  llama: { family: 'llama', layers: 4, embed: 8, heads: 4, kvHeads: 2, ffn: 8, vocab: 8 },
  'llama tied': {
    family: 'llama',
    layers: 4,
    embed: 8,
    heads: 4,
    kvHeads: 1,
    ffn: 8,
    vocab: 8,
    tied: true,
    qkvBias: true,
    qkNorm: true,
    window: 3,
  },
  /** DeepSeek's attention, and positions stretched by YaRN. */
  latent: {
    family: 'llama',
    layers: 4,
    embed: 8,
    heads: 4,
    ffn: 8,
    vocab: 8,
    mla: { qLoraRank: 3, kvLoraRank: 5, qkRopeHeadDim: 2, qkNopeHeadDim: 3, vHeadDim: 4 },
    ropeTheta: 50,
    ropeScaling: { kind: 'yarn', factor: 4, original: 8, fast: 2, slow: 0.1, scale: 1, scaleAll: 0.5 },
  },
} as const satisfies Record<string, ModelInput>

export type ModelName = keyof typeof models

export function jobOf(model: ModelName, plan: PlanInput, training: TrainingInput = {}): Job {
  const { layers } = models[model]
  const base = Job.parse({ model: models[model], training: { seq: 4, globalBatch: 16, clip: 0.5, ...training }, plan })
  // A stage needs a layer: deeper pipelines get deeper models.
  const stages = base.plan.pp * base.plan.chunks
  return { ...base, model: { ...base.model, layers: Math.max(layers, stages) } }
}

/** Of as many layers as its stages need, and at least two: what more of them would show, two show. */
export const shallow = (job: Job): Job =>
  Array.isArray(job.plan.layers)
    ? job
    : { ...job, model: { ...job.model, layers: Math.max(2, job.plan.pp * job.plan.chunks) } }

/** The same job, of sequences that hold several documents. */
export const packed = (job: Job, pad = 1): Job => ({ ...job, data: Data.parse({ documents: { eod: 0, pad } }) })

/** Two steps: the second begins with all that the first left behind. */
export const optionsOf = ({ training, model }: Job, steps = 2): CompareOptions => ({
  ...{ steps, seed: 1, lr: training.optimizer.lr, vocab: 'vocab' in model ? model.vocab : 1 },
})

const serials = new Map<string, SerialRun>()

/** One run on one rank in one piece serves every plan of the same model and training. */
export function serialOf(job: Job, steps?: number): SerialRun {
  const serial = serialJob(job)
  const key = JSON.stringify([
    job.model,
    job.training,
    job.data,
    serial.plan.microbatches,
    serial.plan.compress,
    serial.plan.fp8,
    steps,
  ])
  const known = serials.get(key) ?? runSerial(compileJob(serial), optionsOf(job, steps))
  serials.set(key, known)
  return known
}

/** The job is sound, its program lawful, its losses, gradients, parameters and peaks those of one rank. */
export function computesWhatOneRankComputes(job: Job, steps?: number): void {
  assert.deepEqual(
    check(job).filter(problem => problem.severity === 'error'),
    [],
  )
  const program = compileJob(job)
  assert.deepEqual(verify(program, compileJob(serialJob(job, job.plan.microbatches))).slice(0, 3), [])
  isWhatOneRankComputes(compare(program, serialOf(job, steps), optionsOf(job, steps)))
}

/** In f64 to 1e-12, replicas equal to the bit, peaks as planned. */
export function isWhatOneRankComputes(comparison: Comparison): void {
  assert.ok(
    worstOf(comparison) <= 1e-12,
    `differs from one rank: ${JSON.stringify({ steps: comparison.steps, parameter: comparison.parameter })}`,
  )
  assert.deepEqual(comparison.memory, [])
  assert.equal(comparison.spread.error, 0, `replicas of ${comparison.spread.name} differ`)
}

/** `dp 2 tp 2 zero 3`: a plan in a test's title, without what it leaves at its default. */
export const titleOf = (plan: PlanInput): string =>
  Object.entries(plan)
    .map(([key, value]) =>
      value === true ? key : `${key} ${typeof value === 'object' ? JSON.stringify(value) : value}`,
    )
    .join(' ') || 'one rank'
