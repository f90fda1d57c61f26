/** Overlap and offload: time hidden behind arithmetic, bytes hidden on the host. */
import { claim, yesIf } from './claim.js'
import { seven } from './jobs.js'
import { type Lab, onJob } from './lab.js'

const step = (lab: Lab, plan: Parameters<typeof seven>[0], globalBatch?: number) =>
  lab.step(seven(plan, globalBatch), 'h100')

const onHost = { offload: { optimizer: 'host' } }

export const overlap = [
  claim({
    id: 'overlap-hides-gradients',
    notes: ['D3', 'E3.1.1', 'E4.3'],
    page: 'overlap',
    text: {
      en: 'Gradients reduced while the backward pass still runs cost little; reduced after it they cost a good part of the step.',
      zh: '反向还在进行时就规约梯度，几乎不花时间；等反向结束再规约，就要占一步里不小的一块。',
    },
    units: { hidden: 'share', exposed: 'share', fast: 'seconds', slow: 'seconds' },
    numbers: lab => {
      const [on, off] = [true, false].map(overlap => step(lab, { dp: 8, zero: 1, ...(overlap ? {} : { overlap }) }))
      return { hidden: on.shares.dp, exposed: off.shares.dp, fast: on.seconds, slow: off.seconds }
    },
    holds: ({ hidden, exposed }) => yesIf(hidden < exposed / 4),
    say: v => ({
      en: `7B on 8 H100: ranks wait ${v.hidden} of a step of ${v.fast}; without overlap ${v.exposed} of ${v.slow}.`,
      zh: `7B、8 张 H100：等待占一步（${v.fast}）的 ${v.hidden}；不重叠时占（${v.slow}）的 ${v.exposed}。`,
    }),
    command: onJob(seven({ dp: 8, zero: 1, overlap: false }), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'fewer-larger-messages',
    notes: ['E3.1.1'],
    page: 'overlap',
    text: {
      en: 'Gradients are put in buckets because many small messages cost more than a few large ones.',
      zh: '梯度要先装桶再发，因为许多小消息比少数大消息更费时。',
    },
    units: { one: 'seconds', many: 'seconds', ratio: 'times' },
    numbers: lab => {
      const cluster = lab.core.clusterOf('h100', 64)
      const sum = (bytes: number) =>
        lab.core.quote({ kind: 'all-reduce', bytes, group: { size: 64, stride: 1 } }, cluster).seconds
      const [one, many] = [sum(25e6), 1000 * sum(25e3)]
      return { one, many, ratio: many / one }
    },
    holds: ({ ratio }) => yesIf(ratio > 10),
    say: v => ({
      en: `25 MB over 64 H100 take ${v.one} at once and ${v.many} in a thousand pieces: ${v.ratio}.`,
      zh: `64 张 H100 上 25 MB：一次发完 ${v.one}，分一千次发 ${v.many}：${v.ratio}。`,
    }),
    command: 'lockstep cost all-reduce --sizes 16KiB..32MiB --ranks 64 --cluster h100',
  }),
  claim({
    id: 'parameters-are-fetched-ahead',
    notes: ['A2.1'],
    page: 'overlap',
    text: {
      en: 'FSDP gathers the parameters of the next layer while the one before computes, so that splitting them costs little time.',
      zh: 'FSDP 在算上一层时就收集下一层的参数，所以切分参数几乎不多花时间。',
    },
    units: { ahead: 'seconds', late: 'seconds', whole: 'seconds' },
    numbers: lab => ({
      ahead: step(lab, { dp: 8, zero: 3 }).seconds,
      late: step(lab, { dp: 8, zero: 3, prefetch: 0 }).seconds,
      whole: step(lab, { dp: 8, zero: 1 }).seconds,
    }),
    holds: ({ ahead, late, whole }) => yesIf(ahead < 1.05 * whole && late > 1.1 * ahead),
    say: v => ({
      en: `7B on 8 H100: ${v.whole} with whole parameters, ${v.ahead} with parameters fetched a layer ahead, ${v.late} where each is fetched when it is needed.`,
      zh: `7B、8 张 H100：参数完整时每步 ${v.whole}，提前一层收集时 ${v.ahead}，用到才收集时 ${v.late}。`,
    }),
    command: onJob(seven({ dp: 8, zero: 3 }), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'offload-fits',
    notes: ['C', 'E3.1.3', 'E4.1'],
    page: 'offload',
    text: {
      en: 'Optimizer state on the host makes room for a model that the device alone could not train.',
      zh: '把优化器状态放到主机内存，就能训练单卡显存放不下的模型。',
    },
    units: { device: 'bytes', without: 'bytes', within: 'bytes' },
    numbers: lab => {
      const all = (plan: Parameters<typeof seven>[0]) =>
        Object.values(lab.bytes(seven(plan, 1))).reduce((a, b) => a + b, 0)
      return { device: lab.core.clusterOf('h100', 1).device.memory, without: all({}), within: all(onHost) }
    },
    holds: ({ device, without, within }) => yesIf(without > device && within < device),
    say: v => ({
      en: `7B with one sequence needs ${v.without} on one device; with its states on the host ${v.within}, and an H100 has ${v.device}.`,
      zh: `7B、一条序列，单卡要 ${v.without}；状态放主机后为 ${v.within}，而 H100 有 ${v.device}。`,
    }),
    command: onJob(seven(onHost, 1), 'memory -'),
  }),
  claim({
    id: 'offload-is-slow',
    notes: ['E3.1.3', 'E4.1'],
    page: 'offload',
    text: {
      en: 'Offload is paid for with time: the host updates, and bytes go over the slow link.',
      zh: '卸载要用时间来还：由主机做更新，数据还要走慢链路。',
    },
    units: { device: 'seconds', host: 'seconds', ratio: 'times' },
    numbers: lab => {
      const [device, host] = [{}, onHost].map(plan => step(lab, plan, 1).seconds)
      return { device, host, ratio: host / device }
    },
    holds: ({ ratio }) => yesIf(ratio > 1.5),
    say: v => ({
      en: `If 7B fitted, a step on one H100 would take ${v.device}; with the states on the host it takes ${v.host}, ${v.ratio}.`,
      zh: `假如 7B 放得下，一张 H100 每步 ${v.device}；状态放主机则要 ${v.host}，${v.ratio}。`,
    }),
    command: onJob(seven(onHost, 1), 'simulate - --cluster h100'),
  }),
]
