/** The last step: what each rank did, and under it what a simulation says; its collectives. */
import type { SeenStep, StepView } from 'lockstep'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { threads } from '../../base/isolation.js'
import { bytes, count, seconds } from '../../base/numbers.js'
import { Toggle } from '../../parts/controls.js'
import { Figure, Table } from '../../parts/figure.js'
import { Timeline } from '../../parts/timeline/index.js'
import { type Asked, change } from './link.js'
import { timelineOfStep } from './measured.js'
import { isLive, look, type Shown } from './state.js'
import { text } from './text.js'

/** Milliseconds between two looks at a run. */
const pause = 1000

interface LanesProps {
  readonly run: Shown | undefined
  readonly asked: Asked
}

export function Lanes({ run, asked }: LanesProps) {
  const words = text()
  const [following, setFollowing] = useState(true)
  const live = isLive(run)
  useEffect(() => {
    if (!live || !following) return
    const timer = setInterval(() => document.hidden || look(), pause)
    return () => clearInterval(timer)
  }, [live, following])
  const kept = useRef<StepView>(undefined)
  if (following || !kept.current) kept.current = run?.view
  const view = kept.current
  if (!view) return run && !threads.value && run.where === 'page' ? <p>{words.noLanes}</p> : null
  return (
    <>
      <Drawn view={view} predicted={asked.predicted}>
        <div class="controls">
          <Toggle
            label={words.showPredicted}
            value={asked.predicted}
            change={on => change({ predicted: on ? 'yes' : undefined })}
          />
          <Toggle label={words.following} value={following} change={setFollowing} />
        </div>
      </Drawn>
      <Collectives view={view} />
    </>
  )
}

interface DrawnProps {
  readonly view: StepView
  readonly predicted: boolean
  readonly children: preact.ComponentChildren
}

function Drawn({ view, predicted, children }: DrawnProps) {
  const words = text()
  const duration = Math.max(view.measured.seconds, predicted ? (view.predicted?.seconds ?? 0) : 0)
  const measured = useMemo(() => timelineOfStep(view.measured, duration), [view, duration])
  const simulated = useMemo(() => view.predicted && timelineOfStep(view.predicted, duration), [view, duration])
  const body = view.measured.ranks.map(({ columns }, rank) => [
    rank,
    columns.start.length,
    seconds(time(columns, 0)),
    seconds(time(columns, 1)),
  ])
  return (
    <Figure
      title={words.lanes}
      caption={words.lanesCaption(
        view.step,
        seconds(view.measured.seconds),
        view.predicted ? seconds(view.predicted.seconds) : '',
      )}
      rows={{ head: [words.rank, words.spans, words.busy, words.carries], body }}
    >
      {children}
      <h3>{words.measured}</h3>
      <Timeline data={measured} follows />
      {predicted && simulated && (
        <>
          <h3>{words.predicted}</h3>
          <Timeline data={simulated} follows />
        </>
      )}
    </Figure>
  )
}

/** Seconds on a lane. */
const time = ({ start, end, lane }: SeenStep['ranks'][number]['columns'], which: number): number =>
  start.reduce((sum, begin, i) => (lane[i] === which ? sum + end[i]! - begin : sum), 0)

function Collectives({ view: { collectives } }: { readonly view: StepView }) {
  const words = text()
  const head = [words.kind, words.axis, words.count, words.bytes, words.seconds, words.exposed]
  const body = collectives.map(one => [
    ...[one.kind, one.axis, count(one.count), bytes(one.bytes)],
    ...[seconds(one.seconds), seconds(one.exposed)],
  ])
  const total = (of: 'count' | 'bytes' | 'exposed') => collectives.reduce((sum, one) => sum + one[of], 0)
  return (
    <section>
      <h2>{words.collectives}</h2>
      <p>{words.collectivesCaption(total('count'), bytes(total('bytes')), seconds(total('exposed')))}</p>
      <Table head={head} body={body} label={words.collectives} />
    </section>
  )
}
