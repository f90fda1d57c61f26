/** Precision: what sixteen and eight bits save, and what stays in thirty-two. */
import { oneOf } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { bytes, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { Rounding } from './rounding.js'
import { study } from './study.js'

const text = defineText(
  {
    claim:
      'Products in sixteen bits run on units that are an order faster, and move half the bytes. Weights are updated in thirty-two bits all the same: a step of the optimizer is often smaller than what sixteen bits can tell apart.',
    title: 'One step in four precisions',
    knobs: { model: 'Model', sequences: 'Sequences a rank', device: 'Device' },
    caption: (full: string, half: string, times: string) =>
      `In f32 a step takes ${full}, in bf16 with f32 masters ${half}: ${times} times faster.`,
    letters: 'Bytes of a parameter: what is computed with, its gradient, its master and both moments.',
    question: 'How many times faster is the step in bf16 than in f32?',
    why: 'Products run at another rate; what only reads and writes memory gains a factor of two at most.',
    notice: [
      'Without ZeRO, bf16 with f32 masters needs as many bytes of state per parameter as f32 or more, and saves memory in activations. Here ZeRO-1 shards masters and moments over 8 ranks, so each rank holds less.',
      'Pure bf16 is the lightest, and loses updates that are smaller than half a step of its eight significant bits.',
      'f16 needs its loss scaled, since small gradients fall below its range; bf16 has the range of f32.',
    ],
  },
  {
    claim:
      '16 位的乘法跑在快一个数量级的单元上，搬运的字节也减半。但权重仍用 32 位更新：优化器的一步往往小于 16 位能分辨的差别。',
    title: '四种精度下的一步',
    knobs: { model: '模型', sequences: '每个 rank 的序列数', device: '设备' },
    caption: (full: string, half: string, times: string) =>
      `f32 一步 ${full}，带 f32 主权重的 bf16 一步 ${half}，快 ${times} 倍。`,
    letters: '每个参数的字节数：参与计算的权重、梯度、主权重和两个动量。',
    question: 'bf16 的一步比 f32 快多少倍？',
    why: '矩阵乘换了速率；只读写显存的部分最多快一倍。',
    notice: [
      '不用 ZeRO 时，带 f32 主权重的 bf16 每个参数的状态字节数不比 f32 少，省下的是激活值。这里 ZeRO-1 把主权重和动量切分到 8 个 rank，所以每个 rank 的状态更少。',
      '纯 bf16 最省，但小于其分辨率一半的更新会丢失。',
      'f16 要缩放损失，否则小梯度会下溢；bf16 的范围和 f32 一样。',
    ],
  },
)

const precisions = ['f32', 'bf16', 'f16', 'pure-bf16'] as const

export default study({
  name: 'precision',
  words: text,
  table: {
    model: oneOf(['gpt2-xl', 'llama3-8b'], 'gpt2-xl'),
    sequences: oneOf([1, 2, 4, 8], 2),
    device: oneOf(['v100', 'a100-80', 'h100'], 'h100'),
  },
  device: ({ device }) => device,
  variants: ({ model, sequences, device }) =>
    precisions
      .filter(precision => device !== 'v100' || !precision.includes('bf16'))
      .map(precision => ({
        label: precision,
        job: {
          model,
          training: {
            seq: 1024,
            globalBatch: 8 * sequences,
            ...(precision === 'f16' && { lossScale: { kind: 'torch' } }),
          },
          plan: { dp: 8, zero: 1, precision },
        },
      })),
  code: ['layers.F', 'update layers.up'],
  small: ({ device }) => ({
    model: { family: 'mlp', layers: 1, embed: 8, ffn: 16 },
    training: { seq: 4, globalBatch: 4, ...(device === 'v100' && { lossScale: { kind: 'torch' } }) },
    plan: { dp: 4, zero: 1, precision: device === 'v100' ? 'f16' : 'bf16' },
  }),
  caption: results =>
    text().caption(seconds(results[0]!.step), seconds(results[1]!.step), short(results[0]!.step / results[1]!.step)),
  formula: {
    en: tex`\text{state of a rank} = \class{live}{\text{full}} \;\to\; \class{live}{\text{half}}`,
    zh: tex`\text{每个 rank 的状态} = \class{live}{\text{full}} \;\to\; \class{live}{\text{half}}`,
  },
  live: results => {
    const state = ({ parameters, gradients, optimizer }: (typeof results)[number]['bytes']) =>
      bytes(parameters + gradients + optimizer)
    return { full: state(results[0]!.bytes), half: state(results[1]!.bytes) }
  },
  more: Rounding,
  answer: results => results[0]!.step / results[1]!.step,
})
