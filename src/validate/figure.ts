/** What a source prints, turned into seconds of a step. */
import { type Definition, flopDefinitions, type Shape } from '../estimate/index.js'
import type { Row } from './row.js'

/** From the best figure a row has: step time, tokens, then FLOP/s, then the utilisation of `peak`. */
export function secondsOf(row: Row, shape: Shape, definition: Definition, peak: number): number | undefined {
  const { n_gpus: devices, global_batch_seqs: batch } = row
  if (row.reported_step_time_s !== undefined) return row.reported_step_time_s
  if (devices === undefined || batch === undefined) return undefined
  if (row.reported_tokens_per_s_per_gpu !== undefined)
    return (batch * shape.seq) / (row.reported_tokens_per_s_per_gpu * devices)
  const flops = (batch * flopDefinitions[definition](shape)) / devices
  if (row.reported_tflops_per_gpu !== undefined) return flops / (row.reported_tflops_per_gpu * 1e12)
  return row.reported_mfu === undefined ? undefined : flops / (row.reported_mfu * peak)
}
