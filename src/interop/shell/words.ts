/** Words of a script: text, quotes, parameters, substitutions. Nothing is expanded here. */
import { SyntaxRefused } from '../scanner.js'
import type { Param, Part, Word } from './syntax.js'

/** A place in a text, which moves on. */
export class Cursor {
  at = 0
  depth = 0
  readonly text: string
  readonly firstLine: number

  constructor(text: string, firstLine = 1) {
    this.text = text
    this.firstLine = firstLine
  }

  get next(): string {
    return this.text[this.at] ?? ''
  }
  get done(): boolean {
    return this.at >= this.text.length
  }
  starts(what: string): boolean {
    return this.text.startsWith(what, this.at)
  }
  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at
    return pattern.exec(this.text)?.[0]
  }

  #counted = { at: 0, line: 0 }
  get line(): number {
    if (this.at < this.#counted.at) this.#counted = { at: 0, line: 0 }
    let { at, line } = this.#counted
    for (; at < this.at; at++) if (this.text[at] === '\n') line++
    this.#counted = { at, line }
    return this.firstLine + line
  }

  fail(message: string): never {
    throw new SyntaxRefused(message, this.line)
  }
  /** Deeper than people write is not followed. */
  inside<T>(read: () => T): T {
    if (++this.depth > 60) this.fail('nested too deeply')
    try {
      return read()
    } finally {
      this.depth--
    }
  }
}

