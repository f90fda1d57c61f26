/** What pointers and keys do to a timeline: they move what is seen of it, and choose a span. */
import { useEffect, useRef } from 'preact/hooks'
import { axisHeight } from './paint.js'
import { across, along, type Chosen, firstSpan, pickAt, type Rows, rowOf, spanOf } from './pick.js'
import type { TimelineData } from './track.js'
import { around, aroundRow, panned, seen, type View, zoomed } from './view.js'

export interface Held {
  readonly data: TimelineData
  readonly rows: Rows
  readonly view: View
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
  const timeAt = (x: number) => view.from + ((view.to - view.from) * x) / (canvas.current?.clientWidth || 1)
  useWheel(held, canvas)
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
      move({ ...next, row: current.view.row - (dy / (height - axisHeight)) * current.view.rows })
    },
    onPointerUp: (event: PointerEvent) => {
      const point = { time: timeAt(event.offsetX), y: event.offsetY - axisHeight, height: height - axisHeight }
      if (drag.current?.moved === false) choose(pickAt(data, rows, view, point))
      drag.current = undefined
    },
  }
}

/** With Ctrl it zooms, with Shift it goes from row to row. */
function useWheel({ view, move }: Held, canvas: Canvas): void {
  const latest = useRef<(event: WheelEvent) => void>(undefined)
  latest.current = event => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return
    event.preventDefault()
    const amount = event.deltaY || event.deltaX
    const at = view.from + ((view.to - view.from) * event.offsetX) / (canvas.current?.clientWidth || 1)
    if (event.shiftKey) move({ ...view, row: view.row + (amount / 200) * view.rows })
    else move(zoomed(view, 2 ** (amount / 240), at))
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
    const at = rowOf(data, rows, chosen)
    move({ ...seen(view, start, end), row: Math.max(Math.min(view.row, at), at - view.rows + 1) })
  }
  const nearer = () => {
    if (!pick) return
    const { start, end } = spanOf(data, pick)
    const close = around(view, start, end)
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
  const middle = pick ? (spanOf(data, pick).start + spanOf(data, pick).end) / 2 : (view.from + view.to) / 2
  return {
    '+': () => move(zoomed(view, 0.5, middle)),
    '-': () => move(zoomed(view, 2, middle)),
    a: () => move(panned(view, -0.2)),
    d: () => move(panned(view, 0.2)),
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
