/** Runs that were published, and what failures do to them. */
import { claim, isNear, yesIf } from './claim.js'
import { seventy } from './jobs.js'
import { type JobText, type Lab, onJob } from './lab.js'

/** As Narayanan et al. (2021) split their models: tp to 8, then pp, then dp. */
const megatron = (model: string, [tp, pp, dp]: readonly number[], [batch, each]: readonly number[]): JobText => ({
  model,
  training: { seq: 2048, globalBatch: batch },
  plan: { tp, pp, dp, precision: 'bf16', microbatches: batch / dp / each, recompute: 'full' },
})
const smallest = megatron('megatron-1.7b', [1, 1, 32], [512, 16])
const large = megatron('megatron-39b', [8, 2, 32], [1536, 4])

/** As its report describes it: the first chunk of layers is only the embedding, the last only the head. */
const llama: JobText = {
  model: 'llama3-405b',
  training: { seq: 8192, globalBatch: 2048, clip: 1 },
  plan: {
    ...{ tp: 8, sequenceParallel: true, pp: 16, dp: 128, zero: 1, precision: 'bf16' },
    ...{ schedule: 'interleaved', chunks: 8, layers: { first: 0, last: 0 }, microbatches: 16 },
    recompute: ['swiglu', 'rmsNorm'],
  },
}

/** How many times a step of 70B takes with tp 32 what it takes with tp 4. */
const stretched = (lab: Lab, device: string): number =>
  lab.step(seventy(32), device).seconds / lab.step(seventy(4), device).seconds

/** Meta's 54 days on 16,384 H100 saw 419 interruptions. */
const failures = (devices: number) => ({ mtbf: (54 * 86_400 * 16_384) / 419, devices, checkpoint: 60, restart: 600 })

