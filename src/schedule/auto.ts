/**
 * A schedule made for given costs and a given memory: one forward, one input gradient and one weight gradient for each
 * microbatch on each rank, in the order that is found to be fastest.
 *
 * The problem is that of ZB-1p and ZB-2p (Qi et al. 2023: what 1F1B holds, and twice that). There is no formula for
 * the answer, but ranks with simple policies come close to it (see greedy.ts), so many policies are tried. zb-h1 and zb-h2
 * are among the candidates wherever they fit: the result is never slower than they are.
 */
import { asPart, finish, type Problem, ProblemsError, type Work } from '../base/index.js'
import { alternate } from './alternate.js'
import {
  answersAlike,
  kinds,
  type Order,
  type Outcome,
  type Pipeline,
  type Policy,
  type Questions,
  runGreedy,
} from './greedy.js'
import { allRows, asSchedule } from './numbered.js'
import { refused } from './phrases.js'
import { type Costs, costOn, type Slot } from './run.js'
import { scheduleProblems } from './schedules.js'
import { type Schedule, type Task, tasksOf } from './task.js'
import { type Held, peakOf, timing, wholeActivation } from './timing.js'

export interface AutoOptions {
  readonly ranks: number
  readonly microbatches: number
  readonly cost: Costs
  /** The most a rank may hold, in the unit of `held`; by default what 1F1B holds: as many activations as there are ranks. */
  readonly limit?: number
  /** What a task holds; by default one activation, until its weight gradient. */
  readonly held?: Held
  /**
   * What should be short: the whole step, or the longest time of a rank from its first task to its last. The second
   * counts if no rank waits for the others between steps, and is what the zero-bubble paper calls a bubble.
   */
  readonly goal?: Goal
}

type Goal = 'makespan' | 'span'

/** A pipeline schedule found for given costs and memory, in the style of ZB-1p and ZB-2p (Qi et al. 2023). */
export const autoSchedule = (options: AutoOptions): Schedule => finish(searchingOrders(options))

export function* searchingOrders(options: AutoOptions): Work<Schedule> {
  const problems = autoProblems(options)
  if (problems.length > 0) throw new ProblemsError(problems)
  const { ranks, microbatches, goal = 'makespan' } = options
  const { orders } = yield* new Search(pipelineOf(options), goal).best()
  return { stages: ranks, microbatches, rows: orders.map(rowOf) }
}

function rowOf(order: Order, stage: number): Task[] {
  const next = { F: 0, I: 0, W: 0 }
  return Array.from(order, place => ({ kind: kinds[place], stage, microbatch: next[kinds[place]]++ }))
}

const defaultLimit = ({ ranks, held = wholeActivation }: AutoOptions): number => ranks * Math.max(held.I, held.W)

/** Some hundred schedules are run on paper; for more cells than this that would take minutes. */
const mostCells = 50_000

/** Every reason why there is no such schedule. */
export function autoProblems(options: AutoOptions): Problem[] {
  const { ranks, microbatches, cost, held = wholeActivation, limit = defaultLimit(options) } = options
  const isAmount = (value: number) => Number.isFinite(value) && value >= 0
  const found = scheduleProblems('zb-h1', { ranks, microbatches, chunks: 1 })
  if (found.length === 0 && ranks * microbatches > mostCells)
    found.push(refused('', 'schedule/auto/many', { ranks, microbatches, most: mostCells }))
  const costs = 'F' in cost ? [cost] : cost
  if (!('F' in cost) && cost.length !== ranks)
    found.push(refused('cost', 'schedule/auto/costs', { costs: cost.length, ranks }))
  if (!costs.every(({ F, I, W, C }) => [F, I, W, C].every(isAmount))) found.push(refused('cost', 'schedule/auto/cost'))
  const { I, W } = held
  if (!isAmount(I) || !isAmount(W)) found.push(refused('held', 'schedule/auto/held', { I, W }))
  else if (!(limit >= Math.max(I, W)))
    found.push(refused('limit', 'schedule/auto/limit', { limit, held: Math.max(I, W) }))
  return found
}

function pipelineOf(options: AutoOptions): Pipeline {
  const { ranks, microbatches, cost, held = wholeActivation, limit = defaultLimit(options) } = options
  const costs = Array.from({ length: ranks }, (_, rank) => costOn(cost, rank))
  return {
    ranks,
    microbatches,
    costs,
    // What grows counts as grown from the start: then no input gradient ever lacks room.
    held: { I: Math.max(held.I, held.W), W: held.W },
    limit: limit * (1 + 1e-12),
    tolerance: 1e-9 * Math.max(...costs.flatMap(({ F, I, W }) => [F, I, W])),
  }
}

const firsts: readonly Policy['first'][] = ['I', 'F', 'WF']
const holds: readonly Policy['holdsBack'][] = ['never', 'patiently', 'always']

/** Patience to try next: nobody need bear more than the best schedule so far made someone bear. */
const sharesOf = (idle: number): number[] => Array.from({ length: 12 }, (_, i) => (idle * (i + 1)) / 12)

