/** What pointers and keys do to a timeline: they move what is seen of it, and choose a span. */
import type { ReadonlySignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { axisHeight } from './paint.js'
import { across, along, type Chosen, firstSpan, pickAt, type Rows, rowOf, spanOf } from './pick.js'
import type { TimelineData } from './track.js'
import { around, aroundRow, panned, seen, type View, zoomed } from './view.js'

export interface Held {
  readonly data: TimelineData
  readonly rows: Rows
  /** What is seen: a signal, since a frame that draws it renders nothing else. */
  readonly view: ReadonlySignal<View>
  readonly whole: View
  readonly pick: Chosen | undefined
  readonly height: number
  readonly move: (view: View) => void
  readonly choose: (pick: Chosen | undefined) => void
}

interface Canvas {
  readonly current: HTMLCanvasElement | null
}

interface Drag {
  readonly x: number
  readonly y: number
  readonly view: View
  moved: boolean
}

export function useHands(held: Held, canvas: Canvas) {
  const { data, rows, view, height, move, choose } = held
  const drag = useRef<Drag>(undefined)
  useWheel(held, canvas)
  return {
    onPointerDown: (event: PointerEvent) => {
      canvas.current!.setPointerCapture(event.pointerId)
      drag.current = { x: event.offsetX, y: event.offsetY, view: view.peek(), moved: false }
    },
    onPointerMove: (event: PointerEvent) => {
      const { current } = drag
      if (!current) return
      const [dx, dy] = [event.offsetX - current.x, event.offsetY - current.y]
      if (Math.abs(dx) + Math.abs(dy) > 4) current.moved = true
      if (!current.moved) return
      const next = panned(current.view, -dx / (canvas.current?.clientWidth || 1))
      move({ ...next, row: current.view.row - (dy / (height - axisHeight)) * current.view.rows })
    },
    onPointerUp: (event: PointerEvent) => {
      const now = view.peek()
      const time = timeAt(now, event, canvas)
      const point = { time, y: event.offsetY - axisHeight, height: height - axisHeight }
      if (drag.current?.moved === false) choose(pickAt(data, rows, now, point))
      drag.current = undefined
    },
  }
}

const timeAt = ({ from, to }: View, { offsetX }: MouseEvent, canvas: Canvas): number =>
  from + ((to - from) * offsetX) / (canvas.current?.clientWidth || 1)

/** With Ctrl it zooms, with Shift it goes from row to row. */
function useWheel({ view, move }: Held, canvas: Canvas): void {
  const latest = useRef<(event: WheelEvent) => void>(undefined)
  latest.current = event => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return
    event.preventDefault()
    const [amount, now] = [event.deltaY || event.deltaX, view.peek()]
    if (event.shiftKey) move({ ...now, row: now.row + (amount / 200) * now.rows })
    else move(zoomed(now, 2 ** (amount / 240), timeAt(now, event, canvas)))
  }
  // Added by hand: what preact adds may not keep the page from zooming.
  useEffect(() => {
    const hear = (event: WheelEvent) => latest.current?.(event)
    canvas.current!.addEventListener('wheel', hear, { passive: false })
  }, [])
}

type Acts = Readonly<Record<string, () => void>>

/** Keys that go from span to span. */
function walks({ data, rows, view, pick, move, choose }: Held): Acts {
  const walk = (next: (from: Chosen) => Chosen) => () => {
    const chosen = pick ? next(pick) : firstSpan(data, rows)
    choose(chosen)
    const { start, end } = spanOf(data, chosen)
    const [at, now] = [rowOf(data, rows, chosen), view.peek()]
    move({ ...seen(now, start, end), row: Math.max(Math.min(now.row, at), at - now.rows + 1) })
  }
  const nearer = () => {
    if (!pick) return
    const { start, end } = spanOf(data, pick)
    const close = around(view.peek(), start, end)
    move(rows === 'ranks' ? aroundRow(close, rowOf(data, rows, pick)) : close)
  }
  return {
    ArrowRight: walk(from => along(data, from, 1)),
    ArrowLeft: walk(from => along(data, from, -1)),
    ArrowDown: walk(from => across(data, rows, from, 1)),
    ArrowUp: walk(from => across(data, rows, from, -1)),
    Home: walk(from => along(data, from, Number.NEGATIVE_INFINITY)),
    End: walk(from => along(data, from, Number.POSITIVE_INFINITY)),
    Enter: nearer,
  }
}

/** Keys that move what is seen, here and in the map. */
export function looks({ data, view, whole, pick, move }: Omit<Held, 'height' | 'choose'>): Acts {
  const now = view.peek()
  const middle = pick ? (spanOf(data, pick).start + spanOf(data, pick).end) / 2 : (now.from + now.to) / 2
  return {
    '+': () => move(zoomed(now, 0.5, middle)),
    '-': () => move(zoomed(now, 2, middle)),
    a: () => move(panned(now, -0.2)),
    d: () => move(panned(now, 0.2)),
    f: () => move(whole),
  }
}

const same: Readonly<Record<string, string>> = { w: '+', '=': '+', s: '-', _: '-' }

/** Does what a key stands for, if it stands for anything. */
export function act(event: KeyboardEvent, acts: Acts): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
  const chosen = acts[same[key] ?? key]
  if (!chosen) return
  event.preventDefault()
  chosen()
}

export const keyed = (event: KeyboardEvent, held: Held): void => act(event, { ...looks(held), ...walks(held) })
