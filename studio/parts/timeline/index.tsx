/**
 * The timeline of a step: drag or keys pan, the wheel with Ctrl zooms, a click chooses a span, and so do the arrow keys, which are heard
 * only while the picture has the focus. What is chosen is said below it, to readers of screens once a second at most.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { theme } from '../../base/theme.js'
import { axisHeight, inksIn, Painter } from './paint.js'
import { across, along, type Chosen, pickAt, type Rows, say, spanOf } from './pick.js'
import { rowHeight } from './raster.js'
import './style.css'
import { text } from './text.js'
import { kinds, type TimelineData } from './track.js'
import { around, clamp, panned, seen, type View, zoomed } from './view.js'

export type { TimelineData, Track } from './track.js'

interface TimelineProps {
  readonly data: TimelineData
  /** What of the step a link asked to show. */
  readonly range?: Pick<View, 'from' | 'to'> | undefined
  /** The view has come to rest: pages put it into their link. */
  readonly settle?: (view: View) => void
}

/** Rows that are on the screen at once; more scroll. */
const mostRows = 18

export function Timeline({ data, range, settle }: TimelineProps) {
  const [rows, setRows] = useState<Rows>('roles')
  const count = rows === 'ranks' ? (data.trackOf?.length ?? 1) : data.tracks.length
  const whole: View = { from: 0, to: data.duration, row: 0, rows: rows === 'ranks' ? count : Math.min(count, mostRows) }
  const [view, setView] = useState<View>(clamp({ ...whole, ...range }, data.duration, count))
  const [pick, choose] = useState<Chosen>()
  useEffect(() => {
    setView(clamp({ ...whole, ...range }, data.duration, count))
    choose(undefined)
  }, [data, rows])
  const move = (next: View, rests = true) => {
    const clamped = clamp(next, data.duration, count)
    setView(clamped)
    if (rests) settle?.(clamped)
  }
  const height = axisHeight + rowHeight * Math.min(mostRows, rows === 'ranks' ? mostRows : count)
  const surface = { data, rows, view, pick, move, choose, height, whole }
  return (
    <div class="timeline">
      <Tools {...surface} setRows={setRows} />
      <Surface {...surface} />
      <Said data={data} pick={pick} />
      <Meaning data={data} />
    </div>
  )
}

interface SurfaceProps {
  readonly data: TimelineData
  readonly rows: Rows
  readonly view: View
  readonly whole: View
  readonly pick: Chosen | undefined
  readonly height: number
  readonly move: (view: View, rests?: boolean) => void
  readonly choose: (pick: Chosen | undefined) => void
}

function Tools({ data, view, whole, rows, move, setRows }: SurfaceProps & { readonly setRows: (rows: Rows) => void }) {
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

function Surface(props: SurfaceProps) {
  const { data, rows, view, pick, height } = props
  const canvas = useRef<HTMLCanvasElement>(null)
  const painter = useRef<Painter>(undefined)
  const width = useWidth(canvas)
  const now = theme.value
  const inks = useMemo(() => (canvas.current ? inksIn(canvas.current) : undefined), [now, width])
  useEffect(() => {
    if (!canvas.current || width === 0) return
    const frame = requestAnimationFrame(() => {
      painter.current ??= new Painter(canvas.current!)
      painter.current.paint({ ...data, view, inks: inks ?? inksIn(canvas.current!) }, rows, pick)
    })
    return () => cancelAnimationFrame(frame)
  }, [data, rows, view, pick, width, height, inks])
  const hands = useHands(props, canvas)
  const keys = (event: KeyboardEvent) => keyed(event, props)
  return (
    <div class="timeline-surface">
      {rows === 'roles' && <Labels {...props} />}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it is walked through by keys, and only while it has the focus */}
      <div class="timeline-picture" role="application" tabIndex={0} aria-label={text().help} onKeyDown={keys}>
        <canvas ref={canvas} width={width || 600} height={height} style={{ height: `${height}px` }} {...hands} />
      </div>
    </div>
  )
}

/** The names of rows stand beside the picture, as text. */
function Labels({ data, view }: SurfaceProps) {
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

/** As wide as its place, in points of the screen. */
function useWidth(canvas: { readonly current: HTMLCanvasElement | null }): number {
  const [width, set] = useState(0)
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => set(Math.max(1, Math.floor(entry!.contentRect.width))))
    watch.observe(canvas.current!)
    return () => watch.disconnect()
  }, [])
  return width
}

