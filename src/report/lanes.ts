/** What every rank did in a step, in letters: one row a rank, each letter what it did most in that part of the time. */
import type { Rank } from '../base/index.js'
import { endOf, type Span, startOf } from '../trace/index.js'

export const laneLetters = { compute: '█', communication: '▒', wait: '░', idle: ' ' } as const
type Doing = keyof typeof laneLetters

const doing = ({ lane, instr }: Span): Doing => (lane !== 'network' ? 'compute' : instr >= 0 ? 'communication' : 'wait')

export function lanesText(spans: readonly Span[], ranks: readonly Rank[], columns: number): string[] {
  const [start, end] = [startOf(spans), endOf(spans)]
  const label = Math.max(...ranks.map(rank => String(rank).length))
  const width = Math.max(1, columns - label - 2)
  const times = new Map(ranks.map(rank => [rank, Array.from({ length: width }, () => new Map<Doing, number>())]))
  for (const span of spans) {
    const own = times.get(span.rank)
    if (own) spend(own, doing(span), place(span.start, start, end) * width, place(span.end, start, end) * width)
  }
  return ranks.map(rank => {
    const letters = times.get(rank)!.map(cell => {
      const busy = [...cell.values()].reduce((a, b) => a + b, 0)
      const shares: [Doing, number][] = [...cell, ['idle', 1 - busy]]
      return laneLetters[shares.reduce((a, b) => (b[1] > a[1] ? b : a))[0]]
    })
    return `${String(rank).padStart(label)} │${letters.join('')}`
  })
}

const place = (at: number, start: number, end: number): number => (end > start ? (at - start) / (end - start) : 0)

/** Shares a span out among the cells it covers. */
function spend(cells: readonly Map<Doing, number>[], what: Doing, from: number, to: number): void {
  for (let cell = Math.floor(from); cell < to && cell < cells.length; cell++) {
    const part = Math.min(to, cell + 1) - Math.max(from, cell)
    cells[cell].set(what, (cells[cell].get(what) ?? 0) + part)
  }
}
