/**
 * The plans worth listing for a request: the search's best, put in order by simulation in outline, and compiled. Of our own
 * software no plan is listed that was not compiled and does not fit; what cannot be compiled is left out and named. How
 * much is simulated and compiled is bounded by counts known beforehand, never by time: the answer is the same on a busy
 * machine.
 */
import { asPart, finish, type Problem, ProblemsError, type Work } from '../base/index.js'
import { certainly, edgesOf, type Fit, memoryProfileOf } from '../estimate/index.js'
import { searchingAll } from './allowed.js'
import { asSimulated } from './as-simulated.js'
import { fitOfPrice } from './fitting.js'
import { keptPlans } from './kept-plans.js'
import { kindOf, outcomeOf } from './kinds.js'
import { type Neighbour, neighboursOf } from './neighbours.js'
import { type FasterOrder, findingOrder } from './order.js'
import { clause, refused } from './phrases.js'
import type { PlanSample } from './plan-sample.js'
import { Race } from './race.js'
import { type Remark, readingOf } from './reading.js'
import type { Request } from './request.js'
import { capacityOf, type Found, type Priced } from './search.js'
import { type Sensitivity, sensitivities, sensitivityOf } from './sensitivity.js'
import {
  bestOfEachFirst,
  canSimulate,
  type FailedPlan,
  hasFailed,
  type OutlinedPlan,
  PlanSimulator,
  type SimulatedPlan,
  simulatedCalls,
} from './simulated.js'

/** The result of `findPlans`. */
export interface Answer {
  readonly request: Request
  readonly found: Found
  /** Plans that surely fit, fastest first; only the best of nearly equal ones. */
  readonly listed: readonly RankedPlan[]
  /**
   * Plans that may fit and are faster than all that surely fit; each is more likely to fit than those before it.
   * Empty for compiled plans.
   */
  readonly possible: readonly RankedPlan[]
  /** The Pareto frontier of time and memory: fastest first, each with less memory than those before it. */
  readonly front: readonly RankedPlan[]
  readonly outlined: readonly OutlinedPlan[]
  /** Compiled plans, including those that turned out not to fit. */
  readonly compiled: readonly SimulatedPlan[]
  readonly failed: readonly FailedPlan[]
  /** Plans with too many calls to be compiled, and so not listed. */
  readonly tooLong: number
  /** A rank order in which the first plan is faster. */
  readonly order?: FasterOrder
}

/** A listed plan: its estimate, whether it fits, and its simulation. */
export interface RankedPlan {
  readonly plan: Priced
  readonly fit: Fit
  /** Absent: estimated only. */
  readonly simulated?: SimulatedPlan
}

/** Why the best plan is the best: remarks, single-change alternatives and sensitivity. */
export interface Why {
  readonly reading: readonly Remark[]
  readonly neighbours: readonly Neighbour[]
  readonly sensitivity: readonly Sensitivity[]
}

/** Options of `findPlans`. */
export interface PlannerOptions {
  /** How many plans to list. */
  readonly top: number
  /**
   * How many of the best to simulate before those listed are compiled. False: estimates only, and nothing is
   * compiled.
   */
  readonly simulate: number | false
  /** False: no Pareto frontier of time and memory, which takes more than half the time. */
  readonly front: boolean
  /** Collects estimated plans while the search runs. */
  readonly sample?: PlanSample | undefined
}

const defaults: PlannerOptions = { top: 10, simulate: keptPlans, front: true }

/** Programs of more calls take minutes to compile. */
const mostCalls = 2 ** 18
/** Steps that all plans together may have, in outline and compiled. */
const mostOutlined = 2 ** 21
const mostCompiled = 2 ** 19

/** Where so many of the best do not fit once compiled, the search is repeated. */
const mostUnfit = 24
/** So many programs tell by how much a program at least differs from its price, but for this share. */
const fewPrograms = 4
const otherwise = 0.01

/** Steps that differ by less than this share are equally fast. */
const equallyFast = 1e-3

const mostOnFront = 8

/** How often to search, each time with more room left for what prices leave out. */
const mostAttempts = 4

/** Searches for the best plans, simulates and compiles them. Throws if plans fit by estimate and none once compiled. */
export const findPlans = (request: Request, given: Partial<PlannerOptions> = {}): Answer =>
  finish(findingPlans(request, given))

/** `findPlans` as a generator that yields the fraction done. */
export function* findingPlans(request: Request, given: Partial<PlannerOptions> = {}): Work<Answer> {
  const options = { ...defaults, ...given }
  return yield* compiles(request, options) ? compiledPlans(request, options) : pricedPlans(request, options)
}

const compiles = (request: Request, { simulate }: PlannerOptions): boolean => simulate !== false && canSimulate(request)

