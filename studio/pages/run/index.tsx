/** Train here or on this machine, watch every rank, inject faults. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { threads } from '../../base/isolation.js'
import { language } from '../../base/language.js'
import { fixed, seconds, short } from '../../base/numbers.js'
import { ownQuery } from '../../base/own.js'
import { place } from '../../base/router.js'
import { hasServer, hasToken } from '../../base/server.js'
import { Coded } from '../../parts/coded.js'
import { Command } from '../../parts/command.js'
import { Choice, Field, NumberField, Toggle } from '../../parts/controls.js'
import { LongLink } from '../../parts/long-link.js'
import { Rehearse } from '../../parts/rehearse.js'
import { ToPlan } from '../../parts/to-plan.js'
import { Problems } from '../../parts/trouble.js'
import { describedZh } from '../../text/descriptions.zh.js'
import type { RunFacts } from '../../work/run.js'
import { Curve } from './curve.js'
import { examples, jobNames, jobTitles, textOfJobs } from './jobs.js'
import { Lanes } from './lanes.js'
import { Large, useLarge } from './large.js'
import { type Asked, change, cores, readAsked } from './link.js'
import { type Machine, machine, machineRuns, type RunSummary } from './machine.js'
import { Events, Faults, Files, Memory, Samples } from './panels.js'
import { follow, isLive, type Shown, shown, start, stop } from './state.js'
import './style.css'
import { text } from './text.js'

export default function Run() {
  const words = text()
  const asked = readAsked()
  const run = shown.value
  const [host, setHost] = useState<Machine>()
  useEffect(() => {
    if (!hasToken.value) return
    void machine().then(setHost)
    const { run: id } = place.peek().query
    if (id !== undefined && !isLive(shown.peek())) void attach(id)
  }, [hasToken.value])
  return (
    <article class="run">
      <h1>{words.title}</h1>
      <p class="lead">{words.lead}</p>
      <Controls asked={asked} run={run} host={host} />
      <Status run={run} />
      {run && run.problems.length > 0 && (
        <section class="trouble" role="alert">
          <h2>{words.problems}</h2>
          <Problems problems={run.problems} />
          {run.problems.some(({ code }) => code === 'engine/memory') && <Rehearse job={asked.job} page="run" />}
        </section>
      )}
      <Curve run={run} asked={asked} />
      <Faults run={run} />
      <Lanes run={run} asked={asked} />
      <Memory run={run} />
      <Samples run={run} />
      <Events run={run} />
      <Files run={run} />
      <Command line={`npx lockstep train job.yaml --steps ${asked.steps}`} />
    </article>
  )
}

async function attach(id: string): Promise<void> {
  const found = (await machineRuns()).find(one => one.id === id)
  if (found) follow(found)
}

interface ControlsProps {
  readonly asked: Asked
  readonly run: Shown | undefined
  readonly host: Machine | undefined
}

function Controls({ asked, run, host }: ControlsProps) {
  const words = text()
  const titles = jobTitles()
  const own = asked.name === 'own'
  const begin = useBeginning(asked, host)
  const weight = useLarge(asked)
  return (
    <>
      <div class="controls">
        <Choice
          label={words.job}
          options={jobNames.map(value => ({ value, label: titles[value] }))}
          value={asked.name}
          change={job =>
            change({ job, ...(job === 'own' ? ownQuery('yaml', firstText(asked, host)) : { yaml: undefined }) })
          }
          note={noteOf(asked)}
        />
        <Choice
          label={words.where}
          options={[
            { value: 'page', label: words.page },
            { value: 'machine', label: words.machine, disabled: !hasToken.value },
          ]}
          value={asked.where}
          change={where => change({ where })}
          note={hasToken.value ? host?.cpu : <Coded text={hasServer ? words.noToken : words.noServer} />}
        />
        <NumberField
          label={words.steps}
          value={asked.steps}
          min={1}
          max={999_999}
          change={n => change({ steps: String(n) })}
        />
        <Field label={words.sample}>
          {id => (
            <input
              id={id}
              value={asked.sample}
              maxLength={60}
              onChange={event => change({ sample: event.currentTarget.value })}
            />
          )}
        </Field>
        <Toggle
          label={words.keepGoing}
          value={asked.keepGoing}
          change={on => change({ keep: on ? 'yes' : undefined })}
        />
        <Buttons run={run} large={weight !== undefined} begin={begin} />
      </div>
      {own && (
        <Field label={words.ownJob}>
          {id => (
            <textarea
              id={id}
              rows={12}
              spellcheck={false}
              value={asked.job}
              onChange={event => change(ownQuery('yaml', event.currentTarget.value))}
            />
          )}
        </Field>
      )}
      {own && <LongLink own="yaml" file="job.yaml" content={() => asked.job} />}
      {own && <ToPlan job={asked.job} />}
      {!threads.value && asked.where === 'page' && <p role="note">{words.interpreted}</p>}
      {weight && <Large asked={asked} weight={weight} disabled={isLive(run)} begin={begin} />}
      {hasToken.value && <Runs />}
    </>
  )
}

/** The job of the command line, or the one that was chosen before. */
const firstText = (asked: Asked, host: Machine | undefined): string => host?.job?.text ?? asked.job

