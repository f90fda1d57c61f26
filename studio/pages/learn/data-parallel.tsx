/** Data parallelism: own samples, own loss, own gradient; one mean, and the same weights everywhere. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob } from '../../base/links.js'
import { bytes, count, fixed, short, tiny } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { BarsFigure } from '../../parts/bars-figure.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { DataAnswer, DataStep } from '../../work/data-parallel.js'
import './collectives/collectives.css'

const text = defineText(
  {
    claim:
      'Every rank has all the weights and reads its own samples. Losses and gradients differ; their mean is the gradient of the whole batch, so every rank makes the same update and nobody has to send weights around.',
    title: (step: number) => `Step ${step}, rank by rank`,
    caption: (low: string, high: string, mean: string) =>
      `Own losses lie between ${low} and ${high}; their mean is ${mean}, the loss of the whole batch.`,
    head: ['Rank', 'Samples', 'Own loss', 'Own gradient', 'Weights after'],
    rank: (n: number) => `rank ${n}`,
    readBy: (samples: string, loss: string) => `${samples}, own loss ${loss}`,
    samples: (from: number, to: number) => (from === to ? `sample ${from}` : `samples ${from} to ${to}`),
    own: 'own gradient of one matrix',
    mean: 'mean, by all-reduce',
    weights: 'weights after, on every rank',
    ranks: 'Ranks',
    batch: 'Samples a rank',
    step: 'Step',
    sentence: (apart: string, spread: string, batch: string) =>
      `Beside one rank that reads all ${batch} samples, gradients differ by ${apart} of their largest element; weights of ranks differ by ${spread}.`,
    letters: 'N ranks; the number is the first element of the matrix.',
    question: 'After 20 steps on different samples: how far apart are the weights of two ranks, at most?',
    why: 'Not at all: equal weights, equal gradients, the same arithmetic. A difference would be a bug.',
    notice: [
      'Losses differ from rank to rank, gradients too; only after the all-reduce is there one of each.',
      'There is no instruction that copies weights. They began equal and are changed alike; ZeRO-1 has one, an all-gather, because there each rank updates a slice only.',
      'To the optimizer it is one batch of N times the samples. More ranks are a larger batch, not more steps.',
    ],
    wire: 'Bytes that a rank sends in a step, GPT-2 XL',
    wireCaption: (few: string, many: string, times: string) =>
      `A rank of two sends ${few} in a step, as many bytes as gradients have; one of 64 sends ${many}, ${times} times as much. However many there are, it is never more than twice.`,
    copies: (n: number) => `${n} ranks`,
    copiesHead: 'Ranks',
    sent: 'sent by a rank',
  },
  {
    claim:
      '每个 rank 都有全部权重，各读各的样本。损失和梯度各不相同，取平均就是整个 batch 的梯度；于是每个 rank 做同样的更新，谁也不必发送权重。',
    title: (step: number) => `第 ${step} 步，逐个 rank 看`,
    caption: (low: string, high: string, mean: string) =>
      `各 rank 自己的损失在 ${low} 到 ${high} 之间，平均是 ${mean}，也就是整个 batch 的损失。`,
    head: ['rank', '样本', '自己的损失', '自己的梯度', '更新后的权重'],
    rank: (n: number) => `rank ${n}`,
    readBy: (samples: string, loss: string) => `${samples}，自己的损失 ${loss}`,
    samples: (from: number, to: number) => (from === to ? `样本 ${from}` : `样本 ${from} 到 ${to}`),
    own: '自己算出的梯度（其中一个矩阵）',
    mean: 'all-reduce 后的平均',
    weights: '更新后的权重，每个 rank 都一样',
    ranks: 'rank 数',
    batch: '每个 rank 的样本数',
    step: '第几步',
    sentence: (apart: string, spread: string, batch: string) =>
      `和独自读完 ${batch} 个样本的单个 rank 相比，梯度的差只有其最大元素的 ${apart}；各 rank 的权重相差 ${spread}。`,
    letters: 'N：rank 数；数字是该矩阵的第一个元素。',
    wire: '一个 rank 一步发出的字节，GPT-2 XL',
    wireCaption: (few: string, many: string, times: string) =>
      `两个 rank 时，每个一步发出 ${few}，正好是梯度的字节数；64 个时 ${many}，是前者的 ${times} 倍。rank 再多，也不会超过两倍。`,
    copies: (n: number) => `${n} 个 rank`,
    copiesHead: 'rank 数',
    sent: '每个 rank 发出',
    question: '各读不同的样本训练 20 步之后，任意两个 rank 的权重最多相差多少？',
    why: '一点也不差：权重相同、梯度相同、运算相同。有差别就说明有错。',
    notice: [
      '各 rank 的损失不同，梯度也不同；all-reduce 之后才只有一份。',
      '程序里没有复制权重的指令：开始时相同，之后的改动也相同。ZeRO-1 才有一个 all-gather，因为那时每个 rank 只更新一片。',
      '对优化器来说，这就是一个样本数为 N 倍的 batch。rank 多了，是 batch 变大，不是步数变多。',
    ],
  },
)

const table = {
  ranks: oneOf([2, 4, 8], 4),
  batch: oneOf([1, 2, 4], 2),
  step: oneOf([0, 1, 2, 3]),
}

const steps = 4
const formula = tex`\nabla W = \frac{1}{N}\sum_{i=1}^{N} \nabla W_i = \frac{1}{\class{live}{\text{N}}}\,(\class{live}{\text{terms}}) = \class{live}{\text{mean}}`

export default function DataParallel() {
  const knobs = readKnobs(table)
  const { ranks, batch, step } = knobs.chosen
  const { value, refusal, pending } = useAnswer('fast', ['data', 'dataParallel'], { ranks, batch, steps })
  const words = text()
  const shown = value?.steps[step]
  return (
    <Lesson
      name="data-parallel"
      claim={words.claim}
      controls={
        <Controls
          knobs={knobs}
          labels={{ ranks: { label: words.ranks }, batch: { label: words.batch }, step: { label: words.step } }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Ranks shown={shown} pending={pending} step={step} batch={batch} />
        </>
      }
      sentence={value && words.sentence(tiny(value.apart), tiny(value.spread), count(ranks * batch))}
      formula={{ math: formula, live: liveOf(value, step), letters: words.letters }}
      more={<Wire />}
      guess={{
        question: words.question,
        run: () => ask('fast', ['data', 'spreadAfter'], { ranks, batch, steps: 20 }),
        show: tiny,
        why: () => words.why,
        min: 0,
      }}
      notice={words.notice}
      program={value?.lines}
      python={value?.python}
      command={value ? onJob(value.job, `verify - --steps ${steps}`) : 'lockstep verify -'}
      says={shown && { field: `numbers.steps.${step}.loss`, value: shown.loss }}
    />
  )
}

const digits = (value: number): string => fixed(value, 3)

function liveOf(value: DataAnswer | undefined, step: number): Readonly<Record<string, string>> {
  const shown = value?.steps[step]
  if (!shown) return {}
  const terms = shown.ranks.slice(0, 4).map(({ gradient }) => digits(gradient[0]!))
  return {
    N: String(shown.ranks.length),
    terms: [...terms, ...(shown.ranks.length > 4 ? ['…'] : [])].join(' + ').replaceAll('+ -', '− '),
    mean: digits(shown.gradient[0]!),
  }
}

interface RanksProps {
  readonly shown: DataStep | undefined
  readonly pending: boolean
  readonly step: number
  readonly batch: number
}

function Ranks({ shown, pending, step, batch }: RanksProps) {
  const words = text()
  const ranks = shown?.ranks ?? []
  const losses = ranks.map(({ loss }) => loss)
  const read = (rank: number) => words.samples(rank * batch, rank * batch + batch - 1)
  const rows = {
    head: words.head,
    body: ranks.map(({ loss, gradient, weights }, rank) => [
      words.rank(rank),
      read(rank),
      digits(loss),
      gradient.map(digits).join(', '),
      weights.map(digits).join(', '),
    ]),
  }
  const caption = shown && words.caption(digits(Math.min(...losses)), digits(Math.max(...losses)), digits(shown.loss))
  return (
    <Figure title={words.title(step)} caption={caption ?? '…'} rows={rows} pending={pending}>
      {shown && (
        <>
          <p class="step-name">{words.own}</p>
          {ranks.map(({ loss, gradient }, rank) => (
            <Numbers key={rank} rank={rank} name={words.rank(rank)} values={gradient}>
              {words.readBy(read(rank), digits(loss))}
            </Numbers>
          ))}
          <p class="step-name">{words.mean}</p>
          <Numbers name="Σ/N" values={shown.gradient} summed>
            {''}
          </Numbers>
          <p class="step-name">{words.weights}</p>
          <Numbers name="W" values={ranks[0]!.weights}>
            {''}
          </Numbers>
        </>
      )}
    </Figure>
  )
}

interface NumbersProps {
  readonly name: string
  readonly values: readonly number[]
  readonly rank?: number
  readonly summed?: boolean
  readonly children: string
}

function Numbers({ name, values, rank, summed = false, children }: NumbersProps) {
  return (
    <div class={`cells ${rank === undefined ? '' : `rank-${rank % 6}`}`}>
      <span class="who">{name}</span>
      {values.map((value, n) => (
        <span key={n} class={summed ? 'cell number summed' : 'cell number'}>
          {digits(value)}
        </span>
      ))}
      <small>{children}</small>
    </div>
  )
}

const copies = [2, 4, 8, 16, 32, 64]
const wired = 'gpt2-xl'

/** What a rank sends in a step, over the number of ranks: of a real model on H100s. */
function Wire() {
  const jobs = copies.map(dp => ({
    model: wired,
    training: { seq: 1024, globalBatch: dp },
    plan: { dp, precision: 'bf16' },
  }))
  const { value = [], refusal, pending } = useAnswer('long', ['compared', 'compared'], { jobs, device: 'h100' })
  const words = text()
  const [first, last] = [value[0], value.at(-1)]
  const bars = value.map(({ sent }, n) => ({
    label: words.copies(copies[n]!),
    parts: [{ name: words.sent, value: sent, kind: 'gradients' }],
  }))
  return (
    <>
      {refusal && <Trouble why={refusal} />}
      <BarsFigure
        title={words.wire}
        caption={
          first && last ? words.wireCaption(bytes(first.sent), bytes(last.sent), short(last.sent / first.sent)) : ''
        }
        bars={bars}
        show={bytes}
        head={[words.copiesHead, words.sent]}
        pending={pending}
      />
    </>
  )
}
