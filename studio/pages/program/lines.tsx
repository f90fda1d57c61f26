/** Lists of lines, of which the page draws a window around the present one. */
import { useEffect, useRef } from 'preact/hooks'
import type { Line } from '../../work/program/index.js'
import { text } from './text.js'

const [before, behind] = [12, 28]

interface StreamProps {
  readonly lines: readonly Line[]
  readonly at: number
  readonly choose: (step: number) => void
}

export function Stream({ lines, at, choose }: StreamProps) {
  const first = Math.max(0, Math.min(at - before, lines.length - before - behind))
  return (
    <section class="lines">
      <h2>{text().stream}</h2>
      <ol start={first}>
        {lines.slice(first, first + before + behind).map((line, n) => (
          <li key={first + n} aria-current={first + n === at ? 'step' : undefined}>
            <button type="button" onClick={() => choose(first + n)}>
              <span class="place">{first + n}</span> {line.text}
            </button>
          </li>
        ))}
      </ol>
    </section>
  )
}

interface SegmentProps {
  readonly name: string | undefined
  readonly lines: readonly string[]
  readonly at: number
}

export function Segment({ name, lines, at }: SegmentProps) {
  const words = text()
  const list = useRef<HTMLOListElement>(null)
  useEffect(() => {
    const line = list.current?.children[at] as HTMLElement | undefined
    if (line && list.current) list.current.scrollTop = line.offsetTop - list.current.offsetTop - 60
  }, [name, at])
  return (
    <section class="lines">
      <h2>{name === undefined ? words.stream : words.segment(name)}</h2>
      {name === undefined && <p>{words.noSegment}</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <ol ref={list} tabIndex={0} aria-label={name ?? ''}>
        {lines.slice(0, 200).map((line, n) => (
          <li key={n} aria-current={n === at ? 'step' : undefined}>
            <code>{line}</code>
          </li>
        ))}
      </ol>
    </section>
  )
}
