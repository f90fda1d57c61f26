/** Cases: what was published of large runs, beside what our prices say of the same plans. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { onJob, planQuery } from '../../base/links.js'
import { bytes, count, percent, seconds, short, thousands } from '../../base/numbers.js'
import { Bars, Legend } from '../../parts/bars.js'
import { Figure, Table } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { Fabric, Family, PublishedRow, Tried } from '../../work/cases-lessons.js'
import type { JobText } from '../../work/jobs.js'
import { run, runLabel } from './cases-runs.js'
import { text } from './cases-text.js'
import { Eras } from './eras.js'

const table = { run }

export default function Cases() {
  const { chosen } = readKnobs(table)
  if (chosen.run === 'yi') return <Yi />
  if (chosen.run === 'gemini') return <Gemini />
  if (chosen.run === 'eras') return <Eras />
  return <Published key={chosen.run} family={chosen.run} />
}

/** Of each family: the case that the command prints. */
const shownCases: Readonly<Record<Exclude<Family, 'maxtext'>, string>> = {
  megatron: 'megatron-1t',
  llama3: 'llama3-405b-8k',
  deepseek: 'deepseek-v3',
}

/** Plans of these runs as our own programs, with so few microbatches that they are compiled at once; of the experts a small model. */
const plansOf: Readonly<Record<Exclude<Family, 'maxtext'>, JobText>> = {
  megatron: {
    model: 'megatron-39b',
    training: { seq: 2048, globalBatch: 64 },
    plan: { tp: 8, pp: 2, dp: 32, microbatches: 2, precision: 'bf16', recompute: 'full' },
  },
  llama3: {
    model: 'llama3-405b',
    training: { seq: 8192, globalBatch: 2048 },
    plan: { tp: 8, sequenceParallel: true, pp: 16, dp: 128, zero: 1, microbatches: 16, precision: 'bf16' },
  },
  deepseek: {
    model: 'deepseek-tiny',
    training: { seq: 16, globalBatch: 8 },
    plan: { dp: 8, ep: 8, zero: 1 },
  },
}

const meanOf = (rows: readonly PublishedRow[]): number =>
  rows.reduce((sum, { error }) => sum + Math.abs(error), 0) / rows.length

function Published({ family }: { readonly family: Exclude<Family, 'maxtext'> }) {
  const knobs = readKnobs(table)
  const { value, refusal, pending } = useAnswer('fast', ['cases', 'published'], { family })
  const code = useAnswer('long', ['excerpts', 'talk'], { job: plansOf[family] }).value
  const first = value?.find(({ name }) => name === shownCases[family])
  const words = text()
  return (
    <Lesson
      name="cases"
      claim={words.claim[family]}
      controls={<Controls knobs={knobs} labels={{ run: runLabel() }} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Steps rows={value ?? []} pending={pending} />
        </>
      }
      guess={{
        question: words.questionMean,
        run: async () => 100 * meanOf(await ask('fast', ['cases', 'published'], { family })),
        show: n => `${short(n)} %`,
        why: () => words.whyMean,
        min: 0,
      }}
      notice={words.notice[family]}
      listings={code ? [{ title: words.lines, what: words.linesWhat[family], code: code.join('\n'), open: true }] : []}
      command={`lockstep case ${shownCases[family]}`}
      says={first && { field: 'rows.0.predicted', value: first.ours }}
    />
  )
}

/** A row's place in the picture: some cases have several rows. */
const labelOf = ({ name, devices, seq }: PublishedRow): string => `${name} · ${count(devices)} · ${count(seq)}`

function Steps({ rows, pending }: { readonly rows: readonly PublishedRow[]; readonly pending: boolean }) {
  const words = text()
  const bars = rows.flatMap(row => [
    {
      label: labelOf(row),
      parts: [{ name: words.published, value: row.published, kind: 'compute' }],
      note: seconds(row.published),
    },
    { label: '', parts: [{ name: words.ours, value: row.ours, kind: 'gradients' }], note: seconds(row.ours) },
  ])
  const worst = [...rows].sort((a, b) => Math.abs(b.error) - Math.abs(a.error))[0]
  const caption =
    worst && words.caption(rows.length, percent(meanOf(rows)), percent(Math.abs(worst.error)), labelOf(worst))
  const body = rows.map(row => [
    row.name,
    `${count(row.devices)} ${row.device}`,
    row.plan,
    row.seq,
    seconds(row.published),
    seconds(row.ours),
    `${percent(row.error)}${row.fitted ? ' *' : ''}`,
    row.publishedRate === undefined ? '' : thousands(row.publishedRate),
    row.ourRate === undefined ? '' : thousands(row.ourRate),
  ])
  return (
    <>
      <Figure title={words.title} caption={caption ?? '…'} rows={{ head: words.head, body }} pending={pending}>
        <Bars bars={bars} show={seconds} label={caption ?? ''} />
        <Legend bars={bars} />
      </Figure>
      <Table head={words.head} body={body} label={words.title} />
      {rows.some(({ fitted }) => fitted) && <p>{words.fitted}</p>}
      <p>
        <small>
          {words.sources}: {[...new Set(rows.map(({ source }) => source))].join('; ')}
        </small>
      </p>
    </>
  )
}

