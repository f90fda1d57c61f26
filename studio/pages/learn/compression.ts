/** Compression: fewer bytes of gradient, and what making them costs. */
import { oneOf } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { study } from './study.js'

const text = defineText(
  {
    claim:
      'Gradients can travel in fewer bits, as products of thin matrices, or as their largest elements only. Fewer bytes pay only where bytes were what ranks waited for: packing takes time too, and what overlapped before may not any more.',
    title: 'One step, gradients sent in five ways',
    knobs: { model: 'Model', ranks: 'Data parallel ranks', network: 'Device' },
    names: { none: 'as they are', bf16: '16 bits', int8: '8 bits', powersgd: 'PowerSGD, rank 4', topk: 'top 1 %' },
    caption: (plain: string, best: string, name: string) =>
      `Sent as they are, gradients make a step of ${plain}; the fastest way here is ${name}, ${best}.`,
    letters: 'V bytes of gradient, B the bandwidth, r the share that is sent, P what packing and unpacking take.',
    question:
      'PowerSGD of rank 4 sends a hundredth of the bytes. How many times as long as the plain step does its step take?',
    why: 'Each matrix meets twice, for few numbers, behind the last backward: latency and extra products outweigh the bytes on a fast network.',
    notice: [
      'Sixteen bits are free where gradients are computed in sixteen bits anyway, but sums are taken in thirty-two.',
      'What is not sent is not lost: error feedback adds it to the next step’s gradient, for four bytes a parameter that stay and four more while it is packed.',
      'On slow links the order turns round. Try devices with a slower network and more ranks.',
    ],
  },
  {
    claim:
      '梯度可以用更少的位数传，可以写成瘦矩阵的乘积，也可以只传最大的那些。字节少了，只有在 rank 真的在等字节时才划算：打包也要时间，原来能掩盖的通信可能不再能掩盖。',
    title: '同一步，五种发送梯度的办法',
    knobs: { model: '模型', ranks: '数据并行的 rank 数', network: '设备' },
    names: { none: '原样发送', bf16: '16 位', int8: '8 位', powersgd: 'PowerSGD，秩 4', topk: '最大的 1 %' },
    caption: (plain: string, best: string, name: string) => `原样发送时一步 ${plain}；这里最快的是“${name}”，${best}。`,
    letters: 'V：梯度字节数；B：带宽；r：实际发送的比例；P：打包和拆包的时间。',
    question: '秩为 4 的 PowerSGD 只发百分之一的字节。它的一步是原样发送的几倍？',
    why: '每个矩阵在最后一次反向之后要碰头两次，每次数据很少：在快网络上，延迟和多出来的乘法超过了省下的字节。',
    notice: [
      '梯度本来就用 16 位算时，16 位发送没有代价，但求和仍用 32 位。',
      '没发的并没有丢：误差反馈会把它加到下一步的梯度里，为此每个参数一直多占 4 字节，打包时再占 4 字节。',
      '在慢链路上次序会反过来。换成网络更慢的设备、更多 rank 试试。',
    ],
  },
)

const ways = [
  ['none', undefined],
  ['bf16', { reduce: 'bf16' }],
  ['int8', { reduce: 'int8' }],
  ['powersgd', { reduce: 'powersgd', rank: 4 }],
  ['topk', { reduce: 'topk', ratio: 0.01 }],
] as const

export default study({
  name: 'compression',
  words: text,
  table: {
    model: oneOf(['gpt2-large', 'gpt2-xl'], 'gpt2-xl'),
    ranks: oneOf([8, 16, 32, 64], 64),
    network: oneOf(['v100', 'a100-40', 'h100'], 'h100'),
  },
  device: ({ network }) => network,
  variants: ({ model, ranks, network }) =>
    ways.map(([name, compress]) => ({
      label: text().names[name],
      job: {
        model,
        training: { seq: 1024, globalBatch: ranks },
        plan: { dp: ranks, precision: network === 'v100' ? 'f32' : 'bf16', ...(compress && { compress }) },
      },
    })),
  caption: (results, variants) => {
    const best = results.reduce((best, each, n) => (each.step < results[best]!.step ? n : best), 0)
    return text().caption(seconds(results[0]!.step), seconds(results[best]!.step), variants[best]!.label)
  },
  formula: {
    en: tex`\frac{V}{B} \;\to\; \frac{rV}{B} + P, \qquad \text{waiting: } \class{live}{\text{plain}} \to \class{live}{\text{bits}}`,
    zh: tex`\frac{V}{B} \;\to\; \frac{rV}{B} + P, \qquad \text{等待：} \class{live}{\text{plain}} \to \class{live}{\text{bits}}`,
  },
  live: results => ({ plain: seconds(results[0]!.parts.dp), bits: seconds(results[1]!.parts.dp) }),
  answer: results => results[3]!.step / results[0]!.step,
  show: short,
})
