/** A job's own plan on a cluster: what limits it, what every plan next to it would change, and the best of all plans. */
import { asPart, finish, type Work } from '../base/index.js'
import { certainly, type Fit, type FrameworkName, type Parts, splitOf } from '../estimate/index.js'
import { type Bubble, bubbleOf } from '../metrics/index.js'
import { check, type Job } from '../plan/index.js'
import type { Simulation } from '../simulate/index.js'
import { asSimulated, recomputedOf } from './as-simulated.js'
import { isPriced, type JudgedChoice, pricingChoices, type SimulatedProgram, simulatingJob } from './choice-prices.js'
import { choiceNames } from './choices.js'
import { holds } from './constraint.js'
import { fitOfPrice } from './fitting.js'
import { type ClusterAt, findingWhatWorks, type Impossible } from './impossible.js'
import { type Neighbour, neighboursOf } from './neighbours.js'
import { type FasterOrder, findingOrder, type StepIn } from './order.js'
import { type Request, requestOfJob } from './request.js'
import { capacityOf, type Priced, priceOf, scaledTo, searching } from './search.js'
import type { Sentence } from './sentences.js'
import { bestOfEachFirst, callsOfPlan, canSimulate, hasFailed, PlanSimulator } from './simulated.js'

/** What `explain` found about the plan of a job. */
export interface Explanation {
  readonly job: Job
  readonly request: Request
  readonly plan: Priced
  /** Certain if its memory was read from the compiled program. */
  readonly fit: Fit
  /** Measured over estimated step time: all costs are multiplied by it. */
  readonly scale: number
  readonly neighbours: readonly Neighbour[]
  /** The cost of each choice of the plan and of its alternatives, for generated programs. */
  readonly choices: readonly JudgedChoice[]
  /** Its step and memory are those of its compiled program; otherwise they are estimated. */
  readonly simulated: boolean
  /** Its bubble, where it was simulated. */
  readonly bubble?: Bubble
  /** The best plan, if any fits. */
  readonly best?: Priced
  /** Where none fits: why, and what would make one possible. */
  readonly impossible?: Impossible
  /** A rank order in which the plan is faster. */
  readonly order?: FasterOrder
  /** The best plan was simulated. */
  readonly bestSimulated: boolean
  /** The same plan in another framework, estimated. */
  readonly elsewhere?: { readonly name: FrameworkName; readonly plan: Priced }
}

export interface ExplainOptions {
  /** Otherwise the job is compiled and simulated here, if that is quick. */
  readonly own?: SimulatedProgram | undefined
  /** Seconds of a step, as it was measured. */
  readonly measured?: number | undefined
  /** The same kind of cluster with another number of devices, to find out what would fit; without it no other number is tried. */
  readonly clusterAt?: ClusterAt | undefined
}

/** Analyzes the plan of a job: what limits it, what each single change would do, and the best plan there is. */
export const explain = (request: Request, job: Job, options: ExplainOptions = {}): Explanation =>
  finish(explaining(request, job, options))

/** `explain` as a generator that yields the fraction done. */
export function* explaining(request: Request, job: Job, options: ExplainOptions = {}): Work<Explanation> {
  const closed = priceOf(request, splitOf(job, '1f1b'))
  const { measured, clusterAt = () => undefined } = options
  const own = options.own ?? (yield* asPart(0, 0.2, simulatingOwn(request, job)))
  const priced = own ? asSimulated(closed, figuresOf(own.simulation)) : closed
  const scale = measured === undefined ? 1 : measured / priced.estimate.step
  const plan = scaledTo(priced, scale)
  // Alternatives are estimated: what is compared with them is the estimate, both scaled to the step that is shown.
  const estimated = plan.estimate.step / closed.estimate.step
  const fit = own ? certainly(plan.bytes <= capacityOf(request)) : fitOfPrice(request, plan)
  const { best: candidates } = yield* asPart(0.2, 0.6, searching(request, { keep: own ? keptBest : 1, front: false }))
  const [found] = candidates
  const best = own && fastestOf(request, candidates)
  const neighbours = neighboursOf(request, scaledTo(closed, estimated), estimated)
  const impossible = found ? undefined : yield* asPart(0.6, 0.7, findingWhatWorks(request, clusterAt))
  const choices = request.software.own
    ? yield* asPart(0.7, 1, pricingChoices(job, request.cluster, choiceNames, own))
    : []
  const elsewhere = elsewhereOf(request, job)
  const order =
    typeof job.plan.schedule === 'string'
      ? yield* findingOrder(request, closed, own && simulatedIn(request, job, own))
      : undefined
  return {
    ...{ job, request, plan, fit, scale, neighbours, choices },
    ...{ simulated: own !== undefined, bestSimulated: best !== undefined },
    ...(own && { bubble: bubbleOf(own.simulation.stages, own.simulation.step) }),
    ...(found && { best: best ? scaledTo(best, scale) : scaledTo(found, estimated) }),
    ...(impossible && { impossible }),
    ...(elsewhere && { elsewhere }),
    ...(order && { order: { ...order, step: order.step * scale } }),
  }
}

/** Programs of more calls take seconds to compile. */
const mostCalls = 2 ** 12

function* simulatingOwn(request: Request, job: Job): Work<SimulatedProgram | undefined> {
  if (!canSimulate(request) || typeof job.plan.schedule !== 'string') return undefined
  if (callsOfPlan(request.shape, splitOf(job, '1f1b')) > mostCalls || check(job).some(isError)) return undefined
  return yield* simulatingJob(job, request.cluster)
}

