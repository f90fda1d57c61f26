/** Texts with a slip in them: a line or a word lost, doubled, moved or replaced, a character changed, a number gone mad. */
import fc from 'fast-check'

const oddNumbers = ['-1', '0', '1', '2.5', '7', '1e12', '1e400', '9007199254740993', 'NaN', 'Infinity', '0x10', '']
const oddWords = [
  '__proto__',
  'constructor',
  'toString',
  '"',
  '[',
  ']',
  '%',
  '=',
  '@',
  '%x',
  'a=b',
  '""',
  '\\',
  '\u0000',
]

/** One edit of a text, from numbers between 0 and 1. */
type Edit = (text: string, at: number, by: number) => string

const pick = <T>(list: readonly T[], at: number): T => list[Math.floor(at * list.length)]

const atLine =
  (edit: (lines: string[], i: number, other: number) => void): Edit =>
  (text, at, by) => {
    const lines = text.split('\n')
    edit(lines, Math.floor(at * lines.length), Math.floor(by * lines.length))
    return lines.join('\n')
  }

const atMatch =
  (pattern: RegExp, replacement: (found: string, by: number, all: readonly string[]) => string): Edit =>
  (text, at, by) => {
    const all = [...text.matchAll(pattern)]
    if (all.length === 0) return text
    const found = pick(all, at)
    const words = all.map(([word]) => word)
    return text.slice(0, found.index) + replacement(found[0], by, words) + text.slice(found.index + found[0].length)
  }

const word = /[^\s]+/g
const numeral = /\d+(\.\d+)?/g

const edits: readonly Edit[] = [
  atLine((lines, i) => lines.splice(i, 1)),
  atLine((lines, i) => lines.splice(i, 0, lines[i])),
  atLine((lines, i, other) => lines.splice(other, 0, ...lines.splice(i, 1))),
  atLine((lines, i) => lines.splice(i)),
  atMatch(word, () => ''),
  atMatch(word, found => `${found} ${found}`),
  atMatch(word, (_, by, words) => pick(words, by)),
  atMatch(word, (_, by) => pick(oddWords, by)),
  atMatch(/\w+/g, (_, by) => pick(oddWords, by)),
  atMatch(numeral, (_, by) => pick(oddNumbers, by)),
  atMatch(numeral, (found, by) => String(Number(found) + Math.floor(by * 9) - 4)),
  atMatch(/[^\n]/g, (_, by) => pick([...'"[]%=@:/, a0-.'], by)),
]

/** Evenly between 0 and 1: fast-check's own numbers are mostly near the ends. */
const share = fc.noBias(fc.nat(2 ** 31 - 1)).map(n => n / 2 ** 31)

/** The text with one to three edits. */
export const damaged = (text: string): fc.Arbitrary<string> =>
  fc
    .array(fc.tuple(fc.constantFrom(...edits), share, share), { minLength: 1, maxLength: 3 })
    .map(slips => slips.reduce((edited, [edit, at, by]) => edit(edited, at, by), text))
