/** Data parallelism: what ranks tell each other, what stays equal, and how much goes over the wire. */
import { claim, isNear, yesIf } from './claim.js'
import { eight, mlp, seven, small } from './jobs.js'
import { type Lab, onJob } from './lab.js'

const carriedBytes = (lab: Lab, plan: Parameters<typeof seven>[0], axis: string): number =>
  lab
    .traffic(seven(plan), 'h100')
    .filter(({ what }) => what.endsWith(axis))
    .reduce((sum, { bytes }) => sum + bytes, 0)

/** What each rank brings to the sum of losses of one step, and what each takes from it. */
function lossSums(lab: Lab): { readonly brought: number[]; readonly taken: number[] } {
  const program = lab.program(mlp({ dp: 4 }))
  const [brought, taken]: [number[], number[]] = [[], []]
  const runner = lab.core.boot(program, {
    seed: 1,
    observe: ({ rank, call, instr, read }) => {
      if (call.segment === 'loss.F' && instr.kind === 'accumulate') brought[rank] = read(instr.outs[0])[0]
      if (call.segment === 'sum loss' && instr.kind === 'wait') taken[rank] = read(instr.on)[0]
    },
  })
  const inputs = lab.core.syntheticData(lab.core.inputsOf(program), 32, 1)(0)
  runner.step({ inputs, lr: 1e-3, step: 0 })
  return { brought, taken }
}

