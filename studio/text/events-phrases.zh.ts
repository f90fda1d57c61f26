/** All that is said of a run, in Chinese: a phrase of the core that is missing here is a type error. */
import type { EventPhrases, Translated } from 'lockstep'
import { failuresZh } from './failures.zh.js'

const suspect = '怀疑该 rank 的硬件：内存或某个核偶尔出错'
const rarer =
  '检查这一步的数据；减小 lr、延长 warmup 或设置 clip 会减少尖峰；training.spikes: skip 会跳过梯度范数出现尖峰的步'
const network = '网络带宽低于标称值，或有其他作业在用'
const flight = 'flight record 记录了每个 rank 当时的位置；加上 --keep-going 会从前一步继续'
const goesOn = '运行继续，到下一个检查点重试'

export const eventPhrasesZh: Translated<EventPhrases> = {
  ...failuresZh,
  notFinite: ['损失是 NaN 或 Inf', '试试更小的 lr、warmup 或 clip，并检查这一步的数据'],
  'notFinite/before': ['这一步之前 {what} 就是 NaN 或 Inf，在 rank {ranks} 上', '从更早的检查点继续'],
  'notFinite/parameter': ['这一步之前 {parameter} 就是 NaN 或 Inf'],
  'notFinite/chance': ['把这一步重放两遍都是有限值：原因不在数据，也不在程序', suspect],
  'notFinite/differs': ['这一步不可复现：从同一状态重放得到不同的比特，最先出现在 {where}{rank}', suspect],
  'notFinite/data': ['输入数据里就有：{input}{microbatch}{rank} 中有 {value}', '检查这一步的数据'],
  'notFinite/made': [
    '第一个 NaN 或 Inf 产生于 {where}{microbatch}{rank}：{op} 在 %{result} 中得到 {value}{operands}',
    '试试更小的 lr、warmup 或 clip，或检查这一步的数据',
  ],
  'notFinite/loss': ['损失是 {loss}'],
  'notFinite/call': [
    '第一个 NaN 或 Inf 产生于 {where}{microbatch}，rank {rank}，第 {call} 次调用{line}',
    '试试更小的 lr、warmup 或 clip，或检查这一步的数据',
  ],
  'notFinite/once': [
    '把这一步重放一遍是有限值：原因不在数据，也不在程序',
    '怀疑某个 rank 的硬件：内存或某个核偶尔出错',
  ],
  'notFinite/sum': ['第一个 NaN 或 Inf 产生于梯度归约或梯度范数', '试试更小的 lr、warmup 或 clip，并检查这一步的数据'],
  '.segment-of': ['{block} 的 {segment}'],
  '.line': ['：{line}'],
  '.given-finite': ['，而它的输入都是有限值'],
  'skipped/spike': ['梯度范数 {norm} 是尖峰：按前面各步应低于 {limit}'],
  'skipped/above': ['梯度范数 {norm} >= {limit}'],
  'skipped/not-finite': ['梯度范数是 NaN 或 Inf'],
  'skipped/scale': ['梯度范数是 NaN 或 Inf，loss scale {before} -> {now}'],
  '.microbatch': ['（微批次 {microbatch}）'],
  '.rank': ['，rank {rank}'],
  '.operands': ['，操作数 {operands}'],
  '.operand': ['%{operand} 最大 {most}'],
  '.state': ['{parameter} 的 {state}'],

  'replicasDiffer/odd': [
    '{what}：rank {odd} 的比特与 rank {others} 不同，而后者彼此一致',
    '{resume}，并怀疑该 rank 的硬件',
  ],
  'replicasDiffer/several': [
    '{what}：rank {odd} 的比特与 rank {others} 不同，而后者彼此一致',
    '{resume}，并怀疑这些 rank 的硬件',
  ],
  'replicasDiffer/all': [
    '{what}：rank {others} 本应相同却不同，没有多数可以判断哪个对',
    '{resume}，并怀疑这些 rank 的硬件',
  ],
  '.resume': ['从第 {step} 步（当时所有副本相同）或更早的检查点继续'],
  '.start-again': ['从头重新运行：此前没有一次副本比较是相同的'],
  'replicasDiffer/again': ['这一步不可复现：从同一状态重放得到不同的比特，最先出现在 {where}{rank}', suspect],

  lossSpike: ['损失 {value}，按之前的走势应为 {expected}：高出 {deviations} 个偏差', rarer],
  normSpike: ['梯度范数 {value}，按之前的走势应为 {expected}：高出 {deviations} 个偏差', rarer],
  'normSpike/skipped': [
    '梯度范数 {value}，按之前的走势应小于 {limit}：这一步被跳过',
    '检查这一步的数据；若跳过的步很多，减小 lr、延长 warmup 或设置 clip',
  ],
  deadUnits: [
    '{of} 个单元中有 {units} 个已经 {steps} 步没有梯度：已经失活',
    '回到更早的检查点，减小 lr、延长 warmup 或设置 clip：过大的更新会使单元失去梯度',
  ],
  'deadUnits/experts': [
    '没有 token 路由到专家 {experts}：已经 {steps} 步没有梯度',
    '均衡负载：提高路由偏置的更新率（model.moe.bias），或使用负载均衡损失（model.moe.loss）',
  ],
  diverges: [
    '损失上升：最近 {steps} 步为 {loss}，第 {since} 步前后为 {lowest}{lr}',
    '回到第 {since} 步前后的检查点，把 lr 减到三分之一、延长 warmup 或设置 clip',
  ],
  '.lr': ['；学习率为 {lr}'],
  'scaleStuck/least': [
    'loss scale 停在最小值 {scale} 已有 {steps} 步：小梯度在 16 位下会下溢',
    '不缩放梯度也会溢出：试试更小的 lr、clip，或范围与 f32 相同的 bf16',
  ],
  'scaleStuck/overflows': [
    '最近 {steps} 步中有 {share}% 溢出而被跳过；scale 从 {from} 变到 {to}',
    '让 scale 增长得慢些（training.lossScale.interval），或改用 bf16',
  ],

  straggler: [
    '计算用时是同类 rank 的 {times} 倍：其他 rank 在等它{others}',
    '检查它的主机：频率、温度、其他进程；或不用它',
  ],
  '.stolen': ['；同时其他进程占去了 {share}% 的核'],
  'slowLink/group': [
    '沿 {axis} 的集合通信在 rank {ranks} 之间的用时是别处的 {times} 倍：其中有一条慢链路',
    '检查这些 rank 的链路：错误、降速协商的端口、其他流量',
  ],
  'slowLink/everywhere': ['沿 {axis} 的集合通信用时是 {cluster} 上预测的 {times} 倍', network],
  'slowLink/much': ['沿 {axis} 的集合通信用时远超 {cluster} 上的预测', network],
  'imbalance/stage': [
    'stage {from} 的忙碌时间是平均的 {times} 倍：把一层从 stage {from} 移到 {to}，−{gain}%',
    'plan.layers: [{layers}]',
  ],
  'imbalance/simulated': [
    'stage {from} 的忙碌时间是平均的 {times} 倍：把一层从 stage {from} 移到 {to}，按 {cluster} 上的模拟，一步 −{gain}%',
    'plan.layers: [{layers}]',
  ],
  'imbalance/no-move': ['stage {from} 的忙碌时间是平均的 {times} 倍；把哪一层移走都不能缩短一步'],
  'imbalance/experts': [
    '最忙的专家得到的 token 是平均的 {times} 倍{idle}{rank}',
    '均衡路由：负载均衡损失（model.moe.loss），或路由偏置（model.moe.bias: 0.001）',
  ],
  '.idle': ['，{experts} 个中有 {idle} 个一个也没有'],
  '.busiest': ['；最忙的 rank 是平均的 {times} 倍，其他 rank 在等它'],

  'dataRepeats/samples': [
    '最近 {steps} 步中有 {share}% 的样本是重复的，而这还是第一个 epoch',
    '数据里同样的文本有多份：去重',
  ],
  'dataRepeats/epochs': [
    '已完成 {epochs} 个 epoch（{samples} 个样本）：收益会递减',
    '增加数据或减少步数；与验证损失对照（training.evalEvery）',
  ],
  dataLoader: [
    '各 rank 把一步的 {share}% 花在等数据上（{ms} ms）',
    '先分好词，用 token 文件训练（data.source: tokens.bin），并换更快的磁盘',
  ],

  'memory/allocator': [
    '最近 {steps} 步中 CUDA 缓存分配器有 {retries} 次清空缓存后重试{peak}',
    '减少显存占用：lockstep doctor 会列出代价最小的改动',
  ],
  '.peak': ['，峰值 {peak} GiB'],
  'memory/plan': ['方案占可用显存的 {share}%', '代价最小的改法：{changes}'],
  'memory/none': ['方案占可用显存的 {share}%', '改任何一项都不会更省：用 lockstep plan 搜索全部'],
  '.cheaper': ['{change}（少 {less} GiB，用时 {time}%）'],

  'prediction/compute': [
    '所有 rank 的计算用时都是 {cluster} 上预测的 {times} 倍',
    '设备比标称的慢（频率、功率、其他进程），或集群文件写错了',
  ],
  'prediction/step': [
    '一步的用时是 {cluster} 上预测的 {times} 倍',
    '测一测：train --trace 或 replan 会显示哪里比预测的慢',
  ],
  axisOrder: [
    'rank 按 {order} 排列时，通信多的轴落在慢链路上：按 {usual} 排列一步会少 {gain}%',
    '不写 plan.rankOrder，或写成 {usual}',
  ],
  network: ['无法重叠的集合通信占一步的 {share}%，其中最多的是 {axis}（{most}%）', '试试：{change}，−{gain}%'],
  bubble: ['流水线气泡占一步的 {share}%：{stages} 个 stage，{microbatches} 个微批次', '试试：{change}，−{gain}%'],
  microbatches: [
    '每个微批次 {size} {sequences}，对设备太小：kernel 吃不满',
    '试试 plan.microbatches: {microbatches}，−{gain}%',
  ],
  '.sequence': ['条序列'],
  '.sequences': ['条序列'],

  '.place': ['{where}{microbatch}'],
  '.in-microbatch': ['{where}，微批次 {microbatch}'],
  '.at-stage': ['stage {stage}'],
  '.at-experts': ['{layer} 的专家'],
  '.at-ranks': ['{axis}，rank {ranks}'],
  '.at-all-ranks': ['{axis}，所有 rank'],
  '.at-allocator': ['显存分配器'],
  '.at-compute': ['计算'],
  '.at-epochs': ['数据遍数'],

  'restart/emitted': ['{failure}；从第 {from} 步之后继续，{again}'],
  '.suspended': ['rank {rank} 被挂起（SIGSTOP）'],
  '.killed': ['rank {rank} 被 {signal} 结束'],
  '.first-to-fail': ['最先失败的是 rank {rank}，退出码 {code}'],
  '.lost-step': ['重做 {steps} 步'],
  '.lost-steps': ['重做 {steps} 步'],
  '.nothing-lost': ['没有丢失一步'],
  'timeout/emitted': ['没有进展的时间超过了超时上限：{why}'],
  'replanned/emitted': ['改用 {ranks} 个 rank 的方案继续'],
  'saveFailed/path': ['写不了 {path}：{why}', goesOn],
  failed: ['运行在此结束：{why}'],
  'restart/from': ['{failure}；从第 {from} 步之后继续，取自 {where}{again}'],
  '.again': ['，重做 {steps} 步'],
  '.again-many': ['，重做 {steps} 步'],
  '.memory': ['各 rank 的内存'],
  '.seed': ['随机种子给出的初始权重'],
  replanned: ['现有 {ranks} 个 rank：改用 {plan}，原来是 {before}'],
  'checkpointDamaged/begin': ['{why}', '改用 {path}'],
  'checkpointDamaged/written': ['{why}', goesOn],
  'checkpointDamaged/passed': ['{path}：{why}'],
  'checkpointDamaged/copy': ['{where}中第 {step} 步的快照：{why}'],
  checkpointDropped: ['没有写 {path}：前一个还没写完', '用 --save-every 少存几次，或换更快的磁盘'],
  saveFailed: ['{why}', goesOn],
  'timeout/rank': ['rank {rank} 停滞{still}{before}', flight],
  'timeout/all': ['所有 rank 都停滞{still}{before}', flight],
  '.longer': ['，超过了超时上限'],
  '.seconds': ['已 {seconds} 秒'],
  '.usual': ['，而这里以往从未超过 {usual} 秒'],
}
