/** From a job to its program, and to the one-rank program it is held against. */
import { error, type Problem, showBytes } from '../base/index.js'
import { type Kind, kinds, type Program, type Stream } from '../ir/index.js'
import { buildModel } from '../model/index.js'
import type { Job, Plan } from '../plan/index.js'
import { makeSchedule, type Schedule } from '../schedule/index.js'
import { compile } from './compile.js'

/** `schedule` is the parsed file of a plan that names one. */
export function compileJob(job: Job, schedule: Schedule = scheduleOf(job.plan)): Program {
  const { model, training, plan } = job
  const shape = { batch: training.globalBatch / plan.microbatches, seq: training.seq }
  return compile({ model: buildModel(model, shape), plan, training, schedule })
}

export function scheduleOf(plan: Plan): Schedule {
  if (typeof plan.schedule !== 'string') throw new Error(`the schedule of ${plan.schedule.file} must be read first`)
  return makeSchedule(plan.schedule, { ranks: plan.pp, chunks: plan.chunks, microbatches: plan.microbatches })
}

/** The same job on one rank: nothing split, nothing recomputed. */
export const serialJob = (job: Job, microbatches = 1): Job => ({
  ...job,
  plan: {
    ...job.plan,
    ...{ dp: 1, tp: 1, pp: 1, cp: 1, ep: 1, zero: 0, sequenceParallel: false },
    ...{ microbatches, schedule: 'gpipe', chunks: 1, recompute: 'none', layers: 'even' },
  },
})

/** The pipeline coordinate whose arena is the largest. */
export const heaviest = (streams: readonly Stream[]): number =>
  streams.reduce((most, stream, pp) => (stream.arena > streams[most].arena ? pp : most), 0)

/** A plan whose largest arena exceeds the device: which ranks, what is resident, what would help. */
export function memoryProblems(program: Program, job: Job): Problem[] {
  const { plan } = job
  const pp = heaviest(program.streams)
  const { arena, peak } = program.streams[pp]
  if (plan.deviceMemory === undefined || arena <= plan.deviceMemory) return []
  const parts = kinds.filter(kind => peak[kind] > 0).map(kind => `${kind} ${showBytes(peak[kind])}`)
  const message = `the ranks of pipeline stage ${pp} need ${showBytes(arena)} (${parts.join(', ')}), but a device has ${showBytes(plan.deviceMemory)}`
  return [error('plan/memory', 'plan.deviceMemory', message, `try ${remedies(job, peak).join(', or ')}`)]
}

/** What lowers the largest kind. */
function remedies({ plan, training }: Job, peak: Readonly<Record<Kind, number>>): string[] {
  const [largest] = [...kinds].sort((a, b) => peak[b] - peak[a])
  const more = [`a larger tp (now ${plan.tp})`, `a larger pp (now ${plan.pp})`]
  if (largest === 'activations') {
    const size = training.globalBatch / (plan.dp * plan.microbatches)
    return [
      ...(plan.recompute === 'full' ? [] : ['recompute: full']),
      ...(size > 1 ? [`more microbatches (now ${plan.microbatches})`] : []),
      ...(plan.sequenceParallel || plan.tp === 1 ? [] : ['sequenceParallel: true']),
      more[0],
    ]
  }
  const stage = { parameters: 3, gradients: 2, optimizer: 1 }[largest as 'parameters' | 'gradients' | 'optimizer'] ?? 0
  return [...(plan.zero < stage && plan.dp > 1 ? [`zero: ${stage}`] : []), ...more]
}
