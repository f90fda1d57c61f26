/** ZeRO: which of optimizer state, gradients and parameters is split, what that saves and what it costs. */
import { claim, isNear, yesIf } from './claim.js'
import { recipes, seven, small, tiny, zeroFigure } from './jobs.js'
import { type JobText, type Lab, onJob, stateBytes } from './lab.js'

const staged = (zero: number, recipe: NonNullable<JobText['plan']> = recipes.sixteen): JobText =>
  zeroFigure({ ...recipe, zero })

const states = (lab: Lab) => {
  const [none, one, two, three] = [0, 1, 2, 3].map(zero => stateBytes(lab.bytes(staged(zero))))
  return { none, one, two, three }
}

/** How often a step starts such collectives of parameters or gradients, each of a bucket or a layer. */
function started(lab: Lab, zero: number, word: string): number {
  const flights = [...lab.tally(inFour(zero)).segments.values()].filter(({ name }) => name.endsWith('of buckets'))
  return flights
    .filter(({ instrs }) => instrs.some(name => name.startsWith(word)))
    .reduce((sum, { calls }) => sum + calls, 0)
}

const inFour = (zero: number): JobText => tiny({ dp: 4, zero })

/** The same step with and without ZeRO-1: time gained (negative) or lost. */
const zeroOneCost = (lab: Lab, job: (plan: { readonly zero: number }) => JobText): number =>
  lab.step(job({ zero: 1 }), 'h100').seconds / lab.step(job({ zero: 0 }), 'h100').seconds - 1

const inNode = ({ zero }: { readonly zero: number }): JobText => seven({ dp: 8, zero })