interface Candidate {
  readonly outcome: Outcome
  readonly lead: number
}

/** A policy that was run: its outcome or, where it was given up, what the best outcome took at that time. */
interface Trial {
  readonly policy: Policy
  readonly questions: Questions
  readonly outcome: Outcome | undefined
  readonly best: number
}

/** Remembers the best outcome so far, gives up on others as soon as they cannot be better, and runs no order twice. */
class Search {
  readonly #pipeline: Pipeline
  readonly #goal: Goal
  /** The time of each rank's tasks. */
  readonly #work: readonly number[]
  readonly #trials: Trial[] = []
  #best: Candidate | undefined

  constructor(pipeline: Pipeline, goal: Goal) {
    this.#pipeline = pipeline
    this.#goal = goal
    this.#work = pipeline.costs.map(({ F, I, W }) => pipeline.microbatches * (F + I + W))
  }

  /** The last rounds are shares of what is left, since nobody knows how many there will be. */
  *best(): Work<Outcome> {
    for (const lead of [1, 2]) this.#offer(handmade(this.#pipeline, lead), lead)
    const all = leads(this.#pipeline)
    for (const [i, lead] of all.entries())
      yield* asPart((0.4 * i) / all.length, (0.4 * (i + 1)) / all.length, this.#tryAll(lead, ['fair', 0]))
    let best = this.#best! // with nothing found yet, no run is given up
    let left = 0.6
    for (let before: unknown; before !== best; best = this.#best!) {
      before = best
      yield* asPart(1 - left, 1 - left / 3, this.#tryAll(best.lead, sharesOf(best.outcome.idle)))
      left /= 3
    }
    return best.outcome
  }

  *#tryAll(lead: number, patiences: readonly Policy['patience'][]): Work<void> {
    const policies = firsts.flatMap(first =>
      holds.flatMap(holdsBack => patiences.map(patience => ({ first, holdsBack, patience }))),
    )
    for (const [i, policy] of policies.entries()) {
      yield i / policies.length
      this.#offer(this.#outcomeOf({ lead, ...policy }), lead)
    }
  }

  #outcomeOf(policy: Policy): Outcome | undefined {
    const best = this.#best?.outcome[this.#goal] ?? Number.POSITIVE_INFINITY
    const known = this.#trials.find(
      trial =>
        (trial.outcome || best <= trial.best) &&
        answersAlike(trial.policy, policy, trial.questions, this.#pipeline.tolerance),
    )
    if (known) return known.outcome
    const { outcome, questions } = runGreedy(this.#pipeline, policy, this.#isHopeless)
    this.#trials.push({ policy, questions, outcome, best })
    return outcome
  }

  readonly #isHopeless = (rank: number, begin: number, idle: number): boolean => {
    if (!this.#best) return false
    const least = idle + this.#work[rank] + (this.#goal === 'makespan' ? begin : 0)
    return least > this.#best.outcome[this.#goal] + this.#pipeline.tolerance
  }

  #offer(outcome: Outcome | undefined, lead: number): void {
    if (outcome && (!this.#best || this.#isBetter(outcome, this.#best.outcome))) this.#best = { outcome, lead }
  }

  #isBetter(one: Outcome, other: Outcome): boolean {
    const aside = this.#goal === 'makespan' ? 'span' : 'makespan'
    const gain = other[this.#goal] - one[this.#goal]
    const { tolerance } = this.#pipeline
    return gain > tolerance || (gain >= -tolerance && other[aside] - one[aside] > tolerance)
  }
}

/** How far ahead ranks may run: as in zb-h1, as in zb-h2, between the two, evenly up to the limit, and without bound. */
function leads({ ranks, limit, held }: Pipeline): number[] {
  const most = held.I === 0 ? Number.POSITIVE_INFINITY : Math.max(0, limit / held.I - 1) / Math.max(1, ranks - 1)
  return [...new Set([...[1, 1.5, 2].filter(lead => lead < most), most, Number.POSITIVE_INFINITY])]
}

/** zb-h1 (lead 1) or zb-h2 (lead 2), if it fits. */
function handmade(pipeline: Pipeline, lead: number): Outcome | undefined {
  const { ranks, microbatches, costs, limit, held } = pipeline
  const schedule = asSchedule(allRows(alternate({ ranks, microbatches, chunks: 1 }, { lead, lag: lead }), ranks))
  if (schedule.rows.some(row => peakOf(row, held) > limit)) return undefined
  const { makespan, span, slots } = timing(schedule, costs)
  const idleOf = (row: readonly Slot[]) => row.slice(1).reduce((sum, { start }, i) => sum + start - row[i].end, 0)
  const orders = schedule.rows.map(row => Uint8Array.from(tasksOf(row), ({ kind }) => kinds.indexOf(kind as 'F'))) // never B
  return { orders, makespan, span, idle: Math.max(...slots.map(idleOf)) }
}
