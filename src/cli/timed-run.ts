/** A program run on this machine for its times: every step with what each rank did in it. */
import { batchAt, type Dataset } from '../data/index.js'
import { startTrainer } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import { type Job, lrAt } from '../plan/index.js'
import { endOf, type Span, startOf } from '../trace/index.js'
import { engineFailures } from './training.js'

export interface TimedStep {
  /** From the first command of any rank to the end of the last: what the ranks took, not what it took to tell them. */
  readonly seconds: number
  readonly spans: readonly Span[]
}

export interface TimedRun {
  /** The kernels, and how many ranks. */
  readonly description: string
  /** In the order they ran; the first one, which finds nothing in any cache, is left out. */
  readonly steps: readonly TimedStep[]
}

export interface TimedOptions {
  readonly job: Job
  readonly program: Program
  readonly dataset: Dataset
  readonly steps: number
  /** Called before each step; false: enough. */
  readonly goOn: (step: number) => boolean
}

export async function timedRun({ job, program, dataset, steps, goOn }: TimedOptions): Promise<TimedRun> {
  const { training } = job
  const options = { kernels: 'auto', seed: training.seed, measure: true } as const
  const trainer = await engineFailures('cannot start', () => startTrainer(program, options))
  const timed: TimedStep[] = []
  try {
    for (let step = 0; step <= steps && goOn(step); step++) {
      const inputs = batchAt(dataset.train, training, step)
      await engineFailures(`step ${step + 1}`, () => trainer.step({ inputs, lr: lrAt(training, step), step }))
      const { spans } = trainer
      if (step > 0) timed.push({ seconds: endOf(spans) - startOf(spans), spans })
    }
  } finally {
    await trainer.stop()
  }
  return { description: trainer.description, steps: timed }
}

/** The step in which the machine did least else. */
export const quickest = (steps: readonly TimedStep[]): TimedStep =>
  steps.reduce((best, step) => (step.seconds < best.seconds ? step : best))
