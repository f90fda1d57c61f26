/** A run, step by step: data in, numbers out. Who shows them and where they are kept is not its business. */
import { error, ProblemsError } from '../base/index.js'
import { batchAt, batchesInOrder, type Dataset } from '../data/index.js'
import type { Trainer } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import { flopsPerToken } from '../model/index.js'
import { type Job, lrAt } from '../plan/index.js'
import { type Shares, sharesOf } from '../trace/index.js'

export interface StepRecord {
  /** Counts from 1. */
  readonly step: number
  readonly loss: number
  readonly gradientNorm: number
  readonly lr: number
  /** Labels that counted. */
  readonly counted: number
  readonly seconds: number
  readonly tokensPerSecond: number
  /** As `flopsDefinition` counts them. */
  readonly flopsPerSecond: number
  /** Over the held-out samples, after this step. */
  readonly evalLoss?: number
  /** Of the ranks' time, where it was measured. */
  readonly shares?: Shares
  /** The checkpoint that was written after it. */
  readonly checkpoint?: string
}

export interface Session {
  readonly job: Job
  readonly program: Program
  readonly trainer: Trainer
  readonly dataset: Dataset
  /** Steps that were taken before, by the run this one goes on from. */
  readonly taken: number
}

/** Tells after each step; returns early when nobody asks for the next. */
export async function* trainingOf({ job, program, trainer, dataset, taken }: Session): AsyncGenerator<StepRecord> {
  const { model, training } = job
  const tokens = training.globalBatch * training.seq
  const flops = tokens * flopsPerToken(model, training.seq)
  const heldOut = batchesInOrder(dataset.heldOut, training.globalBatch, training.evalBatches)
  for (let step = taken; step < training.steps; step++) {
    const inputs = batchAt(dataset.train, training, step)
    const lr = lrAt(training, step)
    const started = performance.now()
    const { loss, count, normSquared } = await engineFailures(`step ${step + 1}`, () =>
      trainer.step({ inputs, lr, step }),
    )
    const seconds = (performance.now() - started) / 1000
    requireFinite(loss, step + 1)
    const judged = heldOut.length > 0 && isDue(step + 1, training.steps, training.evalEvery)
    yield {
      step: step + 1,
      loss,
      gradientNorm: Math.sqrt(normSquared),
      lr,
      counted: count,
      seconds,
      tokensPerSecond: tokens / seconds,
      flopsPerSecond: flops / seconds,
      ...(judged ? { evalLoss: (await trainer.evaluate(heldOut)).loss } : {}),
      ...(trainer.concurrent && trainer.spans.length > 0 ? { shares: sharesOf(program, trainer.spans) } : {}),
    }
    // Interrupts are heard between steps, also where a step never lets go of the thread.
    await new Promise(resolve => setImmediate(resolve))
  }
}

/** After the last step, and after every so many (0: none of these). */
export const isDue = (step: number, steps: number, every: number): boolean =>
  step === steps || (every > 0 && step % every === 0)

function requireFinite(loss: number, step: number): void {
  if (Number.isFinite(loss)) return
  throw new ProblemsError([
    error('training/loss', 'training', `the loss of step ${step} is ${loss}`, 'try a smaller lr, a warm-up, or clip'),
  ])
}

/** What stops an engine (a rank that died, a peer that never came) is told as it tells it. */
export async function engineFailures<T>(when: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (e) {
    if (e instanceof ProblemsError || e instanceof TypeError) throw e
    throw new ProblemsError([error('engine/failed', '', `${when}: ${e instanceof Error ? e.message : String(e)}`)])
  }
}

/** Losses of the first steps on one rank, for the same data from the same weights. */
export async function lossesOf(session: Omit<Session, 'program'>, steps: number): Promise<number[]> {
  const { job, trainer, dataset, taken } = session
  const losses: number[] = []
  for (let step = taken; step < taken + steps; step++) {
    const inputs = batchAt(dataset.train, job.training, step)
    losses.push((await trainer.step({ inputs, lr: lrAt(job.training, step), step })).loss)
  }
  return losses
}
