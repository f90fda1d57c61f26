/**
 * What must be known of a study beside its rows: the family of its models, the age of its software, the network it ran
 * on, which figure it prints. Facts, not fits: a constant that was fitted belongs to a device or to a framework.
 */
import { shorten } from '../base/index.js'
import type { Overrides } from '../cluster/index.js'
import type { Definition, FrameworkName, Shape, Software } from '../estimate/index.js'
import { frameworks } from '../estimate/others/frameworks.js'
import { maxtextKnown } from './maxtext.js'
import type { Reading } from './reading.js'
import type { Row } from './row.js'

export interface Study {
  readonly title: string
  /** What its rows name as their source. */
  readonly source: RegExp
  readonly family: Family | ((row: Row) => Family)
  readonly framework: FrameworkName
  /** Where a row's software differs from its framework's. */
  readonly software?: (row: Row) => Partial<Software>
  readonly figure: Definition
  /** Of its network, what its rows do not say or say of something else. */
  readonly network?: Overrides
  /** What the source says elsewhere than in its table, or leaves to the defaults of its software. */
  readonly known?: (row: Row) => Partial<Reading>
  /** Why a row is left out, if it is. */
  readonly aside?: (row: Row) => string | undefined
  /** Rows of `validation/` that a constant was fitted on, by their place: never part of an error that is reported. */
  readonly fitted?: (line: number, row: Row) => boolean
}

/** What a model's name says without printing it. */
export type Family = keyof typeof families
export const families = {
  gpt: { gated: false, tied: true, biases: true, norm: 'layer', dropout: true, positions: 'learned' },
  'gpt-plain': { gated: false, tied: true, biases: true, norm: 'layer', dropout: false, positions: 'learned' },
  bloom: { gated: false, tied: true, biases: true, norm: 'layer', dropout: true, positions: 'alibi' },
  mpt: { gated: false, tied: true, biases: false, norm: 'layer', dropout: false, positions: 'learned' },
  /** Squared ReLU: one matrix less than a gated one (Nemotron-4, 2024). */
  nemotron: { gated: false, tied: false, biases: false, norm: 'layer', dropout: false, positions: 'rotary' },
  llama: { gated: true, tied: false, biases: false, norm: 'rms', dropout: false, positions: 'rotary' },
} as const satisfies Readonly<Record<string, Partial<Shape>>>

const every = (n: number) => (line: number) => line % n === 0
const only =
  (...lines: readonly number[]) =>
  (line: number) =>
    lines.includes(line)

/** SC21 table 1: microbatch and chunks, from the authors' scripts. */
const sc21: Readonly<Record<string, readonly [number, number]>> = {
  'GPT-1.7B': [16, 1],
  'GPT-3.6B': [16, 1],
  'GPT-7.5B': [16, 1],
  'GPT-18.4B': [8, 1],
  'GPT-39.1B': [4, 1],
  'GPT-76.1B': [2, 3],
  'GPT-145.6B': [2, 2],
  'GPT-310.1B': [1, 2],
  'GPT-529.6B': [1, 3],
  'GPT-1008.0B': [1, 1],
}

/** A model of one name has the same depth in all tables of the paper; its interleaved runs have a layer in each chunk. */
const zeroBubbleLayers: Readonly<Record<string, number>> = {
  'GPT 1.5B': 22,
  'GPT 6.2B': 30,
  'GPT 14.6B': 46,
  'GPT 28.3B': 62,
}

function zeroBubble({ model, schedule, layers = zeroBubbleLayers[model], pp = 1 }: Row): Partial<Reading> {
  const chunks = schedule === '1F1B-I' ? (layers + 2) / pp : schedule === 'ZB-V' ? 2 : 1
  return { layers, chunks, zero: 0, vocab: 50257, recompute: 'none', precision: 'f16' }
}

/** torchtitan's tables say what was switched on: compilation, and collectives cut in pieces beside their matmuls. */
function torchtitanSoftware({ notes, source, gpu }: Row): Partial<Software> {
  const eager = notes.startsWith('FSDP;') || (source.includes('docs/performance') && gpu.startsWith('A100'))
  const framework = eager ? frameworks.torchtitan : frameworks['torchtitan-compiled']
  return /async ?tp/i.test(notes)
    ? { ...framework, exposed: { ...framework.exposed, tp: 0.65, tpBackward: 0.65 } }
    : framework
}