export const zero = [
  claim({
    id: 'zero-stages',
    notes: ['A2.1', 'D2.1', 'E1.2.3', 'E3.1.3'],
    page: 'zero',
    text: {
      en: 'ZeRO-1 splits the optimizer state over the ranks, ZeRO-2 the gradients too, ZeRO-3 the parameters as well: 120, 31.4, 16.6 and 1.9 GB a rank for 7.5B on 64.',
      zh: 'ZeRO-1 把优化器状态切到各卡，ZeRO-2 再切梯度，ZeRO-3 连参数也切：7.5B、64 卡时每卡 120、31.4、16.6、1.9 GB。',
    },
    units: { none: 'bytes', one: 'bytes', two: 'bytes', three: 'bytes' },
    numbers: lab => states(lab),
    holds: ({ none, one, two, three }) =>
      yesIf(
        isNear(none, 120e9, 0.02) &&
          isNear(one, 31.4e9, 0.02) &&
          isNear(two, 16.6e9, 0.06) &&
          three > 1.9e9 &&
          three < 4e9,
      ),
    say: v => ({
      en: `Compiled with 16 bytes a parameter: ${v.none}, ${v.one}, ${v.two}, ${v.three}; the last is above 1.9 GB because a rank holds the layer it is at whole, and the one it fetches ahead.`,
      zh: `按每参数 16 字节编译：${v.none}、${v.one}、${v.two}、${v.three}；最后一个高于 1.9 GB，因为正在算的那一层和预取的下一层都要完整放在卡上。`,
    }),
    command: onJob(staged(3), 'memory - --why'),
  }),
  claim({
    id: 'zero-four-eight-times',
    notes: ['E3.1.3'],
    page: 'zero',
    disputed: true,
    text: {
      en: 'ZeRO-1 makes the states four times smaller, ZeRO-2 eight times.',
      zh: 'ZeRO-1 让状态占用缩小到四分之一，ZeRO-2 缩小到八分之一。',
    },
    units: { one: 'times', two: 'times', wider: 'times' },
    numbers: lab => {
      const { none, one, two } = states(lab)
      const [wide, split] = [0, 1].map(zero => stateBytes(lab.bytes(staged(zero, recipes.eighteen))))
      return { one: none / one, two: none / two, wider: wide / split }
    },
    holds: ({ one, two, wider }) =>
      one < 4 && two < 8 && isNear(one, 4, 0.06) && isNear(two, 8, 0.15) && wider < 3.2 ? 'depends' : 'no',
    say: v => ({
      en: `Limits for very many ranks and 16 bytes a parameter: on 64 ranks ${v.one} and ${v.two}; with gradients summed in f32 (18 bytes) ZeRO-1 gives ${v.wider}.`,
      zh: `这是卡数趋于无穷、每参数 16 字节时的极限：64 卡为 ${v.one} 和 ${v.two}；梯度用 f32 累加（18 字节）时 ZeRO-1 只有 ${v.wider}。`,
    }),
    command: onJob(staged(1), 'memory - --why'),
  }),
  claim({
    id: 'zero-two-no-whole-gradient',
    notes: ['A2.1'],
    page: 'zero',
    text: {
      en: 'Under ZeRO-2 no rank ever holds the whole gradient: it is reduced and dropped layer by layer while the backward pass runs.',
      zh: 'ZeRO-2 下没有任何一卡会持有完整梯度：反向传播边算边按层规约，随即释放。',
    },
    units: { whole: 'bytes', most: 'bytes', share: 'share' },
    numbers: lab => {
      const [whole, most] = [1, 2].map(zero => lab.bytes(staged(zero)).gradients)
      return { whole, most, share: most / whole }
    },
    holds: ({ share }) => yesIf(share < 0.1),
    say: v => ({
      en: `At its peak a rank holds ${v.most} of gradients instead of ${v.whole}: ${v.share}.`,
      zh: `峰值时每卡的梯度只有 ${v.most}，而不是 ${v.whole}，即 ${v.share}。`,
    }),
    command: onJob(staged(2), 'memory -'),
  }),
  claim({
    id: 'zero-collectives',
    notes: ['A2.1', 'E3.1.3'],
    page: 'zero',
    text: {
      en: 'Without ZeRO gradients are all-reduced; ZeRO-1 and 2 reduce-scatter them and gather the new parameters; ZeRO-3 gathers parameters where they are used.',
      zh: '不用 ZeRO 时对梯度做 all-reduce；ZeRO-1、2 对梯度做 reduce-scatter，再 all-gather 更新后的参数；ZeRO-3 在用到参数时才 all-gather。',
    },
    units: { reduced: 'count', scattered: 'count', gathered: 'count', fetched: 'count' },
    numbers: lab => ({
      reduced: started(lab, 0, 'all-reduce') - started(lab, 0, 'all-gather'),
      scattered: started(lab, 1, 'reduce-scatter') - started(lab, 1, 'all-reduce'),
      gathered: started(lab, 1, 'all-gather'),
      fetched: started(lab, 3, 'all-gather'),
    }),
    holds: ({ reduced, scattered, gathered, fetched }) =>
      yesIf(reduced > 0 && scattered > 0 && gathered > 0 && fetched > 4 * gathered),
    say: v => ({
      en: `In one step of four layers: ${v.reduced} all-reduce without ZeRO; ${v.scattered} reduce-scatter and ${v.gathered} all-gather under ZeRO-1; ${v.fetched} all-gather under ZeRO-3, layer by layer, forward and backward.`,
      zh: `四层模型的一步里：不用 ZeRO 有 ${v.reduced} 次 all-reduce；ZeRO-1 有 ${v.scattered} 次 reduce-scatter 和 ${v.gathered} 次 all-gather；ZeRO-3 有 ${v.fetched} 次 all-gather，前向反向逐层进行。`,
    }),
    command: onJob(inFour(1), 'compile -'),
  }),
  claim({
    id: 'zero-one-is-free',
    notes: ['A2.1'],
    page: 'zero',
    disputed: true,
    text: {
      en: 'ZeRO-1 costs nothing: as many bytes on the wire as data parallelism, in less memory.',
      zh: 'ZeRO-1 是免费的：通信量与数据并行相同，显存却更少。',
    },
    units: { large: 'share', small: 'share' },
    numbers: lab => ({ large: zeroOneCost(lab, inNode), small: zeroOneCost(lab, small) }),
    holds: ({ large, small }) => (large < -0.05 && small > 0.05 ? 'depends' : yesIf(small < 0.01)),
    say: v => ({
      en: `Better than free where the update weighs: 7B on 8 H100 changes by ${v.large} a step. But gathers have no tree to cross many nodes by: GPT-2 on 64 changes by ${v.small}.`,
      zh: `更新占比大时比免费还好：7B、8 张 H100，每步变化 ${v.large}；但 all-gather 跨多个节点时没有树形算法可用：GPT-2、64 张，每步变化 ${v.small}。`,
    }),
    command: onJob(small({ zero: 1 }), 'simulate - --cluster h100'),
  }),
]
