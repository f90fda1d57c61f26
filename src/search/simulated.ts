/**
 * A plan simulated event by event. In outline that takes milliseconds and tells its time; compiled, the program itself has
 * the last word on time and memory. Only for our own software: of others there is no program to simulate. A plan that
 * cannot be simulated is an answer too: a search goes on without it, and says so.
 */
import { asPart, finish, type Work } from '../base/index.js'
import { compilingJob, scheduleOf } from '../compile/index.js'
import type { Shape, Split } from '../estimate/index.js'
import { type Bubble, bubbleOf, type Parts } from '../metrics/index.js'
import { printSchedule, type Schedule } from '../schedule/index.js'
import { type ScoreBook, simulating } from '../simulate/index.js'
import { recomputedOf } from './as-simulated.js'
import { kindOf } from './kinds.js'
import { Outlines, pricesFor } from './outline.js'
import { compiledCount, type Further, repeating, simulatedCounts } from './repeating.js'
import { jobOf, type Request } from './request.js'
import { capacityOf, type Priced } from './search.js'

export interface OutlinedPlan {
  readonly plan: Priced
  readonly step: number
  readonly parts: Parts
}

export interface SimulatedPlan extends OutlinedPlan {
  /** The arena of the heaviest rank, as it is compiled. */
  readonly arena: number
  readonly fits: boolean
  readonly bubble: Bubble
  /** FLOPs of recomputation, counted as MFU counts. */
  readonly recomputed: number
}

export interface FailedPlan {
  readonly plan: Priced
  readonly why: string
}

export const hasFailed = (one: OutlinedPlan | FailedPlan): one is FailedPlan => 'why' in one

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

/**
 * How often the program of a plan calls a layer or hands on what a stage made, in one direction: simulating and compiling
 * it take as long as there are such calls.
 */
export const callsOfPlan = ({ layers }: Shape, { pp, chunks, microbatches }: Split): number =>
  microbatches * (layers + 2 * pp * chunks)

/** The same of what is simulated in its place, where it repeats itself. */
export const simulatedCalls = (shape: Shape, split: Split): number =>
  simulatedCounts(split).reduce((sum, microbatches) => sum + callsOfPlan(shape, { ...split, microbatches }), 0)

export const canSimulate = ({ software }: Request): boolean => software.own === true

/** Simulates plans of one request. What they share is made once. */
export class PlanSimulator {
  readonly #outcomeInOutline: (split: Split) => Work<Omit<OutlinedPlan, 'plan'>>
  readonly #outcomeCompiled: (split: Split) => Work<Omit<SimulatedPlan, 'plan'>>

