/**
 * The timeline of a step: drag or keys pan, the wheel with Ctrl zooms, a click chooses a span, and so do the arrow keys, which are heard
 * only while the picture has the focus. What is chosen is said below it, to readers of screens once a second at most.
 */
import { effect, type ReadonlySignal, useComputed, useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { type Held, keyed, useHands } from './hands.js'
import { StepMap } from './map.js'
import { axisHeight, Painter } from './paint.js'
import { type Chosen, type Rows, rangeText, say } from './pick.js'
import { rowHeight } from './raster.js'
import { useDrawn, useSheet } from './sheet.js'
import './style.css'
import { text } from './text.js'
import { coverOf, kindOf, kinds, type TimelineData } from './track.js'
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
  const view = useSignal<View>(first)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const moves = useSignal(0)
  const before = useRef(whole)
  useEffect(() => {
    const all = before.current
    before.current = whole
    const now = view.peek()
    view.value = follows && isCloser(now, all) ? clamp(stretched(now, all, whole), data.duration, count) : first
  }, [data, count])
  useEffect(() => {
    if (!isSame(first, view.peek())) view.value = { ...view.peek(), from: first.from, to: first.to }
  }, [range?.from, range?.to])
  useEffect(() => () => clearTimeout(timer.current), [])
  const move = (next: View) => {
    const clamped = clamp(next, data.duration, count)
    view.value = clamped
    moves.value++
    clearTimeout(timer.current)
    timer.current = setTimeout(() => settle?.(clamped), rest)
  }
  return { view, move, moves }
}

function Tools({ data, view, whole, rows, move, setRows }: Held & { readonly setRows: (rows: Rows) => void }) {
  const words = text()
  const zoom = (by: number) => () => move(zoomed(view.peek(), by, (view.peek().from + view.peek().to) / 2))
  return (
    <div class="tools">
      <button type="button" class="quiet" aria-label={words.nearer} onClick={zoom(0.5)}>
        +
      </button>
      <button type="button" class="quiet" aria-label={words.farther} onClick={zoom(2)}>
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
  const draw = (now: View) => {
    if (!inks || width === 0) return
    painter.current ??= new Painter(canvas.current!)
    painter.current.paint({ ...data, view: now, inks }, rows, pick)
  }
  useDrawn(view, draw, [data, rows, pick, width, height, inks])
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
  const row = useComputed(() => view.value.row).value
  const first = Math.floor(row)
  return (
    <ol class="timeline-rows" style={{ marginTop: `${axisHeight - (row - first) * rowHeight}px` }} aria-hidden="true">
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
  readonly moves: ReadonlySignal<number>
}

/** What is chosen and what is seen, in words; said aloud once a second at most, and only what a reader did. */
function Said({ data, pick, view, moves }: SaidProps) {
  const chosen = pick ? say(data, pick) : ''
  const aloud = useSignal('')
  const before = useRef({ chosen, moves: 0, at: 0 })
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const speak = () => {
      timer = undefined
      aloud.value = before.current.chosen === chosen ? rangeText(view.peek(), data.duration) : chosen
      before.current = { chosen, moves: moves.peek(), at: performance.now() }
    }
    const stop = effect(() => {
      const isMoved = before.current.moves !== moves.value
      if (before.current.chosen === chosen && !isMoved) return
      timer ??= setTimeout(speak, Math.max(0, before.current.at + 1000 - performance.now()))
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [chosen, data])
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
      for (const { levels } of [compute, network])
        for (const bin of levels.at(-1)!) if (coverOf(bin) > 0) all.add(kindOf(bin))
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
