/** What is said of schedules, of searches, of programs that need more than there is and of faults in runs, in Chinese. */
import type { Phrases } from 'lockstep'

const most = '占用最多的是{kind}：试试'

const schedules = {
  'schedule/count': ['{count} 不是至少为 1 的整数'],
  'schedule/size/cells': [
    'pp {ranks} x chunks {chunks} x microbatches {microbatches} = {cells}，而最多能调度 {most} 个任务',
  ],
  'schedule/size/file': ['超过 {most} 格'],
  'schedule/shape': ['{name}：chunks = {chunks}，而这个调度的 chunks = {usual}'],
  'schedule/unknown': ["没有名为 '{name}' 的调度", '{instead}'],
  'schedule/auto/many': ['pp {ranks} x microbatches {microbatches} > {most}：太多，无法搜索次序'],
  'schedule/auto/costs': ['{ranks} 个 rank 写了 {costs} 个代价：要么共用一个，要么每个 rank 一个'],
  'schedule/auto/cost': ['每个代价必须是不小于 0 的有限数'],
  'schedule/auto/held': ['一个微批次的显存必须有限且不小于 0，实际是 I {I}、W {W}'],
  'schedule/auto/limit': ['上限 {limit} < {held}，即一个微批次的显存'],
  'schedule/cell': ['第 {row} 行第 {cell} 格：{what}'],
  '.two-tasks': ["'{text}' 里不是两个任务"],
  '.no-action': ["'{text}' 不是动作，如 0F1、0I1、0W1 或 0B1"],
  '.too-high': ["'{text}'：stage 和微批次的编号要小于 {most}"],
  'schedule/stall': ['{what}'],
  '.gradient': ['stage {stage} 微批次 {microbatch} 的输入梯度'],
  '.later': ['而它在自己这一行的后面'],
  '.on-rank': ['在 rank {rank} 上'],
  'schedule/invalid': ['{what}'],
  '.more': ['还有 {more} 个'],
  '.stalled': ['rank {rank} 在 {action} 处死锁：它在等 {what}，{where}'],
  '.outside': ['rank {rank}：{action} 超出了 {stages} 个 stage x {microbatches} 个微批次'],
  '.idle-rank': ['rank {rank} 没有任务'],
  '.no-pair': ['rank {rank}：{action} 必须把一个前向和一个完整的反向配成一对'],
  '.no-ranks': ['没有 rank'],
  '.not-so-many': ['{tasks} 个任务凑不成 {stages} 个 stage x {microbatches} 个微批次'],
  '.cell': ['stage {stage} 微批次 {microbatch}'],
  '.nowhere': ['缺少 {cell}'],
  '.forward': ['{cell} 的前向出现{times}'],
  '.back': ['{cell} 的反向出现{times}（{B} 个 B + {I} 个 I）'],
  '.unequal': ['{cell} 有 {I} 个 I，却有 {W} 个 W'],
  '.spread-out': ['{cell} 分散在多个 rank 上'],
  '.back-first': ['{cell} 在 rank {rank} 上先反向后前向'],
  '.weights-first': ['{cell} 在 rank {rank} 上 W 在 I 之前'],
  '.never': [' 0 次'],
  '.once': [' 1 次'],
  '.times': [' {times} 次'],
} satisfies Phrases

const searches = {
  'constraint/unknown/shape': ['不是字段与值的比较', "写成 'tp<=8' 这样"],
  'constraint/unknown/field': ['没有字段 {name}', '{instead}'],
  'constraint/unknown/integer': ['{value} 不是整数'],
  'constraint/unknown/rows': ['{value} 不是专家容量：不小于 1 的数，或 worst', "写成 'expertCapacity<=1.5' 这样"],
  'constraint/unknown/limit': ['memory 只能设上限', "写成 'memory<=70GiB' 这样"],
  'constraint/unknown/memory': ['{value} 不是内存大小', '写成 70GiB 这样'],
  'constraint/unknown/relation': ['{field} 只能用 = 或 !='],
  'constraint/unknown/word': ['{field} 没有 {word} 这个取值', '{instead}'],
  'plan/model': ['mlp 没有注意力，没有它的成本模型', '选 gpt 或 llama'],
  'plan/memory/listed': ['估算放得下的 {plans} 个方案编译之后都太大', "试试 --constraint 'memory<={limit}GiB'"],
  'plan/size/listed': [
    '放得下的 {plans} 个方案一步都要调用超过 {most} 层：没有编译',
    "试试 --constraint 'microbatches<={limit}'，或更小的 batch",
  ],
  'plan/failed': ['没有方案能通过编译：{why}'],
  '.none-found': ['一个也没有找到'],
} satisfies Phrases

