/** The summary of a run: its steps and losses, its speed and where the time went. */

import { counted, duration, scaled, showPercent, showTime } from '../../base/index.js'
import { mfuOf } from '../../metrics/index.js'
import { flopsDefinitionOf, windowOf } from '../../model/index.js'
import { type Job, worldOfPlan } from '../../plan/index.js'
import type { Shares } from '../../trace/index.js'
import { judgedLosses, type StepRecord } from '../../train/index.js'

/** Skipped steps that are named. */
const mostNamed = 5

/** Running totals of a run: what its summary needs of the steps, in constant memory however long it is. */
export class RunTotals {
  steps = 0
  seconds = 0
  tokens = 0
  flops = 0
  /** The last step there was. */
  last: Pick<StepRecord, 'step' | 'checkpoint'> | undefined
  checkpoint: string | undefined
  held: { readonly step: number; readonly loss: number } | undefined
  skipped: { count: number; readonly why: string; readonly named: readonly number[] } | undefined
  /** Losses of steps that were taken: the first, and the last ones. */
  firstLoss: number | undefined
  lastLosses: readonly number[] = []
  /** Of the first steps, whatever became of them. */
  readonly firstLosses: number[] = []
  /** Time shares of steps that were measured, and the seconds these took. */
  shares: Pick<Shares, 'compute' | 'communication' | 'waiting' | 'bubble'> | undefined
  sharedSeconds = 0
  readonly #firsts: number

  /** `firsts`: of how many first steps the losses are kept. */
  constructor(firsts = 0) {
    this.#firsts = firsts
  }

  add({
    step,
    loss,
    seconds,
    tokensPerSecond,
    flopsPerSecond,
    skipped,
    evalLoss,
    checkpoint,
    shares,
  }: StepRecord): void {
    if (shares) this.#addShares(shares, seconds)
    this.steps++
    this.seconds += seconds
    this.tokens += tokensPerSecond * seconds
    this.flops += flopsPerSecond * seconds
    this.saved({ step, ...(checkpoint !== undefined && { checkpoint }) })
    if (evalLoss !== undefined) this.held = { step, loss: evalLoss }
    if (this.firstLosses.length < this.#firsts) this.firstLosses.push(loss)
    if (skipped === undefined) {
      this.firstLoss ??= loss
      this.lastLosses = [...this.lastLosses, loss].slice(-judgedLosses)
    } else {
      const { count, why, named } = this.skipped ?? { count: 0, why: skipped, named: [] }
      this.skipped = { count: count + 1, why, named: [...named, step].slice(0, mostNamed) }
    }
  }

  #addShares({ compute, communication, waiting, bubble }: Shares, seconds: number): void {
    const before = this.shares ?? { compute: 0, communication: 0, waiting: 0, bubble: 0 }
    this.sharedSeconds += seconds
    const mean = (share: number, of: number) => of + ((share - of) * seconds) / this.sharedSeconds
    this.shares = {
      compute: mean(compute, before.compute),
      communication: mean(communication, before.communication),
      waiting: mean(waiting, before.waiting),
      bubble: mean(bubble, before.bubble),
    }
  }

  /** The last step, and where it was saved. */
  saved({ step, checkpoint }: Pick<StepRecord, 'step' | 'checkpoint'>): void {
    this.last = { step, ...(checkpoint !== undefined && { checkpoint }) }
    this.checkpoint = checkpoint ?? this.checkpoint
  }
}

/** `behind` is how many steps were behind it when it began, `peak` the FLOP/s that utilization is relative to. */
export function summaryOf(job: Job, totals: RunTotals, behind: number, peak?: number): string[] {
  const { steps } = job.training
  const { last, held, seconds, checkpoint } = totals
  if (!last && behind >= steps)
    return [
      `the checkpoint is at step ${behind} and the job has ${counted(steps, 'step')}: nothing left to train; try --steps`,
    ]
  if (!last) return ['no step was completed']
  const flops = totals.flops / seconds
  const which = behind > 0 ? `${behind + 1} to ${last.step}` : `${last.step}`
  return [
    `${last.step === steps ? 'trained' : 'stopped after'} ${which} of ${steps} steps in ${duration(seconds)}: ${lossesText(totals)}${held ? `, validation loss ${held.loss.toFixed(4)} after step ${held.step}` : ''}`,
    `${showTime(seconds / totals.steps)}/step, ${scaled(totals.tokens / seconds)} tokens/s, ${scaled(flops, ' ')}FLOP/s${peak === undefined ? '' : `, MFU ${showPercent(mfuOf(flops, peak))}`}`,
    `  FLOP/s count ${definitionFor(job)}`,
    ...sharesText(job, totals),
    ...skipsText(totals),
    ...(checkpoint === undefined ? [] : [`checkpoint: ${checkpoint}`]),
  ]
}

/** One rank neither communicates nor waits, and a bubble is a pipeline's. */
function sharesText({ plan }: Job, { shares }: RunTotals): string[] {
  if (!shares || worldOfPlan(plan) === 1) return []
  const { compute, communication, waiting, bubble } = shares
  const parts = [
    `compute ${showPercent(compute, 0)}`,
    `communication ${showPercent(communication, 0)}`,
    `waiting ${showPercent(waiting, 0)}`,
    ...(plan.pp > 1 ? [`bubble ${showPercent(bubble, 0)}`] : []),
  ]
  return [`time: ${parts.join(', ')}`]
}

const definitionFor = ({ model, training: { lora, seq }, data }: Job): string =>
  flopsDefinitionOf({
    adapters: lora !== undefined,
    limited: (windowOf(model) ?? seq) < seq || data?.documents !== undefined,
  })

/** Losses of steps that were skipped say nothing of the run. */
function lossesText({ firstLoss, lastLosses }: RunTotals): string {
  const last = lastLosses.at(-1)
  return firstLoss === undefined || last === undefined
    ? 'every step was skipped'
    : `loss ${firstLoss.toFixed(4)} -> ${last.toFixed(4)}`
}

function skipsText({ skipped }: RunTotals): string[] {
  if (!skipped) return []
  const { count, named, why } = skipped
  return [
    `skipped ${counted(count, 'step')} (${[...named, ...(count > named.length ? ['...'] : [])].join(', ')}): ${why}`,
  ]
}
