/** Batch as a resource: data parallelism and pipelines both want to spend it. */
import { oneOf } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { percent, seconds } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { BatchCurves } from './batch-curves.js'
import { study } from './study.js'

const text = defineText(
  {
    claim:
      'A global batch can be spent once: on more data parallel ranks, each with fewer sequences, or on more microbatches that keep a pipeline full. With a small batch there is not enough for both.',
    title: 'Sixty-four devices, one batch, four ways to spend it',
    knobs: { model: 'Model', batch: 'Sequences in a batch', schedule: 'Schedule' },
    label: (dp: number, pp: number) => `dp ${dp} · pp ${pp}`,
    caption: (first: string, last: string, bubble: string) =>
      `Without a pipeline a step takes ${first}; with 16 stages ${last}, of which ${bubble} are bubble.`,
    letters:
      'p stages, m microbatches a rank gets: as dp grows by a factor, m shrinks by it. The formula is for equal stages without communication; in the figure the last stage also computes the head, the others wait for it, and the bubble is the mean over ranks.',
    question: 'With 16 stages, how many per cent of the step are bubble?',
    why: 'A pipeline of p stages needs m well above p; the batch divided by dp is all the microbatches there are.',
    notice: [
      'A larger batch shrinks the bubble, and changes what is trained: it is not free.',
      'Data parallel traffic does not depend on the batch, so a larger one hides it better too.',
      'Schedules that split the backward pass fill the bubble without asking for more batch.',
    ],
  },
  {
    claim:
      '全局 batch 只能花一次：要么分给更多数据并行 rank，每个 rank 的序列更少；要么切成更多微批次，把流水线填满。batch 小的时候，两边都不够。',
    title: '64 个设备，同一个 batch，四种花法',
    knobs: { model: '模型', batch: '一个 batch 的序列数', schedule: '调度' },
    label: (dp: number, pp: number) => `dp ${dp} · pp ${pp}`,
    caption: (first: string, last: string, bubble: string) =>
      `不用流水线，一步 ${first}；16 级流水线，一步 ${last}，其中气泡占 ${bubble}。`,
    letters:
      'p：级数；m：每个 rank 分到的微批次数。dp 变大几倍，m 就变小几倍。公式假设各级相同且没有通信；图中最后一级还要算输出层，其他级要等它，气泡是所有 rank 的平均。',
    question: '16 级流水线，气泡占一步的百分之几？',
    why: 'p 级流水线要求 m 远大于 p，而 batch 除以 dp 就是全部的微批次。',
    notice: [
      '加大 batch 能缩小气泡，但训练本身也变了，并不是白来的。',
      '数据并行的通信量与 batch 无关，所以大 batch 也更容易把它掩盖掉。',
      '把反向拆开的调度能填上气泡，又不需要更大的 batch。',
    ],
  },
)

const splits = [
  [64, 1],
  [32, 2],
  [16, 4],
  [4, 16],
] as const

export default study({
  name: 'batch',
  words: text,
  table: {
    model: oneOf(['llama3-8b', 'llama2-13b'], 'llama3-8b'),
    batch: oneOf([64, 128, 256, 512], 128),
    schedule: oneOf(['1f1b', 'gpipe', 'zb-h1'], '1f1b'),
  },
  device: () => 'h100',
  variants: ({ model, batch, schedule }) =>
    splits.map(([dp, pp]) => ({
      label: text().label(dp, pp),
      job: {
        model,
        training: { seq: 4096, globalBatch: batch },
        plan: { dp, pp, microbatches: batch / dp, precision: 'bf16', zero: 1, ...(pp > 1 && { schedule }) },
      },
    })),
  code: 'stream',
  small: ({ schedule }) => ({
    model: { family: 'gpt', layers: 4, embed: 64, heads: 4, vocab: 256 },
    training: { seq: 32, globalBatch: 4 },
    plan: { pp: 4, microbatches: 4, schedule },
  }),
  caption: results => {
    const [first, last] = [results[0]!, results.at(-1)!]
    return text().caption(seconds(first.step), seconds(last.step), percent(last.parts.bubble / last.step))
  },
  formula: {
    en: tex`\text{bubble} = \frac{p - 1}{m + p - 1}, \qquad p = 16,\; m = \class{live}{\text{m}}: \class{live}{\text{bubble}}`,
    zh: tex`\text{气泡} = \frac{p - 1}{m + p - 1}, \qquad p = 16,\; m = \class{live}{\text{m}}: \class{live}{\text{bubble}}`,
  },
  live: (_, { batch }) => ({ m: String(batch / 4), bubble: percent(15 / (batch / 4 + 15)) }),
  more: BatchCurves,
  answer: results => (100 * results.at(-1)!.parts.bubble) / results.at(-1)!.step,
})
