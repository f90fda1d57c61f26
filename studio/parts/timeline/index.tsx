/**
 * The timeline of a step: drag or keys pan, the wheel with Ctrl zooms, a click chooses a span, and so do the arrow keys, which are heard
 * only while the picture has the focus. What is chosen is said below it, to readers of screens once a second at most.
 */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { type Held, keyed, useHands } from './hands.js'
import { StepMap } from './map.js'
import { axisHeight, Painter } from './paint.js'
import { type Chosen, type Rows, rangeText, say } from './pick.js'
import { rowHeight } from './raster.js'
import { useSheet } from './sheet.js'
import './style.css'
import { text } from './text.js'
import { kinds, type TimelineData } from './track.js'
import { clamp, isCloser, isSame, type Range, stretched, type View, zoomed } from './view.js'

export type { TimelineData, Track } from './track.js'

interface TimelineProps {
  readonly data: TimelineData
  /** What of the step a link asks to show. */
  readonly range?: Range | undefined
  /** The view has come to rest: pages put it into their link. */
  readonly settle?: ((view: View) => void) | undefined
  /** Steps follow each other: where a reader looks closer, that stays. */
  readonly follows?: boolean
}

/** Rows that are on the screen at once; more scroll. */
const mostRows = 18

export function Timeline({ data, range, settle, follows = false }: TimelineProps) {
  const [rows, setRows] = useState<Rows>('roles')
  const count = rows === 'ranks' ? (data.trackOf?.length ?? 1) : data.tracks.length
  const whole: View = { from: 0, to: data.duration, row: 0, rows: rows === 'ranks' ? count : Math.min(count, mostRows) }
  const { view, move, moves } = useView({ data, range, settle, follows, whole, count })
  const [pick, choose] = useState<Chosen>()
  useEffect(() => choose(undefined), [data, rows])
  const height = axisHeight + rowHeight * Math.min(mostRows, rows === 'ranks' ? mostRows : count)
  const words = text()
  const held = { data, rows, view, pick, move, choose, height, whole }
  return (
    <div class="timeline">
      <Tools {...held} setRows={setRows} />
      <Surface {...held} />
      <StepMap {...held} count={count} />
      <Said data={data} pick={pick} view={view} moves={moves} />
      {useMemo(
        () => (
          <Meaning data={data} />
        ),
        [data, words],
      )}
    </div>
  )
}

/** Milliseconds after which a view is at rest. */
const rest = 500

/** What is seen: moved by hands, and by links. */
function useView({
  data,
  range,
  settle,
  follows,
  whole,
  count,
}: TimelineProps & { readonly whole: View; readonly count: number }) {
  const first = clamp({ ...whole, ...range }, data.duration, count)
  const [view, setView] = useState<View>(first)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const moves = useRef(0)
  const before = useRef(whole)
  useEffect(() => {
    const all = before.current
    before.current = whole
    setView(now => (follows && isCloser(now, all) ? clamp(stretched(now, all, whole), data.duration, count) : first))
  }, [data, count])
  useEffect(() => {
    if (!isSame(first, view)) setView({ ...view, from: first.from, to: first.to })
  }, [range?.from, range?.to])
  useEffect(() => () => clearTimeout(timer.current), [])
  const move = (next: View) => {
    const clamped = clamp(next, data.duration, count)
    setView(clamped)
    moves.current++
    clearTimeout(timer.current)
    timer.current = setTimeout(() => settle?.(clamped), rest)
  }
  return { view, move, moves: moves.current }
}

function Tools({ data, view, whole, rows, move, setRows }: Held & { readonly setRows: (rows: Rows) => void }) {
  const words = text()
  const middle = (view.from + view.to) / 2
  return (
    <div class="tools">
      <button type="button" class="quiet" aria-label={words.nearer} onClick={() => move(zoomed(view, 0.5, middle))}>
        +
      </button>
      <button type="button" class="quiet" aria-label={words.farther} onClick={() => move(zoomed(view, 2, middle))}>
        −
      </button>
      <button type="button" class="quiet" onClick={() => move(whole)}>
        {words.all}
      </button>
      {data.trackOf && (
        <label>
          {words.rows}{' '}
          <select value={rows} onChange={event => setRows(event.currentTarget.value === 'ranks' ? 'ranks' : 'roles')}>
            <option value="roles">{words.byRole}</option>
            <option value="ranks">{words.byRank}</option>
          </select>
        </label>
      )}
      <small aria-hidden="true">{words.keys}</small>
    </div>
  )
}

