/**
 * How each source of measured memory is read: which framework made the figure, what it counts, and what the source
 * leaves out but says elsewhere. A row that cannot be read gives the reason instead.
 */
import { GiB, oneRank } from '../base/index.js'
import { frameworks, type Placed, type Shape, type Software, type Split } from '../estimate/index.js'
import type { Row } from './row.js'

export interface Origin {
  readonly name: string
  readonly source: RegExp
  /** Bytes of the unit of its figures. */
  readonly unit: number
  /** A text: why this row cannot be compared. */
  readonly placed: (row: Row) => Placed | string
  /** Rows of its file in `validation/` that its constants were chosen on: they are never counted. */
  readonly fitted: readonly number[]
}

function gptOf(row: Row, known: Partial<Shape> = {}): Shape {
  const { hidden = 0, heads = Math.max(1, hidden / 128), vocab = 50304 } = row
  const byParameters = Math.round(((row.params_b ?? 0) * 1e9 - vocab * hidden) / (12 * hidden ** 2))
  return {
    layers: row.layers ?? byParameters,
    embed: hidden,
    heads,
    kvHeads: row.kv_heads ?? heads,
    headDim: hidden / heads,
    ffn: row.ffn ?? 4 * hidden,
    gated: false,
    vocab,
    tied: true,
    biases: true,
    norm: 'layer',
    dropout: true,
    positions: 'learned',
    seq: row.seq_len ?? 0,
    ...known,
  }
}

const llamaOf = (row: Row): Shape =>
  gptOf(row, { gated: true, tied: false, biases: false, norm: 'rms', dropout: false, positions: 'rotary' })

const dataRanks = ({ tp = 1, pp = 1, cp = 1, n_gpus = 1 }: Row): number => n_gpus / (tp * pp * cp)

function splitOf(row: Row, known: Partial<Split> = {}): Split {
  const { tp = 1, pp = 1, cp = 1, micro_batch: microbatch = 1, global_batch_seqs = 1 } = row
  const dp = dataRanks(row)
  return {
    ...{ ...oneRank, tp, pp, dp, cp },
    sequenceParallel: row.sequence_parallel === 'y',
    zero: 0,
    schedule: '1f1b',
    chunks: 1,
    microbatches: Math.max(1, Math.ceil(global_batch_seqs / (dp * microbatch))),
    microbatch,
    recompute: row.recompute === 'full' ? 'full' : 'none',
    ...known,
  }
}

/** `each` layers a stage, one less on the first and the last. */
const lighterEnds = (stages: number, each: number): number[] =>
  Array.from({ length: stages }, (_, s) => each - (s === 0 || s === stages - 1 ? 1 : 0))

/** A model of one name has the same depth in all tables of the paper. */
const zeroBubbleLayers: Readonly<Record<string, number>> = { 'GPT 6.2B': 30, 'GPT 14.6B': 46 }
const zeroBubbleSchedules: Readonly<Record<string, Split['schedule']>> = {
  '1F1B': '1f1b',
  '1F1B-I': 'interleaved',
  'ZB-1p': 'zb-h1',
  'ZB-2p': 'zb-h2',
  'ZB-V': 'zb-v',
}

function zeroBubble(row: Row): Placed | string {
  const { pp = 1, layers = zeroBubbleLayers[row.model] } = row
  const schedule = zeroBubbleSchedules[row.schedule]
  if (layers === undefined) return 'number of layers unknown'
  if (schedule === undefined) return `unknown schedule: ${row.schedule}`
  const each = (layers + 2) / pp
  const chunks = schedule === 'interleaved' ? each : schedule === 'zb-v' ? 2 : 1
  return {
    shape: gptOf(row, { layers }),
    split: splitOf(row, { schedule, chunks, layers: lighterEnds(pp * chunks, each / chunks), recompute: 'none' }),
    precision: 'f16',
    software: frameworks['megatron-2021'],
  }
}

/** Gradients in bf16, summed up in f32; the optimizer needs no copy of its own then. */
const deepspeedBf16: Software = { ...frameworks['megatron-deepspeed'], memory: { gradient: 6, state: 12 } }

