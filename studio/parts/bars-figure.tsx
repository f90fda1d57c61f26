/** Bars in a figure: their legend, and their parts as a table. */
import type { ComponentChildren } from 'preact'
import { type Bar, Bars, Legend } from './bars.js'
import { Figure } from './figure.js'

interface BarsFigureProps {
  readonly title: string
  readonly caption: ComponentChildren
  readonly bars: readonly Bar[]
  readonly show: (value: number) => string
  /** What the rows are called, and their sum. */
  readonly head: readonly [string, string]
  readonly limit?: { readonly label: string; readonly value: number }
  readonly pending: boolean
}

export function BarsFigure({ title, caption, bars, show, head, limit, pending }: BarsFigureProps) {
  const names = [...new Set(bars.flatMap(({ parts }) => parts.map(({ name }) => name)))]
  const rows = {
    head: [head[0], ...names, head[1]],
    body: bars.map(({ label, parts }) => [
      label,
      ...names.map(name => show(parts.find(part => part.name === name)?.value ?? 0)),
      show(parts.reduce((sum, { value }) => sum + value, 0)),
    ]),
  }
  return (
    <Figure title={title} caption={caption || '…'} rows={rows} pending={pending}>
      <Bars bars={bars} show={show} label={typeof caption === 'string' ? caption : title} {...(limit && { limit })} />
      <Legend bars={bars} />
    </Figure>
  )
}
