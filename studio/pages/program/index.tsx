/** One rank's program: walk through what it did, see where it lies in memory, change it and ask the laws. */
import { bytes, fixed } from '../../base/numbers.js'
import { ownQuery, ownText } from '../../base/own.js'
import { place, setQuery } from '../../base/router.js'
import { Command } from '../../parts/command.js'
import { Choice, Field, Steps } from '../../parts/controls.js'
import { LongLink } from '../../parts/long-link.js'
import { Rehearse } from '../../parts/rehearse.js'
import { ToPlan } from '../../parts/to-plan.js'
import { Trouble } from '../../parts/trouble.js'
import { type Answer, useAnswer } from '../../work/answer.js'
import type { Opened } from '../../work/program/index.js'
import type { Tape } from '../../work/program/tape.js'
import { Arena } from './arena.js'
import { Edit } from './edit.js'
import { isJob, jobs } from './jobs.js'
import { Layout } from './layout.js'
import { Segment, Stream } from './lines.js'
import './style.css'
import { text } from './text.js'
import { Values } from './values.js'

/** Another job, another walk. */
const begin = { yaml: undefined, rank: undefined, at: undefined }
/** Letters that a field can show. */
const mostText = 400_000

export default function Program() {
  const words = text()
  const { query } = place.value
  const name = isJob(query.job) ? query.job : query.job === 'own' ? 'own' : 'tp 2'
  const job = name === 'own' ? (ownText('yaml') ?? jobs['tp 2']) : jobs[name]
  const rank = Math.max(0, Math.floor(Number(query.rank) || 0))
  const opened = useAnswer('fast', ['program', 'open'], { job, rank })
  const isWalked = !opened.pending && opened.value?.large === false
  const tape = useAnswer('fast', ['program', 'tape'], isWalked ? { job, rank } : undefined)
  return (
    <article class="program">
      <h1>{words.title}</h1>
      <p class="lead">{words.lead}</p>
      <div class="controls">
        <Choice
          label={words.job}
          options={[...Object.keys(jobs), 'own'].map(value => ({
            value,
            label: value === 'own' ? words.ownJob : value,
          }))}
          value={name}
          change={next => setQuery({ ...begin, job: next, ...(next === 'own' && ownQuery('yaml', job)) }, true)}
        />
        <Steps
          label={words.rank}
          steps={Array.from({ length: opened.value?.world ?? 1 }, (_, rank) => rank)}
          value={opened.value?.rank ?? 0}
          change={rank => setQuery({ rank: String(rank), at: undefined })}
          settle={rank => setQuery({ rank: String(rank), at: undefined }, true)}
        />
        <Field label={words.own} note={words.ownNote}>
          {id => (
            <textarea
              id={id}
              class="job"
              rows={4}
              spellcheck={false}
              value={job}
              onChange={event =>
                setQuery({ ...begin, job: 'own', ...ownQuery('yaml', event.currentTarget.value) }, true)
              }
            />
          )}
        </Field>
      </div>
      {name === 'own' && <LongLink own="yaml" file="job.yaml" content={() => job} />}
      <ToPlan job={job} />
      {!opened.value && opened.pending && <p aria-busy="true">…</p>}
      {opened.refusal && <Trouble why={opened.refusal} />}
      {isWalked && tape.refusal && <Trouble why={tape.refusal} />}
      {opened.value?.large && <TooLarge job={job} bytes={opened.value.bytes} />}
      {opened.value && <Walk {...walked(opened, tape)} />}
      {opened.value && opened.value.text.length <= mostText && (
        <Edit key={opened.value.job} job={opened.value.job} printed={opened.value.text} />
      )}
      <Command line={`lockstep compile job.yaml --rank ${rank} --text`} />
    </article>
  )
}

/** Of a large program there is no tape: one goes by the steps of the stream. */
function walked({ value, pending }: Answer<Opened>, tape: Answer<Tape>): WalkProps {
  const opened = value!
  return { opened, tape: opened.large ? undefined : tape.value, pending: pending || (!opened.large && tape.pending) }
}

function TooLarge({ job, bytes: held }: { readonly job: string; readonly bytes: number }) {
  return (
    <p role="note" class="too-large">
      {text().tooLarge(bytes(held))} <Rehearse job={job} page="program" />
    </p>
  )
}

interface WalkProps {
  readonly opened: Opened
  readonly tape: Tape | undefined
  readonly pending: boolean
}

function Walk({ opened, tape, pending }: WalkProps) {
  const words = text()
  const frames = tape?.frames ?? []
  const all = opened.large ? opened.lines.length : frames.length
  const within = (at: number) => Math.max(0, Math.min(all - 1, at))
  const at = within(Math.floor(Number(place.value.query.at) || 0))
  const go = (next: number) => setQuery({ at: String(within(next)) })
  const frame = frames[at]
  const step = opened.large ? at : (frame?.step ?? 0)
  const segment = opened.lines[step]?.segment
  const coordinates = opened.coordinates.filter(({ of }) => of > 1).map(({ axis, at, of }) => `${axis} ${at}/${of}`)
  const shape = segment === undefined || !frame ? undefined : opened.segments[segment]?.buffers[frame.name]
  return (
    <section class="walk" aria-busy={pending}>
      <p>
        {coordinates.length > 0 && words.coordinates(coordinates.join(', '))}{' '}
        {tape && words.loss(fixed(tape.loss, 6), fixed(tape.serialLoss, 6))}
      </p>
      <div class="tools" role="toolbar" aria-label={words.stream}>
        <button type="button" class="quiet" onClick={() => go(0)}>
          {words.first}
        </button>
        <button type="button" class="quiet" onClick={() => go(at - 1)}>
          {words.back}
        </button>
        <button type="button" onClick={() => go(at + 1)}>
          {words.next}
        </button>
        <button type="button" class="quiet" onClick={() => go(all - 1)}>
          {words.last}
        </button>
        <output aria-live="polite">{words.at(all > 0 ? at + 1 : 0, all)}</output>
      </div>
      <div class="columns">
        <Stream
          lines={opened.lines}
          at={step}
          choose={step => go(opened.large ? step : frames.findIndex(frame => frame.step >= step))}
        />
        <Segment
          name={segment}
          lines={segment === undefined ? [] : (opened.segments[segment]?.instrs ?? [])}
          at={frame?.instr ?? -1}
        />
      </div>
      {frame && (
        <div class="columns">
          <Values frame={frame} />
          {shape && <Layout name={frame.name} shape={shape} />}
        </div>
      )}
      <Arena rooms={opened.rooms} arena={opened.arena} step={step} />
    </section>
  )
}
