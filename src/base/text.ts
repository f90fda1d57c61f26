/** Plain text for people: aligned tables. */

export type Cell = string | number

/** Columns of a screen, and of a table: tables may be indented. */
const screenWidth = 100
const tableWidth = screenWidth - 2
/** A narrower last column is not worth breaking. */
const leastColumn = 8

/** Columns are as wide as their widest cell; numbers stand right, words left. Where a table is wider than the screen the words of its last column are broken. */
export function table(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const all = [header, ...rows.map(row => row.map(String))]
  const widths = header.map((_, i) => Math.max(...all.map(row => (row[i] ?? '').length)))
  const right = header.map((_, i) => {
    const cells = rows.flatMap(row => (i < row.length ? [row[i]] : []))
    return cells.length > 0 && cells.every(cell => typeof cell === 'number' || /^[\d.]/.test(cell))
  })
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => (right[i] ? cell.padStart(widths[i]) : cell.padEnd(widths[i])))
      .join('  ')
      .trimEnd()
  const last = header.length - 1
  const room = tableWidth - widths.slice(0, last).reduce((sum, width) => sum + width + 2, 0)
  if (last < 1 || room < leastColumn || room >= widths[last] || right[last]) return all.map(line).join('\n')
  const broken = (row: readonly string[]) =>
    wrapped(row[last] ?? '', room, '').map((text, i) =>
      line([...header.slice(0, last).map((_, j) => (i === 0 ? row[j] : '')), text]),
    )
  return all.flatMap(broken).join('\n')
}

/** "a, b or c" */
export const either = (words: readonly (string | number)[], joint = 'or'): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} ${joint} ${words.at(-1)}`

/** "1 rank", "2 ranks", "2 microbatches" */
export const counted = (n: number, noun: string): string =>
  `${n} ${noun}${n === 1 ? '' : /(?:ch|s|x)$/.test(noun) ? 'es' : 's'}`

/** Lines of at most so many columns, broken at spaces; those after the first are indented. */
export function wrapped(text: string, columns = screenWidth, indent = '  '): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= columns) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(last === undefined ? word : `${indent}${word}`)
  }
  return lines
}

/**
 * A name on one line, as it can be shown: characters that a terminal obeys, that turn the direction of text, or that are
 * none (XML forbids some of those) become escapes such as \u001b. In JSON such an escape is the character itself.
 */
export const printable = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff]/gu,
    char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** At most so many characters, and none that a terminal would obey. */
export const shorten = (text: string, most: number): string => {
  const shown = text.slice(0, most + 1).replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?')
  return shown.length > most ? `${shown.slice(0, most)}...` : shown
}

/** The word nearest to `word` by edit distance, if it is near enough to be a slip: not all of it is another. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  const [best] = words
    .map(candidate => [editDistance(word.toLowerCase(), candidate.toLowerCase()), candidate] as const)
    .sort((a, b) => a[0] - b[0])
  return best && best[0] <= Math.max(2, Math.floor(word.length / 3)) && best[0] < word.length ? best[1] : undefined
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
    row = next
  }
  return row[b.length]
}