export const dataParallel = [
  claim({
    id: 'all-reduce-on-every-rank',
    notes: ['A1.3', 'D1.1.5'],
    page: 'collectives',
    text: {
      en: 'After an all-reduce every rank holds the sum of what all of them brought.',
      zh: 'all-reduce 之后，每个 rank 手里都是所有 rank 贡献之和。',
    },
    units: { least: 'count', greatest: 'count', sum: 'count', apart: 'count' },
    numbers: lab => {
      const { brought, taken } = lossSums(lab)
      const sum = brought.reduce((a, b) => a + b, 0)
      const apart = Math.max(...taken.map(value => Math.abs(value - sum)))
      return { least: Math.min(...brought), greatest: Math.max(...brought), sum, apart: taken.length === 4 ? apart : 1 }
    },
    holds: ({ least, greatest, apart }) => yesIf(least < greatest && apart < 1e-12),
    say: v => ({
      en: `Four ranks bring losses of ${v.least} to ${v.greatest}; each is left with ${v.sum}, their sum.`,
      zh: `四个 rank 各自带来 ${v.least} 到 ${v.greatest} 的损失；之后每个都是它们的和 ${v.sum}。`,
    }),
    command: onJob(mlp({ dp: 4 }), 'verify -'),
  }),
  claim({
    id: 'scatter-and-gather-are-halves',
    notes: ['A1.3', 'D1.1.6'],
    page: 'collectives',
    text: {
      en: 'A reduce-scatter and an all-gather each carry half of what an all-reduce carries; an all-to-all carries as much as one of them.',
      zh: 'reduce-scatter 与 all-gather 各自的传输量都是 all-reduce 的一半；all-to-all 与其中之一相同。',
    },
    units: { reduce: 'times', scatter: 'times', gather: 'times', exchange: 'times' },
    numbers: lab => {
      const factor = (kind: Parameters<Lab['core']['quote']>[0]['kind']) =>
        lab.core.quote({ kind, bytes: 1e9, group: { size: 8, stride: 1 } }, lab.core.clusterOf('h100', 8)).offers[0]
          .carried[0] / 1e9
      return {
        ...{ reduce: factor('all-reduce'), scatter: factor('reduce-scatter') },
        ...{ gather: factor('all-gather'), exchange: factor('all-to-all') },
      }
    },
    holds: ({ reduce, scatter, gather, exchange }) =>
      yesIf(isNear(2 * scatter, reduce, 1e-9) && isNear(gather, scatter, 1e-9) && isNear(exchange, scatter, 0.01)),
    say: v => ({
      en: `Out of each of 8 ranks, of the whole: all-reduce ${v.reduce}, reduce-scatter ${v.scatter}, all-gather ${v.gather}, all-to-all ${v.exchange}.`,
      zh: `8 个 rank 中每个发出的量（相对整体）：all-reduce ${v.reduce}，reduce-scatter ${v.scatter}，all-gather ${v.gather}，all-to-all ${v.exchange}。`,
    }),
    command: 'lockstep cost reduce-scatter --size 1GB --ranks 8 --cluster h100',
  }),
  claim({
    id: 'mean-gradient-is-the-whole-batch',
    notes: ['A2.1', 'B1', 'C', 'E1.2.1'],
    page: 'data-parallel',
    text: {
      en: 'N ranks with a part of the batch each, gradients averaged, take the same step as one rank with the whole batch.',
      zh: 'N 个 rank 各算一部分数据、梯度取平均，走出的一步与单个 rank 用整个 batch 完全相同。',
    },
    units: { apart: 'share' },
    numbers: lab => ({ apart: lab.apart(mlp({ dp: 4 })) }),
    holds: ({ apart }) => yesIf(apart < 1e-12),
    say: () => ({
      en: 'Four ranks run beside one for two steps in f64: losses, gradients and parameters are the same to 1e-12.',
      zh: '四个 rank 与单个 rank 用 f64 并排跑两步：损失、梯度、参数在 1e-12 以内一致。',
    }),
    command: onJob(mlp({ dp: 4 }), 'verify -'),
  }),
  claim({
    id: 'losses-differ-parameters-agree',
    notes: ['D2.1'],
    page: 'data-parallel',
    text: {
      en: 'Each rank sees another loss, yet parameters stay equal on all of them.',
      zh: '各个 rank 的损失各不相同，参数却始终保持一致。',
    },
    units: { spread: 'share', apart: 'share' },
    numbers: lab => {
      const { brought } = lossSums(lab)
      const spread = (Math.max(...brought) - Math.min(...brought)) / Math.max(...brought)
      return { spread, apart: lab.apart(mlp({ dp: 4 })) }
    },
    holds: ({ spread, apart }) => yesIf(spread > 1e-3 && apart < 1e-12),
    say: v => ({
      en: `The losses of four ranks differ by up to ${v.spread}; after two steps every copy of the parameters is that of one rank to 1e-12.`,
      zh: `四个 rank 的损失相差可达 ${v.spread}；两步之后，每份参数与单 rank 的差别都在 1e-12 以内。`,
    }),
    command: onJob(mlp({ dp: 4 }), 'verify -'),
  }),
  claim({
    id: 'parameters-are-copied-back',
    notes: ['E1.2.1'],
    page: 'data-parallel',
    disputed: true,
    text: {
      en: 'At the end of a data-parallel step the new parameters are copied to all GPUs.',
      zh: '数据并行的一步结束时，要把更新后的参数复制到所有 GPU。',
    },
    units: { copies: 'count', gathers: 'count' },
    numbers: lab => {
      const copies = (zero: number) =>
        [...lab.tally(mlp({ dp: 4, zero })).segments.values()]
          .flatMap(({ instrs }) => instrs)
          .filter(name => /^(all-gather|broadcast)/.test(name)).length
      return { copies: copies(0), gathers: copies(1) }
    },
    holds: ({ copies, gathers }) => (copies === 0 && gathers > 0 ? 'no' : yesIf(copies > 0)),
    say: v => ({
      en: `With all-reduced gradients each rank takes the same step by itself: the program has ${v.copies} instructions that carry parameters. Under ZeRO-1, where each updates a part, it has ${v.gathers}.`,
      zh: `梯度 all-reduce 之后，每个 rank 自己走同样的一步：程序里传参数的指令有 ${v.copies} 条。ZeRO-1 下各更新一部分，才有 ${v.gathers} 条。`,
    }),
    command: onJob(mlp({ dp: 4 }), 'compile -'),
  }),
  claim({
    id: 'gradient-traffic-is-the-model',
    notes: ['D2.1', 'E2.1'],
    page: 'data-parallel',
    text: {
      en: 'In each step a data-parallel rank hands over as much as the model is large: 2 bytes a parameter.',
      zh: '数据并行的每一步，每个 rank 交出的数据量等于模型大小：每个参数 2 字节。',
    },
    units: { half: 'bytes/parameter', full: 'bytes/parameter', wire: 'bytes/parameter' },
    numbers: lab => {
      const { parameters } = lab.core.sizesOf(lab.job(seven({ dp: 8 })).model, 4096)
      const [half, full] = [{ gradients: 'bf16' }, {}].map(
        plan => carriedBytes(lab, { dp: 8, ...plan }, ' dp') / parameters,
      )
      return { half, full, wire: full * ((2 * 7) / 8) }
    },
    holds: ({ half, full }) => (isNear(half, 2, 0.01) && isNear(full, 4, 0.01) ? 'depends' : 'no'),
    say: v => ({
      en: `${v.half} bytes a parameter with gradients in bf16, ${v.full} with gradients in f32; round a ring of 8 that is ${v.wire} out of each rank.`,
      zh: `梯度用 bf16 时每参数 ${v.half} 字节，用 f32 时 ${v.full} 字节；8 个 rank 的环上，每个 rank 实际发出 ${v.wire}。`,
    }),
    command: onJob(seven({ dp: 8 }), 'explain - --cluster h100'),
  }),
  claim({
    id: 'traffic-by-axis',
    notes: ['C'],
    page: 'data-parallel',
    disputed: true,
    text: {
      en: 'Tensor parallelism sends the most, pipelines less, data parallelism the least.',
      zh: '通信量：张量并行最大，流水线其次，数据并行最小。',
    },
    units: { tp: 'bytes', pp: 'bytes', dp: 'bytes' },
    numbers: lab => ({
      tp: carriedBytes(lab, { tp: 8, microbatches: 8 }, ' tp'),
      pp: carriedBytes(lab, { pp: 8, microbatches: 8 }, ' pp'),
      dp: carriedBytes(lab, { dp: 8 }, ' dp'),
    }),
    holds: ({ tp, pp, dp }) => yesIf(tp > pp && pp > dp),
    say: v => ({
      en: `7B on 8 H100, eight sequences: a rank hands over ${v.tp} along tp, ${v.dp} along dp and ${v.pp} along pp: pipelines send the least.`,
      zh: `7B、8 张 H100、8 条序列：每个 rank 沿 tp 交出 ${v.tp}，沿 dp 交出 ${v.dp}，沿 pp 只有 ${v.pp}：最少的是流水线。`,
    }),
    command: onJob(seven({ pp: 8, microbatches: 8 }), 'explain - --cluster h100'),
  }),
  claim({
    id: 'data-parallel-is-cheapest',
    notes: ['C', 'E1.2.1'],
    page: 'data-parallel',
    disputed: true,
    text: {
      en: 'Data parallelism costs the least communication.',
      zh: '数据并行的通信开销最低。',
    },
    units: { long: 'share', short: 'share' },
    numbers: lab => ({
      long: lab.step(eight(1), 'h100').shares.dp,
      short: lab.step(small({ zero: 0 }), 'h100').shares.dp,
    }),
    holds: ({ long, short }) => (long < 0.05 && short > 0.2 ? 'depends' : yesIf(short < 0.05)),
    say: v => ({
      en: `What counts is what no compute hides: ${v.long} of a step for 8B with two long sequences a rank on 64 H100, ${v.short} for GPT-2 with one short one.`,
      zh: `要看计算盖不住的部分：64 张 H100 上，8B、每卡两条长序列时占一步的 ${v.long}；GPT-2、每卡一条短序列时占 ${v.short}。`,
    }),
    command: onJob(small({ zero: 0 }), 'simulate - --cluster h100'),
  }),
]