  constructor(request: Request) {
    const outlines = new Outlines(request)
    const book: ScoreBook = new WeakMap()
    const capacity = capacityOf(request)
    const scheduleFor = schedulesOf(request)
    const outline = onceForEach(scheduleFor, function* (split, schedule): Work<Omit<OutlinedPlan, 'plan'>> {
      const { program, prices } = outlines.of(split, schedule)
      const { step, parts } = yield* simulating(program, prices, { watch: [], book })
      return { step, parts }
    })
    const compiled = onceForEach(scheduleFor, function* (split, schedule): Work<ProgramFigures> {
      const job = jobOf(sizedFor(request, split), split)
      const program = yield* asPart(0, 0.7, compilingJob(job, schedule, { placing: 'heaviest' }))
      const played = simulating(program, pricesFor(request, program), { watch: [] })
      const simulation = yield* asPart(0.7, 1, played)
      const { step, parts, stages, memory } = simulation
      const bubble = bubbleOf(stages, step)
      return { step, parts, arena: memory.arena, data: memory.peak.data, bubble, recomputed: recomputedOf(simulation) }
    })
    this.#outcomeInOutline = repeating(outline, (a, b, further) => ({
      step: further(a.step, b.step),
      parts: extended(a.parts, b.parts, further),
    }))
    const outlineOf = this.#outcomeInOutline
    this.#outcomeCompiled = function* (split) {
      const short = compiledCount(split)
      if (short === undefined) {
        const program = yield* compiled(split)
        return { ...program, fits: program.arena <= capacity }
      }
      const few = { ...split, microbatches: short }
      const program = yield* asPart(0, 0.8, compiled(few))
      const [before, after] = [yield* outline(few), yield* asPart(0.8, 1, outlineOf(split))]
      const extended = extendedProgram(program, before, { ...after, times: split.microbatches / short })
      return { ...extended, fits: extended.arena * (1 + longMargin) <= capacity }
    }
  }

  /** Without memory: nothing is compiled but a miniature for plans that are alike in all but their pipeline. */
  outlining = (plan: Priced): Work<OutlinedPlan | FailedPlan> => attempt(plan, this.#outcomeInOutline)

  outline = (plan: Priced): OutlinedPlan | FailedPlan => finish(this.outlining(plan))

  /** The program itself. */
  compiling = (plan: Priced): Work<SimulatedPlan | FailedPlan> => attempt(plan, this.#outcomeCompiled)

  compile = (plan: Priced): SimulatedPlan | FailedPlan => finish(this.compiling(plan))
}

/** The batch that so many microbatches make. */
const sizedFor = (request: Request, { dp, microbatch, microbatches }: Split): Request => ({
  ...request,
  globalBatch: dp * microbatch * microbatches,
})

/** What is known of a program, by its microbatches: `data` is the memory of their tokens. */
interface ProgramFigures extends Omit<SimulatedPlan, 'plan' | 'fits'> {
  readonly data: number
}

const extended = <Name extends string>(
  a: Readonly<Record<Name, number>>,
  b: Readonly<Record<Name, number>>,
  further: Further,
): Readonly<Record<Name, number>> => {
  const names = Object.keys(a) as Name[] // the keys of a record are its names
  return Object.fromEntries(names.map(name => [name, further(a[name], b[name])])) as Record<Name, number>
}

/** A long step may need this much more memory than a short one of the same plan, beside its tokens: sends hold buffers for longer. */
export const longMargin = 0.01

type Timed = Omit<OutlinedPlan, 'plan'>

/**
 * The figures of a long step: a program with fewer microbatches, and what the others add in outline. Of memory only the tokens grow.
 * Bubbles are shares of a step: their seconds grow as the rest does.
 */
function extendedProgram(
  program: ProgramFigures,
  before: Timed,
  after: Timed & { readonly times: number },
): ProgramFigures {
  const further: Further = (a, b) => b - a
  const added = extended(before.parts, after.parts, further)
  const step = program.step + after.step - before.step
  const bubble = (share: number) => (share * program.step + added.bubble) / step
  const data = program.data * after.times
  return {
    ...{ step, parts: extended(added, program.parts, (a, b) => a + b) },
    ...{ arena: program.arena - program.data + data, data },
    bubble: { mean: bubble(program.bubble.mean), criticalPath: Math.max(0, bubble(program.bubble.criticalPath)) },
    recomputed: program.recomputed * after.times,
  }
}

function* attempt<Outcome>(
  plan: Priced,
  outcomeOf: (split: Split) => Work<Outcome>,
): Work<({ plan: Priced } & Outcome) | FailedPlan> {
  try {
    return { plan, ...(yield* outcomeOf(plan.split)) }
  } catch (error) {
    return { plan, why: error instanceof Error ? error.message : String(error) }
  }
}

type ScheduleFor = (split: Split) => Schedule

function onceForEach<Outcome>(
  scheduleFor: ScheduleFor,
  outcomeOf: (split: Split, schedule: Schedule) => Work<Outcome>,
): (split: Split) => Work<Outcome> {
  const outcomes = new Map<Schedule, Map<string, Outcome>>()
  return function* (split) {
    const schedule = scheduleFor(split)
    const known = outcomes.get(schedule) ?? new Map<string, Outcome>()
    const key = JSON.stringify({ ...split, schedule: '' })
    const outcome = known.get(key) ?? (yield* outcomeOf(split, schedule))
    outcomes.set(schedule, known.set(key, outcome))
    return outcome
  }
}

/** On few ranks several schedules come to the same order: they are the same object. */
function schedulesOf(request: Request): ScheduleFor {
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
