/**
 * The whole step, small, with a window over the part that is seen above: the window is dragged, a press beside it brings it there, and keys
 * move it.
 */
import { useComputed } from '@preact/signals'
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { act, type Held, looks } from './hands.js'
import { MapPainter } from './map-paint.js'
import { rangeText } from './pick.js'
import { useDrawn, useSheet } from './sheet.js'
import { text } from './text.js'
import { panned, type View } from './view.js'

const mapHeight = 36

interface MapProps extends Omit<Held, 'height' | 'choose'> {
  /** Rows there are. */
  readonly count: number
}

export function StepMap(props: MapProps) {
  const { data, rows, view, count } = props
  const canvas = useRef<HTMLCanvasElement>(null)
  const painter = useRef<MapPainter>(undefined)
  const { width, inks } = useSheet(canvas)
  const tracks = useMemo(
    () => (rows === 'ranks' && data.trackOf ? data.trackOf : Uint16Array.from(data.tracks, (_, n) => n)),
    [data, rows],
  )
  useLayoutEffect(() => {
    if (!inks || width === 0) return
    painter.current ??= new MapPainter(canvas.current!)
    painter.current.drawStep({ ...data, inks }, tracks)
  }, [data, tracks, inks, width])
  useDrawn(view, now => painter.current?.drawWindow(now, count), [data, tracks, inks, width])
  const middle = useComputed(() => Math.round((100 * (view.value.from + view.value.to)) / 2 / data.duration))
  const said = useComputed(() => rangeText(view.value, data.duration))
  return (
    <div
      class="timeline-map"
      role="slider"
      tabIndex={0}
      aria-label={text().map}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={middle}
      aria-valuetext={said}
      onKeyDown={event => act(event, keysOf(props))}
      {...useDrag(props)}
    >
      <canvas ref={canvas} width={width || 600} height={mapHeight} />
    </div>
  )
}

/** As sliders have them; Page Up and Page Down go a window farther. */
function keysOf(props: MapProps): Readonly<Record<string, () => void>> {
  const { data, move } = props
  const view = props.view.peek()
  const width = view.to - view.from
  const to = (from: number) => () => move({ ...view, from, to: from + width })
  const by = (part: number) => () => move(panned(view, part))
  return {
    ...looks(props),
    ...{ ArrowRight: by(0.1), ArrowLeft: by(-0.1), PageUp: by(1), PageDown: by(-1), Home: to(0) },
    End: to(data.duration - width),
    ArrowDown: () => move({ ...view, row: view.row + view.rows / 4 }),
    ArrowUp: () => move({ ...view, row: view.row - view.rows / 4 }),
  }
}

interface Spot {
  readonly time: number
  readonly row: number
}

const isIn = ({ from, to, row: top, rows }: View, { time, row }: Spot): boolean =>
  time >= from && time <= to && row >= top && row <= top + rows

function useDrag({ data, count, view, move }: MapProps) {
  const held = useRef<Spot>(undefined)
  const spotOf = (event: PointerEvent): Spot => {
    const { left, top, width, height } = (event.currentTarget as HTMLElement).getBoundingClientRect() // it is the map
    return {
      time: ((event.clientX - left) / width) * data.duration,
      row: ((event.clientY - top) / height) * count,
    }
  }
  /** What is held stays under the pointer. */
  const follow = ({ time, row }: Spot, { time: from, row: top }: Spot) => {
    const now = view.peek()
    move({ ...now, from: time - from, to: time - from + (now.to - now.from), row: row - top })
  }
  return {
    onPointerDown: (event: PointerEvent) => {
      ;(event.currentTarget as HTMLElement).setPointerCapture(event.pointerId)
      const [spot, now] = [spotOf(event), view.peek()]
      const middle = { time: (now.to - now.from) / 2, row: now.rows / 2 }
      held.current = isIn(now, spot) ? { time: spot.time - now.from, row: spot.row - now.row } : middle
      follow(spot, held.current)
    },
    onPointerMove: (event: PointerEvent) => {
      if (held.current) follow(spotOf(event), held.current)
    },
    onPointerUp: () => {
      held.current = undefined
    },
    onPointerCancel: () => {
      held.current = undefined
    },
  }
}
