/** Bars made of parts, one under the other, on one scale; a line marks a limit. Each part has its letter or name where there is room. */
export interface Part {
  readonly name: string
  readonly value: number
  /** A class of style/parts.css: `params`, `F`, `tp`. */
  readonly kind: string
}

export interface Bar {
  readonly label: string
  readonly parts: readonly Part[]
  /** What stands at its end. */
  readonly note?: string
}

interface BarsProps {
  readonly bars: readonly Bar[]
  readonly show: (value: number) => string
  /** Drawn as a line across all bars: the memory of a device. */
  readonly limit?: { readonly label: string; readonly value: number }
  readonly label: string
}

/** Bytes under way are hatched, which leaves no ground for letters. */
const axes: ReadonlySet<string> = new Set(['tp', 'cp', 'ep', 'dp', 'pp', 'mesh', 'lane-part'])

export function Bars({ bars, show, limit, label }: BarsProps) {
  const totals = bars.map(({ parts }) => parts.reduce((sum, part) => sum + part.value, 0))
  const most = Math.max(...totals, limit?.value ?? 0, Number.MIN_VALUE)
  const share = (value: number) => `${(value / most) * 100}%`
  return (
    <div class="bars" role="img" aria-label={label}>
      {bars.map((bar, n) => (
        <div class="bar" key={n}>
          <span class="bar-label">{bar.label}</span>
          <span class="track">
            {bar.parts
              .filter(part => part.value > 0)
              .map(part => (
                <span
                  key={part.name}
                  class={`part ${part.kind}`}
                  style={{ width: share(part.value) }}
                  title={`${part.name} ${show(part.value)}`}
                >
                  {part.value / most > 0.03 && !axes.has(part.kind) ? part.name : ''}
                </span>
              ))}
            {limit && (
              <span class="limit" style={{ left: share(limit.value) }} title={`${limit.label} ${show(limit.value)}`} />
            )}
          </span>
          <span class="bar-note">{bar.note ?? show(totals[n]!)}</span>
        </div>
      ))}
    </div>
  )
}

/** What the colours of parts mean: every kind that occurs, once. */
export function Legend({ bars }: { readonly bars: readonly Bar[] }) {
  const kinds = new Map(bars.flatMap(({ parts }) => parts.map(part => [part.kind, part.name] as const)))
  return (
    <ul class="legend">
      {[...kinds].map(([kind, name]) => (
        <li key={kind}>
          <span class={`part ${kind}`} aria-hidden="true" /> {name}
        </li>
      ))}
    </ul>
  )
}
