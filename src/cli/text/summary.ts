/** A run in two sentences, whoever ran it: the steps it took and what came of them, and how fast it was. */

import { duration, scaled, showPercent, showTime } from '../../base/index.js'
import { flopsDefinitionOf, windowOf } from '../../model/index.js'
import type { Job } from '../../plan/index.js'
import type { StepRecord } from '../../train/index.js'

/** `behind` is how many steps were behind it when it began, `peak` the FLOP/s that utilisation is relative to. */
export function summaryOf(job: Job, records: readonly StepRecord[], behind: number, peak?: number): string[] {
  const { steps } = job.training
  const last = records.at(-1)
  if (!last && behind >= steps)
    return [`the checkpoint has taken ${behind} steps, the job has ${steps}: nothing is left to train; try --steps`]
  if (!last) return ['not one step was taken']
  const seconds = records.reduce((sum, record) => sum + record.seconds, 0)
  const sum = (rate: 'tokensPerSecond' | 'flopsPerSecond') =>
    records.reduce((total, record) => total + record[rate] * record.seconds, 0)
  const held = records.findLast(record => record.evalLoss !== undefined)
  const saved = records.findLast(record => record.checkpoint !== undefined)
  const [tokens, flops] = [sum('tokensPerSecond'), sum('flopsPerSecond') / seconds]
  const which = behind > 0 ? `${behind + 1} to ${last.step}` : `${last.step}`
  return [
    `${last.step === steps ? 'trained' : 'stopped after'} ${which} of ${steps} steps in ${duration(seconds)}: ${lossesText(records)}${held ? `, held-out loss ${held.evalLoss!.toFixed(4)} after step ${held.step}` : ''}`,
    `${showTime(seconds / records.length)} a step, ${scaled(tokens / seconds)} tokens/s, ${scaled(flops, ' ')}FLOP/s${peak === undefined ? '' : `, MFU ${showPercent(flops / peak)}`} (${definitionFor(job)})`,
    ...skipsText(records),
    ...(saved ? [`checkpoint: ${saved.checkpoint}`] : []),
  ]
}

const definitionFor = ({ model, training: { lora, seq }, data }: Job): string =>
  flopsDefinitionOf({
    adapters: lora !== undefined,
    limited: (windowOf(model) ?? seq) < seq || data?.documents !== undefined,
  })

/** Losses of steps that were skipped say nothing of the run. */
function lossesText(records: readonly StepRecord[]): string {
  const taken = records.filter(({ skipped }) => skipped === undefined)
  const [first, last] = [taken.at(0), taken.at(-1)]
  return first && last ? `loss ${first.loss.toFixed(4)} -> ${last.loss.toFixed(4)}` : 'every step was skipped'
}

function skipsText(records: readonly StepRecord[]): string[] {
  const skipped = records.filter(({ skipped }) => skipped !== undefined)
  if (skipped.length === 0) return []
  const told = skipped.slice(0, 5).map(({ step }) => step)
  return [
    `skipped ${skipped.length} of these steps (${[...told, ...(skipped.length > 5 ? ['...'] : [])].join(', ')}): ${skipped[0].skipped}`,
  ]
}
