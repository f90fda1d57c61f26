/** Not understood: what, and in which line. */
export class SyntaxRefused extends Error {
  readonly line: number
  constructor(message: string, line: number) {
    super(message)
    this.line = line
  }
}

/** A cursor over a text that is read character by character: the line it is on, and refusals that name it. */
export class Scanner {
  readonly text: string
  at = 0
  line = 1

  constructor(text: string) {
    this.text = text.replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n')
  }

  get ended(): boolean {
    return this.at >= this.text.length
  }

  get next(): string {
    return this.text[this.at] ?? ''
  }

  startsWith(word: string): boolean {
    return this.text.startsWith(word, this.at)
  }

  /** Moves on, and returns what it passed. */
  take(length = 1): string {
    const passed = this.text.slice(this.at, this.at + length)
    this.at += passed.length
    for (const char of passed) if (char === '\n') this.line++
    return passed
  }

  /** What matches here; the pattern is sticky. */
  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)
    return found ? this.take(found[0].length) : undefined
  }

  /** Up to, and past, the word; everything if it does not come. */
  through(word: string): string {
    const end = this.text.indexOf(word, this.at)
    return this.take(end < 0 ? this.text.length : end + word.length - this.at)
  }

  refuse(message: string): never {
    throw new SyntaxRefused(message, this.line)
  }
}

const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', e: '\u001b' }

/** A string in quotes, with backslashes. */
export function quotedString(s: Scanner): string {
  const quote = s.take()
  let text = ''
  while (s.next !== quote) {
    if (s.ended || s.next === '\n') s.refuse('a string does not end')
    const char = s.take()
    text += char === '\\' ? escaped(s) : char
  }
  s.take()
  return text
}

export function escaped(s: Scanner): string {
  const char = s.take()
  if (char !== 'u' && char !== 'U' && char !== 'x') return escapes[char] ?? char
  const digits = s.match(char === 'x' ? /[0-9a-fA-F]{2}/y : char === 'u' ? /[0-9a-fA-F]{4}/y : /[0-9a-fA-F]{8}/y)
  const code = Number.parseInt(digits ?? '', 16)
  if (!(code <= 0x10ffff)) s.refuse('an escape is not a character')
  return String.fromCodePoint(code)
}
