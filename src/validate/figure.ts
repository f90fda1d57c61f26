/**
 * What each source prints, turned into seconds of a step. TFLOP/s and MFU mean different things in different papers;
 * each definition is written here once, under the name of who used it.
 */
import type { Shape } from '../estimate/index.js'
import type { Row } from './row.js'

/** FLOPs of one sequence, by definition. */
export type Definition = keyof typeof definitions

const matmuls = ({ layers, seq, embed }: Shape): number => layers * seq * embed * embed

export const definitions = {
  /** Narayanan et al., SC21: four passes over every layer, recomputation included; full attention; the head three times. */
  sc21: (s: Shape): number => 96 * matmuls(s) * (1 + s.seq / (6 * s.embed) + s.vocab / (16 * s.layers * s.embed)),
  /** Korthikanti et al., 2022, and Megatron-LM since: three passes, full attention. */
  korthikanti: (s: Shape): number =>
    72 * matmuls(s) * (1 + s.seq / (6 * s.embed) + s.vocab / (12 * s.layers * s.embed)),
  /** Llama 3: 6 for each parameter, and the half of attention that the mask leaves. */
  llama3: (s: Shape): number => s.seq * (6 * parametersOf(s) + 6 * s.layers * s.embed * s.seq),
  /** Chowdhery et al., PaLM, appendix B: 6 for each parameter, 12 for attention whole. */
  palm: (s: Shape): number => s.seq * (6 * parametersOf(s) + 12 * s.layers * s.heads * s.headDim * s.seq),
} as const

/** All of them, tables included. */
export function parametersOf(s: Shape): number {
  const attention = s.embed * s.headDim * (2 * s.heads + 2 * s.kvHeads)
  const layer = attention + (s.gated ? 3 : 2) * s.embed * s.ffn
  return s.layers * layer + (s.tied ? 1 : 2) * s.vocab * s.embed
}

/** Seconds of a step, from the best figure a row has: step time, tokens, then FLOP/s, then MFU of `peak`. */
export function secondsOf(row: Row, shape: Shape, definition: Definition, peak: number): number | undefined {
  const { n_gpus: devices, global_batch_seqs: batch } = row
  if (row.reported_step_time_s !== undefined) return row.reported_step_time_s
  if (devices === undefined || batch === undefined) return undefined
  if (row.reported_tokens_per_s_per_gpu !== undefined)
    return (batch * shape.seq) / (row.reported_tokens_per_s_per_gpu * devices)
  const flops = (batch * definitions[definition](shape)) / devices
  if (row.reported_tflops_per_gpu !== undefined) return flops / (row.reported_tflops_per_gpu * 1e12)
  return row.reported_mfu === undefined ? undefined : flops / (row.reported_mfu * peak)
}