function bigscience(row: Row): Placed | string {
  if (row.hidden === undefined) return 'model shape unknown'
  const { pp = 1, heads = 96 } = row // 96 where a table leaves it to the text
  const shape = gptOf({ ...row, heads }, { positions: 'alibi' })
  // Where embedding and head count as layers to balance the stages, the ends hold one layer less.
  const balanced = pp > 1 && shape.layers % pp !== 0 && (shape.layers + 2) % pp === 0
  return {
    shape,
    split: splitOf(row, { zero: 1, ...(balanced ? { layers: lighterEnds(pp, (shape.layers + 2) / pp) } : {}) }),
    precision: row.precision.startsWith('bf16') ? 'bf16' : 'f16',
    software: row.precision.startsWith('bf16') ? deepspeedBf16 : frameworks['megatron-deepspeed'],
  }
}

/** The loss is compiled too: logits and their gradient are all there is. */
const titan2025: Software = { ...frameworks['torchtitan-compiled'], memory: { logit: 4 } }

function torchtitan(row: Row): Placed {
  const { pp = 1, global_batch_seqs = 1 } = row
  const chunks = row.schedule.startsWith('Interleaved') ? 2 : 1
  const microbatches = pp > 1 ? pp * chunks : 1 // as many as stages unless a job says otherwise
  const eager = row.notes.startsWith('FSDP; GiB')
  return {
    shape: llamaOf(row),
    split: splitOf(row, {
      zero: 3,
      chunks,
      schedule: chunks > 1 ? 'interleaved' : '1f1b',
      microbatches,
      microbatch: global_batch_seqs / (dataRanks(row) * microbatches),
      recompute: row.recompute === 'selective' ? 'per-op' : row.recompute === 'full' ? 'full' : 'none',
    }),
    precision: row.precision.startsWith('fp8') ? 'fp8' : 'bf16',
    software: row.source.includes('2025') ? titan2025 : frameworks[eager ? 'torchtitan' : 'torchtitan-compiled'],
  }
}

/** Megatron's layers, memory as the tool of the device shows it. */
const sailors: Software = {
  ...frameworks['megatron-2021'],
  name: 'sailor',
  memory: { gradient: 4, state: 14, logit: 16, splitLogit: 16, context: 3.4e9, slack: 0.1, spread: 0.086 },
}

function sailor(row: Row): Placed | string {
  if (row.notes.includes('HETEROGENEOUS')) return 'different devices in one job'
  const parts = /layers per stage \[([^\]]*)\]/.exec(row.notes)?.[1].split(',').map(Number) ?? []
  const sum = parts.reduce((a, b) => a + b, 0)
  if (sum !== (row.layers ?? 0) + 2)
    return `stages of ${parts.join(' + ')} = ${sum} are not ${row.layers} layers, an embedding and a head`
  const layers = parts.map((n, s) => n - (s === 0 ? 1 : 0) - (s === parts.length - 1 ? 1 : 0))
  return {
    shape: gptOf(row),
    split: splitOf(row, { layers, recompute: 'none' }),
    precision: 'f16',
    software: sailors,
  }
}

export const measuredOrigins: readonly Origin[] = [
  { name: 'zero bubble', source: /^Zero Bubble/, unit: 1e9, placed: zeroBubble, fitted: [] },
  { name: 'bigscience', source: /^bigscience/, unit: GiB(1), placed: bigscience, fitted: [9, 43, 63, 68] },
  { name: 'torchtitan', source: /torchtitan/, unit: GiB(1), placed: torchtitan, fitted: [1, 2, 11, 15, 31] },
  { name: 'sailor', source: /sailor/, unit: 1e9, placed: sailor, fitted: [1, 11, 13] },
]

/** The layouts study names the attention kernel of every run. Its constants saw 13B rows; all rows are scored. */
const flash = frameworks['scaling-2023']
const plain: Software = { ...flash, attention: 'unfused' }
const kernels: Readonly<Record<string, Software>> = {
  torch: { ...plain, memory: { score: 14 } },
  fused: plain,
  flash_attention: flash,
  'flash_attentionv1.0.8': flash,
  flash_attention2: flash,
  'flash_attention2 + RMS kernel': { ...flash, memory: { norm: 0 } },
}

/** A layout of the study that ran or ran out of memory. */
export function layoutPlaced(row: Row): Placed | string {
  if (/Kernel not available|Other Error/.test(row.notes)) return 'failed for a reason other than memory'
  const kernel = /attention kernel: ([^;]*)/.exec(row.notes)?.[1] ?? ''
  const software = kernels[kernel]
  if (!software) return `unknown attention kernel: ${kernel}`
  return {
    shape: llamaOf(row),
    split: splitOf(row, { zero: 1 }),
    precision: 'bf16',
    software,
  }
}