function noteOf({ name, where }: Asked): string | undefined {
  const ranks = name === 'own' ? 0 : examples[name].ranks
  return where === 'page' && threads.value && ranks > cores ? text().crowded(ranks, cores) : undefined
}

/** Starts what is asked for, once. */
function useBeginning(asked: Asked, host: Machine | undefined): () => void {
  const beginning = useRef(false)
  const begin = async () => {
    if (beginning.current) return // pressed again before the first was heard
    beginning.current = true
    const own = asked.name === 'own' && asked.job === host?.job?.text ? { from: host.job.path } : {}
    try {
      const { id } = await start(asked.where, { ...asked, ...own, files: await textOfJobs(), leaves: true })
      if (place.peek().path === 'run') change({ run: id || undefined }, false) // its reader may be elsewhere by now
    } finally {
      beginning.current = false
    }
  }
  return () => void begin()
}

interface ButtonsProps {
  readonly run: Shown | undefined
  readonly large: boolean
  readonly begin: () => void
}

function Buttons({ run, large, begin }: ButtonsProps) {
  const words = text()
  return (
    <div class="field buttons">
      <button type="button" disabled={large || isLive(run)} onClick={begin}>
        {words.start}
      </button>
      <button type="button" disabled={!isLive(run)} onClick={stop}>
        {words.stop}
      </button>
    </div>
  )
}

/** Runs that the server knows: they go on when the page is closed. */
function Runs() {
  const words = text()
  const [runs, set] = useState<readonly RunSummary[]>([])
  const state = shown.value?.state
  useEffect(() => void machineRuns().then(set), [state])
  if (runs.length === 0) return null
  return (
    <details>
      <summary>
        {words.runs} ({runs.length})
      </summary>
      <ul class="runs">
        {runs.map(run => (
          <li key={run.id}>
            {run.name}, <code>{run.folder}</code>: {words.states[run.state]}{' '}
            <button
              type="button"
              class="quiet"
              onClick={() => {
                follow(run)
                change({ run: run.id }, false)
              }}
            >
              {words.show}
            </button>
          </li>
        ))}
      </ul>
    </details>
  )
}

function Status({ run }: { readonly run: Shown | undefined }) {
  const words = text()
  if (!run) return null
  const { last, facts, state } = run
  const [step, steps] = [last?.step ?? 0, facts?.steps ?? 0]
  const tenth = steps > 0 ? Math.floor((10 * step) / steps) : 0
  return (
    <section class="status">
      <p data-state={state}>
        <strong>{words.said(words.states[state], step, steps, last ? fixed(last.loss, 3) : '')}</strong>{' '}
        {last && words.rate(short(last.tokensPerSecond), seconds(last.seconds))}
        {last &&
          isLive(run) &&
          `${words.comma}${words.left(seconds(Math.round(last.seconds * (steps - step) * 10) / 10))}`}
      </p>
      {facts && (
        <p>
          <Facts facts={facts} />
        </p>
      )}
      <Aloud
        key={`${state} ${tenth}`}
        said={words.said(words.states[state], step, steps, last ? fixed(last.loss, 3) : '')}
      />
    </section>
  )
}

/** What it computes with and learns from; in Chinese where there are words for it. */
function Facts({ facts: { kernels, data, said } }: { readonly facts: RunFacts }) {
  if (language.value === 'zh' && said?.kernels && said.data)
    return <small>{`${describedZh(said.kernels)}；${describedZh(said.data)}`}</small>
  return (
    <small lang="en">
      {kernels}; {data}
    </small>
  )
}

/** To readers of screens: every tenth of a run, and what becomes of it. */
function Aloud({ said }: { readonly said: string }) {
  const [first] = useState(said)
  return (
    <span class="unseen" aria-live="polite">
      {first}
    </span>
  )
}
