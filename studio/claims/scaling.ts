/** Rooflines and scaling: what bounds a kernel, what a utilisation means, how far more devices help. */
import { claim, isNear, yesIf } from './claim.js'
import { seven, small } from './jobs.js'
import { type JobText, type Lab, onJob, worldOf } from './lab.js'

const again = (recompute: string): JobText => seven({ dp: 8, zero: 1, recompute })

/** FLOPs for each byte of memory, of the products of a layer. */
function intensity(lab: Lab, job: JobText): number {
  const prices = lab.core.clusterPrices(lab.program(job), lab.core.clusterOf('h100', worldOf(lab.job(job))))
  const loads = lab.core.kernelLoads(lab.program(job), prices, 0).filter(({ what }) => what.startsWith('matmul'))
  const sum = (of: (load: (typeof loads)[number]) => number) => loads.reduce((total, load) => total + of(load), 0)
  return sum(({ flops }) => flops) / sum(({ bytes }) => bytes)
}

/** A batch of 16 tokens. */
const few: JobText = { ...small({ dp: 1 }), training: { seq: 16, globalBatch: 1 } }

/** GPT-2 with 256 sequences a step, shared by `dp` devices. */
const strong = (dp: number): JobText => ({
  model: 'gpt2',
  training: { seq: 1024, globalBatch: 256 },
  plan: { dp, precision: 'bf16', microbatches: 256 / dp / 4 },
})

/** 16 times the batch on 16 times the devices. */
const grown: JobText = {
  model: 'gpt2',
  training: { seq: 1024, globalBatch: 4096 },
  plan: { ...strong(4).plan, dp: 64 },
}

