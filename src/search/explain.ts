/** A job's own plan on a cluster: what limits it, what every plan next to it would change, and the best of all plans. */
import { asPart, finish, type Work } from '../base/index.js'
import { certainly, type Estimate, type Fit, type Parts, type Split, splitOf } from '../estimate/index.js'
import type { Program } from '../ir/index.js'
import type { Job } from '../plan/index.js'
import { clusterPrices, simulating } from '../simulate/index.js'
import { isPriced, type JudgedChoice, pricingChoices } from './choice-prices.js'
import { fitOfPrice } from './fitting.js'
import { type ClusterAt, findingWhatWorks, type Impossible } from './impossible.js'
import { type Neighbour, neighboursOf } from './neighbours.js'
import type { Request } from './request.js'
import { capacityOf, type Priced, priceOf, scaledTo, searching } from './search.js'
import type { Sentence } from './sentences.js'

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
  /** Its time was simulated. */
  readonly simulated: boolean
  /** The best plan, if any fits. */
  readonly best?: Priced
  /** Where none fits: why, and what would make one possible. */
  readonly impossible?: Impossible
}

export interface ExplainOptions {
  /** The program of a schedule from a file: there is no closed form of its order. */
  readonly own?: Program | undefined
  /** Seconds of a step, as it was measured. */
  readonly measured?: number | undefined
  /** The same kind of cluster with another number of devices, to find out what would fit; without it no other number is tried. */
  readonly clusterAt?: ClusterAt | undefined
}

/** Analyzes the plan of a job: what limits it, what each single change would do, and the best plan there is. */
export const explain = (request: Request, job: Job, options: ExplainOptions = {}): Explanation =>
  finish(explaining(request, job, options))

/** `explain` as a generator that yields the fraction done. */
export function* explaining(request: Request, job: Job, options: ExplainOptions): Work<Explanation> {
  const { own, measured, clusterAt = () => undefined } = options
  const split = splitOf(job, '1f1b')
  const priced = own ? simulatedAs(request, split, own) : priceOf(request, split)
  const scale = measured === undefined ? 1 : measured / priced.estimate.step
  const plan = scaledTo(priced, scale)
  const fit = own ? certainly(plan.bytes <= capacityOf(request)) : fitOfPrice(request, plan)
  const [best] = (yield* asPart(0, 0.5, searching(request, { keep: 1, front: false }))).best
  const neighbours = neighboursOf(request, plan, scale)
  const impossible = best ? undefined : yield* asPart(0.5, 0.7, findingWhatWorks(request, clusterAt))
  const choices = request.software.own ? yield* asPart(0.7, 1, pricingChoices(job, request.cluster)) : []
  return {
    ...{ job, request, plan, fit, scale, neighbours, choices, simulated: own !== undefined },
    ...(best && { best: scaledTo(best, scale) }),
    ...(impossible && { impossible }),
  }
}

/** The time and the memory of the program itself in place of the price's. */
function simulatedAs(request: Request, split: Split, program: Program): Priced {
  const { estimate } = priceOf(request, split)
  const { step, parts, memory } = finish(simulating(program, clusterPrices(program, request.cluster), { watch: [] }))
  const { stragglers, offload, ...rest } = parts
  const { data, workspace, ...kinds } = memory.peak
  return {
    split,
    estimate: {
      ...estimate,
      step,
      parts: { ...rest, other: rest.other + stragglers + offload } as Estimate['parts'], // of the same names, in seconds
      memory: { ...kinds, workspace: workspace + data, framework: 0 },
    },
    bytes: memory.arena,
  }
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
export function bestSentence(plan: Priced, best: Priced | undefined, fit?: Pick<Fit, 'verdict'>): Sentence {
  if (!best) return { code: 'best/none', values: {} }
  if (fit?.verdict === 'does not fit') return { code: 'best/fits', values: { step: best.estimate.step } }
  const gain = plan.estimate.step / best.estimate.step - 1
  if (gain < 5e-4) return { code: 'best/this', values: {} }
  return { code: 'best/faster', values: { step: best.estimate.step, gain } }
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
