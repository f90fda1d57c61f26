/**
 * A plan that does not fit its device: which ranks, what they hold, and what would help. Every change that is
 * suggested was compiled and fits.
 */
import { either, error, hasErrors, type Problem, showBytes } from '../base/index.js'
import { kinds, type Program } from '../ir/index.js'
import { check, type Job, type Plan } from '../plan/index.js'
import { compileJob, heaviest } from './job.js'

export function memoryProblems(program: Program, job: Job): Problem[] {
  const { deviceMemory } = job.plan
  const pp = heaviest(program.streams)
  const { arena, peak } = program.streams[pp]
  if (deviceMemory === undefined || arena <= deviceMemory) return []
  const parts = kinds.filter(kind => peak[kind] > 0).map(kind => `${kind} ${showBytes(peak[kind])}`)
  const message = `the ranks of pipeline stage ${pp} need ${showBytes(arena)} (${parts.join(', ')}), but a device has ${showBytes(deviceMemory)}`
  return [error('plan/memory', 'plan.deviceMemory', message, remedy(job, deviceMemory))]
}

type Change = Partial<Pick<Plan, 'zero' | 'recompute' | 'sequenceParallel' | 'microbatches'>>

/** Changes that save memory on the same ranks, those that cost the least time first. */
function changesOf({ plan, training }: Job): Change[] {
  const most = training.globalBatch / plan.dp
  const zeros = ([1, 2, 3] as const).filter(zero => plan.dp > 1 && zero > plan.zero).map(zero => ({ zero }))
  return [
    ...(plan.tp > 1 && !plan.sequenceParallel ? [{ sequenceParallel: true }] : []),
    ...zeros.slice(0, 1),
    ...(plan.recompute === 'none' ? [{ recompute: 'selective' as const }] : []),
    ...(Number.isInteger(most) && most > plan.microbatches ? [{ microbatches: most }] : []),
    ...zeros.slice(1),
    ...(plan.recompute === 'full' ? [] : [{ recompute: 'full' as const }]),
  ]
}

const mostSuggestions = 3

function remedy(job: Job, memory: number): string {
  const more = `a larger tp (now ${job.plan.tp}) or pp (now ${job.plan.pp})`
  if (typeof job.plan.schedule !== 'string') return `try ${more}`
  const changes = changesOf(job)
  const sized = changes.map(change => ({ change, bytes: bytesWith(job, change) }))
  const enough = sized.filter(({ bytes }) => bytes <= memory).slice(0, mostSuggestions)
  if (enough.length > 0)
    return `try ${either(enough.map(({ change, bytes }) => `${show(change)} (${showBytes(bytes)})`))}`
  const all: Change = Object.assign({}, ...changes)
  const least = bytesWith(job, all)
  if (changes.length > 1 && least <= memory) return `no single change is enough; try ${show(all)} (${showBytes(least)})`
  const even = Number.isFinite(least) && changes.length > 0 ? `${show(all)} would still need ${showBytes(least)}: ` : ''
  return `${even}spread the model over more ranks, with ${more}`
}

/** Infinite: it cannot be compiled. */
function bytesWith(job: Job, change: Change): number {
  const changed: Job = { ...job, plan: { ...job.plan, ...change, deviceMemory: undefined } }
  if (hasErrors(check(changed))) return Number.POSITIVE_INFINITY
  const { streams } = compileJob(changed)
  return streams[heaviest(streams)].arena
}

const show = (change: Change): string =>
  Object.entries(change)
    .map(([field, value]) => `${field}: ${value}`)
    .join(', ')
