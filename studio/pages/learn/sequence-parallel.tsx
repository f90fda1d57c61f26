/** Sequence parallelism: what tensor parallelism leaves whole on every rank is cut along the sequence. */

import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { bytes, percent, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { BarsFigure } from '../../parts/bars-figure.js'
import { partsOf } from '../../parts/kinds.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { listed } from '../../parts/names.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { Compared } from '../../work/compared.js'
import type { JobText } from '../../work/jobs.js'
import { timesOf } from './times.js'

const text = defineText(
  {
    claim:
      'Tensor parallelism cuts the matrices, but norms, residuals and dropout still stand whole on every rank. Sequence parallelism cuts those along the tokens, and asks for no more bytes on the wire.',
    title: 'What a rank holds',
    names: ['tp alone', 'tp and sequence parallel'],
    caption: (before: string, after: string, saved: string) =>
      `Activations fall from ${before} to ${after} a rank, ${saved} less; weights and states stay what they were.`,
    plan: 'Plan',
    together: 'Together',
    limit: 'memory of an H100',
    tp: 'Tensor parallel ranks',
    seq: 'Tokens in a sequence',
    sequences: 'Sequences at once',
    layer: (before: string, after: string) => `In a layer’s forward pass ${before} become ${after}.`,
    letters: 'M bytes of what is exchanged, n ranks: a ring’s all-reduce is the two others in a row.',
    time: 'What a step takes',
    step: 'Step',
    timeCaption: (change: string) => `On H100s the step changes by ${change}.`,
    question:
      'With twice as many tensor parallel ranks, how many times smaller do the activations get under sequence parallelism?',
    why: 'Nearly two: with the sequence cut as well, nothing large is left whole.',
    notice: [
      'Each all-reduce is taken apart: the reduce-scatter half stays where it was, the all-gather half moves behind the norm.',
      'What lies between the two, norms and residuals, is computed on a slice of the tokens, and kept as a slice.',
      'The backward pass gathers once more than it would have to: keeping gathered inputs would cost the memory just saved.',
    ],
  },
  {
    claim:
      '张量并行切的是矩阵，归一化、残差和 dropout 在每个 rank 上仍是完整的。序列并行把这些也沿 token 方向切开，而且不增加通信的字节数。',
    title: '一个 rank 存多少',
    names: ['只有张量并行', '加上序列并行'],
    caption: (before: string, after: string, saved: string) =>
      `每个 rank 的激活值从 ${before} 降到 ${after}，少了 ${saved}；权重和优化器状态不变。`,
    plan: '方案',
    together: '合计',
    limit: '一张 H100 的显存',
    tp: '张量并行的 rank 数',
    seq: '序列长度（token）',
    sequences: '同时训练的序列数',
    layer: (before: string, after: string) => `一层的前向里，${before} 变成了 ${after}。`,
    letters: 'M：交换的字节数；n：rank 数。环上的 all-reduce 就是后两者相接。',
    time: '一步要多久',
    step: '一步',
    timeCaption: (change: string) => `在 H100 上，一步的时间变化 ${change}。`,
    question: '序列并行下，张量并行的 rank 数加倍，激活值会缩小到几分之一？',
    why: '接近二分之一：序列也切开之后，再没有哪块大的东西是完整存放的。',
    notice: [
      '每个 all-reduce 都被拆开：reduce-scatter 那一半留在原处，all-gather 那一半挪到归一化之后。',
      '两者之间的归一化和残差只算自己那一段 token，也只存那一段。',
      '反向里要多 gather 一次：如果把 gather 过的输入存下来，刚省下的显存又没了。',
    ],
  },
)

const table = {
  tp: oneOf([2, 4, 8], 8),
  seq: oneOf([2048, 4096, 8192, 16384], 4096),
  sequences: oneOf([1, 2, 4], 2),
}

const formula = tex`\displaystyle \underbrace{2\,\frac{n-1}{n}\,M}_{\text{all-reduce}} = \underbrace{\frac{n-1}{n}\,M}_{\text{reduce-scatter}} + \underbrace{\frac{n-1}{n}\,M}_{\text{all-gather}} = \class{live}{\text{factor}}\,M`

interface Chosen {
  readonly tp: number
  readonly seq: number
  readonly sequences: number
}

const jobOf = ({ tp, seq, sequences }: Chosen, sequenceParallel: boolean): JobText => ({
  model: 'llama2-7b',
  training: { seq, globalBatch: sequences },
  plan: { tp, precision: 'bf16', microbatches: 1, ...(sequenceParallel && { sequenceParallel }) },
})

/** Small enough to be read. */
const small: JobText = {
  model: 'llama-tiny',
  training: { seq: 16, globalBatch: 1 },
  plan: { tp: 2, sequenceParallel: true },
}

export default function SequenceParallel() {
  const knobs = readKnobs(table)
  const jobs = [jobOf(knobs.chosen, false), jobOf(knobs.chosen, true)]
  const { value, refusal, pending } = useAnswer('fast', ['compared', 'compared'], { jobs, device: 'h100' })
  const code = useAnswer('fast', ['excerpts', 'excerpt'], { job: small, segments: ['layers.F'] }).value
  const words = text()
  const { tp } = knobs.chosen
  const halves = async () => {
    const wide = { jobs: [jobOf({ ...knobs.chosen, tp: tp / 2 }, true), jobs[1]!], device: 'h100' }
    const [few, many] = await ask('fast', ['compared', 'compared'], wide)
    return few!.bytes.activations / many!.bytes.activations
  }
  return (
    <Lesson
      name="sequence-parallel"
      claim={words.claim}
      controls={
        <Controls
          knobs={knobs}
          labels={{
            tp: { label: words.tp },
            seq: { label: words.seq },
            sequences: { label: words.sequences },
          }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Held value={value} pending={pending} />
        </>
      }
      more={<Time value={value} pending={pending} />}
      sentence={value && words.layer(listed(value[0]!.forward), listed(value[1]!.forward))}
      formula={{ math: formula, live: { factor: short((2 * (tp - 1)) / tp) }, letters: words.letters }}
      guess={{ question: words.question, run: halves, why: () => words.why, min: 0 }}
      notice={words.notice}
      program={code?.lines}
      python={code?.python}
      open={{ plan: planQuery(jobs[1]!, 'h100') }}
      command={onJob(jobs[1]!, 'memory -')}
      says={value && { field: 'stages.0.peak.activations', value: value[1]!.bytes.activations }}
    />
  )
}

interface Shown {
  readonly value: readonly Compared[] | undefined
  readonly pending: boolean
}

function Held({ value = [], pending }: Shown) {
  const words = text()
  const [before, after] = value.map(({ bytes }) => bytes.activations)
  return (
    <BarsFigure
      title={words.title}
      caption={
        before !== undefined && after !== undefined
          ? words.caption(bytes(before), bytes(after), percent(1 - after / before))
          : ''
      }
      bars={value.map((each, n) => ({ label: words.names[n]!, parts: partsOf(each.bytes) }))}
      show={bytes}
      head={[words.plan, words.together]}
      {...(value[0] && { limit: { label: words.limit, value: value[0].capacity } })}
      pending={pending}
    />
  )
}

function Time({ value = [], pending }: Shown) {
  const words = text()
  const [before, after] = value
  return (
    <BarsFigure
      title={words.time}
      caption={before && after ? words.timeCaption(percent(after.step / before.step - 1)) : ''}
      bars={value.map((each, n) => ({ label: words.names[n]!, parts: timesOf(each) }))}
      show={seconds}
      head={[words.plan, words.step]}
      pending={pending}
    />
  )
}