/** The step of the job's own program in a rank order. */
const simulatedIn = (request: Request, job: Job, { simulation }: SimulatedProgram): StepIn =>
  function* (rankOrder) {
    if (rankOrder === job.plan.rankOrder) return simulation.step
    const other = { ...job, plan: { ...job.plan, rankOrder } }
    return (yield* simulatingJob(other, request.cluster)).simulation.step
  }

const isError = ({ severity }: { readonly severity: string }) => severity === 'error'

const figuresOf = (simulation: Simulation) => {
  const { step, parts, memory } = simulation
  const { data, workspace, ...kinds } = memory.peak
  const peaks = { ...kinds, workspace: workspace + data, framework: 0 }
  return { step, parts, arena: memory.arena, recomputed: recomputedOf(simulation), memory: peaks }
}

/** Plans that are kept of a search, and how many of them are simulated. */
const keptBest = 16
const mostSimulated = 4

/** The fastest of the best once they are simulated, so that a simulated plan is compared with another. */
function fastestOf(request: Request, found: readonly Priced[]): Priced | undefined {
  const simulator = new PlanSimulator(request)
  const outcomes = bestOfEachFirst(found)
    .slice(0, mostSimulated)
    .flatMap(plan => {
      const outcome = simulator.outline(plan)
      const { model, hardware } = plan.estimate.flops
      const figures = { arena: plan.bytes, recomputed: hardware - model }
      return hasFailed(outcome) ? [] : [asSimulated(plan, { ...outcome, ...figures })]
    })
  return outcomes.sort((a, b) => a.estimate.step - b.estimate.step).at(0)
}

/** The framework that generated programs are compared with. */
const compared: FrameworkName = 'megatron-2025'

/** Undefined: it cannot run the plan. */
function elsewhereOf(request: Request, job: Job): Explanation['elsewhere'] {
  if (!request.software.own) return undefined
  const other = requestOfJob(job, request.cluster, compared)
  const split = splitOf(job, '1f1b')
  return other.constraints.every(constraint => holds(split, constraint))
    ? { name: compared, plan: priceOf(other, split) }
    : undefined
}

/** What there is to gain: the part that takes most beside the arithmetic the model needs, and its share of the step. */
export function limitOf({ estimate: { step, parts } }: Priced): { readonly part: keyof Parts; readonly share: number } {
  const losses = (Object.keys(parts) as (keyof Parts)[]).filter(part => part !== 'compute') // the keys are the parts
  const part = losses.reduce((a, b) => (parts[b] > parts[a] ? b : a))
  return { part, share: parts[part] / step }
}

/** Parts of a step below this share are not what limits it. */
const hardlyAny = 0.02

/** What limits a plan: compute, or the communication that takes the largest fraction of its step. */
export function limitSentence(plan: Priced): Sentence {
  const { part, share } = limitOf(plan)
  if (share < hardlyAny) return { code: 'limit/arithmetic', values: { share } }
  const { step, parts } = plan.estimate
  return { code: 'limit/part', values: { part, share, rest: 1 - parts.compute / step } }
}

/** Why a plan may not fit, as messages; none if it surely fits. */
export function fitSentence(request: Request, { bytes }: Priced, { verdict, chance, condition }: Fit): Sentence[] {
  if (verdict === 'fits') return []
  if (condition) return [{ code: 'fit/unlikely', values: { chance, condition } }]
  const room = capacityOf(request)
  return [{ code: 'fit/over', values: { over: bytes - room, room } }]
}

/** The best of all plans compared with this one, as a message; this one may be faster only because it does not fit. */
export function bestSentence({
  plan,
  best,
  fit,
  bestSimulated: simulated,
}: Pick<Explanation, 'plan' | 'best' | 'fit' | 'bestSimulated'>): Sentence {
  if (!best) return { code: 'best/none', values: {} }
  if (fit.verdict === 'does not fit') return { code: 'best/fits', values: { step: best.estimate.step, simulated } }
  const gain = plan.estimate.step / best.estimate.step - 1
  if (gain < 5e-4) return { code: 'best/this', values: { simulated } }
  return { code: 'best/faster', values: { step: best.estimate.step, gain, simulated } }
}

/** A step that is longer by less is as long. */
const longer = 1.005

/** What is sent in fewer bits only to make a step longer: the links are fast enough to carry all of them. */
const slowingSentences = (choices: readonly JudgedChoice[]): Sentence[] =>
  choices.flatMap(one => {
    if (!one.taken || !one.name.startsWith('compress.') || !isPriced(one)) return []
    const { name, chosen, simulated } = one
    const [step, without] = [one.with.step, one.without.step]
    if (step < longer * without) return []
    return [{ code: 'note/slow-compression', values: { name, chosen, simulated, step, without } } as const]
  })

/** What the cost model does not know of a job, and what would make it faster, as messages. */
export const noteSentences = ({
  job: { plan },
  simulated,
  choices,
}: Pick<Explanation, 'job' | 'simulated' | 'choices'>): Sentence[] => [
  ...(typeof plan.schedule === 'string'
    ? []
    : [{ code: 'note/own-order', values: { file: plan.schedule.file, simulated } } as const]),
  ...(Array.isArray(plan.recompute) ? [{ code: 'note/own-recompute', values: { simulated } } as const] : []),
  ...slowingSentences(choices),
]
