/** One value a row on a logarithmic scale: what differs by powers of ten. */
import { defineText } from '../base/language.js'
import { Figure } from './figure.js'

const text = defineText({ log: 'Lengths are logarithms.' }, { log: '条长按对数。' })

export interface LogRow {
  readonly label: string
  readonly value: number
  readonly kind: string
  readonly note: string
  readonly cells: readonly string[]
}

interface LogBarsProps {
  readonly title: string
  readonly caption: string
  readonly rows: readonly LogRow[]
  readonly head: readonly string[]
  readonly pending: boolean
}

export function LogBars({ title, caption, rows, head, pending }: LogBarsProps) {
  const values = rows.map(({ value }) => value).filter(value => value > 0)
  const [least, most] = [Math.min(...values) / 3, Math.max(...values)]
  const wide = (value: number) => `${value > 0 ? (Math.log(value / least) / Math.log(most / least)) * 100 : 0}%`
  return (
    <Figure
      title={title}
      caption={caption ? `${caption}${rows.length > 0 ? ` ${text().log}` : ''}` : '…'}
      rows={{ head, body: rows.map(({ label, cells }) => [label, ...cells]) }}
      pending={pending}
    >
      <div class="bars" role="img" aria-label={caption || title}>
        {rows.map(({ label, value, kind, note }) => (
          <div class="bar" key={label}>
            <span class="bar-label">{label}</span>
            <span class="track">
              <span class={`part ${kind}`} style={{ width: wide(value) }} />
            </span>
            <span class="bar-note">{note}</span>
          </div>
        ))}
      </div>
    </Figure>
  )
}
