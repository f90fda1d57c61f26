/** What searches say about plans, in Chinese: a code of the core without its sentence here is a type error. */
import type { Part, Sentence, SentenceValues, Wording } from 'lockstep'
import { bytes, gibibytes, many, percent, seconds, signedSeconds } from './amounts.js'
import { problemZh } from './problems.zh.js'

/** Parts of a step. */
export const partsZh: Readonly<Record<Part, string>> = {
  compute: '计算',
  recompute: '重计算',
  bubble: '气泡',
  tp: 'tp 通信',
  cp: 'cp 通信',
  ep: 'ep 通信',
  dp: 'dp 通信',
  pp: 'pp 收发',
  optimizer: '优化器',
  stragglers: '等待慢 rank',
  offload: '卸载搬移',
  other: '启动开销与掉队',
}

/** What memory is used for. */
export const memoryZh: Readonly<Record<SentenceValues['reason/memory']['grew'], string>> = {
  parameters: '参数',
  gradients: '梯度',
  optimizer: '优化器状态',
  activations: '激活值',
  workspace: '工作区',
  framework: '框架开销',
}

const again = {
  none: '不做重计算',
  cheap: '重算归一化和激活函数',
  selective: '重算注意力',
  full: '整个前向都重算',
  'per-op': '重算部分算子',
} as const satisfies Record<SentenceValues['memory/over']['recompute'], string>

const zeroes = ['都不切分', '优化器状态切分', '梯度也切分', '参数也切分'] as const

const state = ({ parameters, each, bytes: all }: SentenceValues['fit/one-device']): string =>
  `${many(parameters)}个参数 × 每个 ${each} 字节的状态 = ${bytes(all)}`

const sequence = ({ sequenceParallel }: SentenceValues['tp/torus']): string =>
  sequenceParallel ? '，并启用序列并行' : ''

/** Levels of a cluster are named in its file; the usual ones have a word. */
const level = (name: string): string => ({ node: '节点', rack: '机柜', pod: 'pod', host: '主机' })[name] ?? name

const experts = ({ ep, experts: all }: SentenceValues['ep/even']): string =>
  ep > 1 ? `ep ${ep} 分摊 ${all} 个专家，每个 rank ${all / ep} 个` : '专家不分摊'

const ends = ({ first, last }: SentenceValues['move/layers']): string => {
  const held = (n: number) => (n === 0 ? '不放层' : `${n} 层`)
  return `首个 stage ${held(first)}，末个 stage ${held(last)}`
}

const keeps = (constraints: readonly string[]): string =>
  constraints.length > 0 ? `，并满足 ${constraints.join('、')}` : ''

const oneOf = (numbers: readonly number[]): string =>
  numbers.length > 6 ? `${numbers.slice(0, 5).join('、')} …… ${numbers.at(-1)}` : numbers.join('、')

const basis = ({ simulated }: { readonly simulated: boolean }): string => (simulated ? '模拟' : '估算')

const scaled = ({ by }: { readonly by: number }): string => (by < 1 ? `÷${1 / by}` : `×${by}`)

