/** ZeRO: what each of its stages leaves on a rank, and what it costs on the wire. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { bytes, count, percent, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { Bars, Legend } from '../../parts/bars.js'
import { Figure } from '../../parts/figure.js'
import { partsOf } from '../../parts/kinds.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { ZeroAnswer, ZeroStage } from '../../work/memory-lessons.js'
import { HeldOver } from './held-over.js'
import { Prices } from './prices.js'

const text = defineText(
  {
    claim:
      'Data parallel ranks all hold the same weights, gradients and optimizer state. ZeRO lets each hold a slice and fetches the rest when it is needed: stage 1 splits the state, stage 2 the gradients too, stage 3 the weights as well.',
    title: 'What a rank holds at each stage',
    stage: (n: number) => `ZeRO-${n}`,
    caption: (none: string, chosen: string, stage: number, times: string) =>
      `A rank holds ${none} without ZeRO and ${chosen} under ZeRO-${stage}: ${times} times less.`,
    whole: (none: string, three: string) => `A rank holds ${none} without ZeRO; stage 3 would leave ${three}.`,
    limit: 'memory of an H100',
    head: ['Stage', 'Parameters', 'Gradients', 'Optimizer state', 'Together'],
    model: 'Model',
    ranks: 'Data parallel ranks',
    recipe: 'Bytes a parameter',
    recipes: { '16': '16: gradients bf16', '18': '18: gradients f32' },
    zero: 'Stage',
    sentence: (stage: number, bytes: string, made: string) =>
      `Under ZeRO-${stage} a rank holds ${bytes} before activations, and the program starts ${made} in a step.`,
    nothing: 'no collective',
    letters:
      'P parameters, N ranks; w, g, o: bytes of a weight, its gradient and its optimizer state. The bound is what slices alone would take.',
    cost: 'What a step takes',
    costCaption: (share: string, stage: number, exposed: string) =>
      `On H100s a step under ZeRO-${stage} takes ${share} of the step without ZeRO; it waits ${exposed} for data parallel traffic that nothing hides.`,
    parts: { compute: 'compute', dp: 'waiting for dp', optimizer: 'optimizer', other: 'other' },
    costHead: ['Stage', 'Compute', 'Waiting for dp', 'Optimizer', 'Other', 'Step'],
    question: (ranks: number, more: number) =>
      `Under ZeRO-1, from ${ranks} to ${more} ranks: how many times less does a rank hold?`,
    times: (n: string) => `${n} times`,
    why: 'Only the sliced kind shrinks; weights and gradients stay whole, and from some number of ranks on they are all that is left.',
    notice: [
      'Stage 1 takes what is largest, the optimizer state, and turns one all-reduce into a reduce-scatter and an all-gather of the same bytes.',
      'Stage 2 never holds a whole gradient: each layer’s is reduced while the backward pass goes on, and dropped.',
      'Stage 3 stays above its bound: the layer at work is whole on every rank, and so is the one that is fetched ahead.',
    ],
  },
  {
    claim:
      '数据并行的每个 rank 存着同样的权重、梯度和优化器状态。ZeRO 让每个 rank 只存一片，要用时再取：第 1 级切优化器状态，第 2 级再切梯度，第 3 级连权重也切。',
    title: '每一级下一个 rank 存多少',
    stage: (n: number) => `ZeRO-${n}`,
    caption: (none: string, chosen: string, stage: number, times: string) =>
      `不用 ZeRO 时每个 rank 存 ${none}，ZeRO-${stage} 下存 ${chosen}，缩小到 1/${times}。`,
    whole: (none: string, three: string) => `不用 ZeRO 时每个 rank 存 ${none}；第 3 级会降到 ${three}。`,
    limit: '一张 H100 的显存',
    head: ['级别', '参数', '梯度', '优化器状态', '合计'],
    model: '模型',
    ranks: '数据并行的 rank 数',
    recipe: '每个参数的字节数',
    recipes: { '16': '16：梯度用 bf16', '18': '18：梯度用 f32' },
    zero: '级别',
    sentence: (stage: number, bytes: string, made: string) =>
      `ZeRO-${stage} 下，不算激活值，每个 rank 存 ${bytes}；程序在一步里发起 ${made}。`,
    nothing: '零次集合通信',
    letters: 'P：参数个数；N：rank 数；w、g、o：每个参数的权重、梯度、优化器状态的字节数。下界只算切片本身。',
    cost: '一步要多久',
    costCaption: (share: string, stage: number, exposed: string) =>
      `在 H100 上，ZeRO-${stage} 的一步是不用 ZeRO 时的 ${share}；其中 ${exposed} 在等没能被计算掩盖的数据并行通信。`,
    parts: { compute: '计算', dp: '等待 dp 通信', optimizer: '优化器', other: '其他' },
    costHead: ['级别', '计算', '等待 dp 通信', '优化器', '其他', '一步'],
    question: (ranks: number, more: number) =>
      `ZeRO-1 下，rank 从 ${ranks} 个增加到 ${more} 个，每个 rank 存的东西会减少到几分之一？`,
    times: (n: string) => `1/${n}`,
    why: '变小的只有被切的那一种；权重和梯度仍是完整的，rank 多到一定程度后就只剩它们了。',
    notice: [
      '第 1 级切掉最大的一块，也就是优化器状态；一次 all-reduce 变成字节数相同的 reduce-scatter 加 all-gather。',
      '第 2 级从不持有完整梯度：反向传播一边进行，一边逐层归约，随即释放。',
      '第 3 级总比下界高：正在计算的那一层在每个 rank 上都是完整的，预取的下一层也是。',
    ],
  },
)

const table = {
  model: oneOf(['gpt2-xl', 'megatron-7.5b', 'llama2-13b', 'llama3-70b'], 'megatron-7.5b'),
  ranks: oneOf([2, 4, 8, 16, 32, 64, 128, 256, 512], 64),
  recipe: oneOf(['16', '18'], '18'),
  zero: oneOf([0, 1, 2, 3], 1),
}

const bounds = [
  tex`\displaystyle M_0 = P\,(w + g + o) = \class{live}{\text{bound}}`,
  tex`\displaystyle M_1 \ge P\,\Bigl(w + g + \frac{o}{N}\Bigr) = \class{live}{\text{bound}}`,
  tex`\displaystyle M_2 \ge P\,\Bigl(w + \frac{g + o}{N}\Bigr) = \class{live}{\text{bound}}`,
  tex`\displaystyle M_3 \ge P\,\frac{w + g + o}{N} = \class{live}{\text{bound}}`,
]

export default function Zero() {
  const knobs = readKnobs(table)
  const { model, ranks, recipe, zero } = knobs.chosen
  const input = { model, ranks, recipe }
  const { value, refusal, pending } = useAnswer('fast', ['memory', 'stages'], input)
  const code = useAnswer('fast', ['memory', 'zeroCode'], { zero }).value
  const heldOver = useAnswer('long', ['memory', 'held'], { ...input, zero })
  const words = text()
  const stage = value?.stages[zero]
  const shown = { value, pending, zero }
  const labels = {
    model: { label: words.model },
    ranks: { label: words.ranks },
    recipe: { label: words.recipe, show: (recipe: '16' | '18') => words.recipes[recipe] },
    zero: { label: words.zero },
  }
  return (
    <Lesson
      name="zero"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={labels} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Held {...shown} />
        </>
      }
      more={
        <>
          <Cost {...shown} />
          <HeldOver answers={heldOver} capacity={value?.capacity} zero={zero} />
          {value && <Prices job={value.stages[0]!.job} device="h100" />}
        </>
      }
      sentence={stage && words.sentence(zero, bytes(stage.states), collectivesIn(stage))}
      formula={{
        math: bounds[zero]!,
        live: value ? { bound: bytes(boundOf(value, zero, ranks)) } : {},
        letters: words.letters,
      }}
      guess={{
        question: words.question(ranks, 16 * ranks),
        run: () => ask('fast', ['memory', 'shrinks'], input),
        show: n => words.times(short(n)),
        why: () => words.why,
        min: 1,
      }}
      notice={words.notice}
      program={code?.lines}
      python={code?.python}
      open={{ ...(stage && { plan: planQuery(stage.job, 'h100') }) }}
      command={stage ? onJob(stage.job, 'memory -') : 'lockstep memory -'}
      says={stage && { field: 'stages.0.peak.optimizer', value: stage.bytes.optimizer }}
      also={(heldOver.value ?? []).map(({ job, gradients }) => ({
        line: onJob(job, 'memory -'),
        says: { field: 'stages.0.peak.gradients', value: gradients },
      }))}
    />
  )
}

const collectivesIn = ({ collectives }: ZeroStage): string =>
  Object.entries(collectives)
    .map(([kind, times]) => `${count(times)} ${kind}`)
    .join(' + ') || text().nothing

/** Slices alone: what stage 0 holds, over the ranks where the stage splits it. */
function boundOf({ stages }: ZeroAnswer, zero: number, ranks: number): number {
  const { parameters, gradients, optimizer } = stages[0]!.bytes
  const [w, g, o] = [parameters, gradients, optimizer].map((bytes, n) => (zero >= 3 - n ? bytes / ranks : bytes))
  return w! + g! + o!
}

