/** A row in our words: sources have many names for the same thing. What they do not say stays undefined. */
import type { Overrides, Precision } from '../cluster/index.js'
import type { Experts, Latent, Split } from '../estimate/index.js'
import type { Row } from './row.js'

/** Counts, in the names of shapes and splits. */
export interface Counts {
  readonly layers?: number | undefined
  readonly embed?: number | undefined
  readonly heads?: number | undefined
  readonly kvHeads?: number | undefined
  readonly ffn?: number | undefined
  readonly vocab?: number | undefined
  readonly seq?: number | undefined
  readonly batch?: number | undefined
  readonly microbatch?: number | undefined
  readonly devices?: number | undefined
  readonly tp?: number | undefined
  readonly pp?: number | undefined
  readonly dp?: number | undefined
  readonly cp?: number | undefined
  readonly ep?: number | undefined
  readonly etp?: number | undefined
  readonly headDim?: number | undefined
  readonly chunks?: number | undefined
}

export interface Reading extends Counts {
  readonly experts?: Experts | undefined
  readonly latent?: Latent | undefined
  readonly further?: number | undefined
  readonly window?: number | undefined
  readonly device: string
  readonly network: Overrides
  readonly zero?: Split['zero'] | undefined
  /** Ranks that share what ZeRO splits, where not all data ranks do. */
  readonly sharded?: number | undefined
  readonly sequenceParallel?: boolean | undefined
  readonly recompute?: string | undefined
  readonly precision?: Precision | undefined
  readonly schedule: Split['schedule'] | undefined
}

export const readingOf = (row: Row): Reading => ({
  layers: row.layers,
  embed: row.hidden,
  heads: row.heads,
  kvHeads: row.kv_heads,
  ffn: row.ffn,
  vocab: row.vocab,
  seq: row.seq_len,
  batch: row.global_batch_seqs,
  microbatch: row.micro_batch,
  devices: row.n_gpus,
  tp: row.tp,
  pp: row.pp,
  dp: row.dp,
  cp: row.cp,
  ep: row.ep,
  etp: row.etp,
  headDim: row.head_dim,
  experts: expertsOf(row),
  latent: latentOf(row),
  further: row.mtp_layers,
  chunks: row.vpp_interleave,
  device: devices[row.gpu] ?? row.gpu,
  network: networkOf(row.interconnect, row.gpus_per_node ?? 8),
  zero: zeroOf(row.zero_stage_or_fsdp),
  sequenceParallel: row.sequence_parallel === '' ? undefined : row.sequence_parallel === 'y',
  recompute: recomputeOf(row.recompute),
  precision: precisionOf(row.precision),
  schedule: scheduleOf(row.schedule),
})

function expertsOf({ experts: count, topk: active, moe_ffn: ffn, shared_ffn, dense_layers }: Row): Experts | undefined {
  if (!count || !active || !ffn) return undefined
  return { count, active, ffn, shared: shared_ffn ?? 0, dense: dense_layers ?? 0 }
}

function latentOf({ q_lora, kv_lora, qk_nope, qk_rope, v_head }: Row): Latent | undefined {
  if (!kv_lora || !qk_nope || !qk_rope || !v_head) return undefined
  const widths = { keyValues: kv_lora, plain: qk_nope, turned: qk_rope, values: v_head }
  return { ...widths, ...(q_lora && { queries: q_lora }) }
}

/** Names of the catalog. */
const devices: Readonly<Record<string, string>> = {
  'A100-40GB': 'a100-40',
  'A100-80GB': 'a100-80',
  'A100-80GB SXM': 'a100-80',
  H100: 'h100',
  'H100-80GB': 'h100',
  'H100-95GB (HBM2e)': 'h100-500w',
  'H100-96GB (HBM2e, 500W)': 'h100-500w',
  'H200-141GB': 'h200',
  H800: 'h800',
  B200: 'b200',
  B300: 'b300',
  GB200: 'gb200',
  GB300: 'gb300',
  V100: 'v100',
  'TPU v4': 'tpu-v4',
  'TPU v5e': 'tpu-v5e',
  'TPU v5p': 'tpu-v5p',
}

/** '8x HDR IB 200Gb/node', '1600 Gbps RoCE per node', '400Gb/s RDMA per GPU': cards of a node, and bytes per second of one. */
function networkOf(words: string, perNode: number): Overrides {
  const [, cards, ofNode] = /(?:(\d+) ?x ?)?[^,+\d]*(\d+) ?Gb(?:ps|\/s)?[^,+\d]*(?: per |\/)node/.exec(words) ?? []
  if (ofNode !== undefined) {
    const nicsPerNode = Number(cards ?? perNode)
    const gigabits = cards === undefined ? Number(ofNode) / nicsPerNode : Number(ofNode)
    return { nicsPerNode, nicBandwidth: (gigabits * 1e9) / 8 }
  }
  const [, ofDevice] = /(\d+) ?Gb(?:ps|\/s)?[^,+]* per GPU/.exec(words) ?? []
  return ofDevice === undefined ? {} : { nicsPerNode: perNode, nicBandwidth: (Number(ofDevice) * 1e9) / 8 }
}

function zeroOf(words: string): Split['zero'] | undefined {
  if (/ZeRO-2/.test(words)) return 2
  if (/FSDP|ZeRO-3/.test(words)) return 3
  if (/ZeRO-1|dist-opt/.test(words)) return 1
  return words === '0' ? 0 : undefined
}

const recomputeOf = (words: string): string | undefined =>
  words.startsWith('none') ? 'none' : /per-op|selective op/.test(words) ? 'per-op' : words === '' ? undefined : words

/** Scales for each row of a matrix are slower kernels than one for a whole tensor, or for the blocks hardware knows. */
function precisionOf(words: string): Precision | undefined {
  if (/rowwise|fp4/i.test(words)) return undefined
  if (/fp8|float8/i.test(words)) return 'fp8'
  if (/fp16/i.test(words)) return 'f16'
  return /bf16/i.test(words) ? 'bf16' : undefined
}

/** 1F1B where none is printed; undefined where the words are of none that has a price. */
const scheduleOf = (words: string): Split['schedule'] | undefined =>
  schedules.find(([pattern]) => pattern.test(words))?.[1]

const schedules: readonly (readonly [RegExp, Split['schedule']])[] = [
  [/^(interleaved|1F1B-I$)/i, 'interleaved'],
  [/^($|none$|1F1B\b)/, '1f1b'],
  [/^ZB-1p$/, 'zb-h1'],
  [/^ZB-2p$/, 'zb-h2'],
  [/^ZB-V$/, 'zb-v'],
]
