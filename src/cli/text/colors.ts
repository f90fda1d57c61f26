/**
 * Colours. They are marks in the text until it is written: `onTerminal` turns marks into escape sequences and makes every
 * other control character visible, so that an escape sequence in somebody's name is never taken for one of ours. A mark
 * holds a number that is drawn anew for every process: no file can hold it.
 */
import { printable } from '../../base/index.js'

/** How a style begins and ends, as terminals know it. */
const styles = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  magenta: [35, 39],
  cyan: [36, 39],
} as const

type Style = keyof typeof styles
export type Paint = (text: string) => string

const names = Object.keys(styles) as Style[] // exactly its keys
const secret = Math.random().toString(36).slice(2)
const mark = (style: number, end: 0 | 1): string => `\ufdd0${secret}.${style}${end}`
const marks = new RegExp(`\ufdd0${secret}\\.(\\d\\d)`)

export function colorsOf({ colors }: { readonly colors: boolean }): Readonly<Record<Style, Paint>> {
  const paint = (style: number): Paint => (colors ? text => `${mark(style, 0)}${text}${mark(style, 1)}` : text => text)
  return Object.fromEntries(names.map((name, style) => [name, paint(style)])) as Record<Style, Paint> // one for each name
}

/** Text as it is written to a terminal, a pipe or a file: its lines and tabs, our colours, and nothing else that is obeyed. */
export const onTerminal = (text: string): string =>
  text
    .split(marks)
    .map((part, i) =>
      // Every second part is what a mark says.
      i % 2 === 0
        ? part.replace(/[^\n\t]+/g, printable)
        : `\x1b[${styles[names[Number(part[0])]][part[1] === '0' ? 0 : 1]}m`,
    )
    .join('')
