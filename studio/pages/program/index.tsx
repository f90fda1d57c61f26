/** One rank's program: walk through what it did, see where it lies in memory, change it and ask the laws. */
import { useState } from 'preact/hooks'
import { fixed } from '../../base/numbers.js'
import { place, setQuery } from '../../base/router.js'
import { Command } from '../../parts/command.js'
import { Choice, Field, Steps } from '../../parts/controls.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
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

export default function Program() {
  const words = text()
  const { query } = place.value
  const name = isJob(query.job) ? query.job : 'tp 2'
  const [own, write] = useState<string>()
  const job = own ?? jobs[name]
  const rank = Math.max(0, Math.floor(Number(query.rank) || 0))
  const opened = useAnswer('fast', ['program', 'open'], { job, rank })
  const tape = useAnswer('fast', ['program', 'tape'], opened.value ? { job, rank } : undefined)
  return (
    <article class="program">
      <h1>{words.title}</h1>
      <p class="lead">{words.lead}</p>
      <div class="controls">
        <Choice
          label={words.job}
          options={Object.keys(jobs).map(value => ({ value, label: value }))}
          value={name}
          change={job => {
            write(undefined)
            setQuery({ job, rank: undefined, at: undefined }, true)
          }}
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
              onChange={event => write(event.currentTarget.value)}
            />
          )}
        </Field>
      </div>
      {!opened.value && opened.pending && <p aria-busy="true">…</p>}
      {opened.refusal && <Trouble why={opened.refusal} />}
      {tape.refusal && <Trouble why={tape.refusal} />}
      {opened.value && <Walk opened={opened.value} tape={tape.value} pending={opened.pending || tape.pending} />}
      {opened.value && <Edit key={job} job={job} printed={opened.value.text} />}
      <Command line={`lockstep compile job.yaml --rank ${rank} --text`} />
    </article>
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
  const asked = Math.floor(Number(place.value.query.at) || 0)
  const at = Math.max(0, Math.min(frames.length - 1, asked))
  const go = (next: number) => setQuery({ at: String(Math.max(0, Math.min(frames.length - 1, next))) })
  const frame = frames[at]
  const step = frame?.step ?? 0
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
        <button type="button" class="quiet" onClick={() => go(frames.length - 1)}>
          {words.last}
        </button>
        <output aria-live="polite">{words.at(frames.length > 0 ? at + 1 : 0, frames.length)}</output>
      </div>
      <div class="columns">
        <Stream lines={opened.lines} at={step} choose={step => go(frames.findIndex(frame => frame.step >= step))} />
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
