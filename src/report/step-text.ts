/** A step in letters: a row for each rank, in which every kind of work has as many letters as its share of the time. */
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
  return lettersOf(cells).join('')
}

/**
 * A letter per cell, such that each kind gets as many cells as its time fills: what a cell owes to kinds that it does not
 * show goes to the next cells they are in (error diffusion). With the majority of each cell, short tasks would vanish.
 */
function lettersOf(cells: readonly ReadonlyMap<string, number>[]): string[] {
  const owed = new Map<string, number>()
  return cells.map(cell => {
    const busy = [...cell.values()].reduce((a, b) => a + b, 0)
    const shares = [...cell, ...(busy < 1 ? [['', 1 - busy] as const] : [])]
    for (const [kind, share] of shares) owed.set(kind, (owed.get(kind) ?? 0) + share)
    const [shown] = shares.reduce((a, b) => (owed.get(b[0])! > owed.get(a[0])! ? b : a))
    owed.set(shown, owed.get(shown)! - 1)
    return shown === '' ? idleLetter : letters[shown]
  })
}
