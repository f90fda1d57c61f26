/** What is said of sizes that must divide each other, and of the ranks that share them, in Chinese. */
import type { Phrases } from 'lockstep'

const zero = '，必须为 0'
const leaveOut = '不写它'
const order = '按从快到慢的次序，把 {order} 各写一次'
const batch = `globalBatch {globalBatch} % ({divisor} = {pieces}) = {rest}${zero}`
const pairs = '高频的维度对不变，低频的放慢'

const model = {
  'model/heads/kv': [`heads {heads} % kvHeads {kvHeads} = {rest}${zero}`, '试试 {near}'],
  'model/heads/width': ['embed {embed} / heads {heads} = {width}，不是整数', '试试 {near}'],
  'model/heads/odd': ['headDim {headDim} 是奇数，而旋转位置编码成对旋转', '试试 {near}'],
  'model/latent/keys': ['kvHeads 是 {kvHeads}，而 latent attention 的 {heads} 个头各有一个 key', leaveOut],
  'model/latent/width': [
    'headDim 是 {headDim}，而 qkNopeHeadDim {qkNopeHeadDim} + qkRopeHeadDim {qkRopeHeadDim} = {sum}',
    leaveOut,
  ],
  'model/latent/odd': ['qkRopeHeadDim {qkRopeHeadDim} 是奇数，而旋转位置编码成对旋转', '试试 {near}'],
  'model/latent/biases': ['latent attention 没有偏置', leaveOut],
  'model/latent/norms': ['latent attention 没有 q/k norm', leaveOut],
  'model/rope/low': ['low {low} 必须小于 high {high}', pairs],
  'model/rope/slow': ['slow {slow} 不能大于 fast {fast}', pairs],
  'model/positions': ['seq {seq} > 模型的位置数 {positions}', '试试 seq {positions}'],
  'model/size': ['{parameters} 个参数，超过 2^53'],
  'model/experts/chosen': ['topK {topK} > experts {experts}', '不要超过 {experts}'],
  'model/experts/together': ['groups 和 topKGroups 要一起写', '都写，或都不写'],
  'model/experts/groups': [`experts {experts} % groups {groups} = {rest}${zero}`, '试试 {near}'],
  'model/experts/chosen-groups': ['topKGroups {topKGroups} > groups {groups}', '不要超过 {groups}'],
  'model/experts/of-groups': [`topK {topK} % topKGroups {topKGroups} = {rest}${zero}`, '试试 {near}'],
  'model/experts/too-many': [
    'topK {topK} > experts {experts} / groups {groups} x topKGroups {topKGroups}',
    '少选几个，或从更多组里选',
  ],
  'model/experts/none': ['{layers} 层中没有一层有路由', '减小 dense 或 every'],
  'model/experts/shared': ['没有共享专家', '写 shared，即它的宽度'],
  'model/experts/group': [`seq {seq} % group {group} = {rest}${zero}`, '试试 {near}，或 sequence'],
  'model/experts/room': ['专家的容量是 0', '设置 least，或更大的 factor'],
} satisfies Phrases

const mesh = {
  'plan/unsupported/axis': ['还不支持 {axis} {size}', '让 {axis} 保持 1'],
  'plan/ranks': ['{factors} = {ranks} 个 rank，超过 {most}'],
  'plan/order/unknown': ['`{axis}` 不是网格的轴', order],
  'plan/order/twice': ['`{axis}` 写了两次', order],
  'plan/order/missing': ['缺少 {axis}', order],
  'plan/order/several': ['缺少 {axes}', order],
  'plan/batch': [batch, '试试 globalBatch {batches}'],
  'plan/batch/fewer': [batch, '试试 microbatches {fewer}，或 globalBatch {batches}'],
  'plan/size': ['{rows} 层 x {microbatches} 个微批次 = {tasks} 个任务，超过 {most}', '试试 {near}'],
  'plan/memory/states': [
    '参数、梯度和优化器状态在一个 rank 上至少要 {numbers} x {width} 字节 x {held} = {bytes}，而一张卡只有 {room}',
    '{instead}',
  ],
  'plan/memory/compiled': ['流水线 stage {stage} 的 rank 需要 {bytes}（{parts}），而一张卡只有 {room}', '{instead}'],
  '.with-zero': ['zero {zero} 时需要 {bytes}'],
  '.share': ['至少要 {ranks} 个 rank 分摊：用 tp x pp（现为 {now}），或用 dp 加 zero 3'],
  '.with-host': ['offload.optimizer 设为 host 时需要 {bytes}'],
  '.more-ranks': ['更大的 tp（现为 {tp}）或 pp（现为 {pp}）'],
  '.try': ['试试 {what}'],
  '.change': ['{change}（{bytes}）'],
  '.several': ['只改一项都不够；试试 {change}（{bytes}）'],
  '.spread': ['把模型分到更多 rank 上：{more}'],
  '.still': ['{change} 仍需要 {bytes}：{instead}'],
  'plan/stages': ['{stages}，而模型只有 {layers} 层', '最多 {most} 个 stage'],
  'plan/stages/ends': [
    '{stages}，而模型只有 {layers} 层',
    '最多 {most} 个 stage（若 plan.layers 让首尾两个为空，可再多两个）',
  ],
  '.stages': ['pp {pp} = {pp} 个 stage'],
  '.stages-of-chunks': ['pp {pp} x chunks {chunks} = {stages} 个 stage'],
  'plan/uneven': ['{layers} 层 = {parts}：层最多的 stage 决定一步的时间', '均分要 {near} 个 stage'],
  'plan/bubble': ['微批次 {microbatches} 个，少于 pp {pp}：流水线气泡约占一步的 {share}%', '{more} 个时是 {less}%'],
  'plan/traffic/gather': [
    '参数在 {microbatches} 个微批次的前向和反向中各 all-gather 一次：每个 rank 每步 {moved}',
    '`gather: step` 只传 {bytes}，但要多占同样多的显存',
  ],
  'plan/traffic/reduce': [
    '梯度在 {microbatches} 个微批次之后各 reduce-scatter 一次：每个 rank 每步 {moved}',
    '`reduce: step` 只传 {bytes}，但要多占同样多的显存',
  ],
  'plan/batch-ramp/file': [
    '{file} 的调度适用于 {microbatches} 个微批次，而更小的 batch 没有这么多',
    '试试有名字的调度',
  ],
  'plan/batch-ramp/end': ['until（序列数）和 tokens 写其中一个'],
  'plan/batch-ramp/order': ['在 {until} 条序列后结束，而之前的 batch 在 {before} 条后才结束', '要大于 {before}'],
  'plan/batch-ramp/pieces': [
    `globalBatch {globalBatch} % ({whole} / microbatches {microbatches} = {pieces}) = {rest}${zero}`,
    '试试 {near}',
  ],
  'plan/batch-ramp/of': ['微批次为 {microbatches} 个时：{what}', '{instead}'],
} satisfies Phrases