const noPlan = '没有 rank 不超过 {ranks} 个、每步 {globalBatch} 条序列的可行方案'
const moreRanks = '用更多 rank 继续，或自己给一个方案'

const engine = {
  'engine/options/whole': ['{value} 不是整数'],
  'engine/options/time': ['{value} 不在 0 与 2^31 之间'],
  'engine/memory/rank': ['{needs}，而最多可用 {limit}', '{remedy}'],
  'engine/memory/machine': ['所有 rank 合计需要 {bytes}，而这台机器只有 {has}；{needs}', '{remedy}'],
  '.needs': ['rank {rank} 需要 {bytes}（{parts}）'],
  '.less/parameters': [`${most} zero 3、更大的 tp 或 pp`],
  '.less/gradients': [`${most} zero 2、更大的 tp 或 pp`],
  '.less/optimizer': [`${most} zero 1 加更大的 dp，或状态更少的优化器`],
  '.less/activations': [`${most}更多微批次、重计算、更大的 tp 或更短的 seq`],
  '.less/workspace': [`${most}更大的 tp，或更小的 batch`],
  '.less/data': [`${most}更小的 batch`],
  'engine/failed/token': ['这个页面没有有效的访问 token', '请打开 `lockstep studio` 打印的链接'],
  'engine/failed/busy': ['已有 {runs} 个运行在进行', '先停止其中一个'],
  'engine/failed/when': ['{when}：{what}'],
  'run/replicas': [
    '从第 {step} 步起副本不同：第 {equal} 步之后的检查点可能已损坏',
    '从第 {equal} 步或更早的检查点继续',
  ],
  'run/replicas/start': ['从第 {step} 步起副本不同：本次运行的所有检查点可能都已损坏', '从头重新运行'],
  'run/given-up': [
    '失败 {failures} 次而没有前进一步；最后一次：{failure}',
    '看看 flight record：每次都在同一处失败，说明原因是确定的',
  ],
  'run/ranks': [noPlan, moreRanks],
  'run/ranks/because': [`${noPlan}：{why}`, moreRanks],
  'engine/failed/silent': ['lockstep studio 的服务器没有回应（{why}）', '它是不是已经退出？'],
  'engine/kernels': ['这个构建里没有 {kernels} kernel', '试试 --kernels {there}'],
  'plan/precision/kernels': [
    '{kernels} kernel 不支持 FP8',
    '这里不写 fp8，或用 --kernels reference（慢）；生成的 PyTorch 支持',
  ],
} satisfies Phrases

const remedy = '试试更小的 lr、warmup 或 clip'
const leftAs = '{why}；参数和优化器状态仍是第 {left} 步之后的'
const moreSkips = `${remedy}，检查这些步的数据，或允许跳过更多步`
const ignorance = '而未训练的模型是 {ignorant}'
const resumeOr = '用 --resume {newest} 继续，或用 --save 指定另一个文件夹'

