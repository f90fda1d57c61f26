/**
 * The plans worth listing for a request: the search's best, put in order by simulation in outline, and compiled. Of our own
 * software no plan is listed that was not compiled and does not fit; what cannot be compiled is left out and named. How
 * much is simulated and compiled is bounded by counts known beforehand, never by time: the answer is the same on a busy
 * machine.
 */
import { error, type Problem, ProblemsError } from '../base/index.js'
import type { Request } from './request.js'
import { capacityOf, type Found, type Priced, search } from './search.js'
import {
  bestOfEachFirst,
  callsOfPlan,
  canSimulate,
  type FailedPlan,
  hasFailed,
  kindOf,
  type OutlinedPlan,
  PlanSimulator,
  type SimulatedPlan,
} from './simulated.js'

export interface PlannerOptions {
  /** How many plans to list. */
  readonly top: number
  /** How many of the best to simulate before those listed are compiled. False: prices alone, and nothing is compiled. */
  readonly simulate: number | false
  /** Told how far it is; the planner waits for what it returns. */
  readonly watch?: (progress: PlannerProgress) => void | Promise<void>
  /** Asked between plans: once aborted, what is known by then is the answer, as soon as one plan is known to fit. */
  readonly stop?: { readonly aborted: boolean }
}

export interface PlannerProgress {
  readonly phase: 'search' | 'simulate' | 'compile'
  readonly done: number
  readonly all?: number
}

export interface RankedPlan {
  readonly plan: Priced
  /** Absent: priced alone. */
  readonly simulated?: SimulatedPlan
}

export interface Ranking {
  readonly found: Found
  /** Fastest first; of plans that hardly differ the best. */
  readonly listed: readonly RankedPlan[]
  /** Of time against memory: fastest first, and each lighter than those before it. */
  readonly front: readonly RankedPlan[]
  readonly outlined: readonly OutlinedPlan[]
  /** Those that turned out not to fit included. */
  readonly compiled: readonly SimulatedPlan[]
  readonly failed: readonly FailedPlan[]
  /** Plans of so many calls that they were not compiled, and so not listed. */
  readonly tooLong: number
}

/** Kept, so that what is listed is the best of what differs. */
export const keptPlans = 300

/** Programs of more calls take minutes to compile. */
const mostCalls = 2 ** 18
/** Of all plans together, in outline and compiled. */
const mostOutlined = 2 ** 21
const mostCompiled = 2 ** 19

const mostOnFront = 8

/** Undefined: nothing fits, by price. Throws if nothing fits that was compiled. */
export async function planFor(request: Request, options: PlannerOptions): Promise<Ranking | undefined> {
  const { watch, top } = options
  let ranking: Ranking | undefined
  let within: Request | undefined = request
  for (let attempts = 0; within && attempts < mostAttempts; attempts++) {
    const found = search(within, {
      keep: Math.max(keptPlans, top),
      watch: (done, all) => void watch?.({ phase: 'search', done, all }),
    })
    if (found.best.length === 0) break
    ranking = await rankPlans(request, found, options)
    if (ranking.listed.length > 0) return ranking
    within = leavingRoom(within, ranking)
  }
  if (ranking) throw new ProblemsError([nothingListed(request, ranking)])
  return undefined
}

/** Of what a search found. */
export const rankPlans = (request: Request, found: Found, options: PlannerOptions): Promise<Ranking> =>
  new Planner(request, found, options).rank()

/** How often to search, each time with more room left for what prices leave out. */
const mostAttempts = 4

/** The request with as much less memory as the program that was nearest to its price turned out to need more. */
function leavingRoom(request: Request, { compiled }: Ranking): Request | undefined {
  if (compiled.length === 0) return undefined
  const share = Math.max(...compiled.map(({ plan, arena }) => plan.bytes / arena))
  const bytes = Math.floor(capacityOf(request) * Math.min(share, 0.99))
  return { ...request, constraints: [...request.constraints, { field: 'memory', bytes, text: `memory<=${bytes}` }] }
}

function nothingListed(request: Request, { compiled, failed, tooLong }: Ranking): Problem {
  if (compiled.length > 0) {
    const share = Math.min(...compiled.map(({ plan, arena }) => plan.bytes / arena))
    const limit = Math.floor((capacityOf(request) * share) / 2 ** 30)
    const message = `all ${compiled.length} plans that fit by price are too large once compiled`
    return error('plan/memory', 'plan', message, `try --constraint 'memory<=${limit}GiB'`)
  }
  if (tooLong > 0) {
    const message = `all ${tooLong} plans that fit call more than ${mostCalls} layers in a step: they are not compiled`
    const most = Math.floor(mostCalls / (3 * request.shape.layers))
    return error('plan/size', 'plan', message, `try --constraint 'microbatches<=${most}', or a smaller batch`)
  }
  return error('plan/failed', 'plan', `no plan could be compiled: ${failed[0]?.why ?? 'none was found'}`)
}

/** One search's plans on their way to a ranking. */
class Planner {
  readonly #request: Request
  readonly #found: Found
  readonly #options: PlannerOptions
  readonly #simulator: PlanSimulator
  readonly #outlined: OutlinedPlan[] = []
  readonly #compiled = new Map<Priced, SimulatedPlan | FailedPlan>()
  readonly #failed: FailedPlan[] = []
  readonly #tooLong = new Set<Priced>()

  constructor(request: Request, found: Found, options: PlannerOptions) {
    this.#request = request
    this.#found = found
    this.#options = options
    this.#simulator = new PlanSimulator(request)
  }

