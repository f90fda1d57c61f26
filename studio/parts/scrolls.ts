/** What is wider than its place is scrolled by keyboard too: it is a stop of the tab key then, and only then. */
import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

export function useScrolls(ref: RefObject<HTMLElement | null>): { readonly tabIndex?: 0 } {
  const [scrolls, tell] = useState(false)
  const watch = useRef<ResizeObserver>(null)
  // What it shows changes by being drawn, its room without. Asked after the browser's own layout: to ask at once would cost another.
  useEffect(() => {
    watch.current ??= new ResizeObserver(() => ref.current && tell(ref.current.scrollWidth > ref.current.clientWidth))
    for (const each of ref.current ? [ref.current, ...ref.current.children] : []) watch.current.observe(each)
  })
  useEffect(() => () => watch.current?.disconnect(), [])
  return scrolls ? { tabIndex: 0 } : {}
}
