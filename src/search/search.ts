/**
 * The complete search. Cuts of devices, groups of plans, and plans are visited in the order of a bound on their time, best first; they are
 * left out only if a bound proves that none of them can be among what is asked for:
 * - memory: the lightest does not fit;
 * - time: the fastest is no faster than the worst of the best so far, and cannot stand on the Pareto front,
 *   because the front ends before it or holds a plan at least as fast as that and as light as the lightest.
 * Everything else is priced. The test compares with pricing everything.
 */
import { finish, seconds, type Work } from '../base/index.js'
import {
  calibrated,
  type Estimate,
  footprint,
  roomOf,
  type Setup,
  type Split,
  timesOf,
  totalBytes,
  withMemory,
} from '../estimate/index.js'
import { memoryLimit } from './constraint.js'
import { boundedCuts } from './cuts.js'
import type { PlanSample } from './plan-sample.js'
import { type Request, setupOf } from './request.js'
import { Visit } from './visit.js'

/** A plan with its estimate. */
export interface Priced {
  readonly split: Split
  readonly estimate: Estimate
  readonly bytes: number
}

export interface Counts {
  /** Plans of the space that keep to the constraints. */
  readonly considered: number
  /** Left out by a bound, and by which. */
  readonly pruned: { readonly memory: number; readonly time: number }
  /** Their memory was found out, and the time of those that fit. */
  readonly priced: number
  /** Of the priced, those that were found not to fit. */
  readonly unfit: number
}

/** The result of a search: the best plans, the Pareto frontier, and how many candidates were pruned and why. */
export interface Found {
  /** Fastest first. */
  readonly best: readonly Priced[]
  /** The Pareto frontier of time and memory, up to twice the time of the best: fastest first. */
  readonly front: readonly Priced[]
  readonly counts: Counts
  /** Memory limit of a plan, in bytes. */
  readonly capacity: number
}

export interface Options {
  /** How many of the best to keep. */
  readonly keep: number
  /** Only as many as it takes to have this number of kinds, fastest first. */
  readonly kinds?: number
  /** Bytes a rank may take, where that is not the request's capacity. */
  readonly capacity?: number
  /** Memory limit of the best plans: heavier ones are listed on the Pareto frontier only, if they are faster. */
  readonly surely?: number
  /** Plans that were found before: what cannot be kept beside them is left out. */
  readonly known?: readonly Priced[]
  /** False: no front is asked for but of plans heavier than the best may be, and more can be left out. */
  readonly front?: boolean
  /** False prices everything: the truth that pruning is compared with. */
  readonly prune?: boolean
  /** Collects estimated plans while the search runs. */
  readonly sample?: PlanSample | undefined
}

/** The estimate of one plan of a request. */
export function priceOf(request: Request, split: Split): Priced {
  const setup = setupOf(request, split)
  return weighed(setup, timesOf(setup))
}

/** All its times multiplied: what one measured step says of the others. */
export const scaledTo = (plan: Priced, by: number): Priced =>
  by === 1 ? plan : { ...plan, estimate: calibrated(plan.estimate, seconds(plan.estimate.step * by)) }

/** Bytes a rank may use: of its device, and of the limit given by the user. */
export const capacityOf = ({ cluster, software, constraints }: Request): number =>
  Math.min(roomOf(cluster.device, software), memoryLimit(constraints))

/** Plans that may be the best come first and take the longest: this makes the share one of time, about. */
const costOfFirst = 0.3

/** Searches all plans of a request with the cost model. Nothing is simulated or compiled. */
export const search = (request: Request, options: Options): Found => finish(searching(request, options))

/** `search` as a generator that yields the fraction done. */
export function* searching(given: Request, options: Options): Work<Found> {
  // Bounds go by the rate at which most is multiplied.
  const request: Request = given.extras?.includes('fp8') ? { ...given, precision: 'fp8' } : given
  const { prune = true, capacity = capacityOf(request), surely = capacity } = options
  const cuts = boundedCuts(request)
  const visit = new Visit(
    request,
    { front: true, kinds: options.keep, known: [], sample: undefined, ...options, prune, capacity, surely },
    cuts,
  )
  let [steps, done] = [0, 0]
  while ((done = visit.next()) >= 0) if (++steps % 64 === 0) yield (done / cuts.plans) ** costOfFirst
  return visit.found(cuts.plans)
}

function weighed(setup: Setup, times: Omit<Estimate, 'memory'>): Priced {
  const memory = footprint(setup)
  return { split: setup.split, estimate: withMemory(times, memory), bytes: totalBytes(memory) }
}