const plain = (text: string, quoted: boolean): Part => ({ kind: 'text', text, quoted })
const ends = new Set([' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')', ''])

/** `<PATH TO THE DATA>` stands where a user is to write something: one word, though a shell would see redirections. */
export const placeholder = /<[A-Za-z][^<>|&;"'`$\n]*>/y
const placeholders = /<[A-Za-z][^<>|&;"'`$\n]*>/g
const joined = (text: string): string => text.replace(placeholders, one => one.replace(/\s+/g, '_'))

/** The word here, if one begins here. */
export function readWord(c: Cursor): Word | undefined {
  const parts: Part[] = []
  let text = ''
  const flush = () => {
    if (text !== '') parts.push(plain(text, false))
    text = ''
  }
  for (;;) {
    const char = c.next
    const left = char === '<' ? c.match(placeholder) : undefined
    if (left) {
      flush()
      parts.push(plain(joined(left), true))
      c.at += left.length
    } else if (ends.has(char)) break
    else if (char === '\\') {
      if (c.text[c.at + 1] === '\n') c.at += 2
      else {
        flush()
        parts.push(plain(c.text[c.at + 1] ?? '', true))
        c.at += 2
      }
    } else if (char === "'" || char === '"' || char === '$' || char === '`') {
      flush()
      parts.push(...readQuoted(c, char))
    } else {
      text += char
      c.at++
    }
  }
  flush()
  return parts.length > 0 ? parts : undefined
}

function readQuoted(c: Cursor, char: string): readonly Part[] {
  if (char === "'") return [single(c)]
  if (char === '"') return c.inside(() => double(c))
  if (char === '`') return [backticks(c, false)]
  if (c.starts("$'")) {
    c.at++
    return [single(c)]
  }
  if (c.starts('$"')) {
    c.at++
    return c.inside(() => double(c))
  }
  return [dollar(c, false)]
}

function single(c: Cursor): Part {
  const end = c.text.indexOf("'", c.at + 1)
  if (end < 0) c.fail('a quote is not closed')
  const text = c.text.slice(c.at + 1, end)
  c.at = end + 1
  return plain(joined(text), true)
}

/** What stands between double quotes; an empty pair is an empty word. */
function double(c: Cursor): readonly Part[] {
  const start = c.at++
  const parts = readInside(c, '"')
  if (c.next !== '"') {
    c.at = start
    c.fail('a quote is not closed')
  }
  c.at++
  return parts.length > 0 ? parts : [plain('', true)]
}

/** Text with parameters and substitutions, up to `end` or the end of the text: of double quotes, of heredocs. */
function readInside(c: Cursor, end: string): Part[] {
  const parts: Part[] = []
  let text = ''
  const flush = () => {
    if (text !== '') parts.push(plain(joined(text), true))
    text = ''
  }
  while (!c.done && c.next !== end) {
    const char = c.next
    if (char === '\\') {
      const after = c.text[c.at + 1] ?? ''
      if (after !== '\n') text += '$`"\\'.includes(after) ? after : `\\${after}`
      c.at += 2
    } else if (char === '$' || char === '`') {
      flush()
      parts.push(char === '`' ? backticks(c, true) : dollar(c, true))
    } else {
      text += char
      c.at++
    }
  }
  flush()
  return parts
}

/** The text of a heredoc, or of what is expanded as one. */
export function readText(text: string, line: number, depth = 0): Word {
  const c = new Cursor(text, line)
  c.depth = depth
  return readInside(c, '')
}

function backticks(c: Cursor, quoted: boolean): Part {
  const { line } = c
  let end = c.at + 1
  while (end < c.text.length && c.text[end] !== '`') end += c.text[end] === '\\' ? 2 : 1
  if (end >= c.text.length) c.fail('a backtick is not closed')
  const text = c.text.slice(c.at + 1, end).replace(/\\([`$\\])/g, '$1')
  c.at = end + 1
  return { kind: 'command', text, line, quoted }
}

function dollar(c: Cursor, quoted: boolean): Part {
  const { line } = c
  if (c.starts('$((')) {
    const inner = balanced(c, c.at + 1)
    if (inner.startsWith('(') && inner.endsWith(')'))
      return { kind: 'arithmetic', of: c.inside(() => readText(inner.slice(1, -1), line, c.depth)), quoted }
    return { kind: 'command', text: inner, line, quoted }
  }
  if (c.starts('$(')) return { kind: 'command', text: balanced(c, c.at + 1), line, quoted }
  if (c.starts('${')) {
    const inner = braces(c)
    return { kind: 'param', param: c.inside(() => paramOf(inner, line, c.depth)), quoted }
  }
  const name = c.match(/\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])/y)
  if (!name) {
    c.at++
    return plain('$', quoted)
  }
  c.at += name.length
  return { kind: 'param', param: { name: name.slice(1), line }, quoted }
}

/** What parentheses that open at `open` hold; the cursor is behind them. */
function balanced(c: Cursor, open: number): string {
  let depth = 0
  for (let at = open; at < c.text.length; at++) {
    const char = c.text[at]
    if (char === '\\') at++
    else if (char === "'") {
      const end = c.text.indexOf("'", at + 1)
      at = end < 0 ? c.text.length : end
    } else if (char === '(') depth++
    else if (char === ')' && --depth === 0) {
      c.at = at + 1
      return c.text.slice(open + 1, at)
    }
  }
  return c.fail('a parenthesis is not closed')
}

/** What `${` opens, up to its brace. */
function braces(c: Cursor): string {
  const open = c.at + 2
  let depth = 1
  for (let at = open; at < c.text.length; at++) {
    const char = c.text[at]
    if (char === '\\') at++
    else if (char === '{') depth++
    else if (char === '}' && --depth === 0) {
      c.at = at + 1
      return c.text.slice(open, at)
    }
  }
  return c.fail('a brace is not closed')
}

const shape = /^([#!]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(?:\[([^\]]*)\])?/
const operators = /^(:[-=+?]|[-=+?]|##?|%%?|\/[/#%]?|:|\^\^?|,,?|@)/

function paramOf(inner: string, line: number, depth: number): Param {
  const head = shape.exec(inner)
  if (!head) throw new SyntaxRefused(`\${${inner.slice(0, 40)}} is not understood`, line)
  const [all, prefix, name = '', index] = head
  const rest = inner.slice(all.length)
  const op = operators.exec(rest)?.[0]
  if (rest !== '' && op === undefined) throw new SyntaxRefused(`\${${inner.slice(0, 40)}} is not understood`, line)
  const operand = op === undefined ? undefined : operandOf(rest.slice(op.length), line, depth)
  return {
    ...{ name, line },
    ...(prefix && { prefix: prefix === '#' ? '#' : '!' }),
    ...(index !== undefined && { index: readText(index, line, depth) }),
    ...(op !== undefined && { op, operand: operand ?? [] }),
  }
}

/** Quotes in an operand are quotes. */
function operandOf(text: string, line: number, depth: number): Word {
  const c = new Cursor(text, line)
  c.depth = depth
  const parts: Part[] = []
  while (!c.done) {
    const word = readWord(c)
    if (word) parts.push(...word)
    else {
      parts.push(plain(c.next, false))
      c.at++
    }
  }
  return parts
}