interface Shown {
  readonly value: ZeroAnswer | undefined
  readonly pending: boolean
  readonly zero: number
}

const held = ['parameters', 'gradients', 'optimizer'] as const

function Held({ value, pending, zero }: Shown) {
  const words = text()
  const stages = value?.stages ?? []
  const bars = stages.map(stage => ({ label: words.stage(stage.zero), parts: partsOf(stage.bytes, held) }))
  const [none, chosen, last] = [stages[0], stages[zero], stages[3]]
  const caption =
    none &&
    (zero === 0
      ? words.whole(bytes(none.states), bytes(last!.states))
      : words.caption(bytes(none.states), bytes(chosen!.states), zero, short(none.states / chosen!.states)))
  const rows = {
    head: words.head,
    body: stages.map(stage => [
      words.stage(stage.zero),
      ...held.map(kind => bytes(stage.bytes[kind])),
      bytes(stage.states),
    ]),
  }
  return (
    <Figure title={words.title} caption={caption ?? '…'} rows={rows} pending={pending}>
      {value && (
        <>
          <Bars bars={bars} show={bytes} limit={{ label: words.limit, value: value.capacity }} label={caption ?? ''} />
          <Legend bars={bars} />
        </>
      )}
    </Figure>
  )
}

const spent = ['compute', 'dp', 'optimizer', 'other'] as const
const classes = { compute: 'compute', dp: 'gradients', optimizer: 'optimizer', other: 'other' } as const

function Cost({ value, pending, zero }: Shown) {
  const words = text()
  const stages = value?.stages ?? []
  const bars = stages.map(stage => ({
    label: words.stage(stage.zero),
    parts: spent.map(part => ({ name: words.parts[part], value: stage.parts[part], kind: classes[part] })),
  }))
  const [none, chosen] = [stages[0], stages[zero]]
  const caption = none && chosen && words.costCaption(percent(chosen.step / none.step), zero, seconds(chosen.parts.dp))
  const rows = {
    head: words.costHead,
    body: stages.map(({ zero, parts, step }) => [
      words.stage(zero),
      ...spent.map(part => seconds(parts[part])),
      seconds(step),
    ]),
  }
  return (
    <Figure title={words.cost} caption={caption ?? '…'} rows={rows} pending={pending}>
      {value && (
        <>
          <Bars bars={bars} show={seconds} label={caption ?? ''} />
          <Legend bars={bars} />
        </>
      )}
    </Figure>
  )
}
