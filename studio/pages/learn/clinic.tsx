/** The clinic: five runs that are ill, each with whoever names the cause, and what repairs it. */
import { useState } from 'preact/hooks'
import { threads } from '../../base/isolation.js'
import { oneOf, readKnobs } from '../../base/knobs.js'
import { language } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { bytes, percent, seconds, short } from '../../base/numbers.js'
import { Bars, Legend } from '../../parts/bars.js'
import { messageOf, titleOf } from '../../parts/broken.js'
import { Figure, Table } from '../../parts/figure.js'
import { kindsOf, partsOf } from '../../parts/kinds.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Problems, Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { LawAnswer, Lived, MemoryAnswer, Recompute, SlowAnswer, Stage, Zero } from '../../work/clinic-lessons.js'
import { text } from './clinic-text.js'

const patients = ['memory', 'lr', 'sum', 'slow', 'hang'] as const
const patient = oneOf(patients)
const patientLabel = () => ({ label: text().patient, show: (name: (typeof patients)[number]) => text().patients[name] })

export default function Clinic() {
  const { chosen } = readKnobs({ patient })
  const Patient = rooms[chosen.patient]
  return <Patient key={chosen.patient} />
}

const memoryTable = { patient, zero: oneOf([0, 1, 2, 3]), recompute: oneOf(['none', 'selective', 'full']) }

function OutOfMemory() {
  const knobs = readKnobs(memoryTable)
  const input = { zero: knobs.chosen.zero as Zero, recompute: knobs.chosen.recompute as Recompute }
  const { value, refusal, pending } = useAnswer('fast', ['clinic', 'memory'], input)
  const all = text()
  const words = all.memory
  const labels = {
    patient: patientLabel(),
    zero: { label: words.zero },
    recompute: { label: words.recompute, show: (policy: Recompute) => words.policies[policy] },
  }
  const saved = async () => {
    const [none, one] = await Promise.all(
      ([0, 1] as const).map(zero => ask('fast', ['clinic', 'memory'], { zero, recompute: 'none' })),
    )
    return (none!.arena - one!.arena) / 2 ** 30
  }
  return (
    <Lesson
      name="clinic"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={labels} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Needed value={value} pending={pending} />
          {value && value.problems.length > 0 && <Problems problems={value.problems} />}
          {value && value.repairs.length > 0 && <Repairs value={value} apply={fit => knobs.set(fit, true)} />}
        </>
      }
      sentence={value && largest(value)}
      guess={{ question: words.question, run: saved, show: n => `${short(n)} GiB`, why: () => words.why, min: 0 }}
      notice={words.notice}
      open={{ ...(value && { plan: planQuery(value.job, 'h100') }) }}
      command={value ? onJob(value.job, 'memory -') : 'lockstep memory -'}
      says={value && { field: 'stages.0.arena', value: value.arena }}
      also={value ? [{ line: onJob(limitedTo80(value.job), 'check -') }] : []}
    />
  )
}

const limitedTo80 = (job: MemoryAnswer['job']) => ({ ...job, plan: { ...job.plan, deviceMemory: '80GiB' } })

function largest(value: MemoryAnswer): string {
  const [first] = [...partsOf(value.bytes)].sort((a, b) => b.value - a.value)
  return text().memory.most(first!.name, bytes(first!.value))
}

function Needed({ value, pending }: { readonly value: MemoryAnswer | undefined; readonly pending: boolean }) {
  const words = text().memory
  const bars = value ? [{ label: words.label, parts: partsOf(value.bytes) }] : []
  const caption =
    value &&
    (value.arena > value.capacity
      ? words.over(bytes(value.arena), bytes(value.capacity), bytes(value.arena - value.capacity))
      : words.fits(bytes(value.arena), bytes(value.capacity), seconds(value.step)))
  const rows = { head: words.head, body: value ? kindsOf(value.bytes) : [] }
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

interface RepairsProps {
  readonly value: MemoryAnswer
  readonly apply: (fit: { readonly zero: Zero; readonly recompute: Recompute }) => void
}

function Repairs({ value, apply }: RepairsProps) {
  const words = text().memory
  return (
    <fieldset class="choices repairs">
      <legend>{words.repairs}</legend>
      {value.repairs.map(({ zero, recompute, arena, step }) => (
        <button type="button" key={`${zero} ${recompute}`} onClick={() => apply({ zero, recompute })}>
          {words.repair(zero, words.policies[recompute], bytes(arena), seconds(step))}
        </button>
      ))}
    </fieldset>
  )
}

const rates = ['0.001', '0.1', '1', '1000'] as const
const rateTable = { patient, lr: oneOf(rates, '1000') }

function NotANumber() {
  const knobs = readKnobs(rateTable)
  const input = { lr: Number(knobs.chosen.lr), threads: threads.value }
  const { value, refusal, pending } = useAnswer('long', ['clinic', 'diverge'], input)
  const words = text().lr
  const began = useAnswer('fast', ['clinic', 'beginning'], { lr: input.lr }).value
  const first = async () => {
    const { losses } = await ask('long', ['clinic', 'diverge'], { lr: 1000, threads: threads.value })
    return losses.findIndex(loss => !Number.isFinite(loss)) + 1
  }
  return (
    <Lesson
      name="clinic"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={{ patient: patientLabel(), lr: { label: words.lr } }} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Losses value={value} pending={pending} />
        </>
      }
      guess={{ question: words.question, run: first, why: () => words.why, min: 1 }}
      notice={words.notice}
      command={began ? onJob(began.job, 'verify - --steps 1') : 'lockstep verify -'}
      says={began && { field: 'numbers.steps.0.loss', value: began.loss }}
      also={began ? [{ line: onJob(began.job, 'train -') }] : []}
    />
  )
}

