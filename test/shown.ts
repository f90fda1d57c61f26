/**
 * What a page shows of what a command prints: its lines, `...` for any number that are left out. Commands that compute print the
 * same everywhere. Of commands that measure, numbers with a unit of time or speed, and shares, are those of the machine; losses
 * may differ by 2 %, since the kernels of another CPU add in another order.
 */

/** Commands whose numbers are measured. */
const measuring =
  /^(lockstep (train|launch|watch|doctor|report|replan|bench|calibrate|compare|generate|eval|dry-run)|sh |torchrun)/

const number = /-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?/g
/** Parts of a line that come and go with the load of the machine. */
const shares = / {2}(?:compute|communication|waiting|bubble) \d+ %/g
/** Lines that tell of the health of a run, such as a rank that is slow: they come where the machine is busy. */
const event = /^(?:note|warning) at step /
/** The day in the name of a run folder. */
const day = /runs\/\d{4}-\d\d-\d\d-/g
/** What follows a number that is the machine's own. */
const unit = /^ ?(?:[kMGT]? ?(?:tokens|tok|FLOP|B|characters)\/s|[kMG]iB\/s|%|ms|us|s|min|h)(?![\w-])/

interface Numbered {
  readonly text: string
  readonly numbers: readonly { readonly value: string; readonly own: boolean }[]
}

/** A line as its text, with # for numbers, and its numbers. Columns are as wide as their numbers, so spaces count once. */
function numbered(given: string): Numbered {
  const numbers: { value: string; own: boolean }[] = []
  const line = given.replace(shares, '').replace(day, 'runs/DATE-')
  const text = line.replace(number, (value, at: number) => {
    numbers.push({
      value,
      own: unit.test(line.slice(at + value.length)) || / (?:grad_)?norm $/.test(line.slice(0, at)),
    })
    return '#'
  })
  return {
    text: text
      .replace(/# (?:ms|us|min|s)(?![\w-])/g, '# s')
      .replace(/# ?[kMGT]?FLOP/g, '# FLOP')
      .replace(/\s+/g, ' ')
      .replace(/# ?[kMG](?=i?B?[ /]|[A-Z]*LOP)/g, '#')
      .trim(),
    numbers,
  }
}

const close = (a: string, b: string): boolean => {
  const [x, y] = [a, b].map(value => Number(value.replaceAll(',', '')))
  return Math.abs(x - y) <= 0.02 * Math.max(Math.abs(x), Math.abs(y)) || (/e-/.test(a) && x < 1e-5 && y < 1e-5)
}

/** Whether a printed line is what the page shows. */
export function sameLine(command: string, shown: string, printed: string): boolean {
  if (shown === printed.trimEnd()) return true
  if (!measuring.test(command)) return false
  const [a, b] = [numbered(shown), numbered(printed)]
  return (
    a.text === b.text &&
    a.numbers.every(({ value, own }, i) => own || value === b.numbers[i].value || close(value, b.numbers[i].value))
  )
}

const left = (line: string): boolean => line.trim() === '...'

/** The first line shown that was not printed where it should have been; undefined: all were. */
export function missing(command: string, shown: readonly string[], given: readonly string[]): string | undefined {
  const told = shown.some(line => event.test(line))
  const printed = told ? given : given.filter(line => !event.test(line))
  let furthest = 0
  const fits = (i: number, at: number): boolean => {
    furthest = Math.max(furthest, i)
    if (i === shown.length) return at === printed.length
    if (!left(shown[i])) return at < printed.length && sameLine(command, shown[i], printed[at]) && fits(i + 1, at + 1)
    return printed.slice(at).some((_, skipped) => fits(i + 1, at + skipped)) || fits(i + 1, printed.length)
  }
  if (shown.length === 0 || fits(0, 0)) return undefined
  return shown[furthest] ?? '(nothing more)'
}

/** The first two words of a line, which tell steps and rows apart. */
const begins = (line: string): string => line.trim().split(/\s+/, 2).join(' ')

/** The lines shown, as they are printed now: all of them where none is left out, else each is the next one that has its text, or begins as it does. */
export function renewed(shown: readonly string[], printed: readonly string[]): string[] {
  if (!shown.some(left)) return shown.length > 0 ? printed.map(line => line.trimEnd()) : []
  const lines: string[] = []
  let at = 0
  for (const line of shown) {
    const after = printed.slice(at)
    const ways = [
      (other: string) => other === line,
      (other: string) => begins(other) === begins(line) && numbered(other).text === numbered(line).text,
      (other: string) => numbered(other).text === numbered(line).text,
      (other: string) => line.trim() !== '' && other.trimStart().startsWith(line.trim()),
      (other: string) => other.split(/\s+/)[0] === line.split(/\s+/)[0],
    ]
    const found = left(line) ? -1 : ways.map(way => after.findIndex(way)).find(i => i >= 0)
    if (found === undefined || found < 0) lines.push(line)
    else {
      lines.push(after[found].trimEnd())
      at += found + 1
    }
  }
  return lines
}