const split = {
  'plan/indivisible': ['{what} {size} 不能由 tp {tp} 切成 {tp} 份', '试试 tp {near}'],
  'plan/indivisible/vocab': [
    'vocab {size} 不能由 tp {tp} 切成 {tp} 份',
    '从头训练时，补齐到 128 x tp 的下一个倍数：vocab {padded}；要加载 {size} 个 token 的权重时，试试 tp {near}',
  ],
  'plan/indivisible/groups': [
    'tp {tp} = {own} x {more}：kvHeads {kvHeads} 可以切成 {own} 份，但 heads / kvHeads = {group} 不能切成 {more} 份',
    '试试 tp {near}',
  ],
  'plan/indivisible/sequence': ['seq {seq} 不能按 {ways} 均分', '试试 seq {next}，或 tp {near}'],
  'plan/indivisible/mlp': ['cp {cp} 切分序列，而 mlp 没有序列', '让 cp 保持 1'],
  'plan/indivisible/shard': ['dp {dp} % shard {shard} = {rest}，必须为 0', '试试 shard {near}'],
  'plan/indivisible/cp': [`seq {seq} % cp {cp} = {rest}${zero}`, '试试 seq {next}，或 cp {near}'],
  'plan/indivisible/zigzag': [`seq {seq} % (2 x {ranks}) = {rest}${zero}`, '试试 {fitting}'],
  'plan/indivisible/attention': ['ulysses {ulysses} x ring {ring} = {product}，必须等于 cp {cp}', '试试 {fitting}'],
  'plan/indivisible/heads': [
    'heads {heads}{left} 不能由 ulysses 切成 {ulysses} 份',
    '试试 attention {instead}ring 或 gather',
  ],
  'plan/indivisible/kv-heads': [
    'ulysses {ulysses} = {own} x {more}：kvHeads {kvHeads}{left} 可以切成 {own} 份，但 heads / kvHeads = {group} 不能切成 {more} 份',
    '试试 attention {instead}ring 或 gather',
  ],
  '.left': ['（每个 rank，tp {tp}）'],
  'plan/documents/none': ['数据没有文档边界', '试试 {fitting}，或 zigzag: true'],
  'plan/documents/pad': [`pad {pad} % (2 x {ranks}) = {rest}${zero}`, '试试 {fitting}'],
  'plan/documents/pairs': ['问答对不会被切开，token 数任意', '试试 zigzag: true'],
  'plan/experts/none': ['ep {ep} x etp {etp} 切分专家，而模型没有专家', '两者都保持 1'],
  'plan/experts/ranks': [
    `dp {dp} x cp {cp} x tp {tp} = {ranks} % (ep {ep} x etp {etp} = {ways}) = {rest}${zero}`,
    '试试 {fitting}',
  ],
  'plan/experts/grids': [
    '网格 tp {tp} x cp {cp} x dp {dp} 与 etp {etp} x ep {ep} x {copies} 不能嵌套：{ends} 中每个都要整除下一个',
    '试试 {fitting}',
  ],
  'plan/experts/order': ['专家只能按 {usual} 的次序切分，不能按 {order}', '不写 rankOrder'],
  'plan/experts/each': [`experts {experts} % ep {ep} = {rest}${zero}`, '试试 {fitting}'],
  'plan/experts/width': [`每个专家的 ffn {ffn} % etp {etp} = {rest}${zero}`, '试试 {fitting}'],
  'plan/experts/rows': [
    `seq {seq} % ({divisor} = {ways}) = {rest}${zero}：每个 rank 把自己的 token 分发给专家`,
    '试试 seq {next}',
  ],
} satisfies Phrases

export const sizesZh = { ...model, ...mesh, ...split }
