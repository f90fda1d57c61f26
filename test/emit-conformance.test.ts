/**
 * Emitted PyTorch computes what the definition computes: 2 steps (the second begins with what the first left to fly) and an
 * evaluation under gloo, every rank a process, for every feature. In f64 losses and parameters agree to 1e-10; plans on one
 * rank run in f32 too, to 2e-5 of a tensor's largest element (rounding of 2^-24 a sum, an update deep): more ranks run the same
 * lines. In bf16 losses and norms agree to 2^-7, two units in the last place. Adam's eps is 1e-5 here: it divides
 * gradients that are exactly 0 in theory (the key bias), of which rounding leaves some, by eps alone. JOBS=40 draws so many jobs over experts
 * and cut sequences, SEED=2 others; CASE=ring runs those with the word in their title.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { check, Data, Job, type JobInput } from '../src/plan/index.js'
import {
  emittedFiles,
  expectedOf,
  finished,
  type Programs,
  programsOf,
  temporaryFolder,
  writeFiles,
} from './emitted.js'
import { expertModels } from './expert-models.js'
import { jobOf, type ModelName, shallow, titleOf } from './jobs.js'
import { findPython, noPython } from './python.js'
import { randomJob } from './random-job.js'
import { type RoutedJob, routedJobs } from './routed-jobs.js'
import { some } from './share.js'

type PlanInput = NonNullable<JobInput['plan']>
type TrainingInput = Partial<JobInput['training']>

const adamw = { kind: 'adamw', lr: 3e-3, eps: 1e-5, weightDecay: 0.1 } as const

/**
 * Every feature at least once, and what is known to be hard together. One player plays every schedule: of each kind one is here
 * (in order, in chunks, breadth first, with weights apart, in a V, from both ends).
 */
const cases: readonly (readonly [ModelName, PlanInput, TrainingInput?])[] = [
  ['mlp', { dp: 2, microbatches: 2 }, { clip: undefined }],
  ['mlp', { pp: 2, microbatches: 4 }],
  ['gpt', {}],
  ['gpt', { tp: 2, sequenceParallel: true }],
  ['gpt', { tp: 4, sequenceParallel: true, overlap: false }],
  ['gpt', { dp: 2, zero: 1, microbatches: 2 }],
  ['gpt', { dp: 2, zero: 2, microbatches: 2 }],
  ['gpt', { dp: 2, zero: 2, microbatches: 2, reduce: 'step' }],
  ['gpt', { dp: 2, zero: 3, microbatches: 2 }],
  ['gpt', { dp: 2, zero: 3, microbatches: 2, gather: 'step' }],
  ['gpt', { recompute: ['gelu', 'layerNorm', 'contract'], tp: 2, sequenceParallel: true }],
  ['gpt', { dp: 2 }, { optimizer: { kind: 'sgd', lr: 0.05, momentum: 0.9, weightDecay: 0.01 } }],
  ['gpt', { dp: 2, tp: 2, order: 'dp-tp-pp' }],
  [
    'gpt',
    { pp: 2, microbatches: 4, layers: [1, 3] },
    { lrSchedule: { kind: 'cosine', warmup: 2, minLr: 1e-4 }, steps: 5 },
  ],
  ['gpt tied', { pp: 2, dp: 2, zero: 3, microbatches: 2 }],
  ['gpt tied', { tp: 2, sequenceParallel: true, recompute: 'full' }],
  ['llama', { tp: 4 }],
  ['llama', { pp: 2, microbatches: 4, schedule: 'looped-bfs' }],
  ['llama', { pp: 2, microbatches: 4, schedule: 'interleaved' }],
  ['llama', { pp: 2, microbatches: 4, schedule: 'dualpipe-v' }],
  ['llama', { pp: 4, microbatches: 8, schedule: 'dualpipe', recompute: 'selective' }],
  ['llama tied', { tp: 4, order: 'pp-dp-tp' }],
  ['llama tied', { pp: 2, tp: 2, microbatches: 2, schedule: 'zb-v', zero: 0 }],
  [
    'llama',
    { dp: 2, tp: 2, pp: 2, zero: 3, sequenceParallel: true, microbatches: 2, schedule: 'zb-h1', recompute: 'full' },
  ],
  ['gpt tied', { cp: 2, tp: 2, sequenceParallel: true }],
  ['llama tied', { cp: 4, zigzag: false, recompute: 'full' }],
  ['gpt tied', { cp: 2, attention: 'ring', dp: 2, zero: 1 }],
  ['llama tied', { cp: 4, attention: 'ring', zigzag: false }],
  ['llama', { cp: 2, tp: 2, attention: 'ulysses', sequenceParallel: true }],
  ['llama', { cp: 4, attention: { ulysses: 2, ring: 2 }, precision: 'bf16' }],
  ['latent', { tp: 2, sequenceParallel: true, recompute: 'full' }],
  ['latent', { cp: 2, dp: 2, zero: 3, microbatches: 2 }],
  ['latent', { pp: 2, tp: 2, microbatches: 2, schedule: 'zb-v' }],
  // One sequence a rank and microbatch.
  ['latent', { dp: 2, tp: 2, sequenceParallel: true, microbatches: 8 }],
  ['latent', { tp: 2, precision: 'bf16' }],
  ['gpt tied', { tp: 2, sequenceParallel: true, microbatches: 2, precision: 'bf16' }],
  ['llama', { pp: 2, dp: 2, zero: 3, microbatches: 2, schedule: 'zb-h1', precision: 'bf16' }],
  ['gpt', { dp: 2, zero: 1, precision: 'pure-bf16' }],
]

