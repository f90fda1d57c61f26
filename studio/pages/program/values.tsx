/** What an instruction left: numbers, and how large they are as shades behind them. */
import { Figure } from '../../parts/figure.js'
import type { Frame } from '../../work/program/tape.js'
import { text } from './text.js'

const [mostRows, mostColumns] = [12, 8]

export function Values({ frame }: { readonly frame: Frame }) {
  const words = text()
  const { name, dims, values } = frame
  const columns = Math.max(1, dims.at(-1)?.size ?? 1)
  const [wide, high] = [Math.min(columns, mostColumns), Math.min(Math.ceil(values.length / columns), mostRows)]
  const cells = Array.from({ length: high }, (_, row) =>
    Array.from({ length: wide }, (_, column) => values[row * columns + column] ?? 0),
  )
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), Number.MIN_VALUE)
  const shape = `[${dims.map(({ name, size }) => `${name}:${size}`).join(' ')}]`
  const rows = {
    head: [words.row, ...Array.from({ length: wide }, (_, n) => words.column(n))],
    body: cells.map((row, n) => [n, ...row.map(value => value.toPrecision(4))]),
  }
  const partly = wide * high < values.length ? ` (${words.truncated(wide * high, values.length)})` : ''
  return (
    <Figure title={words.values(name)} caption={words.valuesCaption(name, shape, sameness(frame)) + partly} rows={rows}>
      <div class="heat" style={{ gridTemplateColumns: `repeat(${wide}, minmax(4.2em, 1fr))` }}>
        {cells.flatMap((row, r) =>
          row.map((value, c) => (
            <span
              key={`${r}.${c}`}
              style={{ '--share': String(Math.abs(value) / largest) }}
              class={value < 0 ? 'negative' : ''}
            >
              {value.toPrecision(3)}
            </span>
          )),
        )}
      </div>
    </Figure>
  )
}

function sameness({ off, why }: Frame): string {
  const words = text()
  if (off !== undefined) return words.equal(off === 0 ? '0' : off.toExponential(0))
  return why === 'addend' ? words.addend : why === 'part' ? words.part : words.ownValue
}