/** Of prices alone some plans surely fit, and others may. */
function* pricedPlans(request: Request, options: PlannerOptions): Work<Answer> {
  const [surely, possibly] = edgesOf(capacityOf(request), memoryProfileOf(request.software))
  const { top: kinds, front, sample } = options
  const asked = { keep: Math.max(keptPlans, kinds), kinds, capacity: possibly, surely, front, sample }
  const found = yield* searchingAll(request, asked)
  const heavier = found.front.findLastIndex(({ bytes }) => bytes > surely) + 1
  const answer = yield* rankingPlans(request, { ...found, front: found.front.slice(heavier) }, options)
  return { ...answer, possible: spread(found.front.slice(0, heavier)).map(plan => priced(request, plan)) }
}

const priced = (request: Request, plan: Priced): RankedPlan => ({ plan, fit: fitOfPrice(request, plan) })

function* compiledPlans(request: Request, options: PlannerOptions): Work<Answer> {
  let answer: Answer | undefined
  let within: Request | undefined = request
  for (let attempts = 0; within && attempts < mostAttempts; attempts++) {
    const { front, sample } = options
    const asked = { keep: Math.max(keptPlans, options.top), front, sample }
    const found: Found = yield* asPart(0, 0.2, searchingAll(within, asked))
    if (answer && found.best.length === 0) break
    answer = yield* asPart(0.2, 1, rankingPlans(request, found, options))
    if (answer.listed.length > 0 || found.best.length === 0) return answer
    within = leavingRoom(within, answer)
  }
  throw new ProblemsError([nothingListed(answer as Answer)]) // there was an attempt
}

/** Ranks what a search found. */
export const rankingPlans = (request: Request, found: Found, options: Ranking): Work<Answer> =>
  new Planner(request, found, options).rank()

type Ranking = Omit<PlannerOptions, 'front'>

/** The request with as much less memory as the program that was nearest to its price turned out to need more. */
function leavingRoom(request: Request, { compiled }: Answer): Request | undefined {
  if (compiled.length === 0) return undefined
  const share = Math.max(...compiled.map(({ plan, arena }) => plan.bytes / arena))
  const bytes = Math.floor(capacityOf(request) * Math.min(share, 0.99))
  return { ...request, constraints: [...request.constraints, { field: 'memory', bytes, text: `memory<=${bytes}` }] }
}

function nothingListed({ request, compiled, failed, tooLong }: Answer): Problem {
  if (compiled.length > 0) {
    const share = Math.min(...compiled.map(({ plan, arena }) => plan.bytes / arena))
    const limit = Math.floor((capacityOf(request) * share) / 2 ** 30)
    return refused('plan', 'plan/memory/listed', { plans: compiled.length, limit })
  }
  if (tooLong > 0) {
    const limit = Math.floor(mostCalls / (3 * request.shape.layers))
    return refused('plan', 'plan/size/listed', { plans: tooLong, most: mostCalls, limit })
  }
  return refused('plan', 'plan/failed', { why: failed[0]?.why ?? clause('.none-found') })
}

/** One search's plans on their way to a ranking. */
class Planner {
  readonly #request: Request
  readonly #found: Found
  readonly #options: Ranking
  readonly #simulator: PlanSimulator
  readonly #outlined: OutlinedPlan[] = []
  readonly #compiled = new Map<Priced, SimulatedPlan>()
  readonly #failed = new Map<Priced, FailedPlan>()
  readonly #tooLong = new Set<Priced>()

  constructor(request: Request, found: Found, options: Ranking) {
    this.#request = request
    this.#found = found
    this.#options = options
    this.#simulator = new PlanSimulator(request)
  }

