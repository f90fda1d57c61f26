/**
 * What must be known of a study beside its rows: the family of its models, the age of its software, the network it ran
 * on, which figure it prints. Facts, not fits: a constant that was fitted belongs to a device or an era.
 */
import type { Overrides } from '../cluster/index.js'
import { type Era, eras, type Shape, type Software } from '../estimate/index.js'
import type { Definition } from './figure.js'
import type { Row } from './row.js'

export interface Study {
  readonly title: string
  readonly family: Family | ((row: Row) => Family)
  readonly era: Era
  /** Where a row's software differs from its era's. */
  readonly software?: (row: Row) => Partial<Software>
  readonly figure: Definition
  readonly network?: Overrides
  /** What the source says elsewhere than in its table. */
  readonly defaults?: Row['numbers'] & { readonly recompute?: string; readonly precision?: string }
  readonly perRow?: (row: Row) => Partial<Row['numbers']>
  /** Why a row is left out, if it is. */
  readonly aside?: (row: Row) => string | undefined
  /** Rows a constant was fitted on: never part of an error that is reported. */
  readonly fitted?: (row: Row) => boolean
}

export type Family = keyof typeof families

/** What a model's name says without printing it. */
export const families = {
  gpt: { gated: false, tied: true, biases: true, norm: 'layer', dropout: true, positions: 'learned' },
  bloom: { gated: false, tied: true, biases: true, norm: 'layer', dropout: true, positions: 'alibi' },
  'gpt-plain': { gated: false, tied: true, biases: true, norm: 'layer', dropout: false, positions: 'learned' },
  mpt: { gated: false, tied: true, biases: false, norm: 'layer', dropout: false, positions: 'learned' },
  llama: { gated: true, tied: false, biases: false, norm: 'rms', dropout: false, positions: 'rotary' },
} as const satisfies Readonly<Record<string, Partial<Shape>>>

/** torchtitan's tables say what was switched on: compilation, and collectives cut in pieces beside their matmuls. */
function torchtitanHabits({ note, where, device }: Row): Partial<Software> {
  const eager = note.startsWith('FSDP;') || (where.startsWith('docs/performance') && device === 'a100-80')
  const era = eager ? eras.torchtitan : eras['torchtitan-compiled']
  return /async ?tp/i.test(note) ? { ...era, exposed: { ...era.exposed, tp: 0.65, tpBackward: 0.65 } } : era
}

/** The layouts study names the attention kernel of every run, and whether the norm was one kernel. */
function layoutsKernel({ note }: Row): Partial<Software> {
  const attention = note.startsWith('flash_attention2')
    ? 'flash-2'
    : note.startsWith('flash_attention')
      ? 'flash-1'
      : 'unfused'
  return { attention, fusedNorm: note.includes('RMS kernel'), fusedSoftmax: note.startsWith('fused') ? 8192 : 0 }
}

const zeroBubbleLayers: Readonly<Record<string, number>> = {
  'GPT 1.5B': 22,
  'GPT 6.2B': 30,
  'GPT 14.6B': 46,
  'GPT 28.3B': 62,
}

