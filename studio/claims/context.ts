/** Long sequences and experts: axes that were added when tensors, stages and copies were not enough. */
import { claim, isNear, yesIf } from './claim.js'
import { type JobText, type Lab, onJob } from './lab.js'

/** A model of the size of Llama 3 8B, one sequence of 65,536 tokens. */
const long = (plan: NonNullable<JobText['plan']>): JobText => ({
  model: {
    ...{ family: 'llama', layers: 32, embed: 4096, heads: 32, kvHeads: 8, ffn: 14336 },
    ...{ vocab: 128256, positions: 65536 },
  },
  training: { seq: 65536, globalBatch: 1 },
  plan: { precision: 'bf16', recompute: 'full', ...plan },
})

const round = long({ cp: 8, zero: 3, attention: 'ring' })
const gathered = long({ cp: 8, zero: 3 })

const routed = (ep: number): JobText => ({
  model: 'mixtral-tiny',
  training: { seq: 8, globalBatch: 4 },
  plan: { dp: 4, ep },
})

const sizes = (lab: Lab, model: string) => {
  const job: JobText = { model, training: { seq: 4096, globalBatch: 1 } }
  return lab.core.sizesOf(lab.job(job).model, 4096)
}

/** Times that tokens of a routed layer go to the ranks of their experts, or come back. */
const exchanged = (lab: Lab, job: JobText): number =>
  [...lab.tally(job).segments.values()]
    .filter(({ name }) => name.startsWith('routed.'))
    .flatMap(({ instrs }) => instrs)
    .filter(name => /^all-(dispatch|combine) /.test(name)).length

export const context = [
  claim({
    id: 'context-parallel-splits-activations',
    notes: ['A3.2'],
    page: 'context',
    text: {
      en: 'Context parallelism splits a long sequence over ranks, and its activations with it.',
      zh: '上下文并行把长序列切到多个 rank，激活值也随之切开。',
    },
    units: { one: 'bytes', eight: 'bytes', ratio: 'times' },
    numbers: lab => {
      const [one, eight] = [long({}), round].map(job => lab.bytes(job).activations)
      return { one, eight, ratio: one / eight }
    },
    holds: ({ ratio }) => yesIf(isNear(ratio, 8, 0.05)),
    say: v => ({
      en: `65,536 tokens of an 8B model: ${v.one} of activations on one rank, ${v.eight} on each of 8: ${v.ratio} less.`,
      zh: `8B、65536 个 token：单 rank 激活值 ${v.one}，8 个 rank 每个 ${v.eight}，缩小 ${v.ratio}。`,
    }),
    command: onJob(round, 'memory -'),
  }),
  claim({
    id: 'ring-hides-keys',
    notes: ['A3.2'],
    page: 'context',
    text: {
      en: 'Keys that go round in a ring travel while attention computes, so that ranks wait less than when they gather them first.',
      zh: '让 key 和 value 在环上传递，可以边传边算注意力，比先全部收集要少等。',
    },
    units: { gathered: 'share', ring: 'share', gatheredStep: 'seconds', ringStep: 'seconds' },
    numbers: lab => {
      const [first, second] = [gathered, round].map(job => lab.step(job, 'h100'))
      return {
        ...{ gathered: first.shares.cp, gatheredStep: first.seconds },
        ...{ ring: second.shares.cp, ringStep: second.seconds },
      }
    },
    holds: ({ gathered, ring }) => yesIf(ring < 0.7 * gathered),
    say: v => ({
      en: `On 8 H100 ranks wait for keys ${v.gathered} of a step of ${v.gatheredStep} when gathered, ${v.ring} of ${v.ringStep} round a ring.`,
      zh: `8 张 H100：先收集时等 key 占一步（${v.gatheredStep}）的 ${v.gathered}，走环时占（${v.ringStep}）的 ${v.ring}。`,
    }),
    command: onJob(round, 'simulate - --cluster h100'),
  }),
  claim({
    id: 'experts-add-parameters-not-work',
    notes: ['E1.2.4', 'E5.1', 'A3.2'],
    page: 'experts',
    text: {
      en: 'Experts add parameters without adding as much arithmetic: a token meets only a few of them.',
      zh: '专家让参数变多，计算量却没有同比增加：一个 token 只经过少数几个专家。',
    },
    units: { all: 'share', mixtral: 'share', deepseek: 'share' },
    numbers: lab => {
      const met = (model: string) => {
        const { active, parameters } = sizes(lab, model)
        return active / parameters
      }
      return { all: met('llama2-7b'), mixtral: met('mixtral-8x7b'), deepseek: met('deepseek-v3') }
    },
    holds: ({ all, mixtral, deepseek }) => yesIf(all === 1 && mixtral < 0.35 && deepseek < 0.07),
    say: v => ({
      en: `Of its parameters a token meets ${v.all} in a dense model, ${v.mixtral} in Mixtral 8x7B, ${v.deepseek} in DeepSeek-V3.`,
      zh: `一个 token 经过的参数占比：稠密模型 ${v.all}，Mixtral 8x7B ${v.mixtral}，DeepSeek-V3 ${v.deepseek}。`,
    }),
    command: 'lockstep models deepseek-v3',
  }),
  claim({
    id: 'experts-meet-all-to-all',
    notes: ['A3.2', 'E3.2.2'],
    page: 'experts',
    text: {
      en: 'With expert parallelism tokens travel to the ranks of their experts and back: all-to-all, forward and backward.',
      zh: '专家并行下，token 要送到专家所在的 rank 再送回来：前向、反向都是 all-to-all。',
    },
    units: { without: 'count', exchanges: 'count' },
    numbers: lab => ({
      without: exchanged(lab, routed(1)),
      exchanges: exchanged(lab, routed(2)),
    }),
    holds: ({ without, exchanges }) => yesIf(without === 0 && exchanges >= 4),
    say: v => ({
      en: `A routed layer has ${v.exchanges} such exchanges over two ranks and ${v.without} where each rank holds all experts.`,
      zh: `两个 rank 分专家时，一个路由层里有 ${v.exchanges} 次这样的交换；每个 rank 都有全部专家时为 ${v.without} 次。`,
    }),
    command: onJob(routed(2), 'compile -'),
  }),
  claim({
    id: 'experts-are-split',
    notes: ['E3.2.2'],
    page: 'experts',
    text: {
      en: 'Expert parallelism splits the experts: twice the ranks, half of their parameters on each.',
      zh: '专家并行切的是专家：rank 翻倍，每个 rank 上的专家参数减半。',
    },
    units: { whole: 'bytes', two: 'bytes', four: 'bytes' },
    numbers: lab => {
      const [whole, two, four] = [1, 2, 4].map(ep => lab.bytes(routed(ep)).parameters)
      return { whole, two, four }
    },
    holds: ({ whole, two, four }) => yesIf(isNear(two - four, (whole - two) / 2, 0.02)),
    say: v => ({
      en: `A small Mixtral has ${v.whole} of parameters on a rank; ${v.two} with two expert ranks, ${v.four} with four: what halves are the experts.`,
      zh: `小型 Mixtral 每 rank 参数 ${v.whole}；两个专家 rank 时 ${v.two}，四个时 ${v.four}：减半的正是专家部分。`,
    }),
    command: onJob(routed(4), 'memory -'),
  }),
]
