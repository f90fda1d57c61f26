/** Context parallelism: one sequence on many ranks. */
import { oneOf } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { percent, seconds } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { study } from './study.js'

const text = defineText(
  {
    claim:
      'A sequence can be too long for one device even with a batch of one. Context parallelism gives every rank a run of its tokens. All but attention needs nothing from the others; attention needs their keys and values, gathered at once or passed around a ring.',
    title: 'One long sequence, ways to bring the keys',
    knobs: { seq: 'Tokens in a sequence', cp: 'Ranks', device: 'Device' },
    names: { gather: 'gathered', ring: 'ring', ulysses: 'heads exchanged' },
    caption: (gather: string, ring: string, share: string) =>
      `Gathering all keys and values a step takes ${gather}; around the ring ${ring}, ${share} of which is waiting for the neighbour.`,
    letters: 's tokens, c ranks: attention grows with the square of s, what is sent with s alone.',
    question: 'Around the ring: how many per cent of the step are waiting for keys and values?',
    why: 'Each turn computes with the keys it has while the next ones are on their way; long sequences have enough to compute.',
    notice: [
      'A causal mask leaves the first tokens little to do. Each rank therefore holds one piece from the front and one from the back.',
      'With grouped keys there are few of them: gathering is cheaper than it sounds.',
      'Activations shrink with the ranks, weights do not: context parallel ranks hold the same ones, so ZeRO applies to them too.',
    ],
  },
  {
    claim:
      '序列太长时，batch 为 1 也放不下。上下文并行让每个 rank 各持一段 token。除注意力外都不需要别的 rank；注意力要用到它们的 key 和 value，可以一次收齐，也可以沿环传递。',
    title: '一条长序列，几种取 key 的办法',
    knobs: { seq: '序列的 token 数', cp: 'rank 数', device: '设备' },
    names: { gather: '一次收齐', ring: '环', ulysses: '交换头' },
    caption: (gather: string, ring: string, share: string) =>
      `一次收齐 key 和 value，一步 ${gather}；沿环传递，一步 ${ring}，其中 ${share} 在等邻居。`,
    letters: 's：token 数；c：rank 数。注意力按 s 的平方增长，通信只按 s 增长。',
    question: '沿环传递时，等待 key 和 value 占一步的百分之几？',
    why: '每一轮都用手上的 key 计算，下一批同时在路上；序列长，可算的就足够多。',
    notice: [
      '因果掩码让靠前的 token 很清闲，所以每个 rank 各拿前面一段和后面一段。',
      '分组的 key 数量不多，一次收齐并没有听上去那么贵。',
      '激活值随 rank 数缩小，权重不会：上下文并行的 rank 存着同样的权重，ZeRO 对它们同样有效。',
    ],
  },
)

const model = {
  family: 'llama',
  layers: 32,
  embed: 4096,
  heads: 32,
  kvHeads: 8,
  ffn: 14336,
  vocab: 128256,
  positions: 131072,
}

export default study({
  name: 'context',
  words: text,
  table: {
    seq: oneOf([16384, 32768, 65536, 131072], 65536),
    cp: oneOf([2, 4, 8], 8),
    device: oneOf(['a100-80', 'h100', 'h200'], 'h100'),
  },
  device: ({ device }) => device,
  variants: ({ seq, cp }) =>
    (['gather', 'ring', 'ulysses'] as const).map(attention => ({
      label: text().names[attention],
      job: {
        model,
        training: { seq, globalBatch: 1 },
        plan: { cp, attention, precision: 'bf16', zero: 1, recompute: 'full' },
      },
    })),
  caption: ([gather, ring]) =>
    text().caption(seconds(gather!.step), seconds(ring!.step), percent(ring!.parts.cp / ring!.step)),
  formula: {
    en: tex`\text{attention} \propto \frac{s^2}{c}, \qquad \text{sent} \propto s\,\frac{c - 1}{c}, \qquad \frac{s}{c} = \class{live}{\text{part}}`,
    zh: tex`\text{注意力} \propto \frac{s^2}{c}, \qquad \text{发送} \propto s\,\frac{c - 1}{c}, \qquad \frac{s}{c} = \class{live}{\text{part}}`,
  },
  live: (_, { seq, cp }) => ({ part: String(seq / cp) }),
  answer: results => (100 * results[1]!.parts.cp) / results[1]!.step,
})
