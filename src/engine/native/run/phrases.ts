/** Messages about programs that need more memory than available, and about engine options, in English. */
import { memoryPhrases, type ProblemPhrases, phrasing } from '../../../base/index.js'

const most = 'the largest category is {kind}: try '

export const enginePhrases = {
  ...memoryPhrases,
  'engine/options/whole': ['{value} is not an integer'],
  'engine/options/time': ['{value} is not between 0 and 2^31'],
  'engine/memory/rank': ['{needs}, but the limit is {limit}', '{remedy}'],
  'engine/memory/machine': ['all ranks together need {bytes}, but this machine has {has}: {needs}', '{remedy}'],
  '.needs': ['rank {rank} needs {bytes} ({parts})'],
  '.less/parameters': [`${most}zero 3, more tp or more pp`],
  '.less/gradients': [`${most}zero 2, more tp or more pp`],
  '.less/optimizer': [`${most}zero 1 over more dp, or an optimizer with less state`],
  '.less/activations': [`${most}more microbatches, recompute, more tp or a shorter seq`],
  '.less/workspace': [`${most}more tp, or a smaller batch`],
  '.less/data': [`${most}a smaller batch`],
  'engine/failed/token': ['this page has no valid access token', 'open the link that `lockstep studio` printed'],
  'engine/failed/busy': ['{runs} runs are active already', 'stop one of them first'],
  'engine/kernels': ['this build has no {kernels} kernels', 'try --kernels {there}'],
  'plan/precision/kernels': [
    '{kernels} kernels do not support FP8',
    'leave fp8 out here, or use --kernels reference, which is slow; generated PyTorch supports it',
  ],
} as const satisfies ProblemPhrases

export const { refused, clause } = phrasing(enginePhrases)
