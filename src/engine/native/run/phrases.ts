/** What is said of programs that need more than there is, in English. */
import { memoryPhrases, type ProblemPhrases, phrasing } from '../../../base/index.js'

const most = 'most of it is {kind}: try '

export const enginePhrases = {
  ...memoryPhrases,
  'engine/options/whole': ['{value} is not a whole number'],
  'engine/options/time': ['{value} is not above 0 and below 2^31'],
  'engine/memory/rank': ['{needs}, but may have {limit}', '{remedy}'],
  'engine/memory/machine': ['all ranks together need {bytes}, but this machine has {has}; {needs}', '{remedy}'],
  '.needs': ['rank {rank} needs {bytes} ({parts})'],
  '.less/parameters': [`${most}zero 3, more tp or more pp`],
  '.less/gradients': [`${most}zero 2, more tp or more pp`],
  '.less/optimizer': [`${most}zero 1 over more dp, or an optimizer that keeps less`],
  '.less/activations': [`${most}more microbatches, recompute, more tp or a shorter seq`],
  '.less/workspace': [`${most}more tp, or a smaller batch`],
  '.less/data': [`${most}a smaller batch`],
  'engine/failed/token': ['this page has no valid token', 'open the link that `lockstep studio` printed'],
  'engine/failed/busy': ['{runs} runs are going on already', 'stop one of them first'],
  'engine/kernels': ['there are no {kernels} kernels in this build', 'try --kernels {there}'],
  'plan/precision/kernels': [
    '{kernels} kernels do not multiply 8-bit codes',
    'leave fp8 out here, or take --kernels reference, which is slow; emitted PyTorch multiplies them',
  ],
} as const satisfies ProblemPhrases

export const { refused, clause } = phrasing(enginePhrases)
