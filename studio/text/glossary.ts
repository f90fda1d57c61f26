/**
 * Terms of the studio in both languages, each with a line that says what it is: shown where a reader points at the word. Names of
 * operations, rank and ZeRO stay English in Chinese text.
 */

export interface Term {
  readonly en: string
  readonly zh: string
  readonly meaning: { readonly en: string; readonly zh: string }
}

const term = (en: string, zh: string, meaning: string, zhMeaning: string): Term => ({
  en,
  zh,
  meaning: { en: meaning, zh: zhMeaning },
})

export const glossary = {
  dp: term(
    'data parallelism',
    '数据并行',
    'model replicas, each with a part of the batch; gradients are summed',
    '模型有多份副本，各自处理一部分 batch，梯度再求和',
  ),
  tp: term(
    'tensor parallelism',
    '张量并行',
    'the matrices of a layer are sharded over ranks, which all-reduce inside each layer',
    '每层的矩阵都切分到多个 rank 上，各 rank 在层内交换结果',
  ),
  pp: term(
    'pipeline parallelism',
    '流水线并行',
    'ranks hold different layers and send activations to the next, microbatch by microbatch',
    '各 rank 持有不同的层，把激活值按微批次依次传给下一个',
  ),
  sp: term(
    'sequence parallelism',
    '序列并行',
    'between the matrices of tensor parallelism the sequence is split over the same ranks',
    '在张量并行的矩阵之间，序列由同一组 rank 切分',
  ),
  cp: term(
    'context parallelism',
    '上下文并行',
    'one sequence is split over ranks, attention included',
    '一条序列切分到多个 rank 上，注意力也不例外',
  ),
  ep: term(
    'expert parallelism',
    '专家并行',
    'ranks hold different experts, and tokens travel to those they choose',
    '各 rank 持有不同的专家，token 被送到它所选的专家那里',
  ),
  zero: term(
    'ZeRO',
    'ZeRO',
    'copies share optimizer state (1), gradients (2) and parameters (3) instead of each holding all',
    '各副本不再各存一份，而是分摊优化器状态（1）、梯度（2）和参数（3）',
  ),
  rank: term(
    'rank',
    'rank',
    'one that runs the program: a thread in this page, a process with a device on a cluster',
    '运行程序的一个单位：网页里是线程，集群上是占一张卡的进程',
  ),
  stage: term(
    'stage',
    'stage',
    'layers that follow each other on one rank of the pipeline',
    '流水线上一个 rank 持有的若干相连的层',
  ),
  batch: term(
    'global batch',
    '全局 batch',
    'sequences of one update, over all ranks',
    '一次更新中所有 rank 合计的序列数',
  ),
  microbatch: term(
    'microbatch',
    '微批次',
    'a part of the batch that goes through the model at once',
    '一次通过模型的一小份 batch',
  ),
  bubble: term(
    'bubble',
    '气泡',
    'time in which a rank of the pipeline waits for work',
    '流水线上的 rank 等待任务而空闲的时间',
  ),
  schedule: term(
    'schedule',
    '调度',
    'the order in which a rank of the pipeline runs forwards and backwards',
    '流水线上每个 rank 执行前向和反向的次序',
  ),
  activations: term(
    'activations',
    '激活值',
    'what the forward pass keeps because the backward pass needs it',
    '前向过程中为反向保留的张量',
  ),
  recompute: term(
    'recomputation',
    '重计算',
    'activations are dropped and recomputed in the backward pass: trades time for memory',
    '丢弃激活值，反向时再算一遍：用时间换显存',
  ),
  optimizer: term(
    'optimizer state',
    '优化器状态',
    'what the optimizer remembers of each parameter: momentum, variance, a copy in 32 bits',
    '优化器为每个参数记住的量：动量、方差、32 位的主权重',
  ),
  memory: term(
    'device memory',
    '显存',
    'memory of the accelerator itself, the scarcest thing of all',
    '加速卡自身的内存，往往最先不够用',
  ),
  offload: term(
    'offload',
    '卸载',
    'state or activations that wait on the host or a disk',
    '把状态或激活值暂存到主机内存或磁盘',
  ),
  collective: term(
    'collective',
    '集合通信',
    'an exchange that all ranks of a group take part in: all-reduce, all-gather, reduce-scatter',
    '一组 rank 全都参与的通信：all-reduce、all-gather、reduce-scatter 等',
  ),
  overlap: term(
    'overlap',
    '重叠',
    'communication that runs while ranks compute, and so costs no time',
    '与计算同时进行、因而不占时间的通信',
  ),
  intensity: term(
    'arithmetic intensity',
    '算术强度',
    'FLOPs for each byte that is read or written',
    '每读写一个字节所做的浮点运算次数',
  ),
  roofline: term(
    'roofline',
    'roofline',
    'the best a kernel can do: limited by memory below a certain intensity, by arithmetic above it',
    '一个 kernel 的性能上限：算术强度低时受带宽限制，高时受算力限制',
  ),
  throughput: term('throughput', '吞吐量', 'tokens trained on in a second', '每秒训练的 token 数'),
  mfu: term(
    'MFU',
    'MFU',
    'the share of the peak FLOP/s that goes into arithmetic the model needs',
    '模型必需的运算占峰值算力的比例',
  ),
  strong: term('strong scaling', '强扩展', 'the same batch on more devices', 'batch 不变，设备增多'),
  weak: term('weak scaling', '弱扩展', 'a batch that grows with the devices', 'batch 随设备一起增大'),
  straggler: term(
    'straggler',
    '掉队者',
    'a rank that is slower than others, which wait for it',
    '比别的 rank 慢、让它们等待的 rank',
  ),
  checkpoint: term(
    'checkpoint',
    '检查点',
    'parameters and optimizer state on disk; a run can resume from it under any plan',
    '磁盘上的参数和优化器状态，任何方案都能从它继续',
  ),
  goodput: term(
    'goodput',
    '有效吞吐量',
    'the share of the time that is left for training after failures, restarts and checkpoints',
    '扣除故障、重启和存检查点之后，真正用于训练的时间比例',
  ),
} as const satisfies Readonly<Record<string, Term>>

export type TermName = keyof typeof glossary
