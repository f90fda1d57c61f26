/** Runs that are well known, by name: rows of validation/ whose published times stand beside ours, and runs without a published time. */
import { didYouMean, error, ProblemsError } from '../base/index.js'
import type { Shape } from '../estimate/index.js'
import type { Row } from './row.js'
import { families } from './studies.js'
import { compareTimes, type Times } from './times.js'

/** A published run: the rows of a file in validation/ and how to cost them. */
export interface Case {
  readonly title: string
  /** The file of validation/ that has its rows. */
  readonly file: string
  readonly picks: (row: Row) => boolean
  /** Constraints of other plans of its software, if they differ from those of the profile. */
  readonly constraints?: readonly string[]
}

/** A run of which no time was published: what was, and where we price it. */
export interface UntimedCase {
  readonly title: string
  readonly source: string
  /** In the words of a reader: what it is about, and what was said. */
  readonly published: Readonly<Record<string, string>>
  readonly tokens: number
  readonly shape: Shape
  /** What was said of its plan. */
  readonly constraints: readonly string[]
  /** Ours: nobody said on what it ran. */
  readonly on: { readonly device: string; readonly devices: number; readonly globalBatch: number }
}

const megatron = (size: string, label = size): Case => ({
  title: `Megatron-LM ${label}, SC21 table 1 (Narayanan et al. 2021)`,
  file: 'sc21-table1.csv',
  picks: ({ model }) => model === `GPT-${size}`,
})

/** Dense models of the size that Gemini's first papers speak of, on one slice of TPUs or on several. */
const maxtext = (device: string, size: string): Case => ({
  title: `MaxText ${size} on TPU ${device}, the tables of its repository`,
  file: 'maxtext.csv',
  picks: ({ model, gpu }) => model === `MaxText ${size}` && gpu === `TPU ${device}`,
  // XLA splits parameters as it likes; its runs on one slice have no stages.
  constraints: ['pp=1', 'reduce=microbatch', 'gather=use'],
})

/** The published runs that `lockstep case` knows, by name. */
export const cases: Readonly<Record<string, Case>> = {
  'megatron-1.7b': megatron('1.7B'),
  'megatron-3.6b': megatron('3.6B'),
  'megatron-7.5b': megatron('7.5B'),
  'megatron-18b': megatron('18.4B'),
  'megatron-39b': megatron('39.1B'),
  'megatron-76b': megatron('76.1B'),
  'megatron-145b': megatron('145.6B'),
  'megatron-310b': megatron('310.1B'),
  'megatron-530b': megatron('529.6B'),
  'megatron-1t': megatron('1008.0B', '1T'),
  'llama3-405b-8k': {
    title: 'Llama 3 405B at 8k tokens, The Llama 3 Herd of Models, table 4 (arXiv 2407.21783)',
    file: 'llama3.csv',
    picks: ({ seq_len }) => seq_len === 8192,
  },
  'llama3-405b-128k': {
    title: 'Llama 3 405B at 128k tokens, The Llama 3 Herd of Models, table 4 (arXiv 2407.21783)',
    file: 'llama3.csv',
    picks: ({ seq_len }) => seq_len === 131072,
  },
  'deepseek-v3': {
    title: 'DeepSeek-V3 in Megatron Core on GB200 and GB300 (arXiv 2603.07685)',
    file: 'megatron-moe.csv',
    picks: ({ model }) => model === 'DeepSeek-V3',
  },
  'maxtext-16b-v5e': maxtext('v5e', '16B'),
  'maxtext-32b-v5e': maxtext('v5e', '32B'),
  'maxtext-64b-v5e': maxtext('v5e', '64B'),
  'maxtext-32b-v5p': maxtext('v5p', '32B'),
  'maxtext-64b-v5p': maxtext('v5p', '64B'),
  'maxtext-128b-v5p': maxtext('v5p', '128B'),
  'maxtext-512b-v5p': maxtext('v5p', '512B'),
  'maxtext-1t-v5p': maxtext('v5p', '1024B'),
}

export const untimedCases: Readonly<Record<string, UntimedCase>> = {
  'yi-34b': {
    title: 'Yi 34B, Yi: Open Foundation Models by 01.AI (arXiv 2403.04652)',
    source: 'arXiv 2403.04652 and config.json of 01-ai/Yi-34B',
    published: {
      model: '60 layers, hidden size 7168, 56 heads, 8 KV heads, feed-forward 20480, vocabulary 64000',
      data: '3.1T tokens, sequence length 4096',
      plan: 'ZeRO-1, tensor parallel and pipeline parallel; degrees not published',
      'not published': 'devices, batch, step time, utilization',
    },
    tokens: 3.1e12,
    shape: {
      ...{ ...families.llama, layers: 60, embed: 7168, heads: 56, kvHeads: 8, headDim: 128 },
      ...{ ffn: 20480, vocab: 64000, seq: 4096 },
    },
    constraints: ['zero=1', 'tp>1', 'pp>1'],
    on: { device: 'a100-80', devices: 64, globalBatch: 256 },
  },
}

export const caseNames: readonly string[] = Object.keys(cases)

export function caseNamed(name: string): Case | UntimedCase {
  if (Object.hasOwn(cases, name)) return cases[name]
  if (Object.hasOwn(untimedCases, name)) return untimedCases[name]
  const names = [...caseNames, ...Object.keys(untimedCases)]
  throw new ProblemsError([error('validate/study', 'name', `unknown case \`${name}\``, didYouMean(name, names))])
}

export const isUntimed = (found: Case | UntimedCase): found is UntimedCase => 'published' in found

/** Compares published figures with our estimates of the same plan, row by row. */
export const compareCase = ({ picks }: Case, rows: readonly Row[]): Times => compareTimes(rows.filter(picks))
