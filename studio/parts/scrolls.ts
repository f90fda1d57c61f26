/** What is wider than its place is scrolled by keyboard too: it is a stop of the tab key then, and only then. */
import type { RefObject } from 'preact'
import { useEffect, useState } from 'preact/hooks'

export function useScrolls(ref: RefObject<HTMLElement | null>): { readonly tabIndex?: 0 } {
  const [scrolls, tell] = useState(false)
  const look = () => ref.current && tell(ref.current.scrollWidth > ref.current.clientWidth)
  // What it shows changes by being drawn, its room without.
  useEffect(() => void look())
  useEffect(() => {
    const watch = new ResizeObserver(look)
    if (ref.current) watch.observe(ref.current)
    return () => watch.disconnect()
  }, [])
  return scrolls ? { tabIndex: 0 } : {}
}
