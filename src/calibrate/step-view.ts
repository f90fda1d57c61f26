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
import { type TimesObserver, timesObserver } from './times.js'

/** The spans of one rank with their labels; times count from the start of the step. */
export interface RankSpans {
  readonly columns: SpanColumns
  readonly labels: SpanLabels
}

/** One step: its length, and the spans of all ranks in order. */
export interface SeenStep {
  readonly seconds: number
  readonly ranks: readonly RankSpans[]
}

/** One step of a run, measured and predicted. */
export interface StepView {
  /** Counts from 1. */
  readonly step: number
  readonly measured: SeenStep
  readonly predicted?: SeenStep
  readonly collectives: readonly CollectiveSum[]
}

/** Shows the last step of a running session, measured next to predicted. */
export interface StepViewer {
  /** Whether another look costs little enough time. */
  isDue(): boolean
  /**
   * Passes the last step to `show`; undefined: nothing was measured. Predictions get better with every look.
   */
  look(session: Session, show: (view: StepView | undefined) => void): void
}

/** The run stands still meanwhile: looks take this share of its time at most, and predictions as much again. */
const shareOfTime = 0.01
/** A prediction costs more than all the rest: it is kept for so many milliseconds at least. */
const keptFor = 30_000
/** Whatever is done for the first time is done by code that nobody has compiled yet, of a step that was so too: the next follows soon. */
const soon = 1000

/** Lets something be done again when it has taken no more than its share of the time. Milliseconds. */
class Ration {
  readonly #least: number
  #due = 0
  #isFirst = true

  constructor(least: number) {
    this.#least = least
  }

  get isDue(): boolean {
    return performance.now() >= this.#due
  }

  took(cost: number): void {
    this.#due = performance.now() + (this.#isFirst ? soon : Math.max(this.#least, cost / shareOfTime))
    this.#isFirst = false
  }
}

interface Seen {
  readonly program: Program
  readonly times: TimesObserver
  predicted?: SeenStep | undefined
}

/** A viewer of the steps of a session on this host. */
export function stepViewer(host: Host): StepViewer {
  const [looks, predictions] = [new Ration(0), new Ration(keptFor)]
  let seen: Seen | undefined
  /** How long it took: nothing where what is known will do. */
  const predict = (of: Seen): number => {
    if (of.predicted && !predictions.isDue) return 0
    const known = of.times.times()
    if (!known) return 0
    const started = performance.now()
    of.predicted = predictedStep(of.program, known, host)
    const cost = performance.now() - started
    predictions.took(cost)
    return cost
  }
  return {
    isDue: () => looks.isDue,
    look({ program, trainer, behind }, show) {
      const { concurrent, columns } = trainer
      if (!concurrent || columns.every(({ start }) => start.length === 0)) return show(undefined)
      const started = performance.now()
      const { spans } = trainer
      if (seen?.program !== program) seen = { program, times: timesObserver(program) }
      seen.times.add(spans)
      const predicting = predict(seen)
      show({
        ...{ step: behind, measured: stepOf(program, columns), collectives: collectivesOf(program, spans) },
        ...(seen.predicted && { predicted: seen.predicted }),
      })
      looks.took(performance.now() - started - predicting)
    },
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
