/** Problems in Chinese: phrases word for word, and a title for every code. */
import type { Problem, ProblemCode, ProblemWords, Spoken, Translated } from 'lockstep'
import { failuresZh } from './failures.zh.js'
import type { linkPhrases } from './link-phrases.js'
import { filesZh } from './problems-files.zh.js'
import { rulesZh } from './problems-phrases.zh.js'
import { runsZh } from './problems-runs.zh.js'
import { schemaZh } from './problems-schema.zh.js'
import { sizesZh } from './problems-sizes.zh.js'
import { schemaTextsZh } from './schema-texts.zh.js'
import { speakZh } from './tongue.zh.js'

export const problemTitlesZh: Readonly<Record<ProblemCode, string>> = {
  'command/usage': '命令的用法不对',
  'command/interrupted': '命令在得出结果之前被中断',
  'command/internal': 'lockstep 自身的错误',
  'file/unreadable': '文件读不了',
  'file/exists': '会覆盖已有的文件',
  'file/binary': '文件不是文本',
  'file/empty': '文件是空的',
  'file/size': '文件太大，不像是该有的内容',
  'file/yaml': '文件不是合法的 YAML',
  'file/documents': '一个文件里有多份文档',
  'file/deep': '嵌套太深',
  'file/key': '映射的键不是字符串',
  'file/duplicate': '同一个键写了两次',
  'file/alias': '别名没有锚点、包含自身，或展开后过多',
  'file/foreign': '这是另一个程序的配置',
  'import/refused': '这份其他框架的配置无法变成作业',
  'export/refused': '另一个框架表达不了：结果会是另一种训练',
  'file/more': '还有未列出的问题',

  'schema/key': '没有这个键',
  'schema/renamed': '字段用了旧名字，或同时用了两个名字',
  'schema/missing': '缺少必需的键',
  'schema/name': '没有这个名字',
  'schema/range': '数值超出范围',
  'schema/type': '值的类型不对',
  'schema/value': '不允许这个值',

  'model/preset': '没有这个预置模型',
  'model/file': '模型的 config.json 读不了',
  'model/config': '模型的 config.json 不完整或自相矛盾',
  'model/experts': '模型的路由设置（MoE）自相矛盾',
  'model/unsupported': '模型中有不支持的部分',
  'model/ignored': '模型的这项设置在这里不起作用',
  'model/heads': '头数、KV 头数与宽度不能整除',
  'model/rope': '旋转位置编码的缩放自相矛盾',
  'model/latent': 'latent attention 的尺寸与模型的其他尺寸矛盾',
  'model/positions': '序列比模型的位置数长',
  'model/dims': '模型的维度与训练矛盾，或用了没有声明的维度',
  'model/blocks': '模型的一个 block 没有下一个 block 所读的输出，或重复使用一个名字',
  'model/size': '模型的参数超过 2^53 个',

  'training/lr': '学习率调度自相矛盾，或有一部分不起作用',
  'training/optimizer': '优化器的设置互相矛盾',
  'training/lora': '目标矩阵不能加 LoRA 适配器',
  'training/loss': '损失是 NaN 或 Inf',
  'training/norm': '连续多步被跳过：梯度范数是 NaN 或 Inf，或不低于 `skipAbove`',
  'training/scale': 'loss scale 自相矛盾、不是 2 的幂，或已降到最小值',
  'training/diverged': '损失远高于未训练的模型',

  'plan/ranks': '方案的 rank 太多',
  'plan/order': '次序没有把每个轴各写一次',
  'plan/unsupported': '这个轴还不能用',
  'plan/batch-ramp': '逐步增大的 batch 不相衔接，或其中某个无法按方案切分',
  'plan/batch': '全局 batch 不能按数据并行的 rank 和微批次均分',
  'plan/indivisible': '某个维度不能按方案切成这么多份',
  'plan/documents': '文档不能按方案切分',
  'plan/experts': '这些 rank 不能这样分摊专家',
  'plan/stages': 'stage 比层还多',
  'plan/layers': '各 stage 的层数加起来不对',
  'plan/uneven': '有的 stage 比别的层多',
  'plan/chunks': '该调度的 chunk 数不是这个',
  'plan/schedule': '调度不适合这个方案，或调度文件不可用',
  'plan/precision': '这里的 kernel 不能用这种精度计算',
  'plan/offload': '张量不能卸载到方案指定的地方',
  'plan/compress': '数据并行的通信不能这样压缩',
  'plan/unwritable': '作业文件无法表达所要的方案',
  'plan/memory': '方案在一张卡的显存里放不下',
  'plan/size': '方案的任务太多，无法编译',
  'plan/no-effect': '这项设置在本方案中不起作用',
  'plan/bubble': '流水线气泡在一步中占很大一部分',
  'plan/traffic': '参数或梯度的传输次数多于必要',
  'plan/unwise': '两项设置互相抵触',
  'plan/model': '这一族模型没有成本模型',
  'plan/failed': '没有方案能通过编译',
  'plan/rehearsal': '方案无法缩小到能在本机试运行',

  'schedule/unknown': '没有这个调度',
  'schedule/count': 'rank、chunk 或微批次的个数不是至少为 1 的数',
  'schedule/shape': '这些个数下没有这个调度',
  'schedule/size': '调度太大',
  'schedule/cell': '文件中有一格不是动作',
  'schedule/invalid': '这些行拼不成一步训练',
  'schedule/stall': '调度会死锁',
  'schedule/auto': '找不到自动调度：任务太多，或没有次序能满足这些代价和上限',

  'groups/range': '大小不是 rank 的个数',
  'groups/indivisible': '各轴大小的乘积不等于 rank 数',
  'groups/order': '次序没有把每个轴各写一次',
  'groups/pipeline': '稠密 mesh 和专家 mesh 的流水线组不一致',
  'groups/unsupported': '该框架没有这个轴',

  'constraint/unknown': '看不懂这条约束',

  'cluster/unreadable': '集群文件读不了',
  'cluster/device': '目录中没有这种设备',
  'cluster/devices': '没有写设备数，或与方案的 rank 数不符',
  'cluster/precision': '设备不支持这种精度的乘法',
  'cluster/dims': 'torus 各维的乘积不等于设备数',
  'cluster/levels': '树的各级之间不成包含关系',
  'cluster/override': '这项设置不适用于该拓扑',

  'data/file': '数据或分词器的文件读不了',
  'data/binary': '数据不是文本',
  'data/empty': '没有文本',
  'data/size': '文本太多',
  'data/short': '数据不够一条序列或一个 batch',
  'data/labels': '序列中没有一个标签计入损失',
  'data/documents': '不知道文档的 EOS token，或文档填不满序列',
  'data/pairs': '问答对无法按作业的写法读取',
  'data/vocab': '模型的词表小于数据的词表',
  'data/family': '模型的种类与数据的种类不符',
  'data/no-effect': '数据的这项设置不起作用',

  'checkpoint/damaged': '检查点已损坏：读不了，或校验和不对',
  'checkpoint/missing': '检查点缺少模型的某个参数',
  'checkpoint/model': '检查点中有模型没有的参数',
  'checkpoint/shape': '某个参数在检查点中形状不同',
  'checkpoint/optimizer': '检查点是用另一种优化器写的',
  'checkpoint/seed': '检查点用的是另一个随机种子',
  'checkpoint/data': '检查点是在别的数据上训练的',
  'checkpoint/batch': '检查点用的是另一个全局 batch',
  'checkpoint/exists': '该文件夹里是另一次运行的检查点',
  'checkpoint/locked': '另一次运行正在写这个文件夹',
  'checkpoint/values': '要保存的值是 NaN 或 Inf',

  'weights/file': 'Hugging Face 文件夹缺少文件，或文件读不了',
  'weights/missing': 'Hugging Face 文件夹缺少模型的某个张量',
  'weights/unexpected': 'Hugging Face 文件夹中有模型用不到的张量',
  'weights/shape': 'Hugging Face 文件夹中张量的形状与 config.json 不符',
  'weights/dtype': 'Hugging Face 文件夹中张量的 dtype 不能读取',
  'weights/model': '权重属于另一个模型，不是作业里的那个',
  'weights/family': 'Hugging Face 没有这一族模型，或没有对应某项设置的字段',
  'weights/adapters': '没有可写的适配器，或适配器不属于这个模型',
  'generate/model': '这个模型不生成 token',
  'generate/prompt': '提示为空，或比上下文长',
  'generate/tokenizer': '不知道用哪个分词器',
  'generate/options': '生成的某个选项超出范围',

  'program/text': '程序的文本读不了',
  'program/law': '程序违反了不变量',
  'engine/kernels': '这里没有构建这些 kernel',
  'engine/failed': '引擎无法启动，或某一步失败',
  'engine/options': '引擎的某个选项超出范围',
  'engine/disk': '磁盘空间不够存放卸载的张量，或没有磁盘',
  'engine/memory': '某个 rank 或所有 rank 合计所需的内存超过现有的',
  'step/data': '一步的数据大小不对、id 超出词表，或 lr、步号不对',
  'group/call': '对进程组的调用中张量、rank 或个数无效',
  'run/foreign': '会覆盖不是 lockstep 写的文件',
  'run/exists': '该运行文件夹属于另一次运行',
  'run/unreadable': '这个文件夹不是一次运行的文件夹',
  'run/write': '文件写不了',
  'run/fault': '要注入的故障看不懂，或在这次运行中不会发生',
  'run/port': '端口无法监听',
  'replan/unmeasured': '这次运行没有各条指令的计时',
  'replan/cluster': '不知道这次运行用的是什么集群',
  'run/replicas': '持有同一参数的 rank 比特不同：静默数据损坏',
  'run/given-up': '运行失败了三次，没有前进一步',
  'run/ranks': '剩下的 rank 没有可行的方案',
  'run/choices': '没有可记录的路由',
  'emit/exists': '输出文件夹属于另一次运行',
  'emit/ranks': '在全局 batch 不变时，没有适合这么多 rank 的方案',
  'launch/python': '没有装了 PyTorch 的 Python',
  'launch/failed': 'torchrun 出错退出',
  'simulate/rank': '没有这个 rank',
  'compare/cluster': '该集群不是引擎能运行的机器',
  'validate/study': '没有这项研究',
  'validate/rows': '数据行读不了',
  'studio/missing': '还没有构建 studio 的页面',
}

