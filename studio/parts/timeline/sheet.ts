/** What a canvas is drawn with, as wide as its place and in the colours of the theme, and when: in the next frame. */
import { effect, type ReadonlySignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks'
import { theme } from '../../base/theme.js'
import { inksIn } from './paint.js'
import type { Inks } from './raster.js'
import type { View } from './view.js'

interface Sheet {
  /** In points of the screen; 0 until it is known. */
  readonly width: number
  readonly inks: Inks | undefined
}

export function useSheet(canvas: { readonly current: HTMLCanvasElement | null }): Sheet {
  const [width, set] = useState(0)
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => set(Math.max(1, Math.floor(entry!.contentRect.width))))
    watch.observe(canvas.current!)
    return () => watch.disconnect()
  }, [])
  const now = theme.value
  const inks = useMemo(() => (canvas.current ? inksIn(canvas.current) : undefined), [now, width > 0])
  return { width, inks }
}

/** Draws what is seen when that moves, or when one of `others` is another: once a frame, however much moves before it. */
export function useDrawn(view: ReadonlySignal<View>, draw: (view: View) => void, others: readonly unknown[]): void {
  useLayoutEffect(() => {
    let frame = 0
    const stop = effect(() => {
      void view.value
      cancelAnimationFrame(frame)
      frame = requestAnimationFrame(() => draw(view.peek()))
    })
    return () => {
      stop()
      cancelAnimationFrame(frame)
    }
  }, [view, ...others])
}
