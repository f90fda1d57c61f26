/** Activations: what a layer leaves behind for the backward pass, and what it costs not to keep it. */
import { claim, isNear, yesIf } from './claim.js'
import { gpt3, recipes, seven } from './jobs.js'
import { type JobText, onJob } from './lab.js'

const again = (recompute: string): JobText => seven({ dp: 8, zero: 1, recompute })

const long = (seq: number): JobText => ({
  model: { family: 'gpt', layers: 4, embed: 2304, heads: 24, ffn: 9216, vocab: 51200, positions: 8192 },
  training: { seq, globalBatch: 1 },
  plan: { precision: 'bf16' },
})

export const activations = [
  claim({
    id: 'thirty-four-bytes',
    notes: ['A2.3'],
    page: 'activations',
    text: {
      en: 'Beside the scores of attention, a layer keeps 34 bytes for each token and each of its numbers, in 16 bits.',
      zh: '除注意力分数外，用 16 位时，一层为每个 token 的每个分量保留 34 字节。',
    },
    units: { each: 'count', all: 'bytes' },
    numbers: lab => {
      const { model, training } = lab.job(gpt3(recipes.eight))
      const all = lab.bytes(gpt3(recipes.eight)).activations
      return { each: all / (training.seq * model.embed * model.layers), all }
    },
    holds: ({ each }) => yesIf(isNear(each, 34, 0.1)),
    say: v => ({
      en: `GPT-3 with one sequence of 2,048 keeps ${v.all}: ${v.each} bytes, without dropout and with attention that keeps no scores.`,
      zh: `GPT-3、一条 2048 的序列共保留 ${v.all}，即每个 ${v.each} 字节（无 dropout，注意力不保存分数）。`,
    }),
    command: onJob(gpt3(recipes.eight), 'memory - --why'),
  }),
  claim({
    id: 'activations-grow-with-the-square',
    notes: ['A2.3'],
    page: 'activations',
    text: {
      en: 'A part of the activations grows with the square of the sequence: the scores of attention.',
      zh: '激活值中有一部分随序列长度平方增长：注意力分数。',
    },
    units: { growth: 'times', formula: 'times' },
    numbers: lab => {
      const [short, twice] = [2048, 4096].map(seq => lab.bytes(long(seq)).activations)
      const { model } = lab.job(long(2048))
      const heads = 'heads' in model ? model.heads : Number.NaN
      const said = (seq: number) => seq * model.embed * (34 + (5 * heads * seq) / model.embed)
      return { growth: twice / short, formula: said(4096) / said(2048) }
    },
    holds: ({ growth, formula }) => (formula > 2.5 && growth < 2.1 ? 'depends' : yesIf(growth > 2.5)),
    say: v => ({
      en: `By sbh(34 + 5as/h) twice the sequence takes ${v.formula} the memory; a fused attention keeps no scores, and the compiled program takes ${v.growth}.`,
      zh: `按 sbh(34 + 5as/h)，序列翻倍时显存变为 ${v.formula}；融合注意力不保存分数，编译出的程序只变为 ${v.growth}。`,
    }),
    command: onJob(long(4096), 'memory - --why'),
  }),
  claim({
    id: 'activations-in-proportion',
    notes: ['B2', 'E2.1'],
    page: 'activations',
    text: {
      en: 'Activations grow in proportion to batch, sequence, width and layers.',
      zh: '激活值与 batch 大小、序列长度、宽度、层数成正比。',
    },
    units: { sequence: 'times', batch: 'times' },
    numbers: lab => {
      const once = lab.bytes(long(2048)).activations
      const job = long(2048)
      return {
        sequence: lab.bytes(long(4096)).activations / once,
        batch: lab.bytes({ ...job, training: { ...job.training, globalBatch: 2 } }).activations / once,
      }
    },
    holds: ({ sequence, batch }) => yesIf(isNear(sequence, 2, 0.02) && isNear(batch, 2, 0.02)),
    say: v => ({
      en: `Twice the sequence takes ${v.sequence} the activations, twice the batch ${v.batch}.`,
      zh: `序列翻倍，激活值变为 ${v.sequence}；batch 翻倍，变为 ${v.batch}。`,
    }),
    command: onJob(long(2048), 'memory -'),
  }),
  claim({
    id: 'recompute-trades',
    notes: ['A2.3', 'D3'],
    page: 'activations',
    text: {
      en: 'Computing activations again instead of keeping them trades time for memory.',
      zh: '激活值不保存、反向时重新计算，是用时间换显存。',
    },
    units: { kept: 'bytes', dropped: 'bytes', fast: 'seconds', slow: 'seconds' },
    numbers: lab => ({
      ...{ kept: lab.bytes(again('none')).activations, dropped: lab.bytes(again('full')).activations },
      ...{ fast: lab.step(again('none'), 'h100').seconds, slow: lab.step(again('full'), 'h100').seconds },
    }),
    holds: ({ kept, dropped, fast, slow }) => yesIf(dropped < kept / 4 && slow > 1.1 * fast),
    say: v => ({
      en: `7B on 8 H100: ${v.kept} of activations and ${v.fast} a step, or ${v.dropped} and ${v.slow}.`,
      zh: `7B、8 张 H100：激活值 ${v.kept}、每步 ${v.fast}；或者 ${v.dropped}、每步 ${v.slow}。`,
    }),
    command: onJob(again('full'), 'explain - --cluster h100'),
  }),
  claim({
    id: 'full-recompute-is-a-third',
    notes: ['A2.3'],
    page: 'activations',
    text: {
      en: 'Full recomputation is nearly one more forward pass: up to a third more arithmetic.',
      zh: '全部重计算差不多等于多做一次前向：计算量最多多出三分之一。',
    },
    units: { more: 'share', selective: 'share' },
    numbers: lab => {
      const repeated = (recompute: string) => {
        const { executed, repeated } = lab.step(again(recompute), 'h100').flops
        return repeated / (executed - repeated)
      }
      return { more: repeated('full'), selective: repeated('selective') }
    },
    holds: ({ more }) => yesIf(more > 0.2 && more <= 1 / 3),
    say: v => ({
      en: `For 7B ${v.more} more: neither the head nor the last product of a layer needs to be done again. Selective recomputation repeats ${v.selective}.`,
      zh: `7B 多 ${v.more}：输出层和每层最后一个矩阵乘不必重算。选择性重计算只多 ${v.selective}。`,
    }),
    command: onJob(again('full'), 'simulate - --cluster h100'),
  }),
  claim({
    id: 'three-ways-to-save',
    notes: ['D3'],
    page: 'activations',
    text: {
      en: 'Memory is bought with arithmetic (recompute) or with communication (ZeRO): each has its price.',
      zh: '显存可以用计算（重计算）换，也可以用通信（ZeRO）换，各有各的价钱。',
    },
    units: { recomputed: 'bytes', recomputeCost: 'share', split: 'bytes', splitCost: 'share' },
    numbers: lab => {
      const bytes = (job: JobText) => Object.values(lab.bytes(job)).reduce((a, b) => a + b, 0)
      const base = again('none')
      const [whole, seconds] = [bytes(base), lab.step(base, 'h100').seconds]
      const three = seven({ dp: 8, zero: 3 })
      return {
        recomputed: whole - bytes(again('full')),
        recomputeCost: lab.step(again('full'), 'h100').seconds / seconds - 1,
        split: whole - bytes(three),
        splitCost: lab.step(three, 'h100').seconds / seconds - 1,
      }
    },
    holds: v => yesIf(v.recomputed > 5e9 && v.split > 5e9 && v.recomputeCost > 0.05 && v.splitCost > 0),
    say: v => ({
      en: `From ZeRO-1 on 8 H100, 7B: full recomputation saves ${v.recomputed} for ${v.recomputeCost} more time, ZeRO-3 saves ${v.split} for ${v.splitCost}.`,
      zh: `7B、8 张 H100、从 ZeRO-1 出发：全部重计算省 ${v.recomputed}，多花 ${v.recomputeCost} 的时间；ZeRO-3 省 ${v.split}，多花 ${v.splitCost}。`,
    }),
    command: onJob(again('none'), 'explain - --cluster h100'),
  }),
]