/** All that is said of problems: a phrase of the core that is missing here is a type error. */
export const problemPhrasesZh: Translated<ProblemWords & typeof linkPhrases> = {
  ...{ ...schemaZh, ...rulesZh, ...sizesZh, ...filesZh, ...runsZh, ...failuresZh },
}

/** Whether all of it is said in Chinese: then the English need not stand behind it. */
export const isSaidZh = ({ phrase = '' }: Pick<Problem, 'phrase'>): boolean => Object.hasOwn(problemPhrasesZh, phrase)

/** What is wrong and what to do about it; what has no phrase, as what only a terminal shows, has its title alone. */
export function problemZh({ code, phrase, values = {} }: Pick<Problem, 'code' | 'phrase' | 'values'>): string {
  if (phrase === undefined || !isSaidZh({ phrase })) return problemTitlesZh[code]
  return speakZh({ phrase, values: inChinese(values) }, problemPhrasesZh)
    .filter(part => part !== '')
    .join('；')
}

/** Gaps in which schemas speak, in English as they are written. */
const inChinese = (values: Spoken['values']): Spoken['values'] =>
  Object.fromEntries(
    Object.entries(values).map(([name, gap]) => [
      name,
      (name === 'about' || name === 'expected') && typeof gap === 'string' ? (schemaTextsZh[gap] ?? gap) : gap,
    ]),
  )
