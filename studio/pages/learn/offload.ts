/** Offload: the host's memory for what a device need not hold all the time. */
import { oneOf } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { bytes, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { study } from './study.js'

const text = defineText(
  {
    claim:
      'Optimizer state is touched once a step, and what layers hand to each other not before the backward pass. Both can wait in the memory of the host. The device gains room; the step pays for the way there and back, as far as compute does not hide it.',
    title: 'One step, with more and more of it on the host',
    knobs: { model: 'Model', sequences: 'Microbatches', device: 'Device' },
    names: {
      none: 'all on the device',
      state: 'optimizer state on the host',
      both: 'offload of layers too',
      all: 'parts of parameters as well (ZeRO-3)',
    },
    caption: (plain: string, away: string, saved: string) =>
      `With all on the device a step takes ${plain}; with the optimizer state on the host ${away}, and a rank holds ${saved} less.`,
    letters:
      'S: bytes of state; B: the host’s link, shared by the devices of a node; the host updates the weights itself.',
    question: 'With these microbatches: how many times as long is the step with the optimizer state on the host?',
    why: 'The update is a fixed cost a step. More microbatches spread it over more compute.',
    notice: [
      'Gradients go down, weights come up; moments and masters never travel, since the host does the update.',
      'A device’s share of the host’s memory bandwidth is a thirtieth of its own or less: the update takes longer there, not only the way.',
      'It makes sense where the alternative is not to train at all, or more devices than there are.',
    ],
  },
  {
    claim:
      '优化器状态每步只用一次，层间传递的激活值要等到反向才用。两者都可以放到主机内存里等。设备腾出了空间，一步要为来回付时间，能被计算掩盖的部分除外。',
    title: '同一步，越来越多的东西放到主机',
    knobs: { model: '模型', sequences: '微批次', device: '设备' },
    names: {
      none: '全部在设备上',
      state: '优化器状态在主机',
      both: '层边界也在主机',
      all: '参数切片也在主机（ZeRO-3）',
    },
    caption: (plain: string, away: string, saved: string) =>
      `全部在设备上，一步 ${plain}；优化器状态放到主机，一步 ${away}，每个 rank 少占 ${saved}。`,
    letters: 'S：状态的字节数；B：主机链路带宽，由节点内的设备共享；权重由主机自己更新。',
    question: '微批次不变，优化器状态放到主机后，一步是原来的几倍？',
    why: '更新是每步的固定开销，微批次越多，摊到计算上的就越少。',
    notice: [
      '梯度下去，权重上来；动量和主权重从不搬动，因为更新就在主机上做。',
      '主机内存带宽分到每个设备，不到设备自己的三十分之一：慢的不只是路上，更新本身也慢。',
      '在没有它就根本训练不了、或者没有那么多设备的时候，它才划算。',
    ],
  },
)

const offload = { optimizer: 'host', activations: 'layer-inputs' }

export default study({
  name: 'offload',
  words: text,
  table: {
    model: oneOf(['llama2-7b', 'llama3-8b', 'llama2-13b'], 'llama3-8b'),
    sequences: oneOf([1, 4, 16], 4),
    device: oneOf(['a100-40', 'a100-80', 'h100'], 'h100'),
  },
  device: ({ device }) => device,
  variants: ({ model, sequences: microbatches }) => {
    const jobOf = (plan: Readonly<Record<string, unknown>>) => ({
      model,
      training: { seq: 4096, globalBatch: 8 * microbatches },
      plan: { dp: 8, zero: 1, microbatches, precision: 'bf16', recompute: 'full', ...plan },
    })
    const { names } = text()
    return [
      { label: names.none, job: jobOf({}) },
      { label: names.state, job: jobOf({ offload: { optimizer: 'host' } }) },
      { label: names.both, job: jobOf({ offload: offload }) },
      { label: names.all, job: jobOf({ zero: 3, offload: { ...offload, parameters: 'host' } }) },
    ]
  },
  code: 'stream',
  small: () => ({
    model: { family: 'gpt', layers: 2, embed: 64, heads: 4, vocab: 256 },
    training: { seq: 32, globalBatch: 4 },
    plan: { dp: 4, zero: 3, precision: 'bf16', recompute: 'full', offload: { ...offload, parameters: 'host' } },
  }),
  caption: ([plain, away]) =>
    text().caption(seconds(plain!.step), seconds(away!.step), bytes(plain!.bytes.optimizer - away!.bytes.optimizer)),
  formula: {
    en: tex`t \ge \frac{S}{B} + t_{\text{update}} = \class{live}{\text{away}}`,
    zh: tex`t \ge \frac{S}{B} + t_{\text{更新}} = \class{live}{\text{away}}`,
  },
  live: ([, away]) => ({ away: seconds(away!.parts.optimizer + away!.parts.offload) }),
  answer: ([plain, away]) => away!.step / plain!.step,
  show: short,
})
