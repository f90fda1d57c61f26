/**
 * Rank orders. The cost model knows the usual one, in which data-parallel ranks are nearer to each other than pipeline stages; where the
 * network is thinner between groups of nodes, pipelines on the thin links and gradients on the others may be faster. Orders are simulated.
 */
import { asPart, dataRanks, defaultOrder, type Work } from '../base/index.js'
import type { Request } from './request.js'
import type { Priced } from './search.js'
import { canSimulate, hasFailed, PlanSimulator } from './simulated.js'

/** A rank order in which a plan is faster, as simulated. */
export interface FasterOrder {
  readonly rankOrder: string
  readonly step: number
  /** 1 - its step over that of the plan as it is. */
  readonly gain: number
}

/** The default, and that of Llama 3 (Dubey et al. 2024, section 3.3.2) and of Megatron's --use-tp-pp-dp-mapping. */
const orders = [defaultOrder, 'tp-cp-ep-pp-dp']

/** Gains of less are not worth a field. */
const leastGain = 0.005

/** Seconds of a step in a rank order; undefined where it cannot be simulated. */
export type StepIn = (rankOrder: string) => Work<number | undefined>

const outlinedIn = (request: Request, plan: Priced): StepIn =>
  function* (rankOrder) {
    const { said = { training: {} } } = request
    const outcome = yield* new PlanSimulator({ ...request, said: { ...said, rankOrder } }).outlining(plan)
    return hasFailed(outcome) ? undefined : outcome.step
  }

/**
 * The fastest rank order, by `stepIn` or in outline. Undefined: no other order is faster, or there is none: experts and a single level
 * of links leave one.
 */
export function* findingOrder(
  request: Request,
  plan: Priced,
  stepIn: StepIn = outlinedIn(request, plan),
): Work<FasterOrder | undefined> {
  const { split } = plan
  const { topology } = request.cluster
  const isFlat = topology.kind !== 'tree' || topology.levels.length === 1
  if (!canSimulate(request) || isFlat || split.pp === 1 || dataRanks(split) === 1 || split.ep > 1) return undefined
  const now = request.said?.rankOrder ?? defaultOrder
  const before = yield* asPart(0, 0.5, stepIn(now))
  const others = orders.filter(order => order !== now)
  let best: FasterOrder | undefined
  for (const [i, rankOrder] of others.entries()) {
    const [from, to] = [i, i + 1].map(n => 0.5 + (0.5 * n) / others.length)
    const step = yield* asPart(from, to, stepIn(rankOrder))
    if (before === undefined || step === undefined) continue
    const gain = 1 - step / before
    if (gain > (best?.gain ?? leastGain)) best = { rankOrder, step, gain }
  }
  return best
}
