/** All that is said of a run, in Chinese: a phrase of the core that is missing here is a type error. */
import type { EventPhrases, Translated } from 'lockstep'
import { failuresZh } from './failures.zh.js'

const suspect = '怀疑该 rank 所在的机器：内存或某个核偶尔出错'
const rarer =
  '检查这一步的数据；减小 lr、延长 warm-up 或设置 clip 会让突变更少，training.spikes: skip 会跳过范数突变的步'
const network = '网络每秒传输的字节比标称的少，或有别人在用'
const flight = '飞行记录写着每个 rank 当时在做什么；加上 --keep-going 会从前一步继续'
const goesOn = '运行继续，到下一个检查点再试'

export const eventPhrasesZh: Translated<EventPhrases> = {
  ...failuresZh,
  notFinite: ['损失不是有限值', '试试更小的 lr、warm-up 或 clip，并检查这一步的数据'],
  'notFinite/before': ['这一步之前 {what} 就不是有限值，在 rank {ranks} 上', '从更早的检查点继续'],
  'notFinite/parameter': ['这一步之前 {parameter} 就不是有限值'],
  'notFinite/chance': ['把这一步再跑两遍都是有限值：原因不在数据，也不在程序', suspect],
  'notFinite/differs': ['从同一状态跑两遍，第二遍的比特不同：最先出现在 {where}{rank}', suspect],
  'notFinite/data': ['数据里就有：{input}{microbatch}{rank} 中有 {value}', '检查这一步的数据'],
  'notFinite/made': [
    '第一个这样的数产生于 {where}{microbatch}{rank}：{op} 在 %{result} 中得到 {value}{operands}',
    '试试更小的 lr、warm-up 或 clip，或检查这一步的数据',
  ],
  'notFinite/loss': ['损失是 {loss}'],
  'notFinite/call': [
    '第一个这样的数产生于 {where}{microbatch}，rank {rank}，第 {call} 次调用{line}',
    '试试更小的 lr、warm-up 或 clip，或检查这一步的数据',
  ],
  'notFinite/once': [
    '把这一步再跑一遍是有限值：原因不在数据，也不在程序',
    '怀疑某个 rank 所在的机器：内存或某个核偶尔出错',
  ],
  'notFinite/sum': ['第一个这样的数产生于梯度求和或求范数处', '试试更小的 lr、warm-up 或 clip，并检查这一步的数据'],
  '.segment-of': ['{block} 的 {segment}'],
  '.line': ['：{line}'],
  '.given-finite': ['，而它的输入都是有限值'],
  'skipped/spike': ['梯度范数 {norm} 是突变：按之前的走势应小于 {limit}'],
  'skipped/above': ['梯度范数 {norm} 不小于 {limit}'],
  'skipped/not-finite': ['梯度范数不是有限值'],
  'skipped/scale': ['梯度范数不是有限值，scale 从 {before} 变到 {now}'],
  '.microbatch': ['（微批次 {microbatch}）'],
  '.rank': ['，rank {rank}'],
  '.operands': ['，操作数 {operands}'],
  '.operand': ['%{operand} 最大 {most}'],
  '.state': ['{parameter} 的 {state}'],

  'replicasDiffer/odd': [
    '{what}：rank {odd} 的比特与 rank {others} 不同，而后者彼此一致',
    '{resume}，并怀疑该 rank 所在的机器',
  ],
  'replicasDiffer/several': [
    '{what}：rank {odd} 的比特与 rank {others} 不同，而后者彼此一致',
    '{resume}，并怀疑这些 rank 所在的机器',
  ],
  'replicasDiffer/all': [
    '{what}：rank {others} 本应相同却不同，无从判断哪个对',
    '{resume}，并怀疑这些 rank 所在的机器',
  ],
  '.resume': ['从第 {step} 步（当时所有副本相同）或更早的检查点继续'],
  '.start-again': ['从头重新运行：此前没有一次副本比较是相同的'],
  'replicasDiffer/again': ['从同一状态跑两遍，第二遍的比特不同：最先出现在 {where}{rank}', suspect],

  lossSpike: ['损失 {value}，按之前的走势应为 {expected}：高出 {deviations} 个偏差', rarer],
  normSpike: ['梯度范数 {value}，按之前的走势应为 {expected}：高出 {deviations} 个偏差', rarer],
  'normSpike/skipped': [
    '梯度范数 {value}，按之前的走势应小于 {limit}：这一步被跳过',
    '检查这一步的数据；若跳过的步很多，减小 lr、延长 warm-up 或设置 clip',
  ],
  deadUnits: [
    '{of} 个单元中有 {units} 个已经 {steps} 步没有梯度：不再学习',
    '回到更早的检查点，减小 lr、延长 warm-up 或设置 clip：过大的一步会把单元推到没有梯度的地方',
  ],
  'deadUnits/experts': [
    '专家 {experts} 已经 {steps} 步没有梯度：没有 token 到达',
    '让专家更均衡：提高 balance 的速率，或使用辅助损失',
  ],
  diverges: [
    '损失上升：最近 {steps} 步为 {loss}，第 {since} 步前后为 {lowest}{lr}',
    '回到第 {since} 步前后的检查点，把 lr 减到三分之一、延长 warm-up 或设置 clip',
  ],
  '.lr': ['；学习率为 {lr}'],
  'scaleStuck/least': [
    'loss scale 停在最小值 {scale} 已有 {steps} 步：小梯度在 16 位下会消失',
    '梯度自身就溢出：试试更小的 lr、clip，或范围与 f32 相同的 bf16',
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
    '让路由均衡：model.moe.loss，或随负载变化的偏置（model.moe.bias: 0.001）',
  ],
  '.idle': ['，{experts} 个中有 {idle} 个一个也没有'],
  '.busiest': ['；最忙的 rank 是平均的 {times} 倍，其他 rank 在等它'],

  'dataRepeats/samples': [
    '最近 {steps} 步中有 {share}% 的样本以前出现过，而数据还在过第一遍',
    '数据里同样的文本有多份：去重',
  ],
  'dataRepeats/epochs': [
    '数据已经过了 {epochs} 遍（{samples} 个样本）：重复的内容越来越教不出东西',
    '用更多数据或更少步数；与验证集的损失对照（training.evalEvery）',
  ],
  dataLoader: [
    '各 rank 把一步的 {share}% 花在等数据上（{ms} ms）',
    '先分好词，用 token 文件训练（data.source: tokens.bin），并换更快的磁盘',
  ],

  'memory/allocator': [
    '最近 {steps} 步中设备有 {retries} 次显存不足{peak}：缓存全部归还后再重新申请',
    '减少显存占用：lockstep doctor 会列出代价最小的改法',
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
    '测一测：train --spans 或 replan 会说出哪里比应有的慢',
  ],
  axisOrder: [
    'rank 按 {order} 排列时，通信多的轴落在慢链路上：按 {usual} 排列一步会少 {gain}%',
    '不写 plan.order，或写成 {usual}',
  ],
  network: ['无法重叠的集合通信占一步的 {share}%，其中最多的是 {axis}（{most}%）', '试试：{change}，−{gain}%'],
  bubble: [
    '各 rank 把一步的 {share}% 花在等流水线上：{stages} 个 stage，{microbatches} 个微批次',
    '试试：{change}，−{gain}%',
  ],
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
  'timeout/emitted': ['停着不动的时间超过了 rank 的等待上限：{why}'],
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
  'checkpointDamaged/copy': ['{where}中第 {step} 步的副本：{why}'],
  checkpointDropped: ['没有写 {path}：前一个还没写完', '用 --save-every 少存几次，或换更快的磁盘'],
  saveFailed: ['{why}', goesOn],
  'timeout/rank': ['rank {rank} 停着不动{still}{before}', flight],
  'timeout/all': ['所有 rank 都停着不动{still}{before}', flight],
  '.longer': ['，超过了允许等待的时间'],
  '.seconds': ['已 {seconds} 秒'],
  '.usual': ['，而这里以往从未超过 {usual} 秒'],
}