const training = {
  'training/loss': ['第 {step} 步的损失是 {loss}', remedy],
  'training/norm/step': [`第 {step} 步被跳过：${leftAs}`, moreSkips],
  'training/norm/steps': [`第 {first} 到 {step} 步被跳过：${leftAs}`, moreSkips],
  '.skipped/spike': ['梯度范数 {norm} 是尖峰：按前面各步应低于 {limit}'],
  '.skipped/above': ['梯度范数 {norm} >= {limit}'],
  '.skipped/not-finite': ['梯度范数是 NaN 或 Inf'],
  '.skipped/scale': ['梯度范数是 NaN 或 Inf，loss scale {before} -> {now}'],
  'training/scale': [
    '第 {step} 步的梯度是 NaN 或 Inf，而 loss scale 已在最小值 {min}',
    `不缩放梯度也会溢出：${remedy}，或用范围与 f32 相同的 bf16（用 bf16 训练的模型在 f16 下往往溢出）`,
  ],
  'training/diverged/step': [`训练发散：第 {step} 步的损失是 {loss}，${ignorance}`, remedy],
  'training/diverged/mean': [`训练发散：最后 {steps} 步的平均损失是 {loss}，${ignorance}`, remedy],
  'training/diverged/last': [`训练发散：最后的损失是 {loss}，${ignorance}`, remedy],
} satisfies Phrases

const saving = {
  'checkpoint/values': ['{path} 没有写：{what}', '从更早的检查点继续，用更小的 lr 或 clip'],
  'checkpoint/exists': ['{folder} 里是另一次运行的检查点，最后一个是 {last}；这次运行会从第 1 步开始', resumeOr],
  'checkpoint/exists/later': ['{folder} 里有另一次运行的 {last}，比这次运行接着的第 {behind} 步更晚', resumeOr],
  'checkpoint/locked/removed': ['{path} 在运行中被删掉了'],
  'checkpoint/locked': ['{folder} 正被{holder}使用，它正在运行', '用 --save 指定另一个文件夹'],
  'checkpoint/locked/elsewhere': [
    '{folder} 正被{holder}使用',
    '用 --save 指定另一个文件夹；如果那次运行已经结束，删掉 {lock}',
  ],
  '.holder': ['运行 {run}（{host} 上的进程 {pid}，始于 {since}）'],
  'run/write': ['写不了 {path}：{why}'],
  'generate/tokenizer': ['这个作业不在文本上训练'],
  'generate/prompt/long': ['提示必须有 1 到 {seq} 个 token，实际是 {tokens} 个'],
  'generate/prompt/none': ['提示是空的'],
  'generate/prompt/id': ['{id} 不是 token 的 id：id 小于 {vocab}'],
  'generate/prompt/room': ['{tokens} 个 token 放不下：上下文只剩 {room} 个位置'],
  'generate/model': ['mlp 在向量上训练，不生成 token'],
  'generate/options/context': ['{context} 不是 token 的个数'],
} satisfies Phrases

const faults = {
  'run/fault/kind': ['没有 `{kind}` 这种故障', '{instead}'],
  'run/fault/key': ['它没有键 `{key}`', '{instead}'],
  'run/fault/twice': ['{key} 写了两次', '只写一次'],
  'run/fault/missing': ['缺少 {key}', '写成 {example} 这样'],
  'run/fault/empty': ['{given} 没有值', '写 {key}=...'],
  'run/fault/whole': ['{key}={value} 不是整数'],
  'run/fault/whole-from': ['{key}={value} 不是至少为 {least} 的整数'],
  'run/fault/whole-between': ['{key}={value} 不是 {least} 到 {most} 的整数'],
  'run/fault/number': ['{key}={value} 不是数'],
  'run/fault/number-from': ['{key}={value} 不是至少为 {least} 的数'],
  'run/fault/rank': ['没有 rank {rank}：方案有 {ranks} 个 rank', '取 0 到 {last}'],
  'run/fault/parameter': ['没有参数 {parameter}', '{instead}'],
  'run/fault/interpreter': ['reference kernel 在一个线程里运行所有 rank，单个 rank 不会出故障', '换别的 kernel'],
  'run/fault/many': ['一个 rank 最多有 {most} 个故障，这个有 {faults} 个'],
  'run/fault/command': ['rank {rank} 每步有 {commands} 条命令', 'at 取 0 到 {last}'],
  'run/fault/no-command': ['rank {rank} 从第 {from} 条起没有合适的命令', '取更小的 at'],
  '.happens': ['第 {step} 步：{fault}'],
  '.cannot-happen': ['{fault} 不会发生：{why}'],
} satisfies Phrases

export const runsZh = { ...schedules, ...searches, ...engine, ...training, ...saving, ...faults }
