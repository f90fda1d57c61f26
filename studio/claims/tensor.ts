/** Tensor and sequence parallelism: columns then rows, four meetings a layer, and no farther than fast links reach. */
import { claim, isNear, yesIf } from './claim.js'
import { seven, seventy, tiny } from './jobs.js'
import { type JobText, type Lab, onJob } from './lab.js'

const meetings = (lab: Lab, job: JobText, segment: string, word: string): number =>
  lab
    .tally(job)
    .segments.get(segment)
    ?.instrs.filter(name => name === `${word} tp`).length ?? Number.NaN

const oneLayer = { family: 'llama', layers: 1, embed: 16, heads: 4, kvHeads: 2, ffn: 32, vocab: 32 }

const eightWays = (sequenceParallel: boolean): JobText => seven({ tp: 8, microbatches: 8, sequenceParallel })

const tpBytes = (lab: Lab, job: JobText): number =>
  lab
    .traffic(job, 'h100')
    // What an all-reduce of so many bytes sends, a gather or a scatter sends half of.
    .reduce((sum, { what, bytes }) => sum + (what === 'all-reduce tp' ? 2 : what.endsWith(' tp') ? 1 : 0) * bytes, 0)

export const tensor = [
  claim({
    id: 'four-meetings-a-layer',
    notes: ['A2.2', 'B3a', 'C', 'E1.2.2'],
    page: 'tensor-parallel',
    text: {
      en: 'Cut by columns first and by rows then, a layer needs two all-reduces forward and two backward.',
      zh: '先按列切、再按行切，一层只需前向两次、反向两次 all-reduce。',
    },
    units: { forward: 'count', backward: 'count', apart: 'share' },
    numbers: lab => ({
      forward: meetings(lab, tiny({ tp: 2 }), 'layers.F', 'all-reduce'),
      backward: meetings(lab, tiny({ tp: 2 }), 'layers.B', 'all-reduce'),
      apart: lab.apart({ ...tiny({ tp: 2 }), model: oneLayer }),
    }),
    holds: ({ forward, backward, apart }) => yesIf(forward === 2 && backward === 2 && apart < 1e-12),
    say: v => ({
      en: `The compiled layer has ${v.forward} forward and ${v.backward} backward, and computes what one rank computes, to 1e-12.`,
      zh: `编译出的一层前向 ${v.forward} 次、反向 ${v.backward} 次，结果与单 rank 在 1e-12 以内一致。`,
    }),
    command: onJob(tiny({ tp: 2 }), 'compile -'),
  }),
  claim({
    id: 'gathering-columns-costs-more',
    notes: ['D2.2'],
    page: 'tensor-parallel',
    text: {
      en: 'Cutting every matrix by columns and gathering after each costs more than columns, then rows, then one all-reduce.',
      zh: '每个矩阵都按列切、每次都 all-gather，比先列后行再做一次 all-reduce 更费通信。',
    },
    units: { gathered: 'bytes', reduced: 'bytes', ratio: 'times' },
    numbers: lab => {
      const { model, training } = lab.job(seven({ dp: 8 }))
      const carried = (kind: 'all-gather' | 'all-reduce', bytes: number) =>
        lab.core.quote({ kind, bytes, group: { size: 8, stride: 1 } }, lab.core.clusterOf('h100', 8)).offers[0]
          .carried[0]
      const token = 2 * training.seq
      const gathered = carried('all-gather', token * model.ffn) + carried('all-gather', token * model.embed)
      const reduced = carried('all-reduce', token * model.embed)
      return { gathered, reduced, ratio: gathered / reduced }
    },
    holds: ({ ratio }) => yesIf(ratio > 1),
    say: v => ({
      en: `For the feed-forward of one 7B layer and 4,096 tokens a rank of 8 sends ${v.gathered} with two gathers, ${v.reduced} with one all-reduce: ${v.ratio}.`,
      zh: `7B 一层的前馈、4096 个 token、8 个 rank：两次 all-gather 每个发 ${v.gathered}，一次 all-reduce 发 ${v.reduced}，相差 ${v.ratio}。`,
    }),
    command: 'lockstep cost all-reduce --size 33554432 --ranks 8 --cluster h100',
  }),
  claim({
    id: 'tensor-parallel-to-eight',
    notes: ['A2.2', 'A3.2'],
    page: 'tensor-parallel',
    text: {
      en: 'Tensor parallelism pays up to the eight GPUs of a node, and collapses beyond.',
      zh: '张量并行在一个节点的 8 张卡以内合算，超出之后急剧变差。',
    },
    units: { four: 'seconds', eight: 'seconds', sixteen: 'seconds' },
    numbers: lab => {
      const [four, eight, sixteen] = [4, 8, 16].map(tp => lab.step(seventy(tp), 'h100').seconds)
      return { four, eight, sixteen }
    },
    holds: ({ four, eight, sixteen }) => yesIf(eight < 1.3 * four && sixteen > 1.6 * eight),
    say: v => ({
      en: `70B on 64 H100: a step takes ${v.four} with tp 4, ${v.eight} with tp 8, ${v.sixteen} with tp 16.`,
      zh: `70B、64 张 H100：tp 4 每步 ${v.four}，tp 8 为 ${v.eight}，tp 16 为 ${v.sixteen}。`,
    }),
    command: onJob(seventy(16), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'tensor-parallel-traffic-is-low',
    notes: ['B3a', 'A2.2', 'C'],
    page: 'tensor-parallel',
    disputed: true,
    text: {
      en: 'Tensor parallelism needs relatively little communication.',
      zh: '张量并行的通信开销相对较低。',
    },
    units: { four: 'share', eight: 'share', sixteen: 'share' },
    numbers: lab => {
      const [four, eight, sixteen] = [4, 8, 16].map(tp => lab.step(seventy(tp), 'h100').shares.tp)
      return { four, eight, sixteen }
    },
    holds: ({ eight }) => yesIf(eight < 0.05),
    say: v => ({
      en: `No: ranks of 70B on 64 H100 wait for tp ${v.four} of the step with tp 4, ${v.eight} with tp 8 and ${v.sixteen} with tp 16.`,
      zh: `不低：70B、64 张 H100，等待 tp 通信的时间在 tp 4 时占一步的 ${v.four}，tp 8 时 ${v.eight}，tp 16 时 ${v.sixteen}。`,
    }),
    command: onJob(seventy(8), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'tensor-parallel-no-bubble',
    notes: ['A2.2'],
    page: 'tensor-parallel',
    text: {
      en: 'Tensor parallelism has no bubble and needs no large batch: it works with a single sequence.',
      zh: '张量并行没有气泡，也不需要大 batch：一条序列也能用。',
    },
    units: { bubble: 'share', tensor: 'share', pipeline: 'share' },
    numbers: lab => ({
      bubble: lab.step(eightWays(false), 'h100').shares.bubble,
      tensor: lab.step(seven({ tp: 8 }, 1), 'h100').mfu,
      pipeline: lab.step(seven({ pp: 8 }, 1), 'h100').mfu,
    }),
    holds: ({ bubble, tensor, pipeline }) => yesIf(bubble === 0 && tensor > 2 * pipeline),
    say: v => ({
      en: `Bubble ${v.bubble}; with one sequence in all, 8 H100 split by tensor reach ${v.tensor} of their speed, as a pipeline ${v.pipeline}.`,
      zh: `气泡 ${v.bubble}；总共只有一条序列时，8 张 H100 按张量切分能用到算力的 ${v.tensor}，按流水线只有 ${v.pipeline}。`,
    }),
    command: onJob(seven({ tp: 8 }, 1), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'heads-are-dealt-out',
    notes: ['E1.2.2'],
    page: 'tensor-parallel',
    text: {
      en: 'Attention is split by heads, so there can be no more ranks than heads; fewer key heads than ranks are held several times.',
      zh: '注意力按头切分，所以 rank 数不能超过头数；key 的头数比 rank 少时，会重复存放。',
    },
    units: { refused: 'count', shared: 'count' },
    numbers: lab => ({
      refused: lab.core.parseJob(JSON.stringify(tiny({ tp: 8 }))).problems.length,
      shared: lab.core.parseJob(JSON.stringify(tiny({ tp: 4 }))).problems.length,
    }),
    holds: ({ refused, shared }) => yesIf(refused > 0 && shared === 0),
    say: v => ({
      en: `With 4 heads and 2 key heads, problems of tp 8: ${v.refused}; of tp 4: ${v.shared}.`,
      zh: `4 个头、2 个 key 头：tp 8 报 ${v.refused} 个问题，tp 4 报 ${v.shared} 个。`,
    }),
    command: onJob(tiny({ tp: 8 }), 'check -'),
  }),
  claim({
    id: 'sequence-parallel-saves-activations',
    notes: ['A2.3', 'B3c', 'E3.2.1'],
    page: 'sequence-parallel',
    text: {
      en: 'Splitting norms and dropout along the sequence as well cuts the activations that tensor parallelism leaves whole.',
      zh: '把归一化和 dropout 也沿序列切开，就能省掉张量并行没有切到的那部分激活值。',
    },
    units: { whole: 'bytes', split: 'bytes', ratio: 'times' },
    numbers: lab => {
      const [whole, split] = [false, true].map(on => lab.bytes(eightWays(on)).activations)
      return { whole, split, ratio: whole / split }
    },
    holds: ({ ratio }) => yesIf(ratio > 2),
    say: v => ({
      en: `7B, tp 8: ${v.whole} of activations a rank without, ${v.split} with it, ${v.ratio} less.`,
      zh: `7B、tp 8：不用时每卡激活值 ${v.whole}，用了 ${v.split}，缩小 ${v.ratio}。`,
    }),
    command: onJob(eightWays(true), 'memory -'),
  }),
  claim({
    id: 'sequence-parallel-same-bytes',
    notes: ['A2.3'],
    page: 'sequence-parallel',
    text: {
      en: 'It sends no more forward: each all-reduce becomes a reduce-scatter and an all-gather. Backward, what was gathered is gathered again.',
      zh: '前向不多发一个字节：每个 all-reduce 换成 reduce-scatter 加 all-gather；反向时要把前向收集过的再收集一遍。',
    },
    units: { gathers: 'count', scatters: 'count', again: 'count', ratio: 'times' },
    numbers: lab => ({
      gathers: meetings(lab, tiny({ tp: 2, sequenceParallel: true }), 'layers.F', 'all-gather'),
      scatters: meetings(lab, tiny({ tp: 2, sequenceParallel: true }), 'layers.F', 'reduce-scatter'),
      again: meetings(lab, tiny({ tp: 2, sequenceParallel: true }), 'layers.B', 'all-gather'),
      ratio: tpBytes(lab, eightWays(true)) / tpBytes(lab, eightWays(false)),
    }),
    holds: ({ gathers, scatters, again, ratio }) =>
      yesIf(gathers === 2 && scatters === 2 && again === 4 && isNear(ratio, 1.25, 0.05)),
    say: v => ({
      en: `A layer has ${v.gathers} gathers and ${v.scatters} scatters forward, ${v.again} gathers backward; over a step that is ${v.ratio} the bytes.`,
      zh: `一层前向 ${v.gathers} 次 all-gather、${v.scatters} 次 reduce-scatter，反向 ${v.again} 次 all-gather；一步下来字节数为 ${v.ratio}。`,
    }),
    command: onJob(tiny({ tp: 2, sequenceParallel: true }), 'compile -'),
  }),
]
