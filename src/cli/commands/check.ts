/** lockstep check: every problem of a job, or its summary. */
import {
  counted,
  either,
  hasErrors,
  isSparing,
  meshAxes,
  type Problem,
  printable,
  showCount,
  wrapped,
} from '../../base/index.js'
import { parametersOf } from '../../model/index.js'
import { type Job, layersPerStage, type ParsedJob, stagesOf, worldOfPlan } from '../../plan/index.js'
import { dataProblems } from '../../train/data-problems.js'
import { besides } from '../files/beside.js'
import { loadJob } from '../files/load.js'
import type { Io } from '../io.js'
import { countProblems, showProblems } from '../text/problems.js'

export async function checkCommand(path: string, { json }: { json?: boolean }, io: Io): Promise<number> {
  const { job, problems } = await checked(path, io)
  io.out(json ? `${JSON.stringify(asJson(problems, job), null, 2)}\n` : asText(path, problems, io, job))
  return job ? 0 : 1
}

interface Checked {
  /** Absent where a problem is an error. */
  readonly job?: Job
  readonly problems: readonly Problem[]
}

async function checked(path: string, io: Io): Promise<Checked> {
  const parsed = loadJob(path, io)
  if (!parsed.job) return parsed
  const found = dataProblems(parsed.job, io, name => besides(path, name)).map(parsed.locate)
  const { job, problems } = await compiled(parsed, path, io)
  const all = [...problems, ...found].sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
  return { problems: all, ...(job && !hasErrors(all) && { job }) }
}

/** Whether a schedule's file is sound and whether the plan fits its device, only the compiler knows. */
async function compiled(parsed: ParsedJob, path: string, io: Io): Promise<Checked> {
  const { plan } = parsed.job ?? {}
  if (!plan || (typeof plan.schedule === 'string' && plan.deviceMemory === undefined)) return parsed
  const { programOf } = await import('../files/program.js')
  const { loaded, problems } = await programOf(parsed, path, io)
  return { problems, ...(loaded && { job: loaded.job }) }
}

export interface JobSummary {
  readonly parameters: number
  readonly ranks: number
  readonly mesh: Readonly<Record<string, number>>
  readonly stages: number
  readonly layersPerStage: readonly number[]
  readonly microbatches: number
  /** Sequences of one microbatch on one rank. */
  readonly microbatchSize: number
  readonly tokensPerStep: number
}

export function summarise({ model, training, plan }: Job): JobSummary {
  return {
    parameters: parametersOf(model, training.seq),
    ranks: worldOfPlan(plan),
    mesh: Object.fromEntries(meshAxes.map(axis => [axis, plan[axis]])),
    stages: stagesOf(plan),
    layersPerStage: layersPerStage(plan, model.layers),
    microbatches: plan.microbatches,
    microbatchSize: training.globalBatch / (plan.microbatches * plan.dp),
    tokensPerStep: training.globalBatch * training.seq,
  }
}

const asJson = (problems: readonly Problem[], job?: Job) => ({
  ok: job !== undefined,
  problems,
  ...(job && { summary: summarise(job) }),
})

function asText(path: string, problems: readonly Problem[], io: Io, job?: Job): string {
  const listed = showProblems(problems, io, path)
  return job ? `${listed}${wrapped(paragraph(job)).join('\n')}\n` : `${listed}${countProblems(problems)}\n`
}

/** How attention gets the keys and values of other cp ranks, unless by all-gather. */
function attentionOf({ plan: { cp, attention } }: Job): string {
  if (cp === 1 || attention === 'gather') return ''
  const kind = typeof attention === 'string' ? attention : `ulysses ${attention.ulysses} x ring ${attention.ring}`
  return `${kind} attention`
}

/** The summary of a job: model, mesh, stages and batch. */
export function paragraph(job: Job): string {
  const s = summarise(job)
  const { ep, ...factors } = s.mesh
  const used = Object.entries(factors).filter(([, size]) => size > 1)
  const mesh = used.length > 0 ? ` = ${used.map(([axis, size]) => `${axis} ${size}`).join(' x ')}` : ''
  const sizes = [...new Set(s.layersPerStage)]
  const schedule = typeof job.plan.schedule === 'string' ? job.plan.schedule : job.plan.schedule.file
  const { zero, sequenceParallel, recompute, precision, fp8, etp, compress } = job.plan
  const extras = [
    ep * etp > 1 ? `ep ${ep}${etp > 1 ? ` x etp ${etp}` : ''}` : '',
    zero > 0 ? `ZeRO ${zero}` : '',
    sequenceParallel ? 'sequence parallel' : '',
    attentionOf(job),
    recompute === 'none' ? '' : `${Array.isArray(recompute) ? recompute.join('+') : recompute} recompute`,
    precision === 'f32' ? '' : precision,
    fp8 ? 'fp8 matmuls' : '',
    ...(['reduce', 'gather'] as const).map(what =>
      compress?.[what] ? `${what} ${isSparing(compress[what]) ? 'by' : 'in'} ${compress[what]}` : '',
    ),
  ].filter(extra => extra !== '')
  return [
    `${job.name ? `${printable(job.name)}: ` : ''}${job.model.family}, ${showCount(s.parameters)} parameters, ${counted(s.ranks, 'rank')}${mesh};`,
    `${counted(s.stages, 'stage')} of ${either(sizes)} ${sizes.every(n => n === 1) ? 'layer' : 'layers'}${s.stages > 1 ? ` (${schedule})` : ''}${extras.length > 0 ? `, ${extras.join(', ')}` : ''};`,
    `${counted(s.microbatches, 'microbatch')} of ${s.microbatchSize} x ${job.training.seq} tokens per replica, ${s.tokensPerStep} tokens/step`,
  ].join(' ')
}
