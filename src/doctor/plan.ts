/** What a plan loses on its cluster, and the single change that would win most of it back. */
import type { Cluster } from '../cluster/index.js'
import { compileJob } from '../compile/index.js'
import { splitOf } from '../estimate/index.js'
import type { EventKind, HealthEvent } from '../health/index.js'
import { type Job, Plan } from '../plan/index.js'
import {
  capacityOf,
  type Neighbour,
  neighboursOf,
  priceOf,
  requestOfJob,
  showSentence,
  type Topic,
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
  const thrashes = symptoms.some(({ event }) => event === 'memory')
  const full = simulation.memory.arena / capacityOf(request)
  return [
    ...order,
    ...(order.length > 0 ? [] : ofNetwork(simulation, neighbours)),
    ...ofBubble(job, simulation, neighbours),
    ...(named ? ofMicrobatches(job, neighbours) : []),
    ...(full > share.memory || thrashes ? [ofMemory(full, plan.bytes, neighbours)] : []),
  ]
}

const finding = (event: EventKind, gain: number, message: string, advice: string, numbers = {}): HealthEvent => ({
  ...{ step: 0, event, severity: 'warning', message, advice, numbers: { ...numbers, gain: Number(gain.toFixed(3)) } },
})

const percent = (part: number): string => `${(100 * part).toFixed(0)} %`

/** The ratio of a change that is possible, and fits. */
const ratioOf = ({ verdict }: Neighbour): number =>
  verdict.kind === 'timed' ? verdict.ratio : Number.POSITIVE_INFINITY

const bestOf = (neighbours: readonly Neighbour[], topics?: readonly Topic[]): Neighbour | undefined =>
  neighbours.find(one => (topics?.includes(one.move.topic) ?? true) && ratioOf(one) < 1 - leastGain)

const tried = (best: Neighbour | undefined): string =>
  best
    ? `try ${showSentence(best.move.change)}: -${percent(1 - ratioOf(best))}`
    : 'no single change of the plan helps: lockstep plan searches all'

function ofOrder(job: Job, cluster: Cluster, { step }: Simulation): HealthEvent[] {
  const { order } = Plan.parse({})
  if (job.plan.order === order) return []
  const program = compileJob({ ...job, plan: { ...job.plan, order } })
  const usual = simulate(program, clusterPrices(program, cluster), { watch: [] }).step
  if (usual > (1 - leastGain) * step) return []
  const gain = 1 - usual / step
  return [
    finding(
      'axisOrder',
      gain,
      `with ranks in the order ${job.plan.order} axes that talk much lie on slow links: a step would take ${percent(gain)} less in the order ${order}`,
      `leave plan.order out, or write ${order}`,
      { seconds: step, usual },
    ),
  ]
}

function ofNetwork({ step, parts }: Simulation, neighbours: readonly Neighbour[]): HealthEvent[] {
  const axes = ['tp', 'cp', 'ep', 'dp', 'pp'] as const
  const worst = axes.reduce((a, b) => (parts[b] > parts[a] ? b : a))
  const total = axes.reduce((sum, axis) => sum + parts[axis], 0) / step
  const best = bestOf(neighbours)
  if (total < share.network || !best) return []
  const message = `collectives that nothing hides take ${percent(total)} of a step, most of it along ${worst} (${percent(parts[worst] / step)})`
  return [finding('network', 1 - ratioOf(best), message, tried(best), { share: total })]
}

function ofBubble({ plan }: Job, { step, parts }: Simulation, neighbours: readonly Neighbour[]): HealthEvent[] {
  const best = bestOf(neighbours, ['batch', 'schedule', 'mesh', 'layers'])
  if (parts.bubble / step < share.bubble || !best) return []
  const message = `ranks wait ${percent(parts.bubble / step)} of a step for the pipeline: ${plan.pp} stages, ${plan.microbatches} microbatches`
  return [finding('bubble', 1 - ratioOf(best), message, tried(best), { share: parts.bubble / step })]
}

function ofMicrobatches({ plan, training }: Job, neighbours: readonly Neighbour[]): HealthEvent[] {
  const now = training.globalBatch / (plan.dp * plan.microbatches)
  const larger = neighbours.find(one => one.move.topic === 'batch' && (one.plan?.split.microbatch ?? 0) > now)
  if (!larger || ratioOf(larger) > 1 - leastGain) return []
  const message = `microbatches of ${now} sequence${now === 1 ? '' : 's'} are too small for the device: its kernels are not filled`
  const advice = `try plan.microbatches: ${larger.plan?.split.microbatches}: -${percent(1 - ratioOf(larger))}`
  return [finding('microbatches', 1 - ratioOf(larger), message, advice, { microbatch: now })]
}

function ofMemory(full: number, bytes: number, neighbours: readonly Neighbour[]): HealthEvent {
  const less = neighbours.filter(one => ratioOf(one) < 2 && (one.plan?.bytes ?? bytes) < 0.95 * bytes).slice(0, 3)
  const told = less.map(one => {
    const time = ratioOf(one) - 1
    return `${showSentence(one.move.change)} (${((bytes - (one.plan?.bytes ?? bytes)) / 2 ** 30).toFixed(1)} GiB less, time ${time >= 0 ? '+' : '-'}${percent(Math.abs(time))})`
  })
  const advice =
    told.length > 0
      ? `the cheapest changes: ${told.join('; ')}`
      : 'no single change takes less: lockstep plan searches all'
  return finding('memory', 0, `the plan takes ${percent(full)} of the memory that may be used`, advice, { share: full })
}
