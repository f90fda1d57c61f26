/**
 * Jobs for bench/gpu/conformance.py, with what the reference computes of each: the conformance jobs, on 1 to 8 ranks; every optimizer with every
 * ZeRO stage in every precision; single-GPU jobs whose step is recorded as a CUDA graph.
 */
import { join } from 'node:path'
import { boot } from '../src/engine/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { emitCases, isHalf, precisionsOf, ranksOf, steps } from './emit-cases.js'
import { type Expected, emittedFiles, expectedOf, type Programs, programsOf, writeFiles } from './emitted.js'
import { jobOf, shallow } from './jobs.js'

type PlanInput = NonNullable<JobInput['plan']>
type TrainingInput = Partial<JobInput['training']>
type Way = 'written' | 'compiled' | 'recorded'

export interface GpuJob {
  readonly family: 'jobs' | 'optimizers' | 'recorded'
  readonly title: string
  readonly job: Job
  readonly steps: number
  readonly precisions: readonly ('f64' | 'plan')[]
  readonly ways: readonly Way[]
  /** Whether parameters are compared in half precision too, with what training moved them by. */
  readonly moves: boolean
}

const conformance = emitCases.map(
  ({ title, job }): GpuJob => ({
    ...{
      family: 'jobs',
      title,
      job,
      steps,
      precisions: precisionsOf(job),
      ways: ['written', 'compiled'],
      moves: false,
    },
  }),
)

/** Numbers of ranks that no conformance job has. */
const moreRanks: readonly (readonly [PlanInput, globalBatch: number])[] = [
  [{ dp: 5, zero: 1 }, 5],
  [{ dp: 3, tp: 2, zero: 3, sequenceParallel: true }, 6],
  [{ dp: 7, zero: 2 }, 7],
]
const ofRanks = moreRanks.map(([plan, globalBatch]): GpuJob => {
  const job = shallow(jobOf('llama', plan, { steps, globalBatch, evalBatches: 1 }))
  const title = `llama on ${ranksOf(job)} ranks`
  return {
    family: 'jobs',
    title,
    job,
    steps,
    precisions: precisionsOf(job),
    ways: ['written', 'compiled'],
    moves: false,
  }
})

const lr = 0.03
export const optimizers: Readonly<Record<string, NonNullable<TrainingInput['optimizer']>>> = {
  sgd: { kind: 'sgd', lr, weightDecay: 0.1 },
  'sgd, momentum': { kind: 'sgd', lr, momentum: 0.9, nesterov: true, weightDecay: 0.1 },
  adamw: { kind: 'adamw', lr, eps: 1e-3, weightDecay: 0.1 },
  'adamw, amsgrad': { kind: 'adamw', lr, eps: 1e-3, amsgrad: true },
  'adamw, coupled': { kind: 'adamw', lr, eps: 1e-3, coupled: true, weightDecay: 0.1 },
  lion: { kind: 'lion', lr, weightDecay: 0.1 },
  lamb: { kind: 'lamb', lr, eps: 1e-3, weightDecay: 0.1 },
  adafactor: { kind: 'adafactor', lr, weightDecay: 0.1 },
  muon: { kind: 'muon', lr, weightDecay: 0.1 },
}
export const precisions: Readonly<Record<string, PlanInput>> = {
  f32: {},
  bf16: { precision: 'bf16' },
  'pure-bf16': { precision: 'pure-bf16' },
  'bf16-no-masters': { precision: 'bf16-no-masters' },
  'stochastic rounding': { precision: 'pure-bf16', rounding: 'stochastic' },
  f16: { precision: 'f16' },
}

const valid = (job: Job): boolean => check(job).every(({ severity }) => severity !== 'error')
const mlp = { family: 'mlp', layers: 2, embed: 8, ffn: 8 } as const

function ofOptimizer(optimizer: string, zero: number, precision: string, more: TrainingInput = {}): GpuJob {
  const plan = { ...(zero === 0 ? {} : { dp: 2, zero }), ...precisions[precision] } as PlanInput
  const scale = precision === 'f16' ? { lossScale: { kind: 'torch', initial: 256 } as const } : {}
  const training = { seq: 2, globalBatch: 4, clip: 0.5, steps: 3, evalBatches: 1, optimizer: optimizers[optimizer] }
  const job = Job.parse({ model: mlp, training: { ...training, ...scale, ...more }, plan })
  return {
    ...{ family: 'optimizers', title: `${optimizer}, ZeRO ${zero}, ${precision}${more.ema ? ', EMA' : ''}`, job },
    ...{ steps: 3, precisions: ['f64', 'plan'], ways: ['written', 'compiled'], moves: true },
  }
}

