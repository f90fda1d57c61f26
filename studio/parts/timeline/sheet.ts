/** What a canvas is drawn with: as wide as its place, in the colours of the theme. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import { theme } from '../../base/theme.js'
import { inksIn } from './paint.js'
import type { Inks } from './raster.js'

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
