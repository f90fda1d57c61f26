/**
 * The best few, compiled and simulated event by event: the program itself has the last word on time and memory. Only
 * for our own software: of others there is no program to simulate. One plan at a time, so that the caller decides when
 * it has waited long enough.
 */
import { compileJob } from '../compile/index.js'
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

/** Programs of more tasks take too long to write down. */
const mostTasks = 2 ** 16

export const canSimulate = ({ software, precision }: Request): boolean =>
  software.name === 'lockstep' && (precision === 'bf16' || precision === 'f32')

export function* simulatedPlans(request: Request, plans: readonly Priced[]): Generator<SimulatedPlan> {
  const capacity = capacityOf(request)
  for (const plan of plans) {
    const { pp, chunks, microbatches } = plan.split
    if (pp * chunks * microbatches > mostTasks) continue
    const program = compileJob(jobOf(request, plan.split))
    const { step, parts, memory } = simulate(program, clusterPrices(program, request.cluster), { watch: [] })
    yield { plan, step, parts, arena: memory.arena, fits: memory.arena <= capacity }
  }
}
