/** Jobs to begin with, small enough for a page. Their text is a page of the documentation. */
import { defineText } from '../../base/language.js'

export type JobName = 'tiny' | 'two' | 'four' | 'tensor' | 'eight' | 'own'

interface Example {
  readonly ranks: number
  readonly yaml: string
}

const jobOf = (name: string, [model, training, plan]: readonly [string, string, string]): string =>
  [
    `name: ${name}`,
    `model: { ${model} }`,
    'training:',
    `  { ${training}, optimizer: { kind: adamw, lr: 3e-3 }, clip: 1, evalEvery: 25, evalBatches: 1 }`,
    'data: { source: tutorial.md, tokenizer: bytes }',
    `plan: { ${plan} }`,
    '',
  ].join('\n')

const small = 'family: gpt, layers: 2, embed: 64, heads: 4, vocab: 256'
const deep = 'family: gpt, layers: 4, embed: 64, heads: 4, vocab: 256'
const llama = 'family: llama, layers: 4, embed: 64, heads: 4, kvHeads: 2, ffn: 128, vocab: 256'
const usual = 'seq: 64, globalBatch: 8, steps: 200'

export const examples: Readonly<Record<Exclude<JobName, 'own'>, Example>> = {
  tiny: {
    ranks: 2,
    yaml: jobOf('tiny', [
      'family: gpt, layers: 1, embed: 16, heads: 2, vocab: 256',
      'seq: 16, globalBatch: 4, steps: 50',
      'dp: 2',
    ]),
  },
  two: { ranks: 2, yaml: jobOf('two', [small, usual, 'dp: 2, zero: 1']) },
  four: { ranks: 4, yaml: jobOf('four', [deep, usual, 'dp: 2, pp: 2, zero: 1, microbatches: 4']) },
  tensor: { ranks: 4, yaml: jobOf('tensor', [llama, usual, 'dp: 2, tp: 2, zero: 3, sequenceParallel: true']) },
  eight: { ranks: 8, yaml: jobOf('eight', [deep, usual, 'dp: 2, tp: 2, pp: 2, zero: 1, microbatches: 4']) },
}

/** Four ranks, small enough to be watched: what the first page trains by itself. */
export const demoJob = (threads: boolean): { readonly job: string; readonly steps: number } =>
  threads
    ? { job: examples.four.yaml, steps: 150 }
    : {
        job: jobOf('demo', [
          'family: gpt, layers: 1, embed: 16, heads: 2, vocab: 256',
          'seq: 16, globalBatch: 4, steps: 40',
          'dp: 4',
        ]),
        steps: 40,
      }

export const jobNames = [...Object.keys(examples), 'own'] as readonly JobName[] // its own keys
export const isJobName = (name: string | undefined): name is JobName => jobNames.some(one => one === name)

/** The largest that leaves no core without one rank, or, without threads, the smallest. */
export const usualJob = (threads: boolean, cores: number): JobName => (!threads ? 'tiny' : cores >= 4 ? 'four' : 'two')

export const textOfJobs = async (): Promise<Readonly<Record<string, string>>> => ({
  'tutorial.md': (await import('../../../docs/tutorial.md?raw')).default,
})

export const jobTitles = defineText(
  {
    tiny: 'tiny GPT, 2 ranks: data parallel (for the interpreter)',
    two: 'GPT, 2 ranks: data parallel, ZeRO-1',
    four: 'GPT, 4 ranks: data and pipeline parallel',
    tensor: 'Llama, 4 ranks: tensor and sequence parallel, ZeRO-3',
    eight: 'GPT, 8 ranks: data, tensor and pipeline parallel',
    own: 'a job of your own',
  },
  {
    tiny: '极小的 GPT，2 个 rank：数据并行（供解释器用）',
    two: 'GPT，2 个 rank：数据并行，ZeRO-1',
    four: 'GPT，4 个 rank：数据并行与流水线并行',
    tensor: 'Llama，4 个 rank：张量并行与序列并行，ZeRO-3',
    eight: 'GPT，8 个 rank：数据、张量、流水线并行',
    own: '自己的作业',
  },
)
