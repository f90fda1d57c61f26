/** A run in two sentences, whoever ran it: the steps it took and what came of them, and how fast it was. */
import { flopsDefinition } from '../../model/index.js'
import type { Job } from '../../plan/index.js'
import type { StepRecord } from '../../train/index.js'
import { duration, scaled, showPercent, showTime } from './numbers.js'

/** `taken` is how many steps were behind it when it began, `peak` the FLOP/s that utilisation is relative to. */
export function summaryOf({ training }: Job, records: readonly StepRecord[], taken: number, peak?: number): string[] {
  const { steps, globalBatch, seq } = training
  const last = records.at(-1)
  if (!last && taken >= steps)
    return [`the checkpoint has taken ${taken} steps, the job has ${steps}: nothing is left to train; try --steps`]
  if (!last) return ['not one step was taken']
  const seconds = records.reduce((sum, record) => sum + record.seconds, 0)
  const tokens = records.length * globalBatch * seq
  const held = records.findLast(record => record.evalLoss !== undefined)
  const saved = records.findLast(record => record.checkpoint !== undefined)
  const flops = (last.flopsPerSecond * last.seconds * records.length) / seconds
  const which = taken > 0 ? `${taken + 1} to ${last.step}` : `${last.step}`
  return [
    `${last.step === steps ? 'trained' : 'stopped after'} ${which} of ${steps} steps in ${duration(seconds)}: loss ${records[0].loss.toFixed(4)} -> ${last.loss.toFixed(4)}${held ? `, held-out loss ${held.evalLoss!.toFixed(4)} after step ${held.step}` : ''}`,
    `${showTime(seconds / records.length)} a step, ${scaled(tokens / seconds)} tokens/s, ${scaled(flops, ' ')}FLOP/s${peak === undefined ? '' : `, MFU ${showPercent(flops / peak)}`} (${flopsDefinition})`,
    ...(saved ? [`checkpoint: ${saved.checkpoint}`] : []),
  ]
}
