/**
 * The planner: searches all plans, simulates the best of them, compiles those that will be listed, ranks them by what is
 * known best, and says why. It takes a request and returns an answer; the caller decides how long it may take.
 */
import { error, type Problem, ProblemsError } from '../base/index.js'
import { type Neighbour, neighboursOf } from './neighbours.js'
import { readingOf, type Sentence } from './reading.js'
import type { Request } from './request.js'
import { type Found, type Priced, search } from './search.js'
import { type Sensitivity, sensitivities, sensitivityOf } from './sensitivity.js'
import {
  bestOfEachFirst,
  canSimulate,
  kindOf,
  type OutlinedPlan,
  outlinedPlans,
  type SimulatedPlan,
  simulatedPlans,
} from './simulated.js'

/** Everything that was found out about a request. */
export interface Answer {
  readonly request: Request
  readonly found: Found
  /** Best first: those that were simulated by that, and after them the others by their price. Empty: nothing fits. */
  readonly ranked: readonly RankedPlan[]
  readonly simulations: Simulations
  readonly seconds: { readonly search: number; readonly simulation: number }
}

export interface RankedPlan {
  readonly plan: Priced
  readonly simulated?: OutlinedPlan & Partial<SimulatedPlan>
}

export interface Simulations {
  readonly outlined: readonly OutlinedPlan[]
  /** Of the fastest of those the programs themselves; those that turned out not to fit included. */
  readonly compiled: readonly SimulatedPlan[]
}

export interface Why {
  readonly reading: readonly Sentence[]
  readonly neighbours: readonly Neighbour[]
  readonly sensitivity: readonly Sensitivity[]
}

export interface PlannerOptions {
  /** How many plans will be listed. */
  readonly top: number
  /** For how long to simulate the best plans; false: prices alone. */
  readonly simulate: number | false
  /** Is told what takes long. */
  readonly say: (text: string) => void
  /** Asked after each simulation; false: the user has seen enough of them. */
  readonly goOn: () => Promise<boolean>
}

const defaults: PlannerOptions = {
  ...{ top: 10, simulate: 10, say: () => {}, goOn: async () => true },
}

/** Kept, so that what is listed is the best of what differs. */
const kept = 300

export async function findPlans(request: Request, given: Partial<PlannerOptions> = {}): Promise<Answer> {
  const options = { ...defaults, ...given }
  const { top, say } = options
  const started = performance.now()
  const found = search(request, {
    keep: Math.max(kept, top),
    watch: (done, all) => say(`searching ${Math.floor((100 * done) / all)} %`),
  })
  const searched = performance.now()
  const simulations = await simulateFor(request, found.best, options)
  const ranked = rank(found.best, simulations)
  if (ranked.length === 0 && found.best.length > 0) throw new ProblemsError([tooLarge(found, simulations)])
  const simulated = performance.now()
  const seconds = { search: (searched - started) / 1000, simulation: (simulated - searched) / 1000 }
  say('')
  return { request, found, ranked, simulations, seconds }
}

/** Simulates for as long as was asked, or until the user has seen enough; then compiles what is going to be listed. */
async function simulateFor(request: Request, best: readonly Priced[], options: PlannerOptions): Promise<Simulations> {
  if (options.simulate === false || best.length === 0 || !canSimulate(request)) return { outlined: [], compiled: [] }
  const { say, goOn } = options
  const take = async <T>(
    all: Iterable<T>,
    seconds: number,
    what: string,
    isEnough: (taken: readonly T[]) => boolean,
  ) => {
    const until = performance.now() + 1000 * seconds
    const taken: T[] = []
    for (const one of all) {
      taken.push(one)
      say(`${what} ${taken.length} plans`)
      const goesOn = await goOn()
      if (!(goesOn && performance.now() <= until) && isEnough(taken)) break
    }
    return taken
  }
  const outlined = await take(outlinedPlans(request, bestOfEachFirst(best)), options.simulate, 'simulated', () => true)
  const inOrder = listed(rank(best, { outlined, compiled: [] })).map(({ plan }) => plan)
  const compiling = fitting(simulatedPlans(request, inOrder), options.top)
  const isFirstKnown = (compiled: readonly SimulatedPlan[]): boolean =>
    rank(best, { outlined, compiled })[0]?.simulated?.arena !== undefined
  const compiled = await take(compiling, compileSeconds, 'compiled', isFirstKnown)
  return { outlined, compiled }
}

/** For so long those listed are compiled, and longer if the first of them is not known to fit. */
const compileSeconds = 2

/** Until so many fit. */
function* fitting(plans: Iterable<SimulatedPlan>, count: number): Generator<SimulatedPlan> {
  let found = 0
  for (const plan of plans) {
    yield plan
    if (plan.fits && ++found >= count) return
  }
}

/** What is compiled has the last word. */
function rank(best: readonly Priced[], { outlined, compiled }: Simulations): RankedPlan[] {
  const simulated = new Map<Priced, OutlinedPlan & Partial<SimulatedPlan>>()
  for (const one of [...outlined, ...compiled]) simulated.set(one.plan, one)
  const fitting = [...simulated.values()].filter(({ fits }) => fits !== false).sort((a, b) => a.step - b.step)
  return [
    ...fitting.map(one => ({ plan: one.plan, simulated: one })),
    ...best.filter(plan => !simulated.has(plan)).map(plan => ({ plan })),
  ]
}

/** Of plans that hardly differ the best; of schedules that come to the same thing one. */
export function listed(ranked: readonly RankedPlan[]): RankedPlan[] {
  const seen = new Set<string>()
  return ranked.filter(({ plan, simulated }) => {
    const { tp, pp, zero, recompute } = plan.split
    const same = [tp, pp, zero, recompute, simulated?.step ?? plan.estimate.step, simulated?.arena ?? plan.bytes].join()
    const keys = [kindOf(plan), same]
    const known = keys.some(key => seen.has(key))
    for (const key of keys) seen.add(key)
    return !known
  })
}

/** By price they fit: what the price leaves out must be left free. */
function tooLarge({ capacity }: Found, { compiled }: Simulations): Problem {
  const share = Math.min(...compiled.map(({ plan, arena }) => plan.bytes / arena))
  const limit = Math.floor((capacity * share) / 2 ** 30)
  const message = `all ${compiled.length} plans that fit by price are too large once compiled`
  return error('plan/memory', 'plan', message, `try --constraint 'memory<=${limit}GiB'`)
}

/** Why the first plan is the first. There must be one. */
export function reasonsFor({ request, found, ranked }: Answer, say: (text: string) => void = () => {}): Why {
  const [{ plan, simulated }] = ranked
  const chosen = { ...plan, bytes: simulated?.arena ?? plan.bytes }
  const sensitivity: Sensitivity[] = []
  say('asking what would change it')
  // By price alone: a price is compared with prices.
  for (const one of sensitivityOf(request, found.best[0])) {
    sensitivity.push(one)
    say(`asking what would change it: ${sensitivity.length} of ${sensitivities.length}`)
  }
  say('')
  return { reading: readingOf(request, chosen), neighbours: neighboursOf(request, chosen), sensitivity }
}
