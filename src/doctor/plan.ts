/** What a plan loses on its cluster, and the single change that would win most of it back. */
import { type Filling, spoken } from '../base/index.js'
import type { Cluster } from '../cluster/index.js'
import { compileJob } from '../compile/index.js'
import { splitOf } from '../estimate/index.js'
import { clause, type EventPhrase, type EventPhrases, type HealthEvent, percentOf, said } from '../health/index.js'
import { type Job, Plan } from '../plan/index.js'
import {
  capacityOf,
  jobOf,
  type Neighbour,
  neighboursOf,
  once,
  priceOf,
  type Request,
  requestOfJob,
  type Sentence,
  showSentence,
} from '../search/index.js'
import { clusterPrices, type Simulation, simulate } from '../simulate/index.js'

export interface Circumstances {
  readonly cluster: Cluster
  readonly simulation: Simulation
  /** What was found in the steps. */
  readonly symptoms: readonly HealthEvent[]
  /** Somebody has said what the cluster is; else the run alone knows it, and kernels of other sizes than its own are guesses. */
  readonly named: boolean
}

/** Of the step: what a part must take, and a change save, to be worth a word. */
const share = { bubble: 0.15, network: 0.2, memory: 0.92 } as const
const leastGain = 0.1

export function ofPlan(job: Job, { cluster, simulation, symptoms, named }: Circumstances): HealthEvent[] {
  const order = ofOrder(job, cluster, simulation)
  const priced =
    typeof job.plan.schedule === 'string' && !Array.isArray(job.plan.recompute) && job.model.family !== 'mlp'
  if (!priced) return order
  const request = requestOfJob(job, cluster)
  const plan = priceOf(request, splitOf(job, '1f1b'))
  const neighbours = neighboursOf(request, plan)
  const confirmed = confirming(job, request, { cluster, simulation })
  const thrashes = symptoms.some(({ event }) => event === 'memory')
  const full = simulation.memory.arena / capacityOf(request)
  return [
    ...order,
    ...(order.length > 0 ? [] : ofNetwork(simulation, confirmed(neighbours))),
    ...ofBubble(job, simulation, confirmed(neighbours.filter(ofPipeline), shrinksBubble(simulation))),
    ...(named ? ofMicrobatches(job, neighbours) : []),
    ...(full > share.memory || thrashes ? [ofMemory(full, plan.bytes, neighbours)] : []),
  ]
}

/** What is found of a plan: of no step, in words that have sentences of a search in them. */
const finding = <Name extends EventPhrase>(
  phrase: Name,
  { gain, ...numbers }: { readonly gain: number; readonly [name: string]: number },
  ...values: Filling<EventPhrases[Name]>
): HealthEvent =>
  said(
    spoken(phrase, values),
    { step: 0, severity: 'warning', numbers: { ...numbers, gain: Number(gain.toFixed(3)) } },
    change => showSentence(change as Sentence), // no other stands in a finding
  )

/** The ratio of a change that is possible, and fits. */
const ratioOf = ({ verdict }: Neighbour): number =>
  verdict.kind === 'timed' ? verdict.ratio : Number.POSITIVE_INFINITY

/** A change whose program was simulated, and the share of the step that it saves. */
interface Confirmed {
  readonly change: Neighbour['move']['change']
  readonly gain: number
}

/** Of the changes that promise most, so many are compiled and simulated: what the cost model promises is not yet advice. */
const mostTried = 3

type Confirming = (
  neighbours: readonly Neighbour[],
  cures?: (after: Simulation) => boolean,
) => () => Confirmed | undefined

function confirming(
  job: Job,
  request: Request,
  { cluster, simulation }: Pick<Circumstances, 'cluster' | 'simulation'>,
): Confirming {
  const simulated = once(({ plan }: Neighbour) => {
    if (!plan) return undefined
    const { rankOrder, overlap } = job.plan
    const { plan: next, ...rest } = jobOf(request, plan.split)
    const program = compileJob({ ...rest, plan: { ...next, rankOrder, overlap } })
    return simulate(program, clusterPrices(program, cluster), { watch: [] })
  })
  return (neighbours, cures = () => true) =>
    () => {
      for (const one of neighbours.filter(one => ratioOf(one) < 1 - leastGain).slice(0, mostTried)) {
        const after = simulated(one)
        const gain = after ? 1 - after.step / simulation.step : 0
        if (after && gain > leastGain && cures(after)) return { change: one.move.change, gain }
      }
      return undefined
    }
}

