/**
 * The last step of a run, to be looked at: what each rank did, as it was measured and as a simulation has it at the rates
 * that the run itself has shown. Where both look alike, the model of this machine holds; where not, it is worth asking why.
 */
import { coordinatesOf, worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { simulateInTurns } from '../simulate/index.js'
import { type CollectiveSum, collectivesOf, labelsOf, type SpanColumns, type SpanLabels } from '../trace/index.js'
import type { Session } from '../train/index.js'
import type { Host } from './calibration.js'
import { machinePrices } from './machine-prices.js'
import { machineOfRun } from './run-machine.js'
import { timesObserver } from './times.js'

/** Of one rank; times count from the beginning of the step. */
export interface RankSpans {
  readonly columns: SpanColumns
  readonly labels: SpanLabels
}

/** Ranks in order. */
export interface SeenStep {
  readonly seconds: number
  readonly ranks: readonly RankSpans[]
}

export interface StepView {
  /** Counts from 1. */
  readonly step: number
  readonly measured: SeenStep
  readonly predicted?: SeenStep
  readonly collectives: readonly CollectiveSum[]
}

/** Looks at the last step; the more often, the more steps its prediction rests on. Undefined: nothing was measured. */
export function stepViewer(host: Host): (session: Session) => StepView | undefined {
  let seen: { readonly program: Program; readonly times: ReturnType<typeof timesObserver> } | undefined
  return ({ program, trainer, behind }) => {
    if (!trainer.concurrent || trainer.columns.every(({ start }) => start.length === 0)) return undefined
    if (seen?.program !== program) seen = { program, times: timesObserver(program) }
    const { spans } = trainer
    seen.times.add(spans)
    const times = seen.times.times()
    return {
      step: behind,
      measured: stepOf(program, trainer.columns),
      ...(times && { predicted: predictedStep(program, times, host) }),
      collectives: collectivesOf(program, spans),
    }
  }
}

function predictedStep(program: Program, times: Parameters<typeof machineOfRun>[1], host: Host): SeenStep {
  const everyRank = Array.from({ length: worldOf(program.mesh) }, (_, rank) => rank)
  const machine = machineOfRun(program, times, host, everyRank.length)
  const simulation = simulateInTurns(program, machinePrices(program, machine), host.cores, { watch: everyRank })
  return stepOf(
    program,
    everyRank.map(rank => simulation.columnsOf(rank)),
  )
}

function stepOf(program: Program, all: readonly SpanColumns[]): SeenStep {
  const starts = all.flatMap(({ start }) => (start.length > 0 ? [start.reduce((a, b) => Math.min(a, b))] : []))
  const origin = starts.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
  const ranks = all.map((columns, rank) => ({
    columns: {
      ...columns,
      start: columns.start.map(time => time - origin),
      end: columns.end.map(time => time - origin),
    },
    labels: labelsOf(program, coordinatesOf(program.mesh, rank).pp ?? 0, columns),
  }))
  const ends = ranks.map(({ columns: { end } }) => end.reduce((a, b) => Math.max(a, b), 0))
  return { seconds: Math.max(...ends), ranks }
}