/** What pointers and keys do to it. */
function useHands(props: SurfaceProps, canvas: { readonly current: HTMLCanvasElement | null }) {
  const { data, rows, view, height, move, choose } = props
  const drag = useRef<{ readonly x: number; readonly y: number; readonly view: View; moved: boolean }>(undefined)
  const timeAt = (x: number) => view.from + ((view.to - view.from) * x) / (canvas.current?.clientWidth || 1)
  const wheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return
    event.preventDefault()
    const amount = event.deltaY || event.deltaX
    if (event.shiftKey) move({ ...view, row: view.row + (amount / 200) * view.rows }, false)
    else move(zoomed(view, 2 ** (amount / 240), timeAt(event.offsetX)), false)
  }
  const latest = useRef(wheel)
  latest.current = wheel
  // Added by hand: what preact adds may not keep the page from zooming.
  useEffect(() => {
    const hear = (event: WheelEvent) => latest.current(event)
    canvas.current!.addEventListener('wheel', hear, { passive: false })
  }, [])
  return {
    onPointerDown: (event: PointerEvent) => {
      canvas.current!.setPointerCapture(event.pointerId)
      drag.current = { x: event.offsetX, y: event.offsetY, view, moved: false }
    },
    onPointerMove: (event: PointerEvent) => {
      const { current } = drag
      if (!current) return
      const [dx, dy] = [event.offsetX - current.x, event.offsetY - current.y]
      if (Math.abs(dx) + Math.abs(dy) > 4) current.moved = true
      if (!current.moved) return
      const next = panned(current.view, -dx / (canvas.current?.clientWidth || 1))
      move({ ...next, row: current.view.row - (dy / (height - axisHeight)) * current.view.rows }, false)
    },
    onPointerUp: (event: PointerEvent) => {
      const point = { time: timeAt(event.offsetX), y: event.offsetY - axisHeight, height: height - axisHeight }
      if (drag.current?.moved) move(view)
      else choose(pickAt(data, rows, view, point))
      drag.current = undefined
    },
  }
}

function keyed(event: KeyboardEvent, { data, view, whole, pick, move, choose }: SurfaceProps): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  const middle = pick ? (spanOf(data, pick).start + spanOf(data, pick).end) / 2 : (view.from + view.to) / 2
  const first: Chosen = { track: 0, lane: 'compute', span: 0 }
  const walk = (next: Chosen) => {
    choose(next)
    const { start, end } = spanOf(data, next)
    const row = Math.max(Math.min(view.row, next.track), next.track - view.rows + 1)
    move({ ...seen(view, start, end), row })
  }
  const acts: Readonly<Record<string, () => void>> = {
    ArrowRight: () => walk(pick ? along(data, pick, 1) : first),
    ArrowLeft: () => walk(pick ? along(data, pick, -1) : first),
    ArrowDown: () => walk(pick ? across(data, pick, 1) : first),
    ArrowUp: () => walk(pick ? across(data, pick, -1) : first),
    Home: () => walk(pick ? along(data, pick, Number.NEGATIVE_INFINITY) : first),
    End: () => walk(pick ? along(data, pick, Number.POSITIVE_INFINITY) : first),
    Enter: () => pick && move(around(view, spanOf(data, pick).start, spanOf(data, pick).end)),
    '+': () => move(zoomed(view, 0.5, middle)),
    '-': () => move(zoomed(view, 2, middle)),
    a: () => move(panned(view, -0.2)),
    d: () => move(panned(view, 0.2)),
    f: () => move(whole),
  }
  const same: Readonly<Record<string, string>> = { w: '+', '=': '+', s: '-', _: '-' }
  const act = acts[same[event.key] ?? (event.key.length === 1 ? event.key.toLowerCase() : event.key)]
  if (!act) return
  event.preventDefault()
  act()
}

/** What is chosen, in words; said aloud once a second at most. */
function Said({ data, pick }: { readonly data: TimelineData; readonly pick: Chosen | undefined }) {
  const words = pick ? say(data, pick) : ''
  const [aloud, speak] = useState('')
  const last = useRef(0)
  useEffect(() => {
    const wait = Math.max(0, last.current + 1000 - performance.now())
    const timer = setTimeout(() => {
      last.current = performance.now()
      speak(words)
    }, wait)
    return () => clearTimeout(timer)
  }, [words])
  return (
    <p class="timeline-said">
      <span>{words || ' '}</span>
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
