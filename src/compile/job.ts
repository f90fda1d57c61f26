/** From a job to its program, and to the one-rank program it is compared with. */
import { batchRanks, dependsOnAddends, finish, sizesOf, type Work } from '../base/index.js'
import type { Program, Stream } from '../ir/index.js'
import { buildModel, type DocumentsShape, type StepShape, withAdapters } from '../model/index.js'
import { adaptersOf, type Documents, type Job, type Plan } from '../plan/index.js'
import { makeSchedule, type Schedule } from '../schedule/index.js'
import { compiling, shardStep } from './compile.js'
import type { CompiledParam, CompileInput } from './compiled.js'
import { sendsCodes } from './flight-codes.js'

/**
 * Runs the compiler's passes on the training step of a job that `check` passed. Nothing is verified: that is `compileVerified`'s work.
 * `schedule` is the parsed file of a plan that names one.
 */
export const compileJob = (
  job: Job,
  schedule?: Schedule,
  options: Pick<CompileInput, 'placing' | 'watch'> = {},
): Program => finish(compilingJob(job, schedule, options))

export function* compilingJob(
  job: Job,
  schedule: Schedule = scheduleOf(job.plan),
  options: Pick<CompileInput, 'placing' | 'watch'> = {},
): Work<Program> {
  return yield* compiling({ ...inputOf(job, schedule), ...options })
}

export function inputOf(job: Job, schedule: Schedule): CompileInput {
  const { model, training, plan, data } = job
  const replays = data?.routing !== undefined
  const built = buildModel(model, { ...stepOf(job), replays })
  return { model: withAdapters(built, adaptersOf(job)), plan, training, schedule }
}

export const stepOf = ({ training: { globalBatch, seq }, plan: { microbatches, zigzag }, data }: Job): StepShape => ({
  batch: globalBatch / microbatches,
  ...{ seq, microbatches },
  ...(data?.documents && { documents: documentsOf(data.documents, zigzag) }),
})

/** One rank has the documents of the plan that it is compared with, and an order as well, in which every token is at its place. */
const documentsOf = ({ pad }: Documents, zigzag: Plan['zigzag']): DocumentsShape => ({
  ...(pad > 1 && { every: pad }),
  ...(zigzag === 'documents' && { ordered: true }),
})

/** The pipeline schedule of a plan. A plan that names a file needs its schedule passed to `compileJob`. */
export function scheduleOf(plan: Plan): Schedule {
  if (typeof plan.schedule !== 'string') throw new Error(`the schedule of ${plan.schedule.file} must be read first`)
  return makeSchedule(plan.schedule, { ranks: plan.pp, chunks: plan.chunks, microbatches: plan.microbatches })
}

/**
 * What one rank does in one piece, unless the model is another one then: experts may be balanced within each microbatch. A rank that
 * plays several which code what they add, or send a part of it, does for each what it would.
 */
function piecesOf({ model, plan }: Job): number {
  if (dependsOnAddends(plan.compress?.reduce)) return plan.microbatches * batchRanks(plan)
  return model.family === 'llama' && (model.moe?.loss?.microbatch ?? 0) > 0 ? plan.microbatches : 1
}

/** The same job on one rank, without recomputation: the single-rank reference. */
export const serialJob = (job: Job, microbatches = piecesOf(job)): Job => ({
  ...job,
  plan: {
    ...serialPlan(job.plan, microbatches),
    ...(job.plan.compress && { compress: playing(job) }),
  },
})

export const serialPlan = ({ shard: _, ...plan }: Plan, microbatches: number): Plan => ({
  ...plan,
  ...{ dp: 1, tp: 1, pp: 1, cp: 1, ep: 1, etp: 1, zero: 0, sequenceParallel: false, attention: 'gather' },
  ...{ microbatches, schedule: 'gpipe', chunks: 1, recompute: 'none', layers: 'even' },
  ...(plan.offload && { offload: { ...plan.offload, parameters: 'device' as const } }),
})

/** What is lost in codes, or kept back, depends on how ranks cut numbers: one rank cuts them as those would that it is compared with. */
function playing(job: Job): Plan['compress'] {
  const { etp, zero, shard, microbatches } = job.plan
  const compress = withoutCast(job.plan.compress)
  if (!compress || (compress.gather !== 'int8' && !dependsOnAddends(compress.reduce))) return compress
  const exact = dependsOnAddends(compress.reduce) ? sentExactly(job) : []
  return { ...compress, virtual: { ...sizesOf(job.plan), etp, zero, ...(shard && { shard }), microbatches, exact } }
}

/** One rank gathers nothing. Codes are cut as other ranks would; a cast rounds each number alike, wherever it is. */
function withoutCast(compress: Plan['compress']): Plan['compress'] {
  if (compress?.gather !== 'bf16') return compress
  const { gather: _, ...rest } = compress
  return rest
}

/** Parameters whose gradients ranks send as they are, though others are sent in codes, or in part. */
function sentExactly(job: Job): string[] {
  const { plan } = job
  const schedule = typeof plan.schedule === 'string' ? plan : { ...plan, schedule: 'gpipe' as const }
  const { params } = shardStep(inputOf(job, scheduleOf(schedule)))
  const isSent = plan.compress?.reduce === 'int8' ? (param: CompiledParam) => sendsCodes(plan, param) : remembers
  return params.filter(param => !isSent(param)).map(({ spec }) => spec.name)
}

const remembers = ({ segments }: CompiledParam): boolean => segments.states.error !== undefined

/** The pipeline coordinate whose arena is the largest. */
export const heaviest = (streams: readonly Stream[]): number =>
  streams.reduce((most, stream, pp) => (stream.arena > streams[most].arena ? pp : most), 0)
