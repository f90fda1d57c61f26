/** What a step shows beside its results: the time of each rank, that of its data, samples that came again, loads of experts. */
import { batchOfStep } from '../base/index.js'
import type { Dataset } from '../data/index.js'
import { fingerprint } from '../data/index.js'
import type { Choices, StepData, StepResult, Trainer } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import { formOf, type Job } from '../plan/index.js'
import { briefly, overlapOf, type RankTimes, rankTimesOf, type Shares, sharesOfRanks } from '../trace/index.js'
import { type DeadUnits, unitLooks } from './dead-units.js'

export interface Observed {
  /** Shares of the ranks' time, where it was measured. */
  readonly shares?: Shares
  /** What each rank did. */
  readonly ranks?: RankTimes
  /** Seconds of the step in which its data was made. */
  readonly loading?: number
  /** Samples that came before, although the data has not been passed once. */
  readonly repeated?: number
  /** Of the layer whose experts are loaded least evenly. */
  readonly experts?: ExpertLoad
  /** Of the layer that has most of them, where some were found. */
  readonly dead?: DeadUnits
}

export interface ExpertLoad {
  readonly layer: string
  /** Tokens of the busiest expert over those of a mean one. */
  readonly busiest: number
  /** Experts that no token chose. */
  readonly idle: number
  /** The same as `busiest` of the ranks that share the experts, where several do. */
  readonly busiestRank?: number
}

export function timesIn(program: Program, { concurrent, spans }: Pick<Trainer, 'concurrent' | 'spans'>): Observed {
  if (!concurrent || spans.length === 0) return {}
  const [times, overlap] = [rankTimesOf(program, spans), overlapOf(program, spans)]
  return {
    shares: { ...sharesOfRanks(times, program.streams.length), ...(overlap !== undefined && { overlap }) },
    ranks: briefly(times),
  }
}

export interface TimedData {
  readonly inputs: StepData['inputs']
  /** That were spent on it so far. */
  seconds(): number
}

/** A step that is over: its data, its number, by which program, and what came of it. */
type StepDone = [data: TimedData, at: { readonly step: number }, program: Program, result: StepResult]

/** Of each step, once it is taken. */
export function observing(job: Job, dataset: Dataset, trainer: Trainer): (...done: StepDone) => Observed {
  // The synthetic task has few samples by design.
  const repeats = job.data && formOf(job.data) !== 'synthetic' ? repeatsIn(dataset) : () => 0
  const units = unitLooks(job, trainer)
  return (data, { step }, program, result) => {
    const loading = Number(data.seconds().toPrecision(3))
    const { first, globalBatch } = batchOfStep(job.training, step - 1)
    const [repeated, experts] = [repeats(data.inputs, first + globalBatch), expertLoadOf(job, trainer.choices)]
    return { loading, ...(repeated > 0 && { repeated }), ...(experts && { experts }), ...units(program, step, result) }
  }
}

/** The same data with a clock. */
export function timed(inputs: StepData['inputs']): TimedData {
  let spent = 0
  return {
    inputs(name) {
      const started = performance.now()
      const values = inputs(name)
      spent += performance.now() - started
      return values
    },
    seconds: () => spent / 1000,
  }
}

/** Samples that are remembered: 2^20 take some tens of MB. */
const mostRemembered = 2 ** 20

/** For each batch of tokens of the first epoch: how many of its samples were in one before. */
function repeatsIn({ train: { count, inputs } }: Dataset): (batch: StepData['inputs'], last: number) => number {
  const { tokens } = inputs
  const seen = new Set<string>()
  return (batch, last) => {
    if (!tokens || last > count || seen.size > mostRemembered) return 0
    const values = Int32Array.from(batch('tokens'))
    let repeated = 0
    for (let at = 0; at < values.length; at += tokens.size) {
      const name = fingerprint('', values.subarray(at, at + tokens.size))
      if (seen.has(name)) repeated++
      else seen.add(name)
    }
    return repeated
  }
}

function expertLoadOf({ model, plan }: Job, choices: Choices): ExpertLoad | undefined {
  if (model.family !== 'llama' || !model.moe || choices.size === 0) return undefined
  const { experts } = model.moe
  const loads = [...choices].map(([layer, { values }]) => {
    const tokens = new Array<number>(experts).fill(0)
    for (const expert of values) if (expert >= 0) tokens[expert]++
    const ranks = Array.from({ length: plan.ep }, (_, rank) =>
      tokens.slice((rank * experts) / plan.ep, ((rank + 1) * experts) / plan.ep).reduce((a, b) => a + b, 0),
    )
    return {
      ...{ layer, busiest: unevenness(tokens), idle: tokens.filter(count => count === 0).length },
      ...(plan.ep > 1 && { busiestRank: unevenness(ranks) }),
    }
  })
  return loads.reduce((a, b) => (b.busiest > a.busiest ? b : a))
}

/** The greatest over the mean. */
const unevenness = (loads: readonly number[]): number => {
  const total = loads.reduce((a, b) => a + b, 0)
  return total > 0 ? Number(((Math.max(...loads) * loads.length) / total).toPrecision(3)) : 1
}
