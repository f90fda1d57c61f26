/**
 * What ails a run, from its folder: what its steps show, what its plan costs on the cluster it runs on, and how far what was
 * measured is from what was predicted. The most important comes first; a healthy run has none.
 */
import { worldOf } from '../base/index.js'
import { machineOfRun, predictionOf, type RunTimes, refit, simulateOn } from '../calibrate/index.js'
import type { Cluster } from '../cluster/index.js'
import { multipliesIn } from '../cost/index.js'
import {
  found,
  foundIn,
  type HealthEvent,
  median,
  muchStolen,
  type Prediction,
  type RunRead,
  type StepLine,
  stolenIn,
  watchRun,
} from '../health/index.js'
import type { Program } from '../ir/index.js'
import type { Parts } from '../metrics/index.js'
import type { Job } from '../plan/index.js'
import { simulatedMove } from './move.js'
import { ofPlan } from './plan.js'

export interface Patient {
  readonly run: RunRead
  readonly job: Job
  readonly program: Program
  /** What it runs on; of a machine whose ranks are threads only its plan is judged by what `train` has seen. */
  readonly cluster?: Cluster | undefined
  /** measured.json. */
  readonly times?: RunTimes | undefined
}

export interface Diagnosis {
  readonly steps: number
  /** Of a step: the middle of all, as measured and as predicted. */
  readonly seconds: number
  readonly predicted?: number
  /** Where the time of a step goes, as predicted. */
  readonly parts?: Parts
  readonly findings: readonly HealthEvent[]
}

/** Whether an event still holds: a failure that the run has recovered from is one no more. */
const lasts = ({ events, steps }: RunRead) => {
  const restarted = events.findLastIndex(({ event }) => event === 'restart')
  const furthest = steps.at(-1)?.step ?? 0
  return (one: HealthEvent): boolean =>
    one.event !== 'failed' || (events.lastIndexOf(one) > restarted && furthest <= one.step)
}

/** Measured over predicted, from which on a run is slow. */
const slow = 1.25

export function diagnose({ run, job, program, cluster, times }: Patient): Diagnosis {
  const seconds = median(run.steps.map(line => line.seconds))
  const simulation = cluster && simulateOn(program, cluster)
  const prediction = cluster && simulation ? predictionOf(cluster, simulation) : run.info?.prediction
  const { mesh } = program
  const crowded = run.info?.cores !== undefined && run.info.cores < worldOf(mesh)
  const seen = foundIn(watchRun({ path: run.path, job, mesh, prediction, crowded }), run.steps)
  const told = causesIn([
    ...run.events.filter(({ severity, event }) => severity !== 'note' || event === 'straggler').filter(lasts(run)),
    ...seen,
  ])
  const machine = machineAsFound({ run, program, cluster, times })
  const shown = machine ? told.map(one => simulatedMove(one, job, machine)) : told
  const planned = machine
    ? ofPlan(job, { cluster: machine, simulation: simulateOn(program, machine), symptoms: shown, named: !!cluster })
    : []
  const judged = cluster ? planned : withOthers(planned, run.steps)
  const known = [
    ...shown.filter(one => !judged.some(other => other.event === one.event && one.event === 'memory')),
    ...judged,
  ]
  const unexplained = prediction && !known.some(explains) ? slowerThan(prediction, seconds, run.steps.length) : []
  return {
    ...{ steps: run.steps.length, seconds, findings: byWeight([...known, ...unexplained]) },
    ...(prediction && { predicted: prediction.seconds }),
    ...(simulation && { parts: simulation.parts }),
  }
}

/** Found by what a run measured: where others had its cores, collectives take as long as whoever is there last was kept waiting for one. */
export const withOthers = (findings: readonly HealthEvent[], steps: readonly StepLine[]): HealthEvent[] =>
  findings.map(one =>
    one.event === 'network' && stolenIn(steps) > muchStolen ? { ...one, severity: 'note' as const } : one,
  )

/** The cluster as the run has measured it; of the engine's machine that is all there is to know. */
function machineAsFound({ run: { info }, program, cluster, times }: Omit<Patient, 'job'>): Cluster | undefined {
  if (cluster) return times ? refit(program, cluster, times).cluster : cluster
  if (info?.software !== 'engine' || !times || times.instructions.length === 0) return undefined
  // What was measured is called f32, whatever it was in: prices in 16 bits would be of nothing.
  if (multipliesIn(program) !== 'f32') return undefined
  const { cores = info.world, kernels: cpu = 'engine', world } = info
  return machineOfRun(program, times, { cpu, cores, memory: Number.MAX_SAFE_INTEGER }, world)
}

/** Each cause once, with how often: as it was told the last time, or, where the first step is what matters, the first. */
function causesIn(events: readonly HealthEvent[]): HealthEvent[] {
  const causes = new Map<string, HealthEvent[]>()
  for (const event of events) {
    const cause = `${event.event} ${event.rank} ${event.where}`
    causes.set(cause, [...(causes.get(cause) ?? []), event])
  }
  return [...causes.values()].map(told => {
    const [first, last] = [told[0], told[told.length - 1]]
    const shown = first.event === 'replicasDiffer' ? first : last
    const steps = new Set(told.map(({ step }) => step)).size
    return steps === 1 ? shown : { ...shown, numbers: { ...shown.numbers, times: steps } }
  })
}

const explains = ({ event }: HealthEvent): boolean =>
  ['straggler', 'slowLink', 'dataLoader', 'memory', 'prediction', 'imbalance', 'timeout', 'restart', 'failed'].includes(
    event,
  )

const leastSteps = 8

function slowerThan({ cluster, seconds: predicted }: Prediction, seconds: number, steps: number): HealthEvent[] {
  const factor = seconds / predicted
  if (factor < slow || steps < leastSteps) return []
  return [
    found(
      'prediction/step',
      { step: steps, severity: 'warning', numbers: { seconds, predicted, gain: 1 - 1 / factor } },
      { times: factor.toFixed(2), cluster },
    ),
  ]
}

const rank = { error: 0, warning: 1, note: 2 } as const

/** The most important first: errors, then what explains one of them, then warnings by what they cost. */
function byWeight(findings: readonly HealthEvent[]): HealthEvent[] {
  const failed = new Set(findings.flatMap(({ event, severity }) => (severity === 'error' ? [event] : [])))
  const weight = ({ event, severity }: HealthEvent) =>
    severity !== 'error' && failed.has(event) ? rank.error + 0.5 : rank[severity]
  return findings.toSorted(
    (a, b) =>
      Number(b.event === 'failed') - Number(a.event === 'failed') ||
      weight(a) - weight(b) ||
      (b.numbers.gain ?? 0) - (a.numbers.gain ?? 0),
  )
}