/** The layouts study names the attention kernel of every run, and whether the norm was one kernel. */
function layoutsKernel({ notes }: Row): Partial<Software> {
  const kernel = /attention kernel: ([^;]*)/.exec(notes)?.[1] ?? ''
  const attention = /^flash_attention2/.test(kernel) ? 'flash-2' : /^flash/.test(kernel) ? 'flash-1' : 'unfused'
  const scores = kernel === 'torch' ? { memory: { score: 14 } } : {}
  return {
    ...{ attention, fusedNorm: kernel.includes('RMS kernel'), fusedSoftmax: kernel === 'fused' ? 8192 : 0 },
    ...scores,
  }
}

/**
 * The sweep behind llm-foundry's tables names its image: PyTorch 1.13 in May 2023, of which the table of A100 of 40 GB is, and
 * 2.1 from October 2023 on, when those of A100 of 80 GB and of H100 were made. Since 2.1 checkpoints that are not reentrant, as
 * its models' are, stop early.
 */
const mosaicSoftware = ({ notes, gpu }: Row): Partial<Software> => ({
  reduceBytes: notes.includes('PURE') ? 2 : 4,
  ...(!gpu.startsWith('A100-40') && { stopsEarly: true }),
})

const fineTuning = ({ model }: Row): string | undefined =>
  /LoRA|SFT/.test(model) ? 'fine-tuning: not all weights are trained, or sequences are packed' : undefined

/** Of NVIDIA's tables, which have models of several families. */
const namedFamily = ({ model }: Row): Family =>
  /^GPT-?3/i.test(model) ? 'gpt-plain' : /^Nemotron/i.test(model) ? 'nemotron' : 'llama'

/** What NVIDIA's own recipes do where their tables are silent. */
const recipe = (): Partial<Reading> => ({ sequenceParallel: true, zero: 1, recompute: 'none' })
const plainMegatron = (): Partial<Reading> => ({ zero: 0, sequenceParallel: false })

/** Every second layer of GPT-OSS sees 128 tokens (its public config). */
const windowOf = ({ model }: Row): Partial<Reading> => (/GPT.?OSS/i.test(model) ? { window: 128 } : {})

/** What the paper leaves to the defaults of Megatron-LM: one sequence a microbatch, a layer a chunk, nothing computed again. */
const foldingKnown = ({ pp = 1, layers = 1, zero_stage_or_fsdp }: Row): Partial<Reading> => ({
  ...{ ...recipe(), microbatch: 1, chunks: pp > 1 ? layers / pp : 1 },
  ...(/FSDP/.test(zero_stage_or_fsdp) && { zero: 3 }),
})