function Yi() {
  const knobs = readKnobs(table)
  const { value, refusal, pending } = useAnswer('long', ['cases', 'yi'], {})
  const words = text()
  const fit = (value?.plans ?? []).filter(({ arena }) => arena <= value!.capacity)
  const best = [...fit].sort((a, b) => a.step - b.step)[0]
  const code = useAnswer('long', ['excerpts', 'talk'], best && { job: best.job }).value
  const caption = value && (best ? words.yiCaption(best.label, seconds(best.step), percent(best.mfu)) : words.yiNone)
  return (
    <Lesson
      name="cases"
      claim={words.claim.yi}
      controls={<Controls knobs={knobs} labels={{ run: runLabel() }} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Plans title={words.yiTitle} caption={caption} plans={value?.plans ?? []} pending={pending} />
        </>
      }
      notice={words.notice.yi}
      program={code}
      open={{ ...(best && { plan: planQuery(best.job, 'a100-80') }) }}
      command={best ? onJob(best.job, 'simulate - --cluster a100-80') : 'lockstep simulate -'}
      says={best && { field: 'step', value: best.step }}
    />
  )
}

interface PlansProps {
  readonly title: string
  readonly caption: string | undefined
  readonly plans: readonly Tried[]
  readonly pending: boolean
}

function Plans({ title, caption, plans, pending }: PlansProps) {
  const words = text()
  const bars = plans.map(({ label, step, tp }) => ({
    label,
    parts: [
      { name: words.compute, value: step * (1 - tp), kind: 'compute' },
      { name: words.waiting, value: step * tp, kind: 'gradients' },
    ],
    note: seconds(step),
  }))
  const body = plans.map(({ label, step, mfu, tp, bubble, arena }) => [
    label,
    seconds(step),
    percent(mfu),
    percent(tp),
    percent(bubble),
    bytes(arena),
  ])
  return (
    <Figure title={title} caption={caption ?? '…'} rows={{ head: words.yiHead, body }} pending={pending}>
      <Bars bars={bars} show={seconds} label={caption ?? ''} />
      <Legend bars={bars} />
    </Figure>
  )
}

const fabricTable = { run, fabric: oneOf(['h100', 'tpu-v5p', 'gb200'], 'tpu-v5p') }

function Gemini() {
  const knobs = readKnobs(fabricTable)
  const fabric = knobs.chosen.fabric as Fabric
  const { value, refusal, pending } = useAnswer('long', ['cases', 'torus'], { fabric })
  const words = text()
  const [first, last] = [value?.[0], value?.at(-1)]
  const code = useAnswer('long', ['excerpts', 'talk'], last && { job: last.job }).value
  const caption =
    first &&
    last &&
    words.torusCaption(words.fabrics[fabric], seconds(first.step), seconds(last.step), short(last.step / first.step))
  const grows = async () => {
    const steps = await ask('long', ['cases', 'torus'], { fabric: 'h100' })
    return steps.at(-1)!.step / steps[0]!.step
  }
  return (
    <Lesson
      name="cases"
      claim={words.claim.gemini}
      controls={
        <Controls
          knobs={knobs}
          labels={{ run: runLabel(), fabric: { label: words.fabric, show: (name: Fabric) => words.fabrics[name] } }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Plans title={words.torusTitle} caption={caption} plans={value ?? []} pending={pending} />
        </>
      }
      more={<OnTpus />}
      guess={{ question: words.question, run: grows, why: () => words.why, min: 1 }}
      notice={words.notice.gemini}
      program={code}
      open={{ ...(last && { plan: planQuery(last.job, fabric) }) }}
      command={last ? onJob(last.job, `simulate - --cluster ${fabric}`) : 'lockstep simulate -'}
      says={last && { field: 'step', value: last.step }}
    />
  )
}

/** Dense models on slices of TPUs, as MaxText's repository tells. */
function OnTpus() {
  const { value, refusal, pending } = useAnswer('fast', ['cases', 'published'], { family: 'maxtext' })
  return refusal ? <Trouble why={refusal} /> : <Steps rows={value ?? []} pending={pending} />
}
