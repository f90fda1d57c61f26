/** MFU and HFU: one step of one plan, counted as four papers count, and with recomputation. */
import { type Knobs, oneOf } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { percent, seconds, thousands } from '../../base/numbers.js'
import { Bars } from '../../parts/bars.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Trouble } from '../../parts/trouble.js'
import type { Answer } from '../../work/answer.js'
import type { JobText } from '../../work/jobs.js'
import type { Count, UtilisationAnswer } from '../../work/measures.js'

const text = defineText(
  {
    title: 'One step on 64 devices, four definitions of MFU, and HFU',
    names: {
      palm: 'MFU, PaLM 2022',
      sc21: 'MFU, SC21 2021',
      korthikanti: 'MFU, Korthikanti 2022',
      llama3: 'MFU, Llama 3 2024',
      hardware: 'HFU',
    },
    counted: {
      palm: '6 for each parameter, and the whole of attention, its masked half too',
      sc21: 'four passes over every layer: recomputation is in it, whether it happens or not',
      korthikanti: 'three passes over every layer, whole attention',
      llama3: '6 for each parameter, and the half of attention that the mask leaves',
      hardware: 'as PaLM counts, and recomputation on top',
    },
    head: ['Definition', 'What it counts', 'FLOPs of a step', 'Of the peak'],
    caption: (step: string, least: string, leastName: string, most: string, mostName: string) =>
      `The same step of ${step} is ${least} (${leastName}) or ${most} (${mostName}) of the peak: a utilisation means nothing without the name of its count.`,
    recompute: 'Recomputation',
    policies: { none: 'none', selective: 'selective', full: 'full' },
    again: 'With recomputation HFU rises and every MFU falls: the device works more, the model gets no more done.',
  },
  {
    title: '64 个设备上的同一步：四种 MFU 定义，以及 HFU',
    names: {
      palm: 'MFU，PaLM 2022',
      sc21: 'MFU，SC21 2021',
      korthikanti: 'MFU，Korthikanti 2022',
      llama3: 'MFU，Llama 3 2024',
      hardware: 'HFU',
    },
    counted: {
      palm: '每个参数 6 次，注意力全算，被掩码遮住的一半也算',
      sc21: '每层四遍：不管有没有重计算，都算在内',
      korthikanti: '每层三遍，注意力全算',
      llama3: '每个参数 6 次，注意力只算掩码留下的一半',
      hardware: '按 PaLM 的算法，再加上重计算',
    },
    head: ['定义', '算了什么', '一步的 FLOP', '占峰值'],
    caption: (step: string, least: string, leastName: string, most: string, mostName: string) =>
      `同样是 ${step} 的一步，可以说用了峰值的 ${least}（${leastName}），也可以说用了 ${most}（${mostName}）：不说明怎么算，利用率就没有意义。`,
    recompute: '重计算',
    policies: { none: '不用', selective: '选择性', full: '全部' },
    again: '重计算让 HFU 变高，让每一种 MFU 变低：设备干得更多，模型并没有多学。',
  },
)

export const recomputing = { recompute: oneOf(['none', 'selective', 'full'], 'full') }
type Policy = 'none' | 'selective' | 'full'

interface Chosen {
  readonly model: string
  readonly sequences: number
  readonly tp: number
}

/** The lesson's model as it would be trained on 64 devices: 256 sequences a step, so many at once. */
export const runOf = ({ model, sequences, tp }: Chosen, recompute: string): JobText => ({
  model,
  training: { seq: 4096, globalBatch: 256 },
  plan: {
    ...{ tp, dp: 64 / tp, zero: 1, microbatches: (4 * tp) / sequences, precision: 'bf16', recompute },
    ...(tp > 1 && { sequenceParallel: true }),
  },
})

interface UtilisationProps {
  readonly answer: Answer<UtilisationAnswer>
  readonly recompute: Knobs<typeof recomputing>
}

export function Utilisation({ answer: { value, refusal, pending }, recompute }: UtilisationProps) {
  const words = text()
  const bars = (value?.rows ?? []).map(({ count, share }) => ({
    label: words.names[count],
    parts: [{ name: percent(share), value: share, kind: classes[count] }],
    note: percent(share),
  }))
  const caption = value ? captionOf(value) : '…'
  const rows = {
    head: words.head,
    body: (value?.rows ?? []).map(({ count, flops, share }) => [
      ...[words.names[count], words.counted[count]],
      ...[thousands(flops), percent(share)],
    ]),
  }
  const labels = { recompute: { label: words.recompute, show: (policy: Policy) => words.policies[policy] } }
  return (
    <>
      {refusal && <Trouble why={refusal} />}
      <Figure title={words.title} caption={`${caption} ${words.again}`} rows={rows} pending={pending}>
        <Controls knobs={recompute} labels={labels} />
        <Bars bars={bars} show={percent} label={caption} />
        <dl class="counted">
          {(value?.rows ?? []).map(({ count }) => (
            <div key={count}>
              <dt>{words.names[count]}</dt>
              <dd>{words.counted[count]}</dd>
            </div>
          ))}
        </dl>
      </Figure>
    </>
  )
}

const classes: Readonly<Record<Count, string>> = {
  ...{ palm: 'compute', sc21: 'compute', korthikanti: 'compute', llama3: 'compute', hardware: 'workspace' },
}

function captionOf({ rows, step }: UtilisationAnswer): string {
  const words = text()
  const sorted = [...rows].sort((a, b) => a.share - b.share)
  const [least, most] = [sorted[0]!, sorted.at(-1)!]
  return words.caption(
    seconds(step),
    ...([percent(least.share), words.names[least.count]] as const),
    ...([percent(most.share), words.names[most.count]] as const),
  )
}
