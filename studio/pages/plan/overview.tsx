/** Where the time goes, what a rank holds, why, and what to try next. */
import { useMemo } from 'preact/hooks'
import { bytes, percent, seconds } from '../../base/numbers.js'
import { type Bar, Bars, Legend } from '../../parts/bars.js'
import { Figure } from '../../parts/figure.js'
import type { Numbers } from '../../work/plan/price.js'
import { named, text } from './text.js'

interface FiguresProps {
  readonly numbers: Numbers
  readonly pending: boolean
}

export function Where({ numbers: { parts, step, exact }, pending }: FiguresProps) {
  const words = text()
  const sorted = [...parts].sort((a, b) => b[1] - a[1])
  const bars = sorted.map(([name, value]) => ({
    ...{ label: named(words.parts, name), note: `${seconds(value)} · ${percent(value / step)}` },
    parts: [{ name: '', value, kind: `time ${name}` }],
  }))
  const [most, time] = sorted[0] ?? ['compute', 0]
  const caption = words.whereCaption(seconds(step), named(words.parts, most), percent(time / step), exact)
  const body = sorted.map(([name, value]) => [named(words.parts, name), value, percent(value / step)])
  const rows = { head: [words.part, words.seconds, words.share], body }
  const picture = useMemo(() => <Bars bars={bars} show={seconds} label={caption} />, [parts, words])
  return (
    <Figure title={words.where} caption={caption} rows={rows} pending={pending}>
      {picture}
    </Figure>
  )
}

/** More bars than these say no more. */
const mostBars = 16

export function Memory({ numbers: { ranks, capacity }, pending }: FiguresProps) {
  const words = text()
  const heaviest = ranks.reduce((a, b) => (b.bytes > a.bytes ? b : a), ranks[0]!)
  const every = Math.ceil(ranks.length / mostBars)
  const drawn = ranks.filter((rank, n) => n % every === 0 || rank === heaviest)
  const bars: Bar[] = drawn.map(({ label, kinds, bytes: total }) => ({
    ...{ label, note: bytes(total) },
    parts: kinds.map(([kind, value]) => ({ name: named(words.kinds, kind), value, kind })),
  }))
  const caption = words.memoryCaption(heaviest.label, bytes(heaviest.bytes), bytes(capacity))
  const kinds = [...new Set(ranks.flatMap(({ kinds }) => kinds.map(([kind]) => kind)))]
  const body = ranks.map(rank => [
    rank.label || '–',
    ...kinds.map(kind => bytes(rank.kinds.find(([name]) => name === kind)?.[1] ?? 0)),
    bytes(rank.bytes),
  ])
  const rows = { head: [words.rank, ...kinds.map(kind => named(words.kinds, kind)), words.total], body }
  const limit = { label: words.capacity, value: capacity }
  const picture = useMemo(
    () => [<Bars key="bars" {...{ bars, show: bytes, limit, label: caption }} />, <Legend key="legend" bars={bars} />],
    [ranks, capacity, words],
  )
  return (
    <Figure title={words.memory} caption={caption} rows={rows} pending={pending}>
      {picture}
    </Figure>
  )
}