export const sentencesZh: Wording<SentenceValues> = {
  'fit/one-device': v => `${state(v)}：一张卡就放得下`,
  'fit/shared': v => `${state(v)}：至少要 ${v.devices} 张卡来分摊`,
  'tp/none': () => '不用张量并行：层内不切分',
  'tp/torus': v => `tp ${v.tp} 沿 torus 展开${sequence(v)}`,
  'tp/within-node': v => `tp ${v.tp} 不出${level(v.node)}（每个 ${v.size} 张卡，${v.link}）${sequence(v)}`,
  'tp/across-nodes': v => `tp ${v.tp} 跨出了${level(v.node)}（每个 ${v.size} 张卡，${v.link}）${sequence(v)}`,
  'cp/cut': v =>
    `cp ${v.cp} 把 ${v.tokens} 个 token 切分，每个 rank ${v.each} 个${v.across ? `，跨${level(v.across)}` : ''}${v.attention ? `，注意力用 ${v.attention}` : ''}`,
  'ep/busiest': v => `${experts(v)}；最忙的 rank 是平均值的 ${v.times} 倍`,
  'ep/even': v => `${experts(v)}；按负载均衡估算`,
  'ep/all-rows': v => `${experts(v)}；缓冲区按最坏情况分配，是负载均衡时的 ${v.times} 倍`,
  'ep/every-row': v => `${experts(v)}；每个 rank 的缓冲区按最坏情况分配`,
  'ep/priced': v =>
    `${experts(v)}；按负载均衡的 ${v.times} 倍估算（expertCapacity: ${v.rows}）；某一步超出时会在更新之前停下，expertCapacity: worst 允许 ${v.worst} 倍`,
  'pp/none': () => '不用流水线：每个 rank 都有全部的层',
  'pp/zero': () => '不用流水线：改由 ZeRO-3 切分参数',
  'pp/shared': v =>
    `pp ${v.pp} 分摊 ${v.layers} 层（${v.ends ? ends(v.ends) : '均分'}）${v.chunks > 1 ? `，每个 rank ${v.chunks} 个虚拟 stage` : ''}，调度 ${v.schedule}`,
  'dp/none': () => '不用数据并行：所有卡合起来只放一个模型',
  'dp/context': v => `不用数据并行；由 cp 的各个 rank 切分（ZeRO ${v.zero}）`,
  'dp/copies': v => `dp ${v.dp} 份副本提高吞吐量，${zeroes[v.zero]}（ZeRO ${v.zero}）`,
  'batch/shared': v =>
    `${v.batch} 条序列 ÷ dp ${v.dp} = ${v.share} 条 = ${v.microbatches} 个微批次，每个 ${v.microbatch} 条${v.bubble === undefined ? '' : `；气泡占一步的 ${percent(v.bubble)}`}`,
  'memory/spare': v => `每个 rank ${bytes(v.bytes)}，还剩 ${bytes(v.left)}；${again[v.recompute]}`,
  'memory/over': v => `每个 rank ${bytes(v.bytes)}，超出 ${bytes(v.over)}；${again[v.recompute]}`,

  'fits-if/little-more': v => `实际用量比估计多出不到 ${percent(v.share)}`,
  'fits-if/little-fragmentation': v => `碎片低于显存的 ${percent(v.share)}（已预留 ${percent(v.reserved)}）`,
  'fits-if/small-context': v => `运行时上下文和碎片合计低于 ${bytes(v.bytes)}（已预留 ${bytes(v.reserved)}）`,
  'fits-if/less': v => `实际用量比估计至少少 ${percent(v.share)}`,

  'move/mesh': v => `${v.more} ×${v.by}，${v.less} ÷${v.by}`,
  'move/microbatch': v => `微批次改为 ${v.microbatch} 条`,
  'move/zero': v =>
    [
      `ZeRO ${v.zero}`,
      ...(v.reduce ? [v.reduce === 'step' ? '梯度每步归约一次' : '梯度每个微批次归约一次'] : []),
      ...(v.gather ? [v.gather === 'step' ? '参数每步收集一次' : '参数每次使用时收集'] : []),
    ].join('，'),
  'move/recompute': v => again[v.recompute],
  'move/sequence-parallel': v => (v.on ? '开启序列并行' : '关闭序列并行'),
  'move/attention': v => `注意力改用 ${v.meeting}`,
  'move/rows': v => (v.rows === 'worst' ? '专家缓冲区按最坏情况分配' : `专家缓冲区按 ${v.rows} 倍均衡负载分配`),
  'move/schedule': v => `调度 ${v.schedule}${v.chunks === undefined ? '' : `，每个 rank ${v.chunks} 个 chunk`}`,
  'move/layers': v => `层的划分：${ends(v)}`,
  'move/layers-even': () => '层均分',
  'move/several': v => v.changes.map(change => sentenceZh(change)).join('；'),

  'verdict/same': () => '没有变化',
  'verdict/slower': v => `慢 ${percent(v.by)}`,
  'verdict/faster': v => `快 ${percent(v.by)}`,
  'verdict/may-not-fit': v => `不一定放得下（${percent(v.chance, 0)}）`,
  'verdict/unfit': () => '放不下',
  'verdict/unwanted': () => '被约束排除',
  'verdict/impossible': () => '不可行',

  'reason/changes': v => v.changes.map(({ part, seconds: by }) => `${partsZh[part]} ${signedSeconds(by)}`).join('，'),
  'reason/shifted': v => `${partsZh[v.from]}省下的 ${seconds(v.seconds)} 变成了等待：${partsZh[v.to]}`,
  'reason/memory': v => `需要 ${gibibytes(v.bytes)}，超出 ${gibibytes(v.over)}（主要是${memoryZh[v.grew]}）`,
  'reason/constraint': v => `约束 ${v.constraint}`,
  'reason/refused': v => problemZh(v.problem),
  'reason/batch': v => `${v.batch} 条序列的 batch 不能由 dp ${v.dp} 均分`,
  'reason/stages': v => `${v.layers} 层填不满 ${v.stages} 个 stage`,
  'reason/layers': () => '没有可行的层划分',
  'reason/unwritable': () => '作业文件无法表达',

  'no-plan/memory': v => `最省显存的方案每张卡也要 ${bytes(v.bytes)}，而可用的只有 ${bytes(v.capacity)}`,
  'no-plan/tp': v =>
    `没有哪个 tp 能整除 ${v.devices} 张卡和模型${keeps(v.keeps)}；去掉约束后 tp 可以是 ${oneOf(v.possible)}`,
  'no-plan/stages': v =>
    `没有哪组 tp × pp × dp = ${v.devices} 的 stage 不超过 ${v.stages} 个${keeps(v.keeps)}；tp 可以是 ${oneOf(v.tps)}`,
  'no-plan/batch': v =>
    `dp = ${v.devices} ÷ (tp × ${v.context ? 'cp × ' : ''}pp) 只能是 ${oneOf(v.copies)}，都不能整除 ${v.batch} 条序列的 batch`,
  'no-plan/constraints': v => `${v.devices} 张卡、${v.batch} 条序列的 batch，没有方案满足 ${v.constraints.join('、')}`,

  'instead/constraint': v => `去掉约束 ${v.constraint}`,
  'instead/no-constraints': () => '去掉所有约束',
  'instead/devices': v => `改用 ${v.devices} 张卡`,
  'instead/batch': v => `全局 batch 改为 ${v.batch}`,
  'instead/memory': v => `每张卡多 ${bytes(v.bytes)} 显存`,
  'instead/offload': () => '允许卸载（offload）',
  'instead/precision': v => `precision 改为 ${v.precision}`,
  'instead/lora': v => `只训练秩为 ${v.rank} 的 LoRA`,

  'what-if/network': v => `网络带宽 ${scaled(v)}`,
  'what-if/memory': v => `显存 ${scaled(v)}`,
  'what-if/batch': v => `全局 batch ${scaled(v)}`,
  'what-if/nothing-fits': () => '什么都放不下',
  'what-if/speed': v => `吞吐量 ${v.gain < 0 ? '−' : '+'}${percent(Math.abs(v.gain))}`,
  'plan/same': () => '方案不变',
  'plan/differs': v =>
    v.differences
      .map(({ field, from, to }) => (field === 'schedule' ? `调度 ${to}` : `${fieldZh(field)} ${from} → ${to}`))
      .join('，'),

  'limit/arithmetic': v => `算力；其余各部分都不超过 ${percent(v.share)}`,
  'limit/part': v => `${partsZh[v.part]}占一步的 ${percent(v.share)}，非计算部分合计 ${percent(v.rest)}`,
  'fit/unlikely': v => `不一定放得下（概率 ${percent(v.chance, 0)}）；放得下的条件：${sentenceZh(v.condition)}`,
  'fit/over': v => `放不下：比可用的 ${gibibytes(v.room)} 多 ${gibibytes(v.over)}`,
  'best/none': () => '没有放得下的方案；lockstep plan 会说明怎样才行',
  'best/this': v => `就是这一个（${basis(v)}）`,
  'best/fits': v => `${seconds(v.step)}（${basis(v)}），能放下的方案中最快`,
  'best/faster': v => `${seconds(v.step)}，快 ${percent(v.gain)}（${basis(v)}）`,
  'note/own-order': v =>
    v.simulated
      ? `${v.file} 是模拟得出的；其他方案只做估算，沿用该调度的按 1f1b 计`
      : `${v.file} 按 1f1b 估算：这套软件不能按它的次序运行`,
  'note/own-recompute': v =>
    `${v.simulated ? '本方案是模拟得出的；在其他方案中，' : ''}逐个指定的重计算算子按半个前向估算，且不计节省的显存`,
  'order/faster': v => `rankOrder 改为 ${v.rankOrder} 时一步为 ${seconds(v.step)}，减少 ${percent(v.gain)}（模拟）`,
  'note/slow-compression': v =>
    `在这些链路上，${v.name} ${v.chosen} 反而让一步变长：${seconds(v.step)}，不用它则是 ${seconds(v.without)}（+${percent(v.step / v.without - 1)}，${v.simulated ? '两者都经模拟' : '按估算'}）；它适合更慢的链路`,
}

/** Fields of a plan keep the word of the job file, but for those that are not words of it. */
const fieldZh = (field: string): string => (field === 'sequence parallel' ? '序列并行' : field)

export function sentenceZh({ code, values }: Sentence): string {
  const word = sentencesZh[code] as (values: Sentence['values']) => string // the code is that of the values
  return word(values)
}