  async rank(): Promise<Ranking> {
    const { best, front } = this.#found
    const { simulate } = this.#options
    if (simulate === false || !canSimulate(this.#request))
      return this.#ranking(
        distinct(
          best.map(plan => ({ plan })),
          this.#options.top,
        ),
        spread(front).map(plan => ({ plan })),
      )
    const candidates = best.filter(plan => this.#isShort(plan))
    await this.#outline(bestOfEachFirst(candidates).slice(0, simulate))
    const listed = await this.#compileListed(this.#inOrder(candidates))
    const picked = listed.length > 0 ? await this.#compileFront(spread(front.filter(plan => this.#isShort(plan)))) : []
    return this.#ranking(listed, frontOf([...listed, ...picked]))
  }

  #ranking(listed: readonly RankedPlan[], front: readonly RankedPlan[]): Ranking {
    const compiled = [...this.#compiled.values()].filter(one => !hasFailed(one)) as SimulatedPlan[] // just asked
    const results = { outlined: this.#outlined, compiled, failed: this.#failed, tooLong: this.#tooLong.size }
    return { found: this.#found, listed, front, ...results }
  }

  #isShort(plan: Priced): boolean {
    if (callsOfPlan(this.#request.shape, plan.split) <= mostCalls) return true
    this.#tooLong.add(plan)
    return false
  }

  async #outline(plans: readonly Priced[]): Promise<void> {
    let calls = 0
    for (const plan of plans) {
      calls += callsOfPlan(this.#request.shape, plan.split)
      if (this.#options.stop?.aborted || (calls > mostOutlined && this.#outlined.length > 0)) return
      const outcome = this.#simulator.outline(plan)
      if (hasFailed(outcome)) this.#failed.push(outcome)
      else this.#outlined.push(outcome)
      await this.#options.watch?.({ phase: 'simulate', done: this.#outlined.length, all: plans.length })
    }
  }

  /** Those that were simulated by that, and after them the others by their price. What failed is left out. */
  #inOrder(plans: readonly Priced[]): Priced[] {
    const simulated = this.#outlined.toSorted((a, b) => a.step - b.step).map(({ plan }) => plan)
    const known = new Set([...simulated, ...this.#failed.map(({ plan }) => plan)])
    return [...simulated, ...plans.filter(plan => !known.has(plan))]
  }

  async #compileListed(plans: readonly Priced[]): Promise<RankedPlan[]> {
    const listed: RankedPlan[] = []
    const seen = new Set<string>()
    let calls = 0
    for (const plan of plans) {
      if (listed.length >= this.#options.top) break
      if (seen.has(kindOf(plan))) continue
      calls += callsOfPlan(this.#request.shape, plan.split)
      if (listed.length > 0 && (this.#options.stop?.aborted || calls > mostCompiled)) break
      const one = await this.#compile(plan)
      if (!one || seen.has(outcomeKey(one))) continue
      seen.add(kindOf(plan)).add(outcomeKey(one))
      listed.push(one)
    }
    return listed.sort((a, b) => timeOf(a) - timeOf(b))
  }

  async #compileFront(plans: readonly Priced[]): Promise<RankedPlan[]> {
    const found: RankedPlan[] = []
    let calls = 0
    for (const plan of plans) {
      calls += callsOfPlan(this.#request.shape, plan.split)
      if (this.#options.stop?.aborted || calls > mostCompiled) break
      const one = await this.#compile(plan)
      if (one) found.push(one)
    }
    return found
  }

  /** Undefined: it does not fit, or cannot be compiled. */
  async #compile(plan: Priced): Promise<RankedPlan | undefined> {
    const known = this.#compiled.get(plan)
    const outcome = known ?? this.#simulator.compile(plan)
    this.#compiled.set(plan, outcome)
    if (hasFailed(outcome) && !known) this.#failed.push(outcome)
    await this.#options.watch?.({ phase: 'compile', done: this.#compiled.size })
    return hasFailed(outcome) || !outcome.fits ? undefined : { plan, simulated: outcome }
  }
}

const timeOf = ({ plan, simulated }: RankedPlan): number => simulated?.step ?? plan.estimate.step
const bytesOf = ({ plan, simulated }: RankedPlan): number => simulated?.arena ?? plan.bytes

/** Schedules that come to the same thing have the same. */
const outcomeKey = (one: RankedPlan): string => {
  const { tp, pp, zero, recompute } = one.plan.split
  return [tp, pp, zero, recompute, timeOf(one), bytesOf(one)].join()
}

/** Of plans that hardly differ the first. */
function distinct(plans: readonly RankedPlan[], most: number): RankedPlan[] {
  const seen = new Set<string>()
  return plans
    .filter(one => {
      const keys = [kindOf(one.plan), outcomeKey(one)]
      const known = keys.some(key => seen.has(key))
      for (const key of keys) seen.add(key)
      return !known
    })
    .slice(0, most)
}

/** The first, the last, and as many as there is room for between them. */
function spread<T>(all: readonly T[]): T[] {
  const step = Math.max(1, (all.length - 1) / (mostOnFront - 1))
  return Array.from({ length: Math.min(mostOnFront, all.length) }, (_, i) => all[Math.round(i * step)])
}

function frontOf(plans: readonly RankedPlan[]): RankedPlan[] {
  const front: RankedPlan[] = []
  for (const one of plans.toSorted((a, b) => timeOf(a) - timeOf(b) || bytesOf(a) - bytesOf(b))) {
    const lightest = front.at(-1)
    if (!lightest || bytesOf(one) < bytesOf(lightest)) front.push(one)
  }
  return spread(front)
}
