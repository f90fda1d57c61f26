/** Runs that are well known, by name: rows of validation/ whose published times stand beside ours. */
import { didYouMean, error, ProblemsError } from '../base/index.js'
import type { Row } from './row.js'
import { compareTimes, type Times } from './times.js'

export interface Case {
  readonly title: string
  /** The file of validation/ that has its rows. */
  readonly file: string
  readonly picks: (row: Row) => boolean
}

const megatron = (size: string, label = size): Case => ({
  title: `Megatron-LM ${label}, SC21 table 1 (Narayanan et al. 2021)`,
  file: 'sc21-table1.csv',
  picks: ({ model }) => model === `GPT-${size}`,
})

/** Dense models of the size that Gemini's first papers speak of, on one slice of TPUs. */
const maxtext = (device: string, size: string): Case => ({
  title: `MaxText ${size} on TPU ${device}, the tables of its repository`,
  file: 'maxtext.csv',
  picks: ({ model, gpu }) => model === `MaxText ${size}` && gpu === `TPU ${device}`,
})

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
  'maxtext-128b-v5p': maxtext('v5p', '128B'),
  'maxtext-1t-v5p': maxtext('v5p', '1024B'),
}

export const caseNames: readonly string[] = Object.keys(cases)

export function caseNamed(name: string): Case {
  if (Object.hasOwn(cases, name)) return cases[name]
  throw new ProblemsError([
    error('validate/study', 'name', `there is no case \`${name}\``, didYouMean(name, caseNames)),
  ])
}

/** What was published beside what our prices say of the same plan, row by row. */
export const compareCase = ({ picks }: Case, rows: readonly Row[]): Times => compareTimes(rows.filter(picks))
