/**
 * The best few, compiled and simulated event by event: the program itself has the last word on time and memory. Only
 * for our own software: of others there is no program to simulate. One plan at a time, so that the caller decides when
 * it has waited long enough.
 */
import { compileJob, printSchedule, scheduleOf } from '../compile/index.js'
import type { Program } from '../ir/index.js'
import { clusterPrices, type Parts, simulate } from '../simulate/index.js'
import { jobOf, type Request } from './request.js'
import { capacityOf, type Priced } from './search.js'

export interface SimulatedPlan {
  readonly plan: Priced
  readonly step: number
  readonly parts: Parts
  /** Of the heaviest rank, as it is compiled. */
  readonly arena: number
  readonly fits: boolean
}

/**
 * In the order they should be simulated: first the best of each kind (plans alike but for chunks and layer split), then
 * the others.
 */
export function bestOfEachFirst(plans: readonly Priced[]): Priced[] {
  const kinds = new Set<string>()
  const [first, rest]: [Priced[], Priced[]] = [[], []]
  for (const plan of plans) {
    const kind = kindOf(plan)
    ;(kinds.has(kind) ? rest : first).push(plan)
    kinds.add(kind)
  }
  return [...first, ...rest]
}

/** What two plans share that hardly differ. */
export const kindOf = ({ split }: Priced): string =>
  [split.tp, split.sequenceParallel, split.pp, split.zero, split.microbatch, split.recompute, split.schedule].join(' ')

/** Programs of more tasks take too long to write down. */
const mostTasks = 2 ** 16

export const canSimulate = ({ software, precision }: Request): boolean =>
  software.name === 'lockstep' && (precision === 'bf16' || precision === 'f32')

export function* simulatedPlans(request: Request, plans: readonly Priced[]): Generator<SimulatedPlan> {
  const known = new Map<string, Outcome>()
  for (const plan of plans) {
    const { pp, chunks, microbatches } = plan.split
    if (pp * chunks * microbatches > mostTasks) continue
    const job = jobOf(request, plan.split)
    const schedule = scheduleOf(job.plan)
    // On few ranks several schedules come to the same order: it is simulated once.
    const key = `${JSON.stringify({ ...plan.split, schedule: '' })} ${printSchedule(schedule)}`
    const outcome = known.get(key) ?? outcomeOf(request, compileJob(job, schedule))
    known.set(key, outcome)
    yield { plan, ...outcome }
  }
}

type Outcome = Omit<SimulatedPlan, 'plan'>

function outcomeOf(request: Request, program: Program): Outcome {
  const { step, parts, memory } = simulate(program, clusterPrices(program, request.cluster), { watch: [] })
  return { step, parts, arena: memory.arena, fits: memory.arena <= capacityOf(request) }
}
