/** Expert parallelism: tokens travel to the ranks that hold their experts. */
import { oneOf } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { bytes, seconds } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { study } from './study.js'

const text = defineText(
  {
    claim:
      'In a mixture of experts a token is computed by a few experts out of many. Every rank can hold all of them, or some, with tokens sent to where their experts are and back. Memory falls with the ranks; what a layer says to the others is an all-to-all each way.',
    title: 'Eight ranks, experts held whole or shared out',
    knobs: { model: 'Model', sequences: 'Sequences a rank', device: 'Device' },
    label: (ep: number) => (ep === 1 ? 'every rank holds all' : `shared among ${ep}`),
    caption: (none: string, all: string, before: string, after: string) =>
      `A rank holds ${none} of parameters with all experts, and a step takes ${before}; shared among eight they are ${all}, and a step takes ${after}.`,
    letters: 'k experts a token, h its width: bytes a token sends over there, and as many come back.',
    question: 'Shared among eight: how many times as long as with all experts everywhere does a step take?',
    why: 'Each rank has room for the rows of an uneven choice, and is priced for that room; gradients of experts, on the other hand, need not meet.',
    notice: [
      'Which expert a token takes is data. Room is planned for more rows than the mean; a router that is out of balance makes all ranks wait for one.',
      'Expert parallel ranks are data parallel ranks for everything else: attention is not shared out.',
      'A model of experts has far more parameters than it computes with: memory decides before compute does.',
    ],
  },
  {
    claim:
      '在混合专家模型里，一个 token 只由众多专家中的几个来算。每个 rank 可以存全部专家，也可以只存一部分，把 token 送到专家所在的 rank 再送回来。显存随 rank 数下降；每层的代价是来回各一次 all-to-all。',
    title: '8 个 rank，专家各存一份或分摊',
    knobs: { model: '模型', sequences: '每个 rank 的序列数', device: '设备' },
    label: (ep: number) => (ep === 1 ? '每个 rank 存全部' : `分摊到 ${ep} 个 rank`),
    caption: (none: string, all: string, before: string, after: string) =>
      `存全部专家时每个 rank 的参数占 ${none}，一步 ${before}；分摊到 8 个 rank 后占 ${all}，一步 ${after}。`,
    letters: 'k：每个 token 的专家数；h：宽度。这是一个 token 送出的字节数，回来时同样多。',
    question: '分摊到 8 个 rank 时，一步是各存全部时的几倍？',
    why: '每个 rank 都要为不均衡的选择预留行数，计价也按预留的行数；另一方面，专家的梯度不必再汇总。',
    notice: [
      'token 去哪个专家由数据决定。预留的行数要多于平均值；路由不均衡时，所有 rank 都要等最忙的那个。',
      '对其余部分来说，专家并行的 rank 就是数据并行的 rank：注意力并不分摊。',
      '混合专家模型的参数远多于实际参与计算的部分：先卡住的是显存，而不是算力。',
    ],
  },
)

export default study({
  name: 'experts',
  words: text,
  table: {
    model: oneOf(['mixtral-8x7b', 'qwen3-30b-a3b'], 'mixtral-8x7b'),
    sequences: oneOf([1, 2, 4], 1),
    device: oneOf(['h100', 'h200', 'b200'], 'h200'),
  },
  device: ({ device }) => device,
  variants: ({ model, sequences }) =>
    [1, 2, 4, 8].map(ep => ({
      label: text().label(ep),
      job: {
        model,
        training: { seq: 4096, globalBatch: 8 * sequences },
        plan: { dp: 8, ep, zero: 1, microbatches: sequences, precision: 'bf16', recompute: 'full' },
      },
    })),
  caption: results => {
    const [first, last] = [results[0]!, results.at(-1)!]
    const held = [first, last].map(each => bytes(each.bytes.parameters))
    return text().caption(held[0]!, held[1]!, seconds(first.step), seconds(last.step))
  },
  formula: {
    en: tex`\text{sent by a token} = k \cdot h \cdot 2\,\text{bytes}, \qquad \text{step} = \class{live}{\text{step}}`,
    zh: tex`\text{每个 token 发送} = k \cdot h \cdot 2\,\text{字节}, \qquad \text{一步} = \class{live}{\text{step}}`,
  },
  live: results => ({ step: seconds(results.at(-1)!.step) }),
  answer: results => results.at(-1)!.step / results[0]!.step,
})
