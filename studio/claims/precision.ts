/** Precision and compression: fewer bits to multiply, to keep and to send, and what is lost. */
import { claim, isNear, yesIf } from './claim.js'
import { mlp, seven, small } from './jobs.js'
import { type JobText, type Lab, onJob } from './lab.js'

const mixed = (plan: NonNullable<JobText['plan']>): JobText => seven({ dp: 8, zero: 1, ...plan })

const dpShare = (lab: Lab, job: JobText, device = 'h100'): number => lab.step(job, device).shares.dp

export const precision = [
  claim({
    id: 'sixteen-bits-are-faster',
    notes: ['E4.3', 'E2.1'],
    page: 'precision',
    text: {
      en: 'Mixed precision makes a step several times faster than 32-bit floats and halves weights and activations.',
      zh: '混合精度比 32 位浮点快几倍，权重和激活值减半。',
    },
    units: { wide: 'seconds', narrow: 'seconds', weights: 'times', activations: 'times' },
    numbers: lab => {
      const [wide, narrow] = [mixed({ precision: 'f32' }), mixed({})]
      return {
        ...{ wide: lab.step(wide, 'h100').seconds, narrow: lab.step(narrow, 'h100').seconds },
        weights: lab.bytes(wide).parameters / lab.bytes(narrow).parameters,
        activations: lab.bytes(wide).activations / lab.bytes(narrow).activations,
      }
    },
    holds: v => yesIf(v.wide > 2 * v.narrow && isNear(v.weights, 2, 0.01) && isNear(v.activations, 2, 0.1)),
    say: v => ({
      en: `7B on 8 H100: ${v.wide} a step in f32, ${v.narrow} in bf16; weights shrink by ${v.weights}, activations by ${v.activations}.`,
      zh: `7B、8 张 H100：f32 每步 ${v.wide}，bf16 每步 ${v.narrow}；权重缩小 ${v.weights}，激活值缩小 ${v.activations}。`,
    }),
    command: onJob(mixed({}), 'explain - --cluster h100'),
  }),
  claim({
    id: 'f16-needs-a-scale',
    notes: ['E2.1', 'E4.3'],
    page: 'precision',
    text: {
      en: 'FP16 needs loss scaling, because small gradients become zero in it; BF16 does not.',
      zh: 'FP16 需要损失缩放，因为小梯度会下溢成零；BF16 不需要。',
    },
    units: { alone: 'count', scaled: 'count', brain: 'count' },
    numbers: lab => {
      const problems = (plan: NonNullable<JobText['plan']>, training = {}) => {
        const job = mlp(plan)
        return lab.core.parseJob(JSON.stringify({ ...job, training: { ...job.training, ...training } })).problems.length
      }
      return {
        alone: problems({ precision: 'f16' }),
        scaled: problems({ precision: 'f16' }, { lossScale: { kind: 'torch' } }),
        brain: problems({ precision: 'bf16' }),
      }
    },
    holds: ({ alone, scaled, brain }) => yesIf(alone > 0 && scaled === 0 && brain === 0),
    say: v => ({
      en: `Problems of a job: ${v.alone} in f16 as it is, ${v.scaled} in f16 with a loss scale that moves, ${v.brain} in bf16.`,
      zh: `作业的问题数：直接用 f16 为 ${v.alone}，f16 加动态损失缩放为 ${v.scaled}，bf16 为 ${v.brain}。`,
    }),
    command: onJob(mlp({ precision: 'f16' }), 'check -'),
  }),
  claim({
    id: 'masters-are-needed',
    notes: ['E2.1'],
    page: 'precision',
    text: {
      en: 'Weights in 16 bits need a master copy in 32, or small steps are rounded away.',
      zh: '16 位权重需要一份 32 位主权重，否则小的更新会被舍入掉。',
    },
    units: { masters: 'count', none: 'count' },
    numbers: lab => {
      const gained = (precision: string) => {
        const losses = lab.losses(mlp({ precision }), 3e-5, 40)
        return 1e3 * (losses[0] - losses[39])
      }
      return { masters: gained('bf16'), none: gained('pure-bf16') }
    },
    holds: ({ masters, none }) => yesIf(masters > 0 && none < 0.7 * masters),
    say: v => ({
      en: `In 40 small steps the loss falls by ${v.masters} thousandths with f32 masters and by ${v.none} where everything is bf16.`,
      zh: `40 个小步之后，有 f32 主权重时损失下降千分之 ${v.masters}，全 bf16 时下降千分之 ${v.none}。`,
    }),
    command: onJob(mlp({ precision: 'pure-bf16' }), 'verify -'),
  }),
  claim({
    id: 'eight-bits-help-products',
    notes: ['A2.3'],
    page: 'precision',
    text: {
      en: 'Products in 8 bits make a step faster still, though not twice as fast: only products are.',
      zh: '用 8 位做矩阵乘还能更快，但快不到两倍：变快的只有矩阵乘。',
    },
    units: { sixteen: 'seconds', eight: 'seconds', ratio: 'times' },
    numbers: lab => {
      const one = (plan: NonNullable<JobText['plan']>) => lab.step(seven(plan, 1), 'h100')
      const [sixteen, eight] = [{ tp: 8 }, { tp: 8, fp8: { recipe: 'delayed' } }].map(plan => one(plan).seconds)
      return { sixteen, eight, ratio: sixteen / eight }
    },
    holds: ({ ratio }) => yesIf(ratio > 1.05 && ratio < 2),
    say: v => ({
      en: `${v.sixteen} in bf16, ${v.eight} with products in 8 bits: ${v.ratio}.`,
      zh: `bf16 每步 ${v.sixteen}，8 位矩阵乘 ${v.eight}：${v.ratio}。`,
    }),
    command: onJob(seven({ tp: 8, fp8: { recipe: 'delayed' } }, 1), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'compression-where-the-wire-is-slow',
    notes: ['E3.1.1', 'E4.3'],
    page: 'compression',
    text: {
      en: 'Compressing gradients makes training faster.',
      zh: '压缩梯度能让训练更快。',
    },
    units: { exposed: 'share', gain: 'share', hidden: 'share', gainHidden: 'share' },
    numbers: lab => {
      const gain = (job: (plan: NonNullable<JobText['plan']>) => JobText) =>
        1 - lab.step(job({ compress: { reduce: 'bf16' } }), 'h100').seconds / lab.step(job({}), 'h100').seconds
      const inNode = (plan: NonNullable<JobText['plan']>) => seven({ dp: 8, zero: 1, ...plan })
      return {
        ...{ exposed: dpShare(lab, small({})), gain: gain(small) },
        ...{ hidden: dpShare(lab, inNode({})), gainHidden: gain(inNode) },
      }
    },
    holds: ({ gain, gainHidden }) => (gain > 0.05 && gainHidden < 0.02 ? 'depends' : yesIf(gainHidden > 0.05)),
    say: v => ({
      en: `Where ranks wait for gradients, ${v.exposed} of GPT-2's step on 64 H100, halving their bits gains ${v.gain}; where the backward pass hides them (7B in one node, ${v.hidden}) it gains ${v.gainHidden}.`,
      zh: `真在等梯度的地方（GPT-2、64 张 H100，占一步 ${v.exposed}），位数减半能省 ${v.gain}；被反向盖住的地方（7B 单节点，${v.hidden}）只省 ${v.gainHidden}。`,
    }),
    command: onJob(small({ compress: { reduce: 'bf16' } }), 'explain - --cluster h100'),
  }),
]