export const cases = [
  claim({
    id: 'megatron-throughput-is-linear',
    notes: ['A3.2'],
    page: 'cases',
    text: {
      en: 'Split by tensor inside the node first, then by pipeline, then by data, throughput grows with the devices: each works nearly as hard in large runs as in small ones.',
      zh: '先在节点内做张量并行，再流水线，再数据并行，总吞吐随设备数线性增长：大规模时每张卡几乎和小规模时一样忙。',
    },
    units: { few: 'share', many: 'share', growth: 'times' },
    numbers: lab => {
      const [few, many] = [smallest, large].map(job => lab.step(job, 'a100-80').hfu)
      return { few, many, growth: (many * 512) / (few * 32) }
    },
    holds: ({ growth }) => yesIf(growth > 0.7 * 16),
    say: v => ({
      en: `1.7B on 32 A100 runs at ${v.few} of their speed, 39B on 512 at ${v.many}: 16 times the devices do ${v.growth} the work.`,
      zh: `1.7B 用 32 张 A100，跑到算力的 ${v.few}；39B 用 512 张，跑到 ${v.many}：设备多 16 倍，干的活多 ${v.growth}。`,
    }),
    command: 'lockstep case megatron-39b',
  }),
  claim({
    id: 'llama-405b-fits',
    notes: ['A3.2'],
    page: 'cases',
    text: {
      en: 'Llama 3 405B is trained on 16,384 H100 with tp 8, pp 16 and dp 128: no axis alone would make it fit.',
      zh: 'Llama 3 405B 用 16384 张 H100 训练，tp 8、pp 16、dp 128：只靠任何单一维度都放不下。',
    },
    units: { rank: 'bytes', tensor: 'bytes', device: 'bytes', mfu: 'share' },
    numbers: lab => {
      const { model } = lab.job(llama)
      return {
        rank: Math.max(...lab.program(llama).streams.map(({ arena }) => arena)),
        tensor: lab.core.sizesOf(model, 8192).trained / 8,
        device: lab.core.clusterOf('h100', 8).device.memory,
        mfu: lab.step(llama, 'h100').mfu,
      }
    },
    holds: ({ rank, tensor, device, mfu }) => yesIf(rank < device && tensor > device && isNear(mfu, 0.41, 0.1)),
    say: v => ({
      en: `So a rank needs ${v.rank} of its ${v.device} and runs at ${v.mfu} of its speed (41 % were published); over tp 8 alone the states would be ${v.tensor} a rank.`,
      zh: `这样每卡需要 ${v.rank}（共 ${v.device}），跑到算力的 ${v.mfu}（公布值 41%）；若只靠 tp 8，仅状态每卡就有 ${v.tensor}。`,
    }),
    command: 'lockstep simulate examples/jobs/llama3-405b.yaml --cluster h100',
  }),
  claim({
    id: 'torus-scales-farther',
    notes: ['A3.2'],
    page: 'cases',
    text: {
      en: 'On a torus of TPUs tensor parallelism reaches farther than on nodes of eight GPUs.',
      zh: '在 TPU 的环面互连上，张量并行能扩展得比 8 卡节点更远。',
    },
    units: { nodes: 'times', torus: 'times', rack: 'times' },
    numbers: lab => ({
      nodes: stretched(lab, 'h100'),
      torus: stretched(lab, 'tpu-v5p'),
      rack: stretched(lab, 'gb200'),
    }),
    holds: ({ nodes, torus }) => yesIf(torus < 0.8 * nodes),
    say: v => ({
      en: `From tp 4 to tp 32 a step of 70B on 64 devices takes ${v.torus} as long on TPU v5p, ${v.nodes} on H100 and ${v.rack} in a rack of GB200.`,
      zh: `70B、64 个设备，从 tp 4 到 tp 32，每步时间在 TPU v5p 上变为 ${v.torus}，H100 上 ${v.nodes}，GB200 机柜里 ${v.rack}。`,
    }),
    command: onJob(seventy(32), 'simulate - --cluster tpu-v5p'),
  }),
  claim({
    id: 'more-devices-fail-more-often',
    notes: [],
    page: 'faults',
    text: {
      en: 'The more devices, the more often one of them fails: what happens once in years to one GPU happens every few hours to a cluster.',
      zh: '设备越多，就越常有一个出故障：单卡几年一遇的事，大集群上几小时就来一次。',
    },
    units: { alone: 'years', together: 'seconds', hours: 'count' },
    numbers: lab => {
      const { mtbf } = lab.core.goodputOf(failures(16_384))
      return { alone: lab.core.goodputOf(failures(1)).mtbf / (365 * 86_400), together: mtbf, hours: mtbf / 3600 }
    },
    holds: ({ alone, hours }) => yesIf(alone > 3 && hours < 5),
    say: v => ({
      en: `A rate of one failure in ${v.alone} years for a device is one in ${v.hours} hours for 16,384.`,
      zh: `单卡 ${v.alone} 年一次的故障率，16384 张卡就是每 ${v.hours} 小时一次。`,
    }),
    command: 'lockstep simulate examples/jobs/llama3-405b.yaml --cluster h100 --mtbf 50000h',
  }),
  claim({
    id: 'best-checkpoint-interval',
    notes: [],
    page: 'faults',
    text: {
      en: 'There is a best time between checkpoints: too often wastes the pauses, too seldom the work that is lost.',
      zh: '检查点间隔有最优值：太密浪费在停顿上，太疏浪费在丢失的工作上。',
    },
    units: { interval: 'seconds', best: 'share', often: 'share', seldom: 'share' },
    numbers: lab => {
      const { interval, share } = lab.core.goodputOf(failures(16_384))
      const at = (factor: number) => lab.core.goodputOf(failures(16_384), interval * factor).share
      return { interval, best: share, often: at(1 / 8), seldom: at(8) }
    },
    holds: ({ best, often, seldom }) => yesIf(best > often && best > seldom && isNear(best, 0.85, 0.15)),
    say: v => ({
      en: `For 16,384 H100 and a pause of 60 s: every ${v.interval} leaves ${v.best} useful, eight times as often ${v.often}, eight times as seldom ${v.seldom}.`,
      zh: `16384 张 H100、每次停 60 s：每 ${v.interval} 存一次，有效时间 ${v.best}；密 8 倍为 ${v.often}，疏 8 倍为 ${v.seldom}。`,
    }),
    command: 'lockstep simulate examples/jobs/llama3-405b.yaml --cluster h100 --mtbf 50000h --checkpoint 60s',
  }),
]