export const studies: Readonly<Record<string, Study>> = {
  'sc21-table1': {
    title: 'Narayanan et al., SC21, table 1',
    family: 'gpt',
    era: 'megatron-2021',
    figure: 'sc21',
    defaults: { zero: 0 },
    fitted: row => row.numbers.devices === 256 || row.numbers.devices === 3072,
  },
  'sc21-table2': {
    title: 'Narayanan et al., SC21, table 2',
    family: 'gpt',
    era: 'megatron-2021',
    figure: 'sc21',
    defaults: { zero: 0, sp: 0 },
    aside: row => (row.numbers.zero === 3 ? 'the software of the ZeRO-3 runs is not described' : undefined),
  },
  'megatron-jan2021': {
    title: 'Megatron-LM, January 2021',
    family: 'gpt',
    era: 'megatron-2021',
    figure: 'sc21',
    defaults: { zero: 0, sp: 0, vocab: 51200 },
    aside: () => 'software before SC21, not described: the same shapes as SC21 table 1',
  },
  korthikanti: {
    title: 'Korthikanti et al. 2022',
    family: 'gpt',
    era: 'megatron-2022',
    figure: 'korthikanti',
    defaults: { zero: 0 },
    fitted: row => row.model === 'GPT-3 175B' && row.recompute === 'selective',
  },
  'mt-nlg': {
    title: 'MT-NLG 530B',
    family: 'gpt',
    era: 'megatron-deepspeed',
    figure: 'sc21',
    defaults: { zero: 0, sp: 0 },
  },
  llama3: {
    title: 'Llama 3 405B',
    family: 'llama',
    era: 'megatron-2024',
    software: () => ({ exposed: { ...eras['megatron-2024'].exposed, tp: 0.85, tpBackward: 0.85 } }),
    figure: 'llama3',
    defaults: { sp: 1, microbatch: 1, chunks: 8, recompute: 'none' },
  },
  bloom: {
    title: 'BLOOM: the search for a topology',
    family: 'bloom',
    era: 'megatron-deepspeed',
    figure: 'sc21',
    network: { nicsPerNode: 4, nicBandwidth: 12.5e9 },
    defaults: { sp: 0 },
    aside: row => (row.note.startsWith('OOM') ? 'ran out of memory' : undefined),
    fitted: row => row.line % 9 === 0,
  },
  vtrain: {
    title: 'vTrain, one node of A100',
    family: 'gpt-plain',
    era: 'megatron-deepspeed-2023',
    figure: 'sc21',
    defaults: { zero: 0 },
    fitted: row => row.line % 20 === 0,
  },
  'zero-bubble': {
    title: 'Zero-bubble pipelines',
    family: 'gpt',
    era: 'megatron-2022',
    figure: 'sc21',
    defaults: { zero: 0, sp: 0, vocab: 50257, recompute: 'none', precision: 'f16' },
    perRow: row => {
      const layers = row.numbers.layers ?? zeroBubbleLayers[row.model]
      return { layers, ...(row.schedule === 'interleaved' && { chunks: (layers + 2) / (row.numbers.pp ?? 1) }) }
    },
    fitted: row => row.line % 12 === 0,
  },
  layouts: {
    title: 'Efficient parallelization layouts (Hagemann et al.)',
    family: 'llama',
    era: 'scaling-2023',
    software: layoutsKernel,
    figure: 'palm',
    network: { nicsPerNode: 1 },
    aside: row => (/;/.test(row.note) ? row.note.split('; ')[1] : undefined),
    fitted: row => row.line % 12 === 0,
  },
  mosaic: {
    title: 'MosaicML llm-foundry',
    family: 'mpt',
    era: 'fsdp-2023',
    software: row => ({ reduceBytes: row.note === 'PURE' ? 2 : 4 }),
    figure: 'palm',
    fitted: row => row.line % 12 === 0,
  },
  torchtitan: {
    title: 'torchtitan',
    family: 'llama',
    era: 'torchtitan-compiled',
    software: torchtitanHabits,
    figure: 'palm',
  },
  'megatron-h100': {
    title: 'Megatron-LM on H100',
    family: 'gpt',
    era: 'megatron-2024',
    figure: 'korthikanti',
    defaults: { sp: 1, zero: 1, recompute: 'none' },
  },
  nemo: {
    title: 'NeMo 24.07',
    family: 'llama',
    era: 'megatron-2024',
    figure: 'palm',
    defaults: { sp: 1, zero: 1, recompute: 'none' },
    aside: row =>
      /LoRA|SFT/.test(row.model) ? 'fine-tuning: not all weights are trained, or sequences are packed' : undefined,
  },
  'nemo-long': {
    title: 'NeMo, long sequences',
    family: 'llama',
    era: 'megatron-2024',
    figure: 'palm',
    defaults: { sp: 1, zero: 1, recompute: 'none' },
  },
  'megatron-bridge': {
    title: 'Megatron-Bridge',
    family: 'llama',
    era: 'megatron-2024',
    figure: 'palm',
    defaults: { sp: 1, zero: 1, recompute: 'none' },
    aside: row =>
      /LoRA|SFT/.test(row.model) ? 'fine-tuning: not all weights are trained, or sequences are packed' : undefined,
  },
  mlperf: {
    title: 'MLPerf Training',
    family: row => (row.model.startsWith('GPT3') ? 'gpt-plain' : 'llama'),
    era: 'megatron-2024',
    figure: 'palm',
    defaults: { sp: 1, zero: 1, recompute: 'none' },
  },
  papers: {
    title: 'single papers',
    family: 'gpt',
    era: 'megatron-2021',
    figure: 'palm',
    aside: row => (row.where.includes('fms-fsdp') ? 'which layers are recomputed is not said' : undefined),
  },
  'korthikanti-layer': {
    title: 'Korthikanti et al., one layer',
    family: 'gpt',
    era: 'megatron-2022',
    figure: 'korthikanti',
    aside: () => 'one layer, not a training step',
  },
  'megatron-2020': {
    title: 'Megatron-LM 2020',
    family: 'gpt',
    era: 'megatron-2021',
    figure: 'sc21',
    aside: () => 'no sequence length',
  },
  'bloom-v100': {
    title: 'BLOOM on V100',
    family: 'gpt',
    era: 'megatron-deepspeed',
    figure: 'sc21',
    aside: () => 'no shapes; its author warns of 40 % noise',
  },
  sailor: { title: 'Sailor', family: 'gpt', era: 'megatron-deepspeed', figure: 'palm' },
  maxtext: { title: 'MaxText', family: 'llama', era: 'megatron-2024', figure: 'palm' },
}