function Losses({ value, pending }: { readonly value: Lived | undefined; readonly pending: boolean }) {
  const words = text().lr
  const losses = value?.losses ?? []
  const caption = value && lossCaption(value)
  const rows = { head: words.head, body: losses.map((loss, n) => [n + 1, shownLoss(loss)]) }
  return (
    <Figure title={words.title} caption={caption ?? '…'} rows={rows} pending={pending}>
      <Table {...rows} label={words.title} />
      {value?.found && <Said title={words.said} lines={value.found[language.value]} lang={language.value} />}
      {value?.ended && <Said title={words.ended} lines={value.ended.split('\n')} />}
    </Figure>
  )
}

const shownLoss = (loss: number): string => (Number.isFinite(loss) ? short(loss) : String(loss))

function lossCaption({ losses, found }: Lived): string {
  const words = text().lr
  if (found) return words.ill(found.step, found.where)
  return words.fine(shownLoss(losses[0] ?? Number.NaN), shownLoss(losses.at(-1) ?? Number.NaN), losses.length)
}

/** What the core says, in its own words. */
interface SaidProps {
  readonly title: string
  readonly lines: readonly string[]
  readonly lang?: 'en' | 'zh'
}

function Said({ title, lines, lang = 'en' }: SaidProps) {
  return (
    <div class="said">
      <h3>{title}</h3>
      <p lang={lang}>
        {lines.map(line => (
          <span key={line}>
            {line}
            <br />
          </span>
        ))}
      </p>
    </div>
  )
}

const onlyPatient = { patient }

function Drifting() {
  const knobs = readKnobs(onlyPatient)
  const { value, refusal, pending } = useAnswer('fast', ['clinic', 'unsummed'], {})
  const words = text().sum
  return (
    <Lesson
      name="clinic"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={{ patient: patientLabel() }} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Laws words={words} value={value} pending={pending} />
        </>
      }
      guess={{ question: words.question, run: violations('unsummed'), why: () => words.why, min: 0 }}
      notice={words.notice}
      program={value?.gone}
      {...healthy(value)}
    />
  )
}

/** The program as it was compiled breaks no law. */
const healthy = (value: LawAnswer | undefined) => ({
  command: value ? onJob(value.job, 'verify -') : 'lockstep verify -',
  says: value && { field: 'violations.length', value: value.before },
})

const violations = (ill: 'unsummed' | 'unsent') => async () => (await ask('fast', ['clinic', ill], {})).after.length

interface LawsProps {
  readonly words: {
    readonly title: string
    readonly caption: (before: number, after: number) => string
    readonly head: readonly string[]
  }
  readonly value: LawAnswer | undefined
  readonly pending: boolean
}

function Laws({ words, value, pending }: LawsProps) {
  const caption = value && words.caption(value.before, value.after.length)
  const body = (value?.after ?? []).map(one => [one.law ?? '', one.where, messageOf(one)])
  return (
    <Figure title={words.title} caption={caption ?? '…'} rows={{ head: words.head, body }} pending={pending}>
      <Table head={words.head} body={body} label={words.title} />
      {value?.after[0] && <p>{`${value.after[0].law}: ${titleOf(value.after[0])}`}</p>}
    </Figure>
  )
}

const slowTable = { patient, slow: oneOf([1, 1.1, 1.3, 1.6, 2], 1.3), layers: oneOf(['even', '7,7,7,11', '11,7,7,7']) }