/** Random jobs of as many ranks as are there anyway; so many of any model, and so many over experts and cut sequences. */
const drawn = { plain: 2, routed: Number(process.env.JOBS ?? 2), seed: Number(process.env.SEED ?? 1) }
const seeds = Array.from({ length: 200 }, (_, i) => i + 1)
  .filter(seed => [2, 4, 8].includes(ranksOf(randomJob(seed))))
  .slice(0, drawn.plain)

const steps = 2
const python = findPython()
const script = fileURLToPath(new URL('../../test/emit_many.py', import.meta.url))

function ranksOf({ plan: { dp, cp, tp, pp } }: Job): number {
  return dp * cp * tp * pp
}

const isHalf = ({ plan }: Job): boolean => plan.precision !== 'f32'

/** What a job is run in: with all digits, and as the plan says. */
const precisionsOf = (job: Job) => (isHalf(job) || ranksOf(job) === 1 ? (['f64', 'plan'] as const) : (['f64'] as const))

const withEps = ({ training, ...job }: Job): Job => ({
  ...job,
  training: {
    ...training,
    optimizer: training.optimizer.kind === 'adamw' ? { ...training.optimizer, eps: adamw.eps } : training.optimizer,
  },
})

interface Case {
  readonly title: string
  readonly job: Job
  readonly folder: string
  readonly programs: Programs
}

const root = temporaryFolder()
const chosen = cases.map(([model, plan, training]) => ({
  job: shallow(jobOf(model, plan, { steps, evalBatches: 1, optimizer: adamw, ...training })),
  title: `${model}: ${titleOf(plan)}${training ? ` ${JSON.stringify(training)}` : ''}`,
}))
/** Routed models: every kind of router, experts on one rank, shared by ranks of every axis, and split. */
const routed: readonly (readonly [keyof typeof expertModels, PlanInput])[] = [
  ['mixtral', {}],
  ['deepseek', { microbatches: 2, recompute: 'full' }],
  ['qwen', { dp: 2, zero: 1 }],
  ['gshard', { tp: 2, sequenceParallel: true }],
  ['mixtral', { dp: 2, ep: 2 }],
  ['deepseek', { dp: 2, cp: 2, ep: 4, zero: 3, microbatches: 2 }],
  ['mixtral', { cp: 2, tp: 2, ep: 4, sequenceParallel: true }],
  ['gshard', { dp: 2, tp: 2, ep: 2, etp: 2 }],
  ['mixtral', { pp: 2, dp: 2, ep: 2, microbatches: 2, schedule: 'zb-h1' }],
  ['mixtral', { dp: 2, ep: 2, precision: 'bf16' }],
  // Rows that need not fit, and a zigzag over factors that experts cut.
  ['mixtral', { dp: 4, ep: 4, rows: 3 }],
  ['mixtral', { cp: 4, ep: 2, tp: 2, sequenceParallel: true }],
  ['mixtral', { cp: 4, ep: 2, attention: 'ring' }],
]
const withExperts = routed.map(([model, plan]) => ({
  job: Job.parse({
    model: expertModels[model],
    training: { seq: 8, globalBatch: 8, clip: 0.5, steps, evalBatches: 1, optimizer: adamw },
    plan: { rows: 'worst', ...plan },
  }),
  title: `experts, ${model}: ${titleOf(plan)}`,
}))
/** Sequences of several documents, under every kind of attention, and each cut in zigzag by itself. */
const ofDocuments: readonly (readonly [ModelName, PlanInput, pad?: number])[] = [
  ['gpt tied', { cp: 2, tp: 2, sequenceParallel: true }],
  ['llama tied', { cp: 4, attention: 'ring', zigzag: false, recompute: 'full' }],
  ['latent', { cp: 2, attention: 'ring', dp: 2, zero: 1 }],
  ['llama', { cp: 4, attention: { ulysses: 2, ring: 2 } }],
  ['gpt', { pp: 2, microbatches: 2, schedule: 'zb-h1', precision: 'bf16' }],
  ['llama tied', { cp: 2, zigzag: 'documents', attention: 'ring', tp: 2, sequenceParallel: true }, 4],
  ['gpt tied', { cp: 2, zigzag: 'documents', dp: 2, zero: 3 }, 4],
]
const withDocuments = ofDocuments.map(([model, plan, pad = 1], i) => ({
  job: {
    ...shallow(jobOf(model, plan, { seq: 8 * Math.min(pad, 2), steps, evalBatches: 2, optimizer: adamw })),
    data: Data.parse({ documents: { separator: i % 3, labels: i % 2 === 0 ? 'within' : 'all', pad } }),
  },
  title: `documents, ${model}: ${titleOf(plan)}`,
}))
const random = seeds.map(seed => ({ job: withEps(randomJob(seed)), title: `a random job (SEED=${seed})` }))
const routedJob = routedJobs(drawn.seed, { steps, evalBatches: 2, optimizer: adamw })
const randomRouted = Array.from({ length: drawn.routed }, () => routedJob.next().value as RoutedJob) // it never ends
const jobs = [...chosen, ...withExperts, ...withDocuments, ...random, ...randomRouted]
const all = (process.env.CASE ? jobs : some(jobs, 3))
  .filter(({ title }) => title.includes(process.env.CASE ?? ''))
  .map(({ job, title }, i): Case => ({ title, job, folder: join(root, `job${i}`), programs: programsOf(job) }))

