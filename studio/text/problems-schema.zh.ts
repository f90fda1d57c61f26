/** What schemas, config.json files and links are refused with, in Chinese. */
import type { Phrases } from 'lockstep'

const leaveOut = '不写它'

const schema = {
  'schema/missing': ['缺少'],
  'schema/missing/about': ['缺少：{about}'],
  'schema/missing/names': ['缺少；可以是 {names}'],
  'schema/type/kind': ['应为{kind}，实际是{got}', '{instead}'],
  'schema/type/said': ['{expected}，实际是{got}', '{instead}'],
  'schema/value': ['{expected}'],
  'schema/value/count': ['应为整数，如 8192 或 8k，实际是 `{got}`'],
  'schema/value/memory': ['`{got}` 不是内存大小；写成 {example} 这样'],
  'schema/value/experts': ['缺少：一共有几个专家，每个 token 遇到几个'],
  'schema/value/twice': ['{value}，而 {other} 是 {got}'],
  'schema/key': ['没有名为 `{key}` 的键', '{instead}'],
  'schema/name/word': ['{field} 没有 `{word}` 这个取值', '{instead}'],
  'schema/name/value': ['{field} 没有这个取值：{got}', '{instead}'],
  'schema/range/least': ['必须不小于 {limit}，实际是{got}'],
  'schema/range/above': ['必须大于 {limit}，实际是{got}'],
  'schema/range/most': ['必须不大于 {limit}，实际是{got}'],
  'schema/range/below': ['必须小于 {limit}，实际是{got}'],
  '.int': ['整数'],
  '.number': ['数'],
  '.string': ['字符串'],
  '.boolean': [' true 或 false'],
  '.array': ['列表'],
  '.object': ['映射'],
  '.text': ['字符串 {text}'],
  '.empty': ['空字符串'],
  '.null': ['空（null）'],
  '.characters': ['{limit} 个字符'],
  '.entries': ['{limit} 项'],
  '.unquoted': ['写 {value}，不加引号'],
  '.write': ['写 {value}'],
  '.did-you-mean': ['是不是 `{word}`？'],
  '.one-of': ['可以是 {words}'],
} satisfies Phrases

const shared = {
  '.part': ['{kind} {bytes}'],
  '.kind/parameters': ['参数'],
  '.kind/gradients': ['梯度'],
  '.kind/optimizer': ['优化器状态'],
  '.kind/activations': ['激活值'],
  '.kind/workspace': ['工作区'],
  '.kind/data': ['数据'],
  '.meant': ['是不是 {word}？'],
  '.there-are': ['有 {words}'],
} satisfies Phrases

const config = {
  'model/ignored/dropout': ['不起作用：这一族没有 dropout'],
  'model/ignored/mlp-bias': ['不起作用：这里的前馈层没有偏置'],
  'model/ignored/quantised': ['不起作用：参数不量化训练'],
  'model/ignored/scaled': ['不起作用：每一层的分数都乘 1/sqrt(headDim)'],
  'model/ignored/cross': ['不起作用：没有交叉注意力'],
  'model/ignored/rates': ['所有 dropout 用同一个比例：resid_pdrop 的 {rate}'],
  'model/ignored/output-bias': ['只有 query、key 和 value 有偏置，输出没有'],
  'model/ignored/window': ['不起作用：只有第 {from} 层起才有窗口；这里要么所有层都有，要么都没有'],
  'model/ignored/rotated': ['不起作用：整个头都旋转'],
  'model/ignored/scaling': ['不起作用：位置旋转时不做 `{scaling}` 缩放'],
  'model/ignored/ramp': ['不起作用：过渡区的首尾是整数对'],
  'model/ignored/jitter': ['不起作用：路由器看到的就是原样的 token'],
  'model/ignored/one-token': ['不起作用：只预测一个 token，不预测多个'],
  'model/ignored/groups': ['一组按它最好的 {chosen} / {groups} 个专家计分；transformers 取最好的 2 个'],
  'model/config': ['应为映射，实际是{got}'],
  'model/config/missing': ['缺少'],
  'model/config/type': ['缺少', '必须是 {families}'],
  'model/config/file': ['{file}：{key}{what}', '{instead}'],
  'model/heads/hidden': ['{width} / num_attention_heads {heads} 不是整数'],
  'model/unsupported/type': ['不支持 `{type}`', '{instead}'],
  '.nearest': ['最接近的是 `{name}`'],
  '.supported': ['支持：{families}'],
  'model/unsupported/activation': ['不支持激活函数 `{activation}`', '必须是 {allowed}'],
  'model/unsupported/layers': ['第 {layers} 层没有路由', '只有最前面的若干层可以这样，其余的都有路由'],
  'model/unsupported/scores': ['不支持 `{scores}`', '必须是 sigmoid 或 softmax'],
  'model/unsupported/frequency': ['{frequency}：这里稠密层之后的每一层都有路由', '试试 1'],
  'model/unsupported/biases': ['这里的 latent attention 没有偏置', '必须是 false'],
  'model/unsupported/unscaled': ['这里的注意力分数总是除以 sqrt(headDim)', '必须是 true'],
} satisfies Phrases

const cluster = {
  'schema/type/cluster': ['集群是一个映射', '如 {example}'],
  'cluster/device': ['没有名为 `{name}` 的设备', '{instead}'],
  'cluster/devices/least': ['至少要 1 个，实际是 {devices}'],
  'cluster/devices/slice': ['{devices} 个设备，多于一个 slice 的 {most} 个', '把 slices 设为 {slices} 或更多'],
  'cluster/devices/slices': ['{devices} 个设备不能均分成 {slices} 个 slice'],
  'cluster/precision': ['{device} 不支持 {precision} 乘法', '它支持 {precisions}'],
  'cluster/dims/tree': ['这些设备以树形相连，没有 {key}', leaveOut],
  'cluster/dims/product': ['{dims} = {product} 个设备，而实际有 {devices} 个'],
  'cluster/dims/many': ['写了 {dims} 维，而这些设备的 torus 有 {most} 维'],
  'cluster/override': ['这些设备以 torus 相连，没有节点', leaveOut],
  'cluster/levels/shrink': [
    '{size} 个设备的 {outer} 容不下 {within} 个设备的 {inner}',
    '各级从最内层写起，大小包含其内的所有设备',
  ],
  'cluster/levels/last': ['最后一级容纳 {size} 个设备，而实际有 {devices} 个', '最后一级要容纳所有设备'],
} satisfies Phrases

const link = {
  'schema/value/cluster': ['`{text}` 不是集群', '如 {example}'],
  'schema/value/between': ['`{text}` 不是 {least} 到 {most} 之间的数'],
  'schema/value/slow': ['`{text}` 不是慢 rank 的写法', '如 {example}'],
  'schema/value/part': ['`{text}` 不是方案的一部分', '如 {example}'],
  'schema/value/link': ['这个链接里的作业读不了', '链接是否复制完整？'],
  'plan/ranks/none': ['没有这样的方案：{why}'],
  'plan/ranks/axis': ['{product} 不等于 {devices} 个设备，也没有轴可以让出'],
  'cluster/devices/world': ['{product} = {ranks} 个 rank，而集群有 {devices} 个设备', '取 {ranks} 个设备，或修改 dp'],
  'simulate/rank': ['没有 rank {rank}：方案的 rank 是 0 到 {last}'],
} satisfies Phrases

export const schemaZh = { ...schema, ...shared, ...config, ...cluster, ...link }