function Slow() {
  const knobs = readKnobs(slowTable)
  const input = { slow: knobs.chosen.slow, layers: knobs.chosen.layers }
  const { value, refusal, pending } = useAnswer('fast', ['clinic', 'waiting'], input)
  const words = text().slow
  const labels = {
    patient: patientLabel(),
    slow: { label: words.slow, show: (factor: number) => `${short(factor)}×` },
    layers: { label: words.layers, show: words.split },
  }
  const longer = async () => {
    const { step, even } = await ask('fast', ['clinic', 'waiting'], { slow: 1.3, layers: 'even' })
    return 100 * (step / even - 1)
  }
  return (
    <Lesson
      name="clinic"
      claim={words.claim}
      controls={
        <>
          <Controls knobs={knobs} labels={labels} />
          {input.layers !== 'even' && (
            <button type="button" onClick={() => knobs.set({ layers: 'even' }, true)}>
              {words.repair}
            </button>
          )}
        </>
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Waiting value={value} pending={pending} />
        </>
      }
      guess={{ question: words.question, run: longer, show: n => `${short(n)} %`, why: () => words.why, min: 0 }}
      notice={words.notice}
      open={{ ...(value && { plan: planQuery(value.job, 'h100') }) }}
      command={
        value
          ? onJob(value.job, `simulate - --cluster h100${input.slow > 1 ? ` --slow 2:${input.slow}` : ''}`)
          : 'lockstep simulate -'
      }
      says={value && { field: 'step', value: value.step }}
    />
  )
}

const spent = ['compute', 'waiting', 'talking', 'rest'] as const
const classes: Readonly<Record<keyof Stage, string>> = {
  compute: 'compute',
  waiting: 'other',
  talking: 'gradients',
  rest: 'optimizer',
}

function Waiting({ value, pending }: { readonly value: SlowAnswer | undefined; readonly pending: boolean }) {
  const words = text().slow
  const stages = value?.stages ?? []
  const bars = stages.map((stage, n) => ({
    label: words.stage(n),
    parts: spent.map(part => ({ name: words.parts[part], value: Math.max(0, stage[part]), kind: classes[part] })),
  }))
  const rows = {
    head: words.head,
    body: stages.map((stage, n) => [words.stage(n), ...spent.map(part => seconds(Math.max(0, stage[part])))]),
  }
  const caption = value && waitingCaption(value)
  return (
    <Figure title={words.title} caption={caption ?? '…'} rows={rows} pending={pending}>
      {value && (
        <>
          <Bars bars={bars} show={seconds} label={caption ?? ''} />
          <Legend bars={bars} />
        </>
      )}
    </Figure>
  )
}

function waitingCaption({ stages, step, even }: SlowAnswer): string {
  const words = text().slow
  if (step <= even * 1.001) return words.healthy(seconds(step))
  const least = Math.min(...stages.map(({ waiting }) => waiting))
  const busy = stages.findIndex(({ waiting }) => waiting === least)
  return words.caption(seconds(step), seconds(even), percent(step / even - 1), busy)
}

function Hanging() {
  const knobs = readKnobs(onlyPatient)
  const { value, refusal, pending } = useAnswer('fast', ['clinic', 'unsent'], {})
  const words = text().hang
  return (
    <Lesson
      name="clinic"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={{ patient: patientLabel() }} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Laws words={words} value={value} pending={pending} />
        </>
      }
      more={<LostMessage />}
      guess={{ question: words.question, run: violations('unsent'), why: () => words.why, min: 0 }}
      notice={words.notice}
      program={value?.gone}
      {...healthy(value)}
    />
  )
}

function LostMessage() {
  const all = text()
  const words = all.hang
  const [said, say] = useState<string>()
  const [running, run] = useState(false)
  const lose = async () => {
    run(true)
    const { ended } = await ask('long', ['clinic', 'hang'], {}).catch(error => ({ ended: String(error) }))
    say(ended ?? '')
    run(false)
  }
  return (
    <section>
      <h2>{words.runTitle}</h2>
      {threads.value ? (
        <button type="button" disabled={running} onClick={() => void lose()}>
          {running ? words.running : words.run}
        </button>
      ) : (
        <p>{all.needThreads}</p>
      )}
      <div role="status" class="lost-message">
        {said !== undefined && <Said title={words.said} lines={said.split('\n')} />}
      </div>
    </section>
  )
}

const rooms = { memory: OutOfMemory, lr: NotANumber, sum: Drifting, slow: Slow, hang: Hanging }
