/** What every rank has before, to be typed into, and what it has after, as the engine left it. */
import { useRef } from 'preact/hooks'
import type { Grid } from '../../../base/grid.js'
import { defineText } from '../../../base/language.js'
import { short } from '../../../base/numbers.js'
import { NumberInput } from '../../../parts/controls.js'
import type { Operation } from '../../../work/collectives.js'
import { flightsOf, fly, keyOf } from './flights.js'

const text = defineText(
  {
    before: 'Before',
    after: 'After',
    rank: (n: number) => `rank ${n}`,
    input: (rank: number, at: number) => `rank ${rank}, number ${at}`,
    play: 'Watch it',
    nothing: 'nothing',
  },
  {
    before: '之前',
    after: '之后',
    rank: (n: number) => `rank ${n}`,
    input: (rank: number, at: number) => `rank ${rank} 的第 ${at} 个数`,
    play: '看过程',
    nothing: '无',
  },
)

/** Where a number was typed in: rank, and which of its numbers. */
type Put = (place: readonly [rank: number, at: number], number: number) => void

interface GridsProps {
  readonly op: Operation
  readonly root: number
  readonly x: Grid
  /** Numbers a rank brings. */
  readonly width: number
  readonly out: Grid | undefined
  readonly put: Put
}

export function Grids({ op, root, x, width, out, put }: GridsProps) {
  const stage = useRef<HTMLDivElement>(null)
  const words = text()
  const play = () => stage.current && void fly(stage.current, flightsOf(op, x.length, root))
  return (
    <>
      <div class="exchange" ref={stage}>
        <section aria-label={words.before}>
          <h3>{words.before}</h3>
          {x.map((row, rank) => (
            <Typed key={rank} rank={rank} row={row.slice(0, width)} put={put} />
          ))}
        </section>
        <section aria-label={words.after}>
          <h3>{words.after}</h3>
          {x.map((_, rank) => (
            <Left key={rank} rank={rank} row={out?.[rank] ?? []} />
          ))}
        </section>
      </div>
      <button type="button" class="quiet" onClick={play}>
        {words.play}
      </button>
    </>
  )
}

interface RowProps {
  readonly rank: number
  readonly row: readonly number[]
}

function Typed({ rank, row, put }: RowProps & { readonly put: Put }) {
  const words = text()
  const typed = (at: number, number: number) => {
    if (Number.isFinite(Math.fround(number))) put([rank, at], number)
  }
  return (
    <div class={`cells rank-${rank % 6}`}>
      <span class="who">{words.rank(rank)}</span>
      {row.map((value, at) => (
        <NumberInput
          key={at}
          step="any"
          value={value}
          aria-label={words.input(rank, at)}
          data-before={keyOf({ rank, at })}
          change={number => typed(at, number)}
        />
      ))}
    </div>
  )
}

function Left({ rank, row }: RowProps) {
  const words = text()
  return (
    <div class={`cells rank-${rank % 6}`}>
      <span class="who">{words.rank(rank)}</span>
      {row.map((value, at) => (
        <output key={at} class="cell" data-after={keyOf({ rank, at })}>
          {short(value)}
        </output>
      ))}
      {row.length === 0 && <small>{words.nothing}</small>}
    </div>
  )
}
