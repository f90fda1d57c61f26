/**
 * What every choice of a job costs and saves against the same plan without it: both are priced, on the same cluster. What the job has is
 * simulated, program beside program; what it might have is estimated.
 */
import { asPart, type Said, type Work } from '../base/index.js'
import { type Cluster, precisionProblem } from '../cluster/index.js'
import { compilingJob, heaviest } from '../compile/index.js'
import { bytesOfParameter, estimate, placedOf, precisionOf, totalBytes } from '../estimate/index.js'
import type { Program } from '../ir/index.js'
import { check, type Job } from '../plan/index.js'
import { clusterPrices, kernelLoads, rankTraffic, type Simulation, simulating } from '../simulate/index.js'
import { type Choice, type ChoiceName, choiceNames, choicesIn } from './choices.js'
import type { ReasonValues } from './neighbour-words.js'
import { callsOfPlan } from './simulated.js'

/** Of a rank: the heaviest, where they are not alike. */
export interface Cost {
  readonly step: number
  /** Seconds of the parts of a step. */
  readonly parts: Readonly<Record<string, number>>
  /** Bytes on the device; and, of programs, elsewhere. */
  readonly bytes: number
  readonly host?: number
  readonly disk?: number
  /** Bytes of one parameter as it is multiplied, its gradient and its states, wherever they lie. */
  readonly perParameter: number
  /** Of programs: bytes for other ranks, and those moved between spaces. */
  readonly sent?: number
  readonly moved?: number
  /** Of programs: seconds of each kind of kernel. */
  readonly kernels?: Readonly<Record<string, number>>
}

export interface PricedChoice extends Pick<Choice, 'name' | 'chosen' | 'instead' | 'taken'> {
  readonly simulated: boolean
  readonly with: Cost
  readonly without: Cost
}

export interface RefusedChoice extends Pick<Choice, 'name' | 'chosen' | 'instead' | 'taken'> {
  /** Why the job cannot be without it, or with it. */
  readonly why: Said<ReasonValues>
}

export type JudgedChoice = PricedChoice | RefusedChoice

export const isPriced = (one: JudgedChoice): one is PricedChoice => 'with' in one

/** Programs of more calls are not compiled for this. */
const mostCalls = 2 ** 12

/** Of all choices, or of some. Nothing, where the order is that of a file, or the model has no price. */
export function* pricingChoices(
  job: Job,
  cluster: Cluster,
  names: readonly ChoiceName[] = choiceNames,
  known?: SimulatedProgram,
): Work<JudgedChoice[]> {
  const placed = placedOf(job)
  if (!placed) return []
  const choices = choicesIn(job).filter(({ name }) => names.includes(name))
  const refusals = choices.map(({ other }) => refusalOf(other, cluster))
  const compiles =
    callsOfPlan(placed.shape, placed.split) <= mostCalls &&
    choices.some((choice, i) => choice.taken && refusals[i] === undefined)
  const own = compiles ? yield* asPart(0, 1 / (choices.length + 1), simulatedCost(job, cluster, known)) : undefined
  const estimated = estimatedCost(job, cluster)
  const judged: JudgedChoice[] = []
  for (const [i, { other, ...choice }] of choices.entries()) {
    const why = refusals[i]
    if (why !== undefined || !other) {
      judged.push({ ...choice, why: why ?? { code: 'reason/unwritable', values: {} } })
      continue
    }
    const from = (i + 1) / (choices.length + 1)
    const isSimulated = choice.taken && own !== undefined
    const cost = isSimulated
      ? yield* asPart(from, from + 1 / (choices.length + 1), simulatedCost(other, cluster))
      : estimatedCost(other, cluster)
    const now = isSimulated ? own : estimated
    judged.push({
      ...{ ...choice, simulated: isSimulated },
      ...(choice.taken ? { with: now, without: cost } : { with: cost, without: now }),
    })
  }
  return judged
}

function refusalOf(job: Job | undefined, { device }: Cluster): Said<ReasonValues> | undefined {
  if (!job) return undefined
  const problem =
    check(job).find(({ severity }) => severity === 'error') ??
    precisionProblem(device, precisionOf(job.plan), 'plan.precision')
  return problem && { code: 'reason/refused', values: { problem } }
}

function estimatedCost(job: Job, cluster: Cluster): Cost {
  const placed = placedOf(job)! // a job that differs in such a choice has a price where the other has
  const { step, parts, memory } = estimate({ ...placed, cluster })
  return { step, parts: { ...parts }, bytes: totalBytes(memory), perParameter: bytesOfParameter(placed) }
}

/** A compiled job and its simulated step. */
export interface SimulatedProgram {
  readonly program: Program
  readonly simulation: Simulation
}

/** Compiles a job and simulates its step. */
export function* simulatingJob(job: Job, cluster: Cluster): Work<SimulatedProgram> {
  const program = yield* asPart(0, 0.7, compilingJob(job))
  const prices = clusterPrices(program, cluster)
  return { program, simulation: yield* asPart(0.7, 1, simulating(program, prices, { watch: [] })) }
}

function* simulatedCost(job: Job, cluster: Cluster, known?: SimulatedProgram): Work<Cost> {
  const { program, simulation } = known ?? (yield* simulatingJob(job, cluster))
  const { step, parts, memory } = simulation
  const { arena, host, disk } = memory
  return {
    ...{ step, parts, bytes: arena, perParameter: bytesOfParameter(placedOf(job)!) }, // as above
    ...(host && { host }),
    ...(disk && { disk }),
    ...loadsOf(program, clusterPrices(program, cluster)),
  }
}

function loadsOf(program: Program, prices: ReturnType<typeof clusterPrices>) {
  const pp = heaviest(program.streams)
  const [moves, sends] = [true, false].map(moves =>
    rankTraffic(program, prices, pp)
      .filter(({ what }) => (what === 'move') === moves)
      .reduce((sum, { bytes }) => sum + bytes, 0),
  )
  const kernels = Object.fromEntries(kernelLoads(program, prices, pp).map(({ what, seconds }) => [what, seconds]))
  return { moved: moves, sent: sends, kernels }
}

/** What differs most between two, in seconds: most first. */
export function differing(
  { with: chosen, without }: PricedChoice,
  what: 'parts' | 'kernels',
  most = 2,
): readonly { readonly name: string; readonly seconds: number }[] {
  const [one, other] = [chosen[what] ?? {}, without[what] ?? {}]
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])]
  const all = names.map(name => ({ name, seconds: (one[name] ?? 0) - (other[name] ?? 0) }))
  const largest = Math.max(...all.map(({ seconds }) => Math.abs(seconds)))
  return all
    .filter(({ seconds }) => Math.abs(seconds) > Math.max(0.2 * largest, 1e-7))
    .sort((a, b) => Math.abs(b.seconds) - Math.abs(a.seconds))
    .slice(0, most)
}