function Surface(props: Held) {
  const { data, rows, view, pick, height } = props
  const canvas = useRef<HTMLCanvasElement>(null)
  const painter = useRef<Painter>(undefined)
  const { width, inks } = useSheet(canvas)
  // Whatever moves between two frames is drawn once, in the next one.
  useLayoutEffect(() => {
    if (!inks || width === 0) return
    const frame = requestAnimationFrame(() => {
      painter.current ??= new Painter(canvas.current!)
      painter.current.paint({ ...data, view, inks }, rows, pick)
    })
    return () => cancelAnimationFrame(frame)
  }, [data, rows, view, pick, width, height, inks])
  const hands = useHands(props, canvas)
  return (
    <div class="timeline-surface">
      {rows === 'roles' && <Labels {...props} />}
      <div
        class="timeline-picture"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is walked through by keys, and only while it has the focus
        tabIndex={0}
        aria-label={text().help}
        onKeyDown={event => keyed(event, props)}
      >
        <canvas ref={canvas} width={width || 600} height={height} style={{ height: `${height}px` }} {...hands} />
      </div>
    </div>
  )
}

/** The names of rows stand beside the picture, as text. */
function Labels({ data, view }: Held) {
  const first = Math.floor(view.row)
  return (
    <ol
      class="timeline-rows"
      style={{ marginTop: `${axisHeight - (view.row - first) * rowHeight}px` }}
      aria-hidden="true"
    >
      {data.tracks.slice(first, first + mostRows).map(({ rank, ranks }) => (
        <li key={rank} style={{ height: `${rowHeight}px` }}>
          {rank}
          {ranks > 1 && <small> ×{ranks}</small>}
        </li>
      ))}
    </ol>
  )
}

interface SaidProps extends Pick<Held, 'data' | 'pick' | 'view'> {
  /** How often hands have moved the view. */
  readonly moves: number
}

/** What is chosen and what is seen, in words; said aloud once a second at most, and only what a reader did. */
function Said({ data, pick, view, moves }: SaidProps) {
  const chosen = pick ? say(data, pick) : ''
  const seen = rangeText(view, data.duration)
  const [aloud, speak] = useState('')
  const before = useRef({ chosen, moves, at: 0 })
  useEffect(() => {
    if (before.current.chosen === chosen && before.current.moves === moves) return
    const words = before.current.chosen === chosen ? seen : chosen
    const timer = setTimeout(
      () => {
        before.current = { chosen, moves, at: performance.now() }
        speak(words)
      },
      Math.max(0, before.current.at + 1000 - performance.now()),
    )
    return () => clearTimeout(timer)
  }, [chosen, moves])
  return (
    <p class="timeline-said">
      <span>{chosen || ' '}</span>
      <span class="unseen" aria-live="polite">
        {aloud}
      </span>
    </p>
  )
}

/** What the colours and letters mean: those that occur. */
function Meaning({ data }: { readonly data: TimelineData }) {
  const words = text()
  const used = useMemo(() => {
    const all = new Set<number>()
    for (const { compute, network } of data.tracks)
      for (const { levels } of [compute, network]) {
        const { kind, cover } = levels.at(-1)!
        kind.forEach((each, bin) => {
          if (cover[bin]! > 0) all.add(each)
        })
      }
    return kinds.filter((_, n) => all.has(n))
  }, [data])
  return (
    <ul class="legend">
      {used.map(kind => (
        <li key={kind}>
          <span class={`part ${kind}`} aria-hidden="true" /> {words.kinds[kind]}
        </li>
      ))}
    </ul>
  )
}
