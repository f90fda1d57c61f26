/** Scaling: the same step on more devices, and what does not shrink. */
import { oneOf } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { percent, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { study } from './study.js'

const text = defineText(
  {
    claim:
      'Strong scaling keeps the batch and adds devices: each computes less, and what does not shrink with them decides how far it goes. Weak scaling gives every device the same work, and shows what talking costs.',
    title: 'A step on more and more devices',
    knobs: { model: 'Model', mode: 'Batch', device: 'Device' },
    values: { mode: { strong: 'the same (strong)', weak: 'grows with the devices (weak)' } },
    devices: (n: number) => `${n} devices`,
    strong: (times: string, efficiency: string) =>
      `From 8 to 128 devices the step becomes ${times} times shorter: ${efficiency} of what 16 times the devices promise.`,
    weak: (first: string, last: string, efficiency: string) =>
      `With the same work a device, a step takes ${first} on 8 devices and ${last} on 128: an efficiency of ${efficiency}.`,
    letters:
      's: the part of a step that does not shrink, fitted to the first and the last of these steps; n: how many times the devices.',
    question: 'From 8 to 128 devices with the same batch: how many times shorter is the step?',
    why: 'Gradients are as large as before, and there is less compute to hide their traffic behind.',
    notice: [
      'Amdahl’s serial part is not code that runs alone here: it is traffic that nothing hides, and the optimizer.',
      'With ZeRO the update shrinks with the ranks, so what is left is mostly traffic.',
      'Weak scaling looks better because the compute stays; but the batch grows, and that changes the training.',
    ],
  },
  {
    claim:
      '强扩展保持 batch 不变、增加设备：每个设备算得更少，不随之缩小的部分决定了能走多远。弱扩展让每个设备的工作量不变，露出来的就是通信的代价。',
    title: '设备越来越多时的一步',
    knobs: { model: '模型', mode: 'batch', device: '设备' },
    values: { mode: { strong: '不变（强扩展）', weak: '随设备增长（弱扩展）' } },
    devices: (n: number) => `${n} 个设备`,
    strong: (times: string, efficiency: string) =>
      `从 8 个到 128 个设备，一步缩短到 1/${times}，是理想值的 ${efficiency}。`,
    weak: (first: string, last: string, efficiency: string) =>
      `每个设备工作量相同时，8 个设备一步 ${first}，128 个设备一步 ${last}，效率 ${efficiency}。`,
    letters: 's：一步里不随设备缩小的部分，由首尾两步拟合；n：设备变为几倍。',
    question: 'batch 不变，从 8 个到 128 个设备，一步缩短到几分之一？',
    why: '梯度和原来一样大，可用来掩盖通信的计算却变少了。',
    notice: [
      '阿姆达尔定律里的“串行部分”在这里不是单独执行的代码，而是没能掩盖的通信和优化器。',
      '用了 ZeRO，更新也随 rank 数缩小，剩下的主要是通信。',
      '弱扩展更好看，因为计算量没变少；但 batch 变大了，训练也就不同了。',
    ],
  },
)

const counts = [8, 16, 32, 64, 128]
/** Amdahl's serial part of what took `first` and takes `last` on so many times the devices. */
const serial = (first: number, last: number, times: number) => Math.max(0, (last / first - 1 / times) / (1 - 1 / times))
const isStrong = (jobs: readonly { readonly job: { readonly training: { readonly globalBatch?: unknown } } }[]) =>
  jobs[0]!.job.training.globalBatch === jobs.at(-1)!.job.training.globalBatch

export default study({
  name: 'scaling',
  words: text,
  table: {
    model: oneOf(['gpt2-xl', 'llama3-8b'], 'llama3-8b'),
    mode: oneOf(['strong', 'weak']),
    device: oneOf(['a100-80', 'h100', 'b200'], 'h100'),
  },
  device: ({ device }) => device,
  variants: ({ model, mode }) =>
    counts.map(dp => ({
      label: text().devices(dp),
      job: {
        model,
        training: { seq: 1024, globalBatch: mode === 'strong' ? 256 : 2 * dp },
        plan: { dp, microbatches: mode === 'strong' ? Math.max(1, 256 / dp / 2) : 1, zero: 1, precision: 'bf16' },
      },
    })),
  caption: (results, variants) => {
    const [first, last] = [results[0]!.step, results.at(-1)!.step]
    if (isStrong(variants)) return text().strong(short(first / last), percent(first / last / 16))
    return text().weak(seconds(first), seconds(last), percent(first / last))
  },
  formula: tex`T(n) = T(1)\,\Bigl(s + \frac{1 - s}{n}\Bigr), \qquad s = \class{live}{\text{s}}`,
  live: results => ({ s: percent(serial(results[0]!.step, results.at(-1)!.step, 16), 2) }),
  answer: results => results[0]!.step / results.at(-1)!.step,
})
