/** A step in letters: a row for each rank, each letter what it did most in that part of the time. */
import type { Box } from './step.js'

const letters: Readonly<Record<string, string>> = { F: 'F', B: 'B', I: 'I', W: 'W', optimizer: 'o', other: '-' }
export const idleLetter = '·'

export function stepRow(work: readonly Box[], end: number, columns: number): string {
  const cells = Array.from({ length: columns }, () => new Map<string, number>())
  for (const { kind, start, end: to } of work) {
    const [from, until] = [start, to].map(time => (end > 0 ? (time / end) * columns : 0))
    for (let cell = Math.floor(from); cell < until && cell < columns; cell++) {
      const share = Math.min(until, cell + 1) - Math.max(from, cell)
      cells[cell].set(kind, (cells[cell].get(kind) ?? 0) + share)
    }
  }
  return cells.map(letterOf).join('')
}

function letterOf(cell: ReadonlyMap<string, number>): string {
  const busy = [...cell.values()].reduce((a, b) => a + b, 0)
  const [kind, most] = [...cell].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0])
  return most > 0 && most >= 1 - busy ? letters[kind] : idleLetter
}