export const scaling = [
  claim({
    id: 'ridge-of-the-h100',
    notes: ['E2.2'],
    page: 'roofline',
    text: {
      en: 'A kernel is bound by memory or by arithmetic: on which side it lies depends on its FLOPs for each byte.',
      zh: '一个算子要么受限于访存，要么受限于计算，取决于它每字节做多少次运算。',
    },
    units: { ridge: 'FLOP/byte', many: 'FLOP/byte', few: 'FLOP/byte' },
    numbers: lab => ({
      ridge: lab.core.ridgeOf(lab.core.clusterOf('h100', 8).device, 'bf16'),
      many: intensity(lab, again('none')),
      few: intensity(lab, few),
    }),
    holds: ({ ridge, many, few }) => yesIf(isNear(ridge, 295, 0.01) && many > 2 * ridge && few < ridge / 5),
    say: v => ({
      en: `An H100 balances at ${v.ridge}; products of 7B with 4,096 tokens have ${v.many} and wait for arithmetic, those of GPT-2 with 16 tokens ${v.few} and wait for memory.`,
      zh: `H100 的平衡点是 ${v.ridge}；7B、4096 个 token 的矩阵乘为 ${v.many}，受限于计算；GPT-2、16 个 token 的只有 ${v.few}，受限于访存。`,
    }),
    command: onJob(again('none'), 'explain - --cluster h100'),
  }),
  claim({
    id: 'mfu-and-hfu',
    notes: ['B3b', 'E6.2'],
    page: 'roofline',
    text: {
      en: 'MFU counts the FLOPs of the model, HFU adds recomputation: recomputation raises HFU and lowers MFU.',
      zh: 'MFU 只算模型需要的 FLOPs，HFU 再加上重计算：重计算让 HFU 升、让 MFU 降。',
    },
    units: { mfu: 'share', mfuAgain: 'share', hfu: 'share', hfuAgain: 'share' },
    numbers: lab => {
      const [kept, dropped] = ['none', 'full'].map(recompute => lab.step(again(recompute), 'h100'))
      return { mfu: kept.mfu, hfu: kept.hfu, mfuAgain: dropped.mfu, hfuAgain: dropped.hfu }
    },
    holds: v => yesIf(v.mfuAgain < 0.9 * v.mfu && v.hfuAgain > v.hfu),
    say: v => ({
      en: `7B on 8 H100: MFU ${v.mfu} and HFU ${v.hfu}; with full recomputation MFU ${v.mfuAgain} and HFU ${v.hfuAgain}.`,
      zh: `7B、8 张 H100：MFU ${v.mfu}、HFU ${v.hfu}；全部重计算时 MFU ${v.mfuAgain}、HFU ${v.hfuAgain}。`,
    }),
    command: onJob(again('full'), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'utilisation-needs-a-definition',
    notes: ['B3b', 'E6.2'],
    page: 'roofline',
    text: {
      en: 'An MFU can be compared with another: everybody counts the FLOPs of a model alike.',
      zh: 'MFU 可以直接互相比较：大家对模型 FLOPs 的数法都一样。',
    },
    units: { least: 'FLOP', greatest: 'FLOP', spread: 'share' },
    numbers: lab => {
      const shape = lab.core.shapeOf(lab.job(seven({ dp: 8 })).model, 4096)
      const counts = shape ? Object.values(lab.core.flopDefinitions).map(count => count(shape)) : [Number.NaN]
      const [least, greatest] = [Math.min(...counts), Math.max(...counts)]
      return { least, greatest, spread: greatest / least - 1 }
    },
    holds: ({ spread }) => yesIf(spread < 0.02),
    say: v => ({
      en: `A sequence of 4,096 through 7B is ${v.least} by one published definition and ${v.greatest} by another: ${v.spread} more.`,
      zh: `一条 4096 的序列过 7B，按一种公开定义是 ${v.least}，按另一种是 ${v.greatest}，多 ${v.spread}。`,
    }),
    command: onJob(again('none'), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'amdahl',
    notes: ['E2.2'],
    page: 'scaling',
    text: {
      en: 'What does not get shorter with more devices bounds the speedup, as Amdahl says.',
      zh: '不随设备数缩短的部分决定了加速比的上限，正如 Amdahl 定律所说。',
    },
    units: { speedup: 'times', more: 'times', serial: 'seconds', limit: 'times' },
    numbers: lab => {
      const [few, some, many] = [4, 16, 64].map(dp => lab.step(strong(dp), 'h100').seconds)
      // seconds = serial + shared / devices, through the first and the last point
      const shared = (few - many) / (1 / 4 - 1 / 64)
      const serial = few - shared / 4
      return { speedup: few / some, more: few / many, serial, limit: few / serial }
    },
    holds: ({ speedup, more, serial }) => yesIf(speedup < 4 && more < 0.9 * 16 && serial > 0),
    say: v => ({
      en: `GPT-2, the same 256 sequences: 4 times the H100 are ${v.speedup} as fast, 16 times ${v.more}; ${v.serial} of each step stay, so it will never be more than ${v.limit}.`,
      zh: `GPT-2、同样 256 条序列：H100 增到 4 倍快 ${v.speedup}，增到 16 倍快 ${v.more}；每步有 ${v.serial} 缩不掉，所以最多快 ${v.limit}。`,
    }),
    command: onJob(strong(64), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'weak-scaling-holds',
    notes: ['E6.2'],
    page: 'scaling',
    text: {
      en: 'Where the batch grows with the devices, efficiency falls far less than where it stays.',
      zh: 'batch 随设备数一起增大时，效率的下降远小于 batch 不变时。',
    },
    units: { weak: 'share', strong: 'share' },
    numbers: lab => {
      const [few, many] = [4, 64].map(dp => lab.step(strong(dp), 'h100').seconds)
      return { weak: few / lab.step(grown, 'h100').seconds, strong: few / many / 16 }
    },
    holds: ({ weak, strong }) => yesIf(weak > 0.9 && weak > strong + 0.1),
    say: v => ({
      en: `From 4 to 64 H100 GPT-2 keeps ${v.weak} of its efficiency with 16 times the batch, ${v.strong} with the same batch.`,
      zh: `从 4 张到 64 张 H100，GPT-2 的 batch 大 16 倍时保住 ${v.weak} 的效率，batch 不变时为 ${v.strong}。`,
    }),
    command: onJob(grown, 'simulate - --cluster h100'),
  }),
]
