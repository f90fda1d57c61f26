/** What rules of a job say of schedules, precision, compression and what has no effect, in Chinese. */
import type { Phrases } from 'lockstep'

const lost16 = 'f16 小于 2^-24 会下溢：不设 loss scale，更小的梯度会变成 0'
const addends = '{reduce}：结果取决于各 rank 的本地梯度，因而随 dp 和 tp 变化（现为 {dp} 和 {tp}）'
const plainBf16 = 'bf16 只做舍入，与方案无关'

export const rulesZh = {
  'plan/no-effect/with': ['{why} 时不起作用'],
  'plan/no-effect/below': ['zero 低于 {zero} 时不起作用'],
  'plan/no-effect/replicated': [
    'zero 0 时每个 rank 都是完整副本：没有可切到 {shard} 个 rank 上的状态',
    '把 zero 设为 1、2 或 3，或去掉 shard',
  ],
  'plan/no-effect/sharded': [
    'zero {zero} 在只有一个 rank 的组内切分，等于不切',
    '把 shard 设为一个节点的设备数，或把 zero 设为 0',
  ],
  'plan/no-effect/zero': ['dp 为 1 时 zero {zero} 不起作用'],
  'plan/no-effect/recompute': ['这个 {family} 没有 {absent}', '它有 {has}'],
  'plan/no-effect/compress': ['dp 和 cp 为 1 时不起作用：数据轴上没有通信'],
  'plan/no-effect/parameters': ['{gather}：参数本来就是 {dtype}'],
  'plan/no-effect/gradients': ['{reduce}：梯度本来就是 {dtype}'],

  'plan/layers/entries': ['写了 {entries} 项，而 {stages}', '写 {count} 个数，加起来是 {layers}'],
  'plan/layers/only': ['唯一的 stage 持有全部 {layers} 层，不是 {wrong} 层', '不写 plan.layers'],
  'plan/layers/sum': ['{parts} = {sum}，而模型有 {layers} 层', '总和必须是 {layers}'],
  'plan/layers/none': ['stage {stage} 会持有 {held} 层（{parts}）', '只有首尾两个 stage 可以没有层'],
  'plan/chunks/looped': ['调度 {schedule} 的 chunk 数是 {chunks}，实际是 {got}', '试试调度 {looped}'],
  'plan/chunks/fixed': ['调度 {schedule} 的 chunk 数是 {chunks}，实际是 {got}', '不写 chunks'],
  'plan/schedule/even': ['{schedule} 适用于偶数个 pp，实际是 pp {pp}', '试试 {near}'],
  'plan/schedule/pairs': ['{schedule} 适用于偶数个微批次，实际是 {microbatches}', '试试 {near}'],
  'plan/schedule/fill': [
    '微批次达到 2 × pp = {least} 时 {schedule} 才填满流水线，实际是 {microbatches}',
    '试试 {least}',
  ],

  'plan/offload': ['ZeRO-{zero} 下完整的参数在各步之间一直留在设备上，不会从 {space} 取回', '试试 zero 3'],

  'plan/unwise/full': [
    '{schedule} 下完全重计算省得不多：求输入梯度时重算的内容要保留到求权重梯度',
    '试试 selective 或 1f1b',
  ],
  'plan/unwise/sequence': [
    '{schedule} 把反向拆成两半，两半都要在 tp 上收集输出梯度：每层 6 次 all-gather，而不是 4 次',
    '试试 1f1b 或 interleaved',
  ],
  'plan/unwise/f16': [lost16, '设置 training.lossScale，或改用 bf16'],
  'plan/unwise/nothing-crosses': ['{reduce}：{axes}上没有通信，梯度却照样损失精度', '不写 reduce'],
  '.data-axes': ['数据并行维度'],
  'plan/unwise/ratio': [
    'ratio {ratio} × dp {dp} = {product}，达到 1 时发送的字节不比全量 all-reduce 少',
    '试试小于 {less}',
  ],
  'plan/unwise/sums': [
    '{microbatches} 个微批次的梯度在 bf16 下累加，而 {most} 个相近的数相加后和就不再增长',
    '试试 f32',
  ],

  'plan/precision/f16': [lost16, '把 training.lossScale 设为 {scaler}，或改用不需要它的 bf16'],
  'plan/precision/gradients-f16': ['梯度由 f16 算出：改成 {asked} 范围不变，精度变低', '设为 {can}，或把精度设为 bf16'],
  'plan/precision/gradients': [
    '梯度由 {dtype} 算出：改成 {asked} 只会损失精度，什么也省不了',
    '设为 {can}，或把精度设为 bf16',
  ],
  'plan/precision/rounding-f32': [
    '参数是 f32：随机舍入不起作用',
    '把 precision 设为 bf16-no-masters 或 pure-bf16，或不写 rounding',
  ],
  'plan/precision/rounding': [
    'f32 主权重已经保留了 {dtype} 参数会丢掉的更新：随机舍入不起作用',
    '把 precision 设为 bf16-no-masters 或 pure-bf16，或不写 rounding',
  ],
  'plan/unsupported/adafactor': ['adafactor 只支持 rounding: nearest', '换一种优化器'],
  'plan/precision/codes': [
    'FP8 矩阵乘量化的是 bf16 张量，而 precision {precision} 存的是 {dtype}',
    '把 plan.precision 设为 bf16 或 pure-bf16',
  ],
  'plan/precision/side': ['{name} = {size} 不是 {side} 的倍数：GPU 要先反量化再相乘，FP8 不会更快', '试试 {next}'],
  '.tokens': ['每个 rank 的 token 数'],
  'plan/precision/experts': [
    '{count} 个专家的矩阵乘仍用 {dtype}：只有注意力和每个 token 都经过的层使用 FP8',
    '把 plan.fp8.experts 设为 true，专家也会用',
  ],
  'plan/precision/rows': [
    '按块量化的专家输入，GPU 会先反量化再用 {dtype} 相乘，专家权重的梯度也用 {dtype} 计算：专家用 FP8 不会更快',
    '把 recipe 设为 current 或 delayed，或把 experts 设为 false',
  ],
  'plan/precision/no-experts': ['模型没有专家', '不写它'],
  'plan/precision/mx': [
    'mx 只保留缩放的指数：而 exact = FP8 最大值 ÷ amax，不是 2 的幂',
    '把 scales 设为 powers，或把 recipe 设为 blocks',
  ],
  'plan/precision/delayed': ['不起作用：delayed 的缩放总是精确的'],
  'plan/precision/documents': [
    '每个文档单独切分，一个块里有哪些 token 就会取决于 cp',
    '把 plan.zigzag 设为 true，或把 recipe 设为 current',
  ],
  'plan/precision/block': ['GPU 能直接相乘的是 {usual} 的块；其他大小要先反量化', '保持 {usual}'],
  'plan/precision/cut': [
    '{name} {size} / ({by}) = {each} 不是 {whole} 的倍数：切分会切开 {block} 的块',
    '试试 {name} {next}，或把 recipe 设为 current',
  ],

  'plan/compress/exact-copy': [
    'zero {zero} 时 all-gather 得到的参数是唯一的精确副本：gather {gather} 会把它舍入',
    '把 zero 设为 3，或不写 gather',
  ],
  'plan/compress/cuts': ['int8：结果取决于参数怎样切分，因而随 dp、cp、tp 变化（现为 {dp}、{cp}、{tp}）', plainBf16],
  'plan/compress/virtual': ['virtual 是在单个 rank 上模拟其他数据并行 rank，而方案有 {ranks} 个 rank', '不写 virtual'],
  'plan/compress/replicas': [
    'int8 的和不能再跨副本 all-reduce：dp {dp}、shard {shard} 时梯度要求和两次',
    '把 reduce 设为 bf16，或去掉 shard',
  ],
  'plan/compress/once': [
    '{reduce} 每步只发送一次梯度，而 zero {zero} 时每个微批次都各自 reduce-scatter',
    '把 reduce 设为 step，或把 zero 设为 1',
  ],
  'plan/compress/f32': ['{reduce} 的误差反馈残差以 f32 加到下一步的梯度上，而梯度是 {dtype}', '把 gradients 设为 f32'],
  'plan/compress/device': ['{reduce} 的误差反馈残差要留在设备上，而优化器状态在 {space}', '不写 offload.optimizer'],
  'plan/compress/adam': [
    'onebit 压缩的是 Adam 的一阶动量，而优化器是 {optimizer}',
    '把 training.optimizer.kind 设为 adamw，或试试 topk',
  ],
  'plan/compress/uncorrected': [
    'onebit 会冻结 v，而偏差修正还会继续，更新的大小会随之改变',
    '把 uncorrected 设为 true',
  ],
  'plan/compress/option': ['onebit 只发送 AdamW 的一阶动量，而设置了 {option}', '不写 {option}'],
  'plan/compress/part': [
    'onebit 要求每个 rank 有完整的 m，而 zero {zero} 把它切分了：每步都要 all-gather，每个参数 4 字节',
    'zero 0 只发送符号',
  ],
  'plan/compress/from': [
    'v 在第 0 步就被冻结，而那时它是 0：参数不会更新',
    '把 from 设为学习率预热结束的那一步，或 {enough}',
  ],
  'plan/compress/early': [
    '1-bit Adam 需要预热：从第 {from} 步起 v 冻结在梯度均方的 {percent} %（beta2 {beta2}），更新一直是 Adam 的 {times} 倍，训练可能发散',
    '把 from 设为 {enough}，或调低 beta2',
  ],
  'plan/compress/zigzag': [
    'powersgd 为可学习的位置嵌入保存残差；zigzag 使每个 rank 持有其中不相邻的两段，检查点无法保存',
    '把 zigzag 设为 false，或试试 topk',
  ],
  'plan/compress/clip': ['从第 {from} 步起梯度不再 all-reduce：clip {clip} 限制的是平均后的一阶动量 m 的范数'],
  'plan/compress/sequences': ['{reduce} 压缩的是完整序列的梯度，而 cp {cp} 切分了序列', '把 cp 设为 1，或试试 bf16'],
  'plan/compress/experts': ['{reduce}：{axis} {size} 时专家的梯度来自多个 rank 的 token，不压缩'],
  'plan/compress/both-ends': [
    '{reduce}：{schedule} 时每个 stage 由两个 rank 持有，梯度还要再求和一次，不能压缩',
    '换一种调度，或试试 bf16',
  ],
  'plan/compress/balance': [
    '{reduce} 压缩各 rank 的本地梯度，而微批次内的负载均衡损失取决于所有 rank',
    '不写 model.moe.loss.microbatch，或试试 bf16',
  ],
  'plan/compress/addends': [addends, plainBf16],
  'plan/compress/addends-kept': [addends, 'powersgd 的残差与方案无关'],
} satisfies Phrases
