/**
 * A plan that does not fit its device: which ranks, what they hold, and what would help. Every change that is
 * suggested was compiled and fits.
 */
import { hasErrors, type Problem, type Spoken, showBytes } from '../base/index.js'
import { kinds, type Program } from '../ir/index.js'
import { check, clause, type Job, type Offload, offloadOf, type Plan, refused } from '../plan/index.js'
import { compileJob, heaviest } from './job.js'

/** Diagnostics for ranks whose planned memory exceeds the limit of the job. */
export function memoryProblems(program: Program, job: Job): Problem[] {
  const { deviceMemory } = job.plan
  const pp = heaviest(program.streams)
  const { arena, peak } = program.streams[pp]
  if (deviceMemory === undefined || arena <= deviceMemory) return []
  const parts = kinds
    .filter(kind => peak[kind] > 0)
    .map(kind => clause('.part', { kind: clause(`.kind/${kind}`), bytes: showBytes(peak[kind]) }))
  return [
    refused('plan.deviceMemory', 'plan/memory/compiled', {
      ...{ stage: pp, bytes: showBytes(arena), parts: { joint: ',', of: parts }, room: showBytes(deviceMemory) },
      instead: remedy(job, deviceMemory),
    }),
  ]
}

interface Change extends Partial<Pick<Plan, 'zero' | 'recompute' | 'sequenceParallel' | 'microbatches'>> {
  /** What leaves beside what has left. */
  readonly offload?: Partial<Offload>
}

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
    ...offloadsOf(plan),
  ]
}

/** What may leave the device: states, what layers hand to each other, parts of parameters. */
function offloadsOf(plan: Plan): Change[] {
  const { optimizer, activations, parameters } = offloadOf(plan)
  return [
    ...(optimizer === 'device' ? [{ offload: { optimizer: 'host' as const } }] : []),
    ...(activations === 'none' ? [{ offload: { activations: 'layer-inputs' as const } }] : []),
    ...(parameters === 'device' && plan.zero === 3 ? [{ offload: { parameters: 'host' as const } }] : []),
  ]
}

/** All of them at once. */
function together(changes: readonly Change[]): Change {
  const offload: Change['offload'] = Object.assign({}, ...changes.map(change => change.offload))
  return { ...Object.assign({}, ...changes), ...(Object.keys(offload ?? {}).length > 0 && { offload }) }
}

const mostSuggestions = 3

function remedy(job: Job, memory: number): Spoken {
  const more = clause('.more-ranks', { tp: job.plan.tp, pp: job.plan.pp })
  if (typeof job.plan.schedule !== 'string') return clause('.try', { what: more })
  const changes = changesOf(job)
  const sized = changes.map(change => ({ change, bytes: bytesWith(job, change) }))
  const enough = sized.filter(({ bytes }) => bytes <= memory).slice(0, mostSuggestions)
  if (enough.length > 0)
    return clause('.try', {
      what: { joint: 'or', of: enough.map(({ change, bytes }) => clause('.change', changeSaid(change, bytes))) },
    })
  // What leaves the device costs most time: it is asked for where the rest does not do.
  const here = together(changes.filter(({ offload }) => offload === undefined))
  const all = together(changes)
  const [leastHere, least] = [bytesWith(job, here), bytesWith(job, all)]
  const [several, bytes] = leastHere <= memory ? [here, leastHere] : [all, least]
  if (changes.length > 1 && bytes <= memory) return clause('.several', changeSaid(several, bytes))
  const spread = clause('.spread', { more })
  return Number.isFinite(least) && changes.length > 0
    ? clause('.still', { ...changeSaid(all, least), instead: spread })
    : spread
}

const changeSaid = (change: Change, bytes: number) => ({ change: show(change), bytes: showBytes(bytes) })

/** Infinite: it cannot be compiled. */
function bytesWith(job: Job, { offload, ...change }: Change): number {
  const away = offload && { offload: { ...offloadOf(job.plan), ...offload } }
  const changed: Job = { ...job, plan: { ...job.plan, ...change, ...away, deviceMemory: undefined } }
  if (hasErrors(check(changed))) return Number.POSITIVE_INFINITY
  const { streams } = compileJob(changed)
  return streams[heaviest(streams)].arena
}

const show = ({ offload = {}, ...change }: Change): string =>
  [
    ...Object.entries(change).map(([field, value]) => `${field}: ${value}`),
    ...Object.entries(offload).map(([field, value]) => `offload.${field}: ${value}`),
  ].join(', ')
