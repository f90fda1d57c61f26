/** A step as it was simulated on a calibrated machine, beside the same step as it was measured there. */
import { worldOf } from '../base/index.js'
import type { Cluster } from '../cluster/index.js'
import type { Dataset } from '../data/index.js'
import type { Program } from '../ir/index.js'
import type { Job } from '../plan/index.js'
import { type Simulation, simulateInTurns } from '../simulate/index.js'
import type { Span } from '../trace/index.js'
import { machinePrices } from './machine-prices.js'
import { typical } from './observe.js'
import { measuredSpans, type OpTime, opTimes } from './side-by-side.js'
import { type Start, type TimedStep, trainee } from './turns.js'

/** A run whose steps are timed in alternation with other measurements. */
export interface TimedRun {
  readonly program: Program
  readonly start: Start
  /** Steps in the order they are measured. */
  readonly steps: readonly TimedStep[]
}

/** Prepares a job for `compareSteps`: starts its ranks and times its steps. */
export function timedRun(job: Job, program: Program, dataset: Dataset): TimedRun {
  const steps: TimedStep[] = []
  return { program, steps, start: trainee(job, program, dataset, step => void steps.push(step)) }
}

/** A measured step next to its simulation, op by op. */
export interface StepComparison {
  readonly ranks: number
  /** Seconds of a step. */
  readonly predicted: number
  readonly measured: number
  readonly quickest: number
  /** predicted / measured - 1 */
  readonly error: number
  readonly kernels: string
  readonly ops: readonly OpTime[]
  readonly simulation: Simulation
  /** Spans of a typical step, from its start. */
  readonly spans: readonly Span[]
}

/** Compares a timed run with its simulation. The run must have been timed on this machine. */
export function compareSteps({ program, steps }: TimedRun, machine: Cluster): StepComparison {
  const ranks = worldOf(program.mesh)
  const everyRank = Array.from({ length: ranks }, (_, rank) => rank)
  const simulation = simulateInTurns(program, machinePrices(program, machine), machine.cores ?? 1, { watch: everyRank })
  const times = steps.map(({ seconds }) => seconds)
  const measured = typical(times)
  const step = steps.reduce((a, b) => (off(b, measured) < off(a, measured) ? b : a))
  const spans = measuredSpans(program, step.spans)
  return {
    ...{ ranks, simulation, spans, kernels: step.kernels },
    ...{ predicted: simulation.step, measured, quickest: Math.min(...times) },
    error: simulation.step / measured - 1,
    ops: opTimes(program, everyRank.flatMap(simulation.spansOf), spans),
  }
}

const off = ({ seconds }: TimedStep, from: number): number => Math.abs(seconds - from)
