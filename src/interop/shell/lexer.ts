/** Between words: spaces, comments, ends of lines with the heredocs behind them, redirections, words that are expected. */
import { SyntaxRefused } from '../scanner.js'
import type { Redirect, Remark, Word } from './syntax.js'
import { type Cursor, placeholder, readText, readWord } from './words.js'

interface Heredoc {
  readonly end: string
  readonly tabs: boolean
  readonly raw: boolean
  readonly redirect: { op: string; target: Word; body?: Word }
}

const plainText = (text: string): Word => [{ kind: 'text', text, quoted: true }]

export class Lexer {
  readonly c: Cursor
  readonly remarks: Remark[] = []
  readonly #heredocs: Heredoc[] = []

  constructor(c: Cursor) {
    this.c = c
  }

  redirects(): Redirect[] {
    const c = this.c
    const found: Redirect[] = []
    for (;;) {
      const op = c.match(/(?:\d|&)?(?:<<<|<<-?|>>|>&|<&|>\||<>|<(?!\()|>(?!\())/y)
      if (!op || c.match(placeholder)) return found
      c.at += op.length
      this.blanks(false)
      const kind = op.replace(/^[\d&]/, '')
      if (c.starts('>(') || c.starts('<(')) {
        c.at++
        readGroup(c)
        continue
      }
      const quoted = c.next === "'" || c.next === '"' || c.next === '\\'
      const target = readWord(c) ?? []
      const redirect: { op: string; target: Word; body?: Word } = { op: kind, target }
      found.push(redirect)
      if (kind === '<<' || kind === '<<-')
        this.#heredocs.push({ end: textOf(target), tabs: kind === '<<-', raw: quoted, redirect })
      this.blanks(false)
    }
  }

  /** Spaces, comments and continued lines; with `lines` also ends of lines and semicolons. */
  blanks(lines: boolean): void {
    const c = this.c
    for (;;) {
      const blank = c.match(/(?:[ \t\r]|\\\r?\n)+/y)
      if (blank) c.at += blank.length
      else if (c.next === '#' && /[\s;&|()]|^$/.test(c.text[c.at - 1] ?? '')) {
        const end = c.text.indexOf('\n', c.at)
        c.at = end < 0 ? c.text.length : end
      } else if (lines && c.next === '\n') this.newline()
      else if (lines && (c.next === ';' || c.next === '&') && !c.starts(';;') && !c.starts('&&')) c.at++
      else return
    }
  }

  newline(): void {
    const c = this.c
    c.at++
    for (const { end, tabs, raw, redirect } of this.#heredocs.splice(0)) {
      const { line } = c
      const lines: string[] = []
      for (;;) {
        const stop = c.text.indexOf('\n', c.at)
        const got = c.text.slice(c.at, stop < 0 ? c.text.length : stop)
        c.at = stop < 0 ? c.text.length : stop + 1
        const text = tabs ? got.replace(/^\t+/, '') : got
        if (text.trimEnd() === end) break
        lines.push(text)
        if (c.done) break
      }
      const whole = lines.join('\n')
      redirect.body = raw ? plainText(whole) : this.#text(whole, line)
    }
  }

  /** A heredoc that is not understood is named, and taken as it stands. */
  #text(text: string, line: number): Word {
    try {
      return readText(text, line)
    } catch (error) {
      if (!(error instanceof SyntaxRefused)) throw error
      this.remarks.push({ line: error.line, message: error.message })
      return plainText(text)
    }
  }

  skipLine(): void {
    const end = this.c.text.indexOf('\n', this.c.at)
    this.c.at = end < 0 ? this.c.text.length : end
  }

  peek(): string {
    return this.c.match(/(?:\[\[|[{}!](?=[\s;]|$)|[A-Za-z]+(?=[\s;&|()<>]|$))/y) ?? ''
  }
  word(expected: string): void {
    this.blanks(true)
    if (this.peek() !== expected) this.c.fail(`expected \`${expected}\``)
    this.c.at += expected.length
  }
  expect(char: string): void {
    this.blanks(true)
    if (this.c.next !== char) this.c.fail(`expected \`${char}\``)
    this.c.at++
  }
  name(): string {
    this.blanks(false)
    const name = this.c.match(/[A-Za-z_][\w.:-]*/y)
    if (!name) return this.c.fail('expected a name')
    this.c.at += name.length
    return name
  }
  oneWord(): Word {
    this.blanks(false)
    const word = readWord(this.c)
    return word ?? this.c.fail('expected a word')
  }
}

const textOf = (word: Word): string => word.map(part => (part.kind === 'text' ? part.text : '')).join('')

/** A process that is written to or read from: nothing of it is followed. */
function readGroup(c: Cursor): void {
  let depth = 0
  do {
    if (c.next === '(') depth++
    if (c.next === ')') depth--
    c.at++
  } while (depth > 0 && !c.done)
}