const ofPipeline = ({ move: { topic } }: Neighbour): boolean => ['batch', 'schedule', 'mesh', 'layers'].includes(topic)

/** A faster step with a longer bubble is faster for another reason. */
const shrinksBubble =
  ({ step, parts }: Simulation) =>
  (after: Simulation): boolean =>
    after.parts.bubble / after.step < parts.bubble / step

const tried = ({ change, gain }: Confirmed) => ({ change, gain: percentOf(gain) })

function ofOrder(job: Job, cluster: Cluster, { step }: Simulation): HealthEvent[] {
  const { rankOrder } = Plan.parse({})
  if (job.plan.rankOrder === rankOrder) return []
  const program = compileJob({ ...job, plan: { ...job.plan, rankOrder } })
  const usual = simulate(program, clusterPrices(program, cluster), { watch: [] }).step
  if (usual > (1 - leastGain) * step) return []
  const gain = 1 - usual / step
  return [
    finding(
      'axisOrder',
      { seconds: step, usual, gain },
      { order: job.plan.rankOrder, gain: percentOf(gain), usual: rankOrder },
    ),
  ]
}

function ofNetwork({ step, parts }: Simulation, cure: () => Confirmed | undefined): HealthEvent[] {
  const axes = ['tp', 'cp', 'ep', 'dp', 'pp'] as const
  const worst = axes.reduce((a, b) => (parts[b] > parts[a] ? b : a))
  const total = axes.reduce((sum, axis) => sum + parts[axis], 0) / step
  const best = total < share.network ? undefined : cure()
  if (!best) return []
  const words = { share: percentOf(total), axis: worst, most: percentOf(parts[worst] / step) }
  return [finding('network', { share: total, gain: best.gain }, { ...words, ...tried(best) })]
}

function ofBubble({ plan }: Job, { step, parts }: Simulation, cure: () => Confirmed | undefined): HealthEvent[] {
  const waits = parts.bubble / step
  const best = waits < share.bubble ? undefined : cure()
  if (!best) return []
  const words = { share: percentOf(waits), stages: plan.pp, microbatches: plan.microbatches }
  return [finding('bubble', { share: waits, gain: best.gain }, { ...words, ...tried(best) })]
}

function ofMicrobatches({ plan, training }: Job, neighbours: readonly Neighbour[]): HealthEvent[] {
  const now = training.globalBatch / (plan.dp * plan.microbatches)
  const larger = neighbours.find(one => one.move.topic === 'batch' && (one.plan?.split.microbatch ?? 0) > now)
  if (!larger || ratioOf(larger) > 1 - leastGain) return []
  const gain = 1 - ratioOf(larger)
  const words = {
    ...{ size: now, sequences: clause(now === 1 ? '.sequence' : '.sequences'), gain: percentOf(gain) },
    microbatches: larger.plan?.split.microbatches ?? plan.microbatches,
  }
  return [finding('microbatches', { microbatch: now, gain }, words)]
}

function ofMemory(full: number, bytes: number, neighbours: readonly Neighbour[]): HealthEvent {
  const less = neighbours.filter(one => ratioOf(one) < 2 && (one.plan?.bytes ?? bytes) < 0.95 * bytes).slice(0, 3)
  const told = less.map(one => {
    const time = ratioOf(one) - 1
    const saved = (bytes - (one.plan?.bytes ?? bytes)) / 2 ** 30
    return clause('.cheaper', {
      ...{ change: one.move.change, less: saved.toFixed(1) },
      time: `${time >= 0 ? '+' : '-'}${percentOf(Math.abs(time))}`,
    })
  })
  const [numbers, words] = [{ share: full, gain: 0 }, { share: percentOf(full) }]
  return told.length > 0
    ? finding('memory/plan', numbers, { ...words, changes: { joint: ';', of: told } })
    : finding('memory/none', numbers, words)
}