  *rank(): Work<Answer> {
    const { best, front } = this.#found
    const { simulate } = this.#options
    const byPrice = (plan: Priced) => priced(this.#request, plan)
    if (simulate === false || !canSimulate(this.#request))
      return this.#answer(distinct(best.map(byPrice), this.#options.top), spread(front).map(byPrice))
    const candidates = best.filter(plan => this.#isShort(plan))
    yield* asPart(0, 0.7, this.#outline(bestOfEachFirst(candidates).slice(0, simulate)))
    const listed = yield* asPart(0.7, 0.9, this.#compileListed(this.#inOrder(candidates)))
    const lighter = listed.length > 0 ? spread(front.filter(plan => this.#isShort(plan))) : []
    const picked = yield* asPart(0.9, 1, this.#compileFront(lighter))
    const order = listed[0] && (yield* findingOrder(this.#request, listed[0].plan))
    return { ...this.#answer(listed, frontOf([...listed, ...picked])), ...(order && { order }) }
  }

  #answer(listed: readonly RankedPlan[], front: readonly RankedPlan[]): Answer {
    const [compiled, failed] = [[...this.#compiled.values()], [...this.#failed.values()]]
    const results = { outlined: this.#outlined, compiled, failed, tooLong: this.#tooLong.size }
    return { request: this.#request, found: this.#found, listed, possible: [], front, ...results }
  }

  #isShort(plan: Priced): boolean {
    if (simulatedCalls(this.#request.shape, plan.split) <= mostCalls) return true
    this.#tooLong.add(plan)
    return false
  }

  *#outline(plans: readonly Priced[]): Work<void> {
    const race = new Race(this.#options.top)
    let [calls, done, before] = [0, 0, 0]
    for (const plan of plans) {
      done++
      if (race.isLost(plan)) continue
      calls += simulatedCalls(this.#request.shape, plan.split)
      if (calls > mostOutlined && this.#outlined.length > 0) return
      const share = Math.max(done / plans.length, calls / mostOutlined)
      const outcome = yield* asPart(before, share, this.#simulator.outlining(plan))
      if (hasFailed(outcome)) this.#failed.set(plan, outcome)
      else this.#outlined.push(race.entered(outcome))
      yield share
      before = share
    }
  }

  /**
   * Those that were simulated by that, of equally fast ones the lightest first; after them the others by their price. What
   * failed is left out.
   */
  #inOrder(plans: readonly Priced[]): Priced[] {
    const pace = ({ step }: OutlinedPlan) => Math.round(Math.log(step) / equallyFast)
    const simulated = this.#outlined
      .toSorted((a, b) => pace(a) - pace(b) || a.plan.bytes - b.plan.bytes)
      .map(({ plan }) => plan)
    const known = new Set([...simulated, ...this.#failed.keys()])
    return [...simulated, ...plans.filter(plan => !known.has(plan))]
  }

  *#compileListed(plans: readonly Priced[]): Work<RankedPlan[]> {
    const listed: RankedPlan[] = []
    const seen = new Set<string>()
    let calls = 0
    for (const plan of plans) {
      if (listed.length >= this.#options.top) break
      if (seen.has(kindOf(plan)) || this.#isTooLarge(plan)) continue
      calls += simulatedCalls(this.#request.shape, plan.split)
      if (listed.length > 0 ? calls > mostCompiled : this.#compiled.size >= mostUnfit) break
      const share = listed.length / this.#options.top
      const one = yield* asPart(share, share + 1 / this.#options.top, this.#compile(plan))
      if (!one || seen.has(outcomeKey(one))) continue
      seen.add(kindOf(plan)).add(outcomeKey(one))
      listed.push(one)
    }
    return listed.sort((a, b) => timeOf(a) - timeOf(b))
  }

  /** Whether it would not fit although it grew as little as any plan that was compiled. */
  #isTooLarge({ bytes }: Priced): boolean {
    if (this.#compiled.size < fewPrograms) return false
    const growth = Math.min(...[...this.#compiled.values()].map(({ plan, arena }) => arena / plan.bytes))
    return bytes * growth * (1 - otherwise) > capacityOf(this.#request)
  }

  *#compileFront(plans: readonly Priced[]): Work<RankedPlan[]> {
    const found: RankedPlan[] = []
    let calls = 0
    for (const plan of plans) {
      calls += simulatedCalls(this.#request.shape, plan.split)
      if (calls > mostCompiled) break
      const one = yield* asPart(found.length / plans.length, (found.length + 1) / plans.length, this.#compile(plan))
      if (one) found.push(one)
    }
    return found
  }

  /** Undefined: it does not fit, or cannot be compiled. */
  *#compile(plan: Priced): Work<RankedPlan | undefined> {
    yield 0
    if (this.#failed.has(plan)) return undefined
    const simulated = this.#compiled.get(plan) ?? (yield* this.#simulator.compiling(plan))
    if (hasFailed(simulated)) {
      this.#failed.set(plan, simulated)
      return undefined
    }
    this.#compiled.set(plan, simulated)
    return simulated.fits ? { plan, fit: certainly(true), simulated } : undefined
  }
}

const timeOf = ({ plan, simulated }: RankedPlan): number => simulated?.step ?? plan.estimate.step
const bytesOf = ({ plan, simulated }: RankedPlan): number => simulated?.arena ?? plan.bytes

const outcomeKey = (one: RankedPlan): string => outcomeOf(one.plan.split, timeOf(one), bytesOf(one))

/** The first of plans that hardly differ. */
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

/** Explains why the first listed plan is the best. At least one must be listed. */
export const reasonsFor = (answer: Answer): Why => finish(findingReasons(answer))

export function* findingReasons({ request, found, listed }: Answer): Work<Why> {
  const [first] = listed
  const sensitivity: Sensitivity[] = []
  // By price alone: a price is compared with prices.
  for (const one of sensitivityOf(request, found.best[0])) {
    sensitivity.push(one)
    yield sensitivity.length / sensitivities
  }
  const chosen = { ...first.plan, bytes: bytesOf(first) }
  return {
    reading: readingOf(request, first.simulated ? asSimulated(first.plan, first.simulated) : first.plan),
    neighbours: neighboursOf(request, chosen),
    sensitivity,
  }
}
