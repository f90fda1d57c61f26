/** Tensor parallelism: the first matrix by columns, the second by rows, and one sum over the ranks. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { fixed, percent, seconds, tiny } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { BarsFigure } from '../../parts/bars-figure.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { type Answer, useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { Compared } from '../../work/compared.js'
import type { JobText } from '../../work/jobs.js'
import type { Matrix, TensorAnswer, TensorRank } from '../../work/tensor-parallel.js'
import { LayerCut } from './layer-cut.js'
import { timesOf } from './times.js'
import './tensor-parallel.css'

const text = defineText(
  {
    claim:
      'One product is shared out: each rank has some columns of A and the same rows of B. Between the two nobody has to talk; after the second every rank holds a part of every sum, and one all-reduce completes them.',
    title: 'An MLP’s two products, cut over ranks',
    caption: (ranks: number, apart: string) =>
      `Partial sums of ${ranks} ranks add up to Y on every rank; the greatest difference to one rank alone is ${apart}.`,
    alone: 'One rank has both matrices whole: nothing to add up.',
    names: { x: 'X', a: 'A, own columns', hidden: 'gelu(XA)', b: 'B, own rows', partial: 'partial', y: 'Y, summed' },
    rank: (n: number) => `rank ${n}`,
    head: ['Rank', 'Partial sum, first row', 'Y, first row'],
    tp: 'Ranks of the small MLP',
    model: 'Model whose layer is cut',
    cutOf: 'Ranks of that layer',
    sequences: 'Sequences a step of the large model',
    sentence: (columns: number, rows: number) =>
      `Each rank holds ${columns} of 8 columns of A and ${rows} of 8 rows of B, and the layer says one all-reduce forward and one backward for them.`,
    letters: 'A cut by columns, B by rows; n ranks.',
    scale: 'A 7B model on 64 H100s',
    scaleCaption: (low: string, high: string, share: string) =>
      `tp 1 takes ${low} a step, tp 32 ${high}: there ${share} of the time is waiting for tensor parallel traffic.`,
    plan: 'Plan',
    step: 'Step',
    name: (tp: number) => `tp ${tp}, dp ${64 / tp}`,
    question:
      'On GB200 racks 72 devices share NVLink. There, from tp 8 to tp 16: how many times as long does a step take?',
    why: 'What hurts on H100s is the border of the node at eight, not the number sixteen; what is left here are smaller products and more to exchange for each.',
    notice: [
      'Columns first, rows second: that order needs one sum. Columns twice would gather the hidden layer, which is four times as wide.',
      'Backward it is mirrored: the gradient of X is what must be summed, so the all-reduce moves to the other end.',
      'tp never waits for a batch and has no bubble, but it talks in every layer. Inside a node that is cheap; across nodes it is not.',
    ],
  },
  {
    claim:
      '把一次乘法分给大家：每个 rank 拿 A 的几列和 B 的相应几行。两次乘法之间谁也不用通信；乘完之后，每个 rank 手里都是各个和的一部分，一次 all-reduce 就补齐了。',
    title: 'MLP 的两次乘法，切给各个 rank',
    caption: (ranks: number, apart: string) =>
      `${ranks} 个 rank 的部分和加起来，每个 rank 上都得到 Y；与单个 rank 的结果最多相差 ${apart}。`,
    alone: '只有一个 rank 时，两个矩阵都是完整的，没有什么要加。',
    names: { x: 'X', a: 'A，自己的列', hidden: 'gelu(XA)', b: 'B，自己的行', partial: '部分和', y: 'Y，求和后' },
    rank: (n: number) => `rank ${n}`,
    head: ['rank', '部分和的第一行', 'Y 的第一行'],
    tp: '小 MLP 的 rank 数',
    model: '切哪个模型的一层',
    cutOf: '那一层的 rank 数',
    sequences: '大模型一步的序列数',
    sentence: (columns: number, rows: number) =>
      `每个 rank 存 A 的 8 列中的 ${columns} 列、B 的 8 行中的 ${rows} 行；为此这一层前向一次 all-reduce，反向一次 all-reduce。`,
    letters: 'A 按列切，B 按行切；n：rank 数。',
    scale: '7B 模型，64 张 H100',
    scaleCaption: (low: string, high: string, share: string) =>
      `tp 1 一步 ${low}，tp 32 一步 ${high}：后者有 ${share} 的时间在等张量并行的通信。`,
    plan: '方案',
    step: '一步',
    name: (tp: number) => `tp ${tp}，dp ${64 / tp}`,
    question: 'GB200 机柜里 72 个设备共用 NVLink。在那里从 tp 8 变成 tp 16，一步的时间变为几倍？',
    why: 'H100 上难受的是八个设备处的节点边界，不是十六这个数；这里剩下的代价是乘法变小、通信占比变大。',
    notice: [
      '先按列，后按行，只需一次求和。两次都按列，就得把中间层 gather 起来，而它有四倍宽。',
      '反向正好对称：要求和的是 X 的梯度，all-reduce 挪到了另一头。',
      '张量并行不靠 batch、没有气泡，但每一层都要通信。节点之内便宜，跨节点就贵了。',
    ],
  },
)

const cuts = [1, 2, 4, 8, 16, 32]
const table = {
  tp: oneOf([1, 2, 4, 8], 2),
  model: oneOf(['gpt2-medium', 'llama2-7b', 'llama3-8b', 'llama3-70b'], 'llama3-8b'),
  cut: oneOf(cuts, 4),
  sequences: oneOf([64, 128], 64),
}
const widths = [1, 2, 4, 8, 16, 32]

const formula = tex`Y = \operatorname{gelu}(XA)\,B = \sum_{i=1}^{n} \operatorname{gelu}(X A_i)\,B_i \qquad n = \class{live}{\text{n}}`

const largeJob = (tp: number, sequences: number): JobText => ({
  model: 'llama2-7b',
  training: { seq: 4096, globalBatch: sequences },
  plan: { ...(tp > 1 && { tp, sequenceParallel: true }), dp: 64 / tp, zero: 1, precision: 'bf16', microbatches: 1 },
})

export default function TensorParallel() {
  const knobs = readKnobs(table)
  const { tp, sequences, model, cut } = knobs.chosen
  const { value, refusal, pending } = useAnswer('fast', ['tensor', 'tensorParallel'], { tp })
  const jobs = widths.map(tp => largeJob(tp, sequences))
  const scaled = useAnswer('long', ['compared', 'compared'], { jobs, device: 'h100' })
  const widest = scaled.value?.at(-1)
  const words = text()
  const wider = async () => {
    const jobs = [8, 16].map(tp => largeJob(tp, sequences))
    const [inside, across] = await ask('fast', ['compared', 'compared'], { jobs, device: 'gb200' })
    return across!.step / inside!.step
  }
  return (
    <Lesson
      name="tensor-parallel"
      claim={words.claim}
      controls={
        <Controls
          knobs={knobs}
          labels={{
            tp: { label: words.tp },
            model: { label: words.model },
            cut: { label: words.cutOf },
            sequences: { label: words.sequences },
          }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Cut value={value} pending={pending} />
        </>
      }
      more={
        <>
          <LayerCut model={model} tp={cut} steps={cuts} change={(cut, settled) => knobs.set({ cut }, settled)} />
          <Scale {...scaled} />
        </>
      }
      sentence={words.sentence(8 / tp, 8 / tp)}
      formula={{ math: formula, live: { n: String(tp) }, letters: words.letters }}
      guess={{ question: words.question, run: wider, why: () => words.why, min: 0 }}
      notice={words.notice}
      program={value?.lines}
      python={value?.python}
      open={{ plan: planQuery(largeJob(8, sequences), 'h100') }}
      command={value ? onJob(value.job, 'verify -') : 'lockstep verify -'}
      says={value && { field: 'numbers.steps.0.loss', value: value.loss }}
      also={[
        {
          line: onJob(largeJob(32, sequences), 'simulate - --cluster h100'),
          says: widest && { field: 'step', value: widest.step },
        },
      ]}
    />
  )
}

interface CutProps {
  readonly value: TensorAnswer | undefined
  readonly pending: boolean
}

const order = ['x', 'a', 'hidden', 'b', 'partial', 'y'] as const
const signs = ['·', '→', '·', '→', '→', ''] as const

function Cut({ value, pending }: CutProps) {
  const words = text()
  const ranks = value?.ranks ?? []
  const caption = value && (ranks.length > 1 ? words.caption(ranks.length, tiny(value.apart)) : words.alone)
  const row = ({ values, columns }: Matrix) => values.slice(0, columns).map(digits).join(', ')
  const rows = {
    head: words.head,
    body: ranks.map(({ partial, y }, rank) => [words.rank(rank), row(partial), row(y)]),
  }
  return (
    <Figure title={words.title} caption={caption ?? '…'} rows={rows} pending={pending}>
      {ranks.map((held, rank) => (
        <RankRow key={rank} rank={rank} held={held} />
      ))}
    </Figure>
  )
}

function RankRow({ rank, held }: { readonly rank: number; readonly held: TensorRank }) {
  const words = text()
  return (
    <div class="matrices">
      <strong>{words.rank(rank)}</strong>
      {order.map((name, n) => (
        <>
          <Grid key={name} name={words.names[name]} matrix={held[name]} />
          {signs[n] && <span aria-hidden="true">{signs[n]}</span>}
        </>
      ))}
    </div>
  )
}

const digits = (value: number): string => fixed(value, 2)

/** Colour repeats the size of a number, which stands in it. */
function Grid({ name, matrix }: { readonly name: string; readonly matrix: Matrix }) {
  const most = Math.max(...matrix.values.map(Math.abs), Number.MIN_VALUE)
  return (
    <div class="matrix">
      <small>
        {name} {matrix.rows}×{matrix.columns}
      </small>
      <div style={{ gridTemplateColumns: `repeat(${matrix.columns}, auto)` }}>
        {matrix.values.map((value, n) => (
          <span key={n} style={{ '--weight': `${Math.round((60 * Math.abs(value)) / most)}%` }}>
            {digits(value)}
          </span>
        ))}
      </div>
    </div>
  )
}

function Scale({ value, refusal, pending }: Answer<readonly Compared[]>) {
  const words = text()
  if (refusal) return <Trouble why={refusal} />
  const [first, last] = [value?.[0], value?.at(-1)]
  return (
    <BarsFigure
      title={words.scale}
      caption={
        first && last
          ? words.scaleCaption(seconds(first.step), seconds(last.step), percent(last.parts.tp / last.step))
          : ''
      }
      bars={(value ?? []).map((each, n) => ({ label: words.name(widths[n]!), parts: timesOf(each) }))}
      show={seconds}
      head={[words.plan, words.step]}
      pending={pending}
    />
  )
}
