/** The memory wall: what a parameter costs while it is trained, and why one device is not enough. */
import { claim, isNear, yesIf } from './claim.js'
import { gpt3, recipes, zeroFigure } from './jobs.js'
import { type JobText, type Lab, onJob, stateBytes } from './lab.js'

/** Of one parameter: weights, gradient and optimizer state. */
const bytesEach = (lab: Lab, job: JobText): number =>
  stateBytes(lab.bytes(job)) / lab.core.sizesOf(lab.job(job).model, 2048).parameters

export const memory = [
  claim({
    id: 'gpt3-eight-bytes',
    notes: ['B2'],
    page: 'memory-wall',
    text: {
      en: 'Training GPT-3 takes 1.4 TB before the first activation: 2 bytes of weight, 2 of gradient and 4 of optimizer state for each of 175 billion parameters.',
      zh: '训练 GPT-3 在还没有任何激活值之前就要 1.4 TB：1750 亿个参数，每个参数权重 2 字节、梯度 2 字节、优化器状态 4 字节。',
    },
    units: { weights: 'bytes', gradients: 'bytes', optimizer: 'bytes', all: 'bytes' },
    numbers: lab => {
      const bytes = lab.bytes(gpt3(recipes.eight))
      return {
        weights: bytes.parameters,
        gradients: bytes.gradients,
        optimizer: bytes.optimizer,
        all: stateBytes(bytes),
      }
    },
    holds: ({ all }) => yesIf(isNear(all, 1.4e12, 0.01)),
    say: v => ({
      en: `Compiled with everything in bf16, weights ${v.weights}, gradients ${v.gradients} and optimizer state ${v.optimizer} are ${v.all}.`,
      zh: `全部用 bf16 编译：权重 ${v.weights}、梯度 ${v.gradients}、优化器状态 ${v.optimizer}，合计 ${v.all}。`,
    }),
    command: onJob(gpt3(recipes.eight), 'memory -'),
  }),
  claim({
    id: 'gpt3-f32-weights',
    notes: ['E1.1'],
    page: 'memory-wall',
    text: {
      en: 'The weights of a model of 175 billion parameters alone are 700 GB in 32-bit floats.',
      zh: '一个 1750 亿参数的模型，仅权重用 32 位浮点存放就有 700 GB。',
    },
    units: { weights: 'bytes', device: 'bytes', devices: 'count' },
    numbers: lab => {
      const weights = lab.bytes(gpt3({ precision: 'f32' })).parameters
      const device = lab.core.clusterOf('h100', 1).device.memory
      return { weights, device, devices: Math.ceil(weights / device) }
    },
    holds: ({ weights }) => yesIf(isNear(weights, 700e9, 0.01)),
    say: v => ({
      en: `In f32 the compiled program holds ${v.weights} of weights; ${v.devices} H100 of ${v.device} would just hold them, and nothing else.`,
      zh: `按 f32 编译，程序里权重占 ${v.weights}；要 ${v.devices} 张 ${v.device} 的 H100 才刚好放下，别的什么也放不了。`,
    }),
    command: onJob(gpt3({ precision: 'f32' }), 'memory -'),
  }),
  claim({
    id: 'gpt3-twelve-bytes',
    notes: ['E2.1'],
    page: 'memory-wall',
    text: {
      en: 'With weights and gradients in 16 bits and both Adam moments in 32, a parameter costs 12 bytes: 2.1 TB for GPT-3.',
      zh: '权重和梯度用 16 位、Adam 的两个动量用 32 位时，每个参数 12 字节，GPT-3 共 2.1 TB。',
    },
    units: { all: 'bytes', each: 'bytes/parameter' },
    numbers: lab => ({
      all: stateBytes(lab.bytes(gpt3(recipes.twelve))),
      each: bytesEach(lab, gpt3(recipes.twelve)),
    }),
    holds: ({ all, each }) => yesIf(isNear(all, 2.1e12, 0.01) && isNear(each, 12, 0.01)),
    say: v => ({
      en: `There is such a recipe (bf16-no-masters with bf16 gradients): ${v.each} bytes a parameter, ${v.all} in all.`,
      zh: `确有这种配方（bf16-no-masters，梯度 bf16）：每个参数 ${v.each} 字节，合计 ${v.all}。`,
    }),
    command: onJob(gpt3(recipes.twelve), 'memory -'),
  }),
  claim({
    id: 'bytes-a-parameter',
    notes: ['B2', 'E2.1', 'E3.1.3'],
    page: 'memory-wall',
    disputed: true,
    text: {
      en: 'How many bytes does training cost a parameter? The notes say 8, 12 and 16.',
      zh: '训练时每个参数到底占多少字节？笔记里分别说是 8、12 和 16。',
    },
    units: {
      eight: 'bytes/parameter',
      twelve: 'bytes/parameter',
      sixteen: 'bytes/parameter',
      eighteen: 'bytes/parameter',
    },
    numbers: lab => ({
      eight: bytesEach(lab, gpt3(recipes.eight)),
      twelve: bytesEach(lab, gpt3(recipes.twelve)),
      sixteen: bytesEach(lab, zeroFigure(recipes.sixteen)),
      eighteen: bytesEach(lab, zeroFigure(recipes.eighteen)),
    }),
    holds: ({ eight, twelve, sixteen, eighteen }) =>
      isNear(eight, 8, 0.02) && isNear(twelve, 12, 0.02) && isNear(sixteen, 16, 0.02) && eighteen > 1.1 * sixteen
        ? 'depends'
        : 'no',
    say: v => ({
      en: `All are right, of different recipes: ${v.eight} all in bf16, ${v.twelve} with f32 moments, ${v.sixteen} with an f32 master copy too, ${v.eighteen} where gradients are summed in f32 as well.`,
      zh: `都对，只是配方不同：全 bf16 为 ${v.eight}，动量用 f32 为 ${v.twelve}，再加 f32 主权重为 ${v.sixteen}，梯度也用 f32 累加为 ${v.eighteen}。`,
    }),
    command: onJob(zeroFigure(recipes.sixteen), 'memory - --why'),
  }),
  claim({
    id: 'optimizer-outweighs-weights',
    notes: ['A2.1'],
    page: 'memory-wall',
    text: {
      en: "In mixed precision it is the optimizer's state, not the weights, that takes most of the memory: several times as much.",
      zh: '混合精度训练里占显存最多的不是权重，而是优化器状态，是权重的好几倍。',
    },
    units: { weights: 'bytes', optimizer: 'bytes', ratio: 'times' },
    numbers: lab => {
      const { parameters, optimizer } = lab.bytes(zeroFigure(recipes.sixteen))
      return { weights: parameters, optimizer, ratio: optimizer / parameters }
    },
    holds: ({ ratio }) => yesIf(ratio >= 4),
    say: v => ({
      en: `For 7.5B parameters: ${v.weights} of bf16 weights, ${v.optimizer} of master weights and moments, ${v.ratio} as much.`,
      zh: `7.5B 参数：bf16 权重 ${v.weights}，主权重加两个动量 ${v.optimizer}，是前者的 ${v.ratio}。`,
    }),
    command: onJob(zeroFigure(recipes.sixteen), 'memory -'),
  }),
  claim({
    id: 'data-parallel-total-grows',
    notes: ['A1.1', 'A2.1'],
    page: 'memory-wall',
    text: {
      en: 'Plain data parallelism copies everything: more devices never make a rank smaller, and the total grows with their number.',
      zh: '朴素的数据并行把一切都复制一遍：设备再多，单卡占用也不会变小，总占用随卡数线性增长。',
    },
    units: { one: 'bytes', many: 'bytes', total: 'bytes', growth: 'times' },
    numbers: lab => {
      const alone = { ...zeroFigure({ ...recipes.sixteen, dp: 1 }), training: { seq: 2048, globalBatch: 1 } }
      const [one, many] = [alone, zeroFigure(recipes.sixteen)].map(job => stateBytes(lab.bytes(job)))
      return { one, many, total: 64 * many, growth: (64 * many) / one }
    },
    holds: ({ growth }) => yesIf(isNear(growth, 64, 0.01)),
    say: v => ({
      en: `A rank holds ${v.one} of states alone and ${v.many} among 64; together they hold ${v.total}, ${v.growth} one copy.`,
      zh: `单独一卡的状态是 ${v.one}，64 卡中的每一卡还是 ${v.many}；加起来 ${v.total}，是一份的 ${v.growth}。`,
    }),
    command: onJob(zeroFigure(recipes.sixteen), 'memory -'),
  }),
  claim({
    id: 'one-device-is-too-slow',
    notes: ['A1.1'],
    page: 'memory-wall',
    text: {
      en: 'Even with memory enough, one device could not train such a model in any useful time.',
      zh: '就算显存够大，单个设备也不可能在有意义的时间内训完这样的模型。',
    },
    units: { years: 'years', flops: 'FLOP' },
    numbers: lab => {
      const { flops } = lab.core.sizesOf(lab.job(gpt3(recipes.eight)).model, 2048)
      const { peak } = lab.core.clusterOf('h100', 1).device
      const seconds = (flops.training * 300e9) / (peak.bf16 ?? Number.NaN)
      return { years: seconds / (365 * 86_400), flops: flops.training }
    },
    holds: ({ years }) => yesIf(years > 5),
    say: v => ({
      en: `GPT-3 on 300 billion tokens (${v.flops} each) keeps one H100 busy for ${v.years} years at its full rated speed.`,
      zh: `GPT-3 训 3000 亿个 token（每个 ${v.flops}），一张 H100 全程跑满标称算力也要 ${v.years} 年。`,
    }),
    command: 'lockstep models gpt3-175b',
  }),
]