/** Megatron with experts by the age of its container; those of GPT-OSS have biases and an activation that nobody fuses. */
function routedSoftware({ source, gpu, model, ep = 1 }: Row): Partial<Software> {
  const [, year, month] = /\((\d\d)\.(\d\d)/.exec(source) ?? []
  const isLate = /^GB/.test(gpu) && Number(year) * 12 + Number(month) >= 26 * 12 + 6
  const framework = isLate ? frameworks['megatron-2026'] : frameworks['megatron-2025']
  // Of rows that leave the node some are waited for.
  const left = /^GB/.test(gpu) || ep <= 8 ? framework.exposed.ep : 0.25
  const plain = /GPT.?OSS/i.test(model) ? { fusedElementwise: false, ...(!isLate && { routing: ossRouting }) } : {}
  return { ...framework, exposed: { ...framework.exposed, ep: left }, ...plain }
}

const ossRouting = { bytes: 100, seconds: 1.8e-3 }

/** The paper says of each run whether rows move beside the compute of another microbatch. */
function megatronCore({ notes }: Row): Partial<Software> {
  const framework = frameworks['megatron-2026']
  return { ...framework, exposed: { ...framework.exposed, ep: /no overlap/.test(notes) ? 1 : framework.exposed.ep } }
}

/** Before DeepEP: each choice by itself, with passes around it. */
const foldingSoftware = (): Partial<Software> => ({
  routing: { bytes: 32, seconds: 0 },
  exposed: { ...frameworks['megatron-2024'].exposed, shards: 0.1 },
})

/** Of models with experts every third row. */
const thirdRouted = (line: number, { experts }: Row): boolean => experts !== undefined && line % 3 === 0

export const studies: Readonly<Record<string, Study>> = {
  'sc21-table1': {
    title: 'Narayanan et al., SC21, table 1',
    source: /SC21 Table 1/,
    family: 'gpt',
    framework: 'megatron-2021',
    figure: 'sc21',
    known: ({ model }) => ({ ...plainMegatron(), microbatch: sc21[model]?.[0], chunks: sc21[model]?.[1] }),
    fitted: only(4, 10),
  },
  'sc21-table2': {
    title: 'Narayanan et al., SC21, table 2',
    source: /SC21 Table 2/,
    family: 'gpt',
    framework: 'megatron-2021',
    figure: 'sc21',
    known: plainMegatron,
    aside: row => (row.pp === 1 ? 'the software of its ZeRO-3 runs is not described' : undefined),
  },
  'megatron-jan2021': {
    title: 'Megatron-LM, January 2021',
    source: /cases_jan2021\.png @/,
    family: 'gpt',
    framework: 'megatron-2021',
    figure: 'sc21',
    aside: () => 'software before SC21, not described; the shapes are those of SC21 table 1',
  },
  'megatron-2020': {
    title: 'Megatron-LM, 2020',
    source: /tables\.tex/,
    family: 'gpt',
    framework: 'megatron-2021',
    figure: 'sc21',
  },
  korthikanti: {
    title: 'Korthikanti et al. 2022',
    source: /^Korthikanti(?!.*Table 4)/,
    family: 'gpt',
    framework: 'megatron-2022',
    figure: 'korthikanti',
    known: () => ({ zero: 0 }),
    fitted: only(2),
  },
  'korthikanti-layer': {
    title: 'Korthikanti et al., one layer',
    source: /^Korthikanti.*Table 4/,
    family: 'gpt',
    framework: 'megatron-2022',
    figure: 'korthikanti',
    aside: () => 'one layer, not a training step',
  },
  'mt-nlg': {
    title: 'MT-NLG 530B',
    source: /^MT-NLG/,
    family: 'gpt',
    framework: 'megatron-deepspeed',
    figure: 'sc21',
    known: plainMegatron,
  },
  llama3: {
    title: 'Llama 3 405B',
    source: /^Llama 3 Herd/,
    family: 'llama',
    framework: 'meta-2024',
    figure: 'llama3',
    // Gradients are added up whole and scattered once a step: the traffic of ZeRO-1.
    known: () => ({ sequenceParallel: true, microbatch: 1, chunks: 8, recompute: 'none', zero: 1 }),
  },
  bloom: {
    title: 'BLOOM, the search for a topology',
    source: /^bigscience (?!experiments)/,
    family: 'bloom',
    framework: 'megatron-deepspeed',
    figure: 'sc21',
    network: { nicsPerNode: 4, nicBandwidth: 12.5e9 }, // Jean Zay, also where a row does not say it
    known: () => ({ sequenceParallel: false }),
    aside: row => (row.notes.startsWith('OOM') ? 'ran out of memory' : undefined),
    fitted: every(9),
  },
  'bloom-v100': {
    title: 'BLOOM on V100',
    source: /^bigscience experiments/,
    family: 'gpt',
    framework: 'megatron-deepspeed',
    figure: 'sc21',
    aside: () => 'no shapes; its author warns of 40 % noise',
  },
  vtrain: {
    title: 'vTrain, one node of A100',
    source: /vTrain/,
    family: 'gpt-plain',
    framework: 'megatron-deepspeed-2023',
    figure: 'sc21',
    known: () => ({ zero: 0 }),
    fitted: every(20),
  },
  'zero-bubble': {
    title: 'Zero-bubble pipelines',
    source: /^Zero Bubble/,
    family: 'gpt',
    framework: 'megatron-2022',
    figure: 'sc21',
    known: zeroBubble,
    fitted: every(12),
  },
  layouts: {
    title: 'Efficient parallelization layouts',
    source: /^Aleph-Alpha/,
    family: 'llama',
    framework: 'scaling-2023',
    software: layoutsKernel,
    figure: 'palm',
    network: { nicsPerNode: 1 }, // its 200 Gb/s are those of a node
    aside: row => /; (OOM Error|Kernel not available|Other Error)/.exec(row.notes)?.[1],
    fitted: every(12),
  },
  mosaic: {
    title: 'MosaicML llm-foundry',
    source: /llm-foundry/,
    family: 'mpt',
    framework: 'fsdp-2023',
    software: mosaicSoftware,
    figure: 'palm',
    fitted: every(12),
  },
  torchtitan: {
    title: 'torchtitan',
    source: /torchtitan/,
    family: 'llama',
    framework: 'torchtitan-compiled',
    software: torchtitanSoftware,
    figure: 'palm',
    known: row => (row.recompute === 'selective' ? { recompute: 'per-op' } : {}),
    fitted: only(2, 11, 17, 19, 36),
  },
  'megatron-h100': {
    title: 'Megatron-LM on H100',
    source: /model_table\.png/,
    family: 'gpt-plain',
    framework: 'megatron-2024',
    figure: 'korthikanti',
    known: recipe,
  },
  nemo: {
    title: 'NeMo 24.07',
    source: /NeMo docs.*performance_summary/,
    family: namedFamily,
    framework: 'megatron-2024',
    figure: 'palm',
    known: recipe,
    aside: fineTuning,
  },
  'nemo-long': {
    title: 'NeMo, long sequences',
    source: /performance_long_sequence/,
    family: namedFamily,
    framework: 'megatron-2024',
    figure: 'palm',
    known: recipe,
  },
  'megatron-bridge': {
    title: 'Megatron-Bridge',
    source: /Megatron-Bridge/,
    family: namedFamily,
    framework: 'megatron-2024',
    software: row => (row.experts === undefined ? {} : routedSoftware(row)),
    figure: 'palm',
    known: row => ({ ...recipe(), ...(row.zero_stage_or_fsdp === 'FSDP' && { zero: 3 }), ...windowOf(row) }),
    aside: fineTuning,
    fitted: (line, row) => line === 64 || line === 124 || thirdRouted(line, row),
  },
  mlperf: {
    title: 'MLPerf Training',
    source: /^mlcommons/,
    family: namedFamily,
    framework: 'megatron-2024',
    figure: 'palm',
    known: recipe,
    fitted: only(4),
  },
  sailor: {
    title: 'Sailor',
    source: /sailor/,
    family: 'gpt',
    framework: 'megatron-deepspeed',
    figure: 'palm',
  },
  folding: {
    title: 'MoE parallel folding',
    source: /2504\.14960/,
    family: 'llama',
    framework: 'megatron-2024',
    software: foldingSoftware,
    figure: 'megatron',
    known: foldingKnown,
    fitted: thirdRouted,
  },
  'megatron-moe': {
    title: 'Megatron Core with experts',
    source: /2603\.07685/,
    family: 'llama',
    framework: 'megatron-2026',
    software: megatronCore,
    figure: 'megatron',
    known: row => ({ ...recipe(), ...(/moe_act/.test(row.recompute) ? { recompute: 'none' } : {}) }),
  },
  automodel: {
    title: 'NeMo Automodel',
    source: /Automodel/,
    family: 'llama',
    framework: 'torchtitan-compiled',
    software: () => ({ exchange: 'hybrid-ep', routing: { bytes: 20, seconds: 0.1e-3 } }),
    figure: 'megatron',
    known: row => ({ ...(row.recompute === 'not said' && { recompute: 'none' }), ...windowOf(row) }),
  },
  maxtext: {
    title: 'MaxText',
    source: /maxtext/,
    family: 'llama',
    framework: 'megatron-2024',
    figure: 'palm',
    known: maxtextKnown,
  },
  papers: {
    title: 'single papers',
    source: /GPT-NeoX|GLM-130B|Gopher|TinyLlama|picotron|fms-fsdp|deepspeed4science|FlashAttention-2 paper/,
    family: 'gpt',
    framework: 'megatron-2021',
    figure: 'palm',
    aside: row => (row.source.includes('fms-fsdp') ? 'recomputed layers are not published' : undefined),
  },
}

/**
 * The study a row belongs to: the one that its source names, or the first whose source it is. Undefined: nobody knows what
 * software ran it, and what family its model is of.
 */
export const studyOf = ({ source }: Pick<Row, 'source'>): readonly [name: string, study: Study] | undefined =>
  Object.entries(studies).find(([name]) => name === source) ??
  Object.entries(studies).find(([, study]) => study.source.test(source))

export const unknownSource = ({ source }: Pick<Row, 'source'>): string =>
  `source \`${shorten(source, 60)}\` belongs to no study, so its software is unknown; set the source to one of ${Object.keys(studies).join(', ')}`