const table = Object.keys(optimizers).flatMap(optimizer =>
  [0, 1, 2, 3].flatMap(zero => Object.keys(precisions).map(precision => ofOptimizer(optimizer, zero, precision))),
)
const averaged = [0, 1, 2, 3].map(zero => ofOptimizer('adamw', zero, 'bf16', { ema: { decay: 0.5 } }))

/**
 * Every pair of an optimizer, a ZeRO stage and a precision, for a simulated GPU, on which a job takes seconds. A real one runs the
 * whole table.
 */
export const paired: readonly GpuJob[] = [
  ...Object.keys(optimizers).flatMap((optimizer, o) =>
    Object.keys(precisions).map((precision, p) => ofOptimizer(optimizer, (o + p) % 4, precision)),
  ),
  ...averaged,
].filter(({ job }) => valid(job))

const cosine = { kind: 'cosine', warmup: 2, minLr: 1e-4 } as const
/** Six steps, of which the third is recorded; lr changes with every step. */
function recorded(title: string, model: JobInput['model'], plan: PlanInput, training: TrainingInput): GpuJob {
  const six = { seq: 2, globalBatch: 2, steps: 6, evalBatches: 1, clip: 0.5, lrSchedule: cosine, ...training }
  const job = Job.parse({ model, training: six, plan })
  return { family: 'recorded', title, job, steps: 6, precisions: ['plan'], ways: ['recorded'], moves: true }
}
const small = { layers: 1, embed: 8, heads: 2, ffn: 8, vocab: 16 } as const
const replays = [
  ...Object.entries(optimizers).map(([name, optimizer]) => recorded(`${name}, f32`, mlp, {}, { optimizer })),
  ...Object.keys(precisions)
    .filter(name => name !== 'f32')
    .map(name =>
      recorded(`adamw, ${name}`, mlp, precisions[name], {
        optimizer: optimizers.adamw,
        ...(name === 'f16' ? { lossScale: { kind: 'torch', initial: 256 } as const } : {}),
      }),
    ),
  recorded('llama, bf16, two microbatches', { family: 'llama', ...small }, { precision: 'bf16', microbatches: 2 }, {}),
  // The gradient of a key bias is rounding alone, which eps must outweigh.
  recorded(
    'gpt with dropout, EMA',
    { family: 'gpt', ...small, dropout: 0.2 },
    {},
    { optimizer: optimizers.adamw, ema: { decay: 0.5 } },
  ),
]

export const gpuJobs: readonly GpuJob[] = [
  ...conformance,
  ...ofRanks,
  ...[...table, ...averaged].filter(({ job }) => valid(job)),
  ...replays,
]

/** The records, the held-out loss and the parameters, as ranks.py writes them. */
const asRun = ({ losses, norms, heldOut, names, parameter }: Expected) => ({
  records: losses.map((loss, i) => ({ loss, gradientNorm: norms[i] })),
  heldOut,
  parameters: Object.fromEntries(names.map(name => [name, Array.from(parameter(name))])),
})

function expected({ job, steps, precisions, moves }: GpuJob, programs: Programs) {
  const inFull = () => asRun(expectedOf(job, steps, 'f64', programs))
  const plan = isHalf(job) ? asRun(expectedOf(job, steps, 'f32', programs)) : inFull()
  const machine = boot(programs.training, { seed: job.training.seed, precision: 'f64' })
  const start = moves
    ? {
        start: Object.fromEntries(
          programs.training.params.map(({ name }) => [name, Array.from(machine.parameter(name))]),
        ),
      }
    : {}
  return { ...(precisions.includes('f64') ? { f64: inFull() } : {}), plan: { ...plan, ...start } }
}

/** All jobs into one folder that travels, the runtime once. */
export function writeGpuFolder(
  out: string,
  jobs: readonly GpuJob[],
  commit: string,
  said: (title: string) => void = () => {},
): void {
  const list = jobs.map((each, i) => {
    const { job, title, family, ways, moves } = each
    const programs = programsOf(job)
    const files = Object.entries(emittedFiles(job, programs))
    if (i === 0)
      writeFiles(join(out, 'runtime-of-all'), Object.fromEntries(files.filter(([name]) => name.startsWith('runtime/'))))
    const own = Object.fromEntries(
      files.filter(([name]) => /\.(py|json|bin)$/.test(name) && !name.startsWith('runtime/')),
    )
    writeFiles(join(out, `job${i}`), { ...own, 'expected.json': JSON.stringify(expected(each, programs)) })
    said(title)
    return {
      ...{ folder: `job${i}`, family, title, ways, moves, steps: each.steps, precisions: each.precisions },
      ...{ ranks: ranksOf(job), half: isHalf(job), lr: job.training.optimizer.lr },
    }
  })
  writeFiles(out, { 'list.json': JSON.stringify({ commit, jobs: list }) })
}
