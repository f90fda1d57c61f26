/** Where axes lie, and what a batch is spent on. */
import { claim, yesIf } from './claim.js'
import { cube, eight, seven } from './jobs.js'
import { onJob } from './lab.js'

const tensorInside = cube('tp-cp-ep-dp-pp')
const pipelineInside = cube('pp-dp-cp-ep-tp')

export const placement = [
  claim({
    id: 'pipeline-inside-the-node',
    notes: ['B4', 'A3.1', 'D3'],
    page: 'placement',
    disputed: true,
    text: {
      en: 'Pipelines belong inside a node, tensor parallelism across nodes.',
      zh: '节点内用流水线并行，节点间用张量并行。',
    },
    units: { said: 'seconds', other: 'seconds', ratio: 'times' },
    numbers: lab => {
      const [said, other] = [pipelineInside, tensorInside].map(job => lab.step(job, 'h100').seconds)
      return { said, other, ratio: said / other }
    },
    holds: ({ said, other }) => yesIf(said < other),
    say: v => ({
      en: `The other way round, as the other notes say: 70B on 64 H100 takes ${v.said} so and ${v.other} with tensor parallelism inside, ${v.ratio}.`,
      zh: `正相反，另外几份笔记才对：70B、64 张 H100，照此每步 ${v.said}；张量并行放节点内则 ${v.other}，相差 ${v.ratio}。`,
    }),
    command: onJob(pipelineInside, 'simulate - --cluster h100'),
  }),
  claim({
    id: 'pipelines-bear-slow-links',
    notes: ['A2.2'],
    page: 'placement',
    text: {
      en: 'Pipelines are what slow links are for: messages between stages hardly count.',
      zh: '慢链路适合跑流水线：stage 之间的消息几乎不占时间。',
    },
    units: { pp: 'share', tp: 'share' },
    numbers: lab => {
      const { pp, tp } = lab.step(tensorInside, 'h100').shares
      return { pp, tp }
    },
    holds: ({ pp }) => yesIf(pp < 0.02),
    say: v => ({
      en: `Across nodes, messages of a pipeline of four take ${v.pp} of the step; tp inside the node takes ${v.tp}.`,
      zh: `跨节点的四级流水线，消息只占一步的 ${v.pp}；而节点内的 tp 占 ${v.tp}。`,
    }),
    command: onJob(tensorInside, 'simulate - --cluster h100'),
  }),
  claim({
    id: 'world-is-the-product',
    notes: ['E4.2'],
    page: 'placement',
    text: {
      en: 'The number of GPUs is the product of the axes: 64 = 8 x 8 x 1.',
      zh: 'GPU 总数等于各并行度之积：64 = 8 × 8 × 1。',
    },
    units: { problems: 'count', groups: 'count', indivisible: 'count' },
    numbers: lab => {
      const sizes = { world: 64, tp: 8, cp: 1, ep: 1, etp: 1, pp: 1, order: 'tp-cp-ep-dp-pp', dpReplicate: 1 }
      const { groups, problems } = lab.core.rankGroups(sizes)
      return {
        problems: problems.length,
        groups: groups?.dense.dp?.[0].length ?? 0,
        indivisible: lab.core.rankGroups({ ...sizes, tp: 24 }).problems.length,
      }
    },
    holds: ({ problems, groups, indivisible }) => yesIf(problems === 0 && groups === 8 && indivisible > 0),
    say: v => ({
      en: `64 ranks with tp 8 and pp 1 leave dp groups of ${v.groups}; with tp 24 they cannot be dealt out (problems: ${v.indivisible}).`,
      zh: `64 个 rank、tp 8、pp 1，剩下的 dp 组每组 ${v.groups} 个；tp 24 则分不出来（问题数：${v.indivisible}）。`,
    }),
    command: 'lockstep groups --devices 64 --tp 8',
  }),
  claim({
    id: 'experts-multiply-the-world',
    notes: ['E3.2.2'],
    page: 'placement',
    text: {
      en: 'With experts the product has a factor more: 1024 = 4 x 8 x 8 x 4.',
      zh: '有专家并行时乘积多一个因子：1024 = 4 × 8 × 8 × 4。',
    },
    units: { world: 'count', withEp: 'count', experts: 'count' },
    numbers: lab => {
      const { groups } = lab.core.rankGroups({
        ...{ world: 1024, tp: 8, cp: 1, ep: 4, etp: 8, pp: 8, order: 'tp-cp-ep-dp-pp', dpReplicate: 1 },
      })
      const [dp, ep] = [groups?.dense.dp?.[0].length ?? 0, groups?.expert?.ep?.[0].length ?? 0]
      return { world: dp * 8 * 8, withEp: dp * 8 * 8 * ep, experts: ep }
    },
    holds: ({ world, withEp }) => (world === 1024 && withEp > 1024 ? 'depends' : yesIf(withEp === 1024)),
    say: v => ({
      en: `Only if data parallelism is counted without them: expert groups of ${v.experts} are taken out of dp, so tp x pp x dp is ${v.world} already, and a factor more would be ${v.withEp}.`,
      zh: `只有把 dp 按不含专家的部分来算才成立：${v.experts} 个一组的专家组是从 dp 里划出来的，tp × pp × dp 已是 ${v.world}，再乘就成了 ${v.withEp}。`,
    }),
    command: 'lockstep groups --devices 1024 --tp 8 --pp 8 --ep 4 --etp 8',
  }),
  claim({
    id: 'batch-is-a-resource',
    notes: ['A3.1'],
    page: 'batch',
    text: {
      en: 'The batch is a resource: spent on data parallelism it gives speed, spent on a pipeline it only fills the bubble.',
      zh: 'batch 是一种资源：用在数据并行上换来速度，用在流水线上只是在填气泡。',
    },
    units: { flat: 'seconds', four: 'seconds', sixteen: 'seconds', bubble: 'share' },
    numbers: lab => {
      const [flat, four, sixteen] = [1, 4, 16].map(pp => lab.step(eight(pp), 'h100'))
      return { flat: flat.seconds, four: four.seconds, sixteen: sixteen.seconds, bubble: sixteen.shares.bubble }
    },
    holds: ({ flat, four, sixteen }) => yesIf(flat < four && four < sixteen),
    say: v => ({
      en: `8B, 64 H100, 128 sequences: ${v.flat} a step with dp 64, ${v.four} with pp 4, ${v.sixteen} with pp 16, of which ${v.bubble} is bubble.`,
      zh: `8B、64 张 H100、128 条序列：dp 64 每步 ${v.flat}，pp 4 为 ${v.four}，pp 16 为 ${v.sixteen}，其中气泡占 ${v.bubble}。`,
    }),
    command: onJob(eight(16), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'larger-batch-better-use',
    notes: ['E4.3'],
    page: 'batch',
    text: {
      en: 'A larger batch uses the devices better.',
      zh: 'batch 越大，设备利用率越高。',
    },
    units: { one: 'share', eight: 'share' },
    numbers: lab => ({
      one: lab.step(seven({ pp: 8 }, 1), 'h100').mfu,
      eight: lab.step(seven({ pp: 8, microbatches: 8 }), 'h100').mfu,
    }),
    holds: ({ one, eight }) => yesIf(eight > 1.5 * one),
    say: v => ({
      en: `7B in 8 stages: ${v.one} of the devices' speed with one sequence a step, ${v.eight} with eight.`,
      zh: `7B 分 8 级：每步一条序列时利用率 ${v.one}，八条时 ${v.eight}。`,
    }),
    command: onJob(seven({ pp: 8, microbatches: 8 }), 'simulate - --cluster h100'),
  }),
]