interface Result {
  readonly records: readonly { readonly loss: number; readonly gradientNorm: number }[]
  readonly heldOut: number
  readonly parameters: Readonly<Record<string, readonly number[]>>
}

/** One Python runs all of them: loading torch takes longer than a job. The first folder has the runtime for all. */
async function runAll(): Promise<void> {
  for (const [i, { folder, job, programs }] of all.entries()) {
    const files = Object.entries(emittedFiles(job, programs))
    writeFiles(folder, Object.fromEntries(files.filter(([name]) => i === 0 || !name.startsWith('runtime/'))))
  }
  const list = all.map(({ folder, job }) => ({ folder, ranks: ranksOf(job), steps, precisions: precisionsOf(job) }))
  writeFileSync(join(root, 'list.json'), JSON.stringify(list))
  const { err } = await finished(python!, [script, join(root, 'list.json')]).done
  complaints = err.slice(-2000)
}

let complaints = ''

/** What the ranks of a job said, if it failed. */
const told = ({ folder }: Case): string =>
  readdirSync(folder)
    .filter(name => name.startsWith('failed-'))
    .map(name => readFileSync(join(folder, name), 'utf8'))[0] ?? `it was not run\n${complaints}`

/** Relative to the largest element, or to what one update moves where a tensor is smaller than that. */
function far(actual: readonly number[], expected: ArrayLike<number>): number {
  assert.equal(actual.length, expected.length)
  let [worst, largest] = [0, adamw.lr as number]
  for (let i = 0; i < actual.length; i++) {
    // A NaN is as far as can be.
    worst = Math.max(worst, Number.isFinite(actual[i]) ? Math.abs(actual[i] - expected[i]) : Infinity)
    largest = Math.max(largest, Math.abs(expected[i]))
  }
  return worst / largest
}

describe('emitted PyTorch under gloo computes what the reference computes', { skip: python ? false : noPython }, () => {
  before(runAll)
  after(() => rmSync(root, { recursive: true, force: true }))
  for (const each of all)
    test(each.title, () => {
      assert.deepEqual(
        check(each.job).filter(problem => problem.severity === 'error'),
        [],
      )
      const file = join(each.folder, 'result.json')
      assert.ok(existsSync(file), told(each))
      const results: Record<string, Result> = JSON.parse(readFileSync(file, 'utf8'))
      const half = isHalf(each.job)
      const exact = expectedOf(each.job, steps, 'f64', each.programs)
      for (const precision of precisionsOf(each.job)) {
        const bound = precision === 'f64' ? 1e-10 : half ? 2 ** -7 : 2e-5
        const { records, heldOut, parameters } = results[precision]
        const expected = half && precision === 'plan' ? expectedOf(each.job, steps, 'f32', each.programs) : exact
        const near = (what: string, actual: readonly number[], wanted: ArrayLike<number>) => {
          const distance = far(actual, wanted)
          assert.ok(distance <= bound, `${precision}: ${what} is ${distance.toExponential(1)} off`)
        }
        near(
          'loss',
          records.map(({ loss }) => loss),
          expected.losses,
        )
        near(
          'gradient norm',
          records.map(({ gradientNorm }) => gradientNorm),
          expected.norms,
        )
        near('held-out loss', [heldOut], [expected.heldOut])
        // A sum of few bf16 digits may have another sign, and Adam then steps the other way: weights say nothing.
        if (precision === 'f64' || !half)
          for (const name of expected.names) near(name, parameters[name], expected.parameter(name))
      }
    })
})
