/**
 * The best few hundred, simulated event by event. In outline that takes milliseconds a plan and tells its time; compiled,
 * the program itself has the last word on time and memory. Only for our own software: of others there is no program to
 * simulate. One plan at a time, so that the caller decides when it has waited long enough.
 */
import { compileJob, printSchedule, type Schedule, scheduleOf } from '../compile/index.js'
import type { Split } from '../estimate/index.js'
import { clusterPrices, type Parts, simulate } from '../simulate/index.js'
import { Outlines } from './outline.js'
import { jobOf, type Request } from './request.js'
import { capacityOf, type Priced } from './search.js'

export interface OutlinedPlan {
  readonly plan: Priced
  readonly step: number
  readonly parts: Parts
}

export interface SimulatedPlan extends OutlinedPlan {
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
const canBeWritten = ({ split }: Priced): boolean => split.pp * split.chunks * split.microbatches <= mostTasks

export const canSimulate = ({ software, precision }: Request): boolean =>
  software.name === 'lockstep' && (precision === 'bf16' || precision === 'f32')

/** Without memory: nothing is compiled but a miniature for plans that are alike in all but their pipeline. */
export function* outlinedPlans(request: Request, plans: readonly Priced[]): Generator<OutlinedPlan> {
  const outlines = new Outlines(request)
  const outcomeOf = onceForEach(request, (split, schedule) => {
    const { program, prices } = outlines.of(split, schedule)
    const { step, parts } = simulate(program, prices, { watch: [] })
    return { step, parts }
  })
  for (const plan of plans.filter(canBeWritten)) yield { plan, ...outcomeOf(plan.split) }
}

/** The programs themselves. */
export function* simulatedPlans(request: Request, plans: readonly Priced[]): Generator<SimulatedPlan> {
  const outcomeOf = onceForEach(request, (split, schedule) => {
    const program = compileJob(jobOf(request, split), schedule)
    const { step, parts, memory } = simulate(program, clusterPrices(program, request.cluster), { watch: [] })
    return { step, parts, arena: memory.arena, fits: memory.arena <= capacityOf(request) }
  })
  for (const plan of plans.filter(canBeWritten)) yield { plan, ...outcomeOf(plan.split) }
}

function onceForEach<Outcome>(request: Request, outcomeOf: (split: Split, schedule: Schedule) => Outcome) {
  const scheduleFor = schedulesOf(request)
  const outcomes = new Map<Schedule, Map<string, Outcome>>()
  return (split: Split): Outcome => {
    const schedule = scheduleFor(split)
    const known = outcomes.get(schedule) ?? new Map<string, Outcome>()
    const key = JSON.stringify({ ...split, schedule: '' })
    const outcome = known.get(key) ?? outcomeOf(split, schedule)
    outcomes.set(schedule, known.set(key, outcome))
    return outcome
  }
}

/** On few ranks several schedules come to the same order: they are the same object. */
function schedulesOf(request: Request): (split: Split) => Schedule {
  const byName = new Map<string, Schedule>()
  const byOrder = new Map<string, Schedule>()
  return split => {
    const { schedule: name, pp, chunks, microbatches } = split
    const key = `${name} ${pp} ${chunks} ${microbatches}`
    const known = byName.get(key)
    if (known) return known
    const made = scheduleOf(jobOf(request, split).plan)
    const order = printSchedule(made)
    const schedule = byOrder.get(order) ?? made
    byOrder.set(order, schedule)
    byName.set(key, schedule)
    return schedule
  }
}
