/** Placement: the same plan with its axes on other wires. */
import { oneOf } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { percent, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import type { JobText } from '../../work/jobs.js'
import { Cube } from './cube.js'
import { study } from './study.js'

const text = defineText(
  {
    claim:
      'Ranks are numbered along the axes of a plan, and neighbours share a node. Which axis is innermost decides who talks over fast links and who over slow ones; nothing else about the plan changes.',
    title: 'One plan, three orders of its axes',
    knobs: { model: 'Model', device: 'Device', microbatches: 'Microbatches' },
    caption: (fast: string, slow: string, times: string) =>
      `With tensor parallel ranks inside a node a step takes ${fast}, with pipeline ranks there ${slow}: ${times} times as long.`,
    order: { 'tp-cp-ep-dp-pp': 'tp inside', 'dp-tp-cp-ep-pp': 'dp inside', 'pp-tp-cp-ep-dp': 'pp inside' },
    letters: 'V: bytes an axis moves in a step; B: bandwidth of the links it runs over.',
    question: 'How many times longer is the step with pipeline ranks inside the node?',
    why: 'Tensor parallel ranks meet in every layer of every microbatch; a stage sends one activation to the next.',
    notice: [
      'No instruction differs between the orders. The same bytes go over other wires.',
      'Pipeline messages are small: between nodes they cost almost nothing.',
      'Where a node holds fewer devices than tp has ranks, every collective crosses the slow link.',
    ],
  },
  {
    claim:
      'rank 按方案的轴编号，相邻的 rank 在同一节点。哪个轴在最里层，决定了谁走快链路、谁走慢链路；方案的其余部分完全不变。',
    title: '同一方案，三种轴的顺序',
    knobs: { model: '模型', device: '设备', microbatches: '微批次' },
    caption: (fast: string, slow: string, times: string) =>
      `张量并行放在节点内，一步 ${fast}；流水线放在节点内，一步 ${slow}，是前者的 ${times} 倍。`,
    order: { 'tp-cp-ep-dp-pp': 'tp 在节点内', 'dp-tp-cp-ep-pp': 'dp 在节点内', 'pp-tp-cp-ep-dp': 'pp 在节点内' },
    letters: 'V：一个轴在一步里搬运的字节数；B：它所走链路的带宽。',
    question: '流水线放在节点内，一步会慢多少倍？',
    why: '张量并行在每一层、每个微批次都要通信；流水线的一级只向下一级发一份激活值。',
    notice: [
      '几种顺序之间没有任何指令不同，只是同样的字节走了不同的线。',
      '流水线消息很小，放到节点之间几乎不花时间。',
      '节点里的设备少于 tp 的 rank 数时，每次集合通信都要过慢链路。',
    ],
  },
)

const orders = ['tp-cp-ep-dp-pp', 'dp-tp-cp-ep-pp', 'pp-tp-cp-ep-dp'] as const

interface Chosen {
  readonly model: string
  readonly microbatches: number
}

const jobOf = ({ model, microbatches }: Chosen, rankOrder: string): JobText => ({
  model,
  training: { seq: 4096, globalBatch: 2 * microbatches },
  plan: { tp: 8, pp: 4, dp: 2, microbatches, schedule: '1f1b', precision: 'bf16', recompute: 'selective', rankOrder },
})

export default study({
  name: 'placement',
  words: text,
  table: {
    model: oneOf(['llama2-13b', 'llama3-70b'], 'llama3-70b'),
    device: oneOf(['a100-80', 'h100', 'gb200'], 'h100'),
    microbatches: oneOf([8, 16, 32], 16),
  },
  device: ({ device }) => device,
  variants: ({ model, microbatches }) =>
    orders.map(order => ({ label: text().order[order], job: jobOf({ model, microbatches }, order) })),
  more: ({ chosen }) => <Cube device={chosen.device} jobOf={order => jobOf(chosen, order)} />,
  caption: results =>
    text().caption(seconds(results[0]!.step), seconds(results[2]!.step), short(results[2]!.step / results[0]!.step)),
  formula: {
    en: tex`t \approx \frac{V}{B}, \qquad \text{tp's share} = \class{live}{\text{inside}} \to \class{live}{\text{across}}`,
    zh: tex`t \approx \frac{V}{B}, \qquad \text{tp 占比} = \class{live}{\text{inside}} \to \class{live}{\text{across}}`,
  },
  live: results => ({
    inside: percent(results[0]!.parts.tp / results[0]!.step),
    across: percent(results[2]!.parts.tp / results[2]!.step),
  }),
  answer: results => results[2]!.step / results[0]!.step,
})
