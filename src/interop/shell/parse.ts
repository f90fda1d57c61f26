/** Commands of a script. What is not understood is named by its line and stepped over. */

import { SyntaxRefused } from '../scanner.js'
import { Lexer } from './lexer.js'
import type { Arm, Assignment, Command, Redirect, Remark, Script, Term, Word } from './syntax.js'
import { Cursor, readText, readWord } from './words.js'

const reserved = new Set(['then', 'fi', 'do', 'done', 'esac', 'else', 'elif', '}'])
/** Commands joined by && and ||. */
const longestChain = 1000

const declaring = new Set(['export', 'declare', 'local', 'readonly', 'typeset'])

export function parseScript(text: string, firstLine = 1): { script: Script; remarks: readonly Remark[] } {
  const parser = new Parser(new Cursor(text, firstLine))
  return { script: parser.whole(), remarks: parser.remarks }
}

class Parser extends Lexer {
  whole(): Script {
    const commands: Command[] = []
    while (!this.c.done) {
      commands.push(...this.#list(new Set()))
      if (this.c.done) break
      this.remarks.push({
        line: this.c.line,
        message: `\`${this.c.text.slice(this.c.at, this.c.at + 20).split('\n')[0]}\` is not expected here`,
      })
      this.skipLine()
    }
    return commands
  }

  /** Commands up to one of the words `until`, which is left where it is. */
  #list(until: ReadonlySet<string>): Command[] {
    const commands: Command[] = []
    for (;;) {
      this.blanks(true)
      const c = this.c
      if (c.done || c.next === ')' || c.starts(';;') || until.has(this.peek()) || reserved.has(this.peek()))
        return commands
      const start = c.at
      try {
        commands.push(c.inside(() => this.#chain()))
      } catch (error) {
        if (!(error instanceof SyntaxRefused)) throw error
        this.remarks.push({ line: error.line, message: error.message })
        this.skipLine()
      }
      if (c.at === start) c.at++
    }
  }

  #chain(): Command {
    let left = this.#pipe()
    for (let length = 1; ; length++) {
      this.blanks(false)
      const op = this.c.starts('&&') ? 'and' : this.c.starts('||') ? 'or' : undefined
      if (!op) return left
      if (length === longestChain) this.c.fail(`a chain of more than ${longestChain} commands`)
      this.c.at += 2
      this.blanks(true)
      left = { kind: op, line: left.line, left, right: this.#pipe() }
    }
  }

  #pipe(): Command {
    const { line } = this.c
    this.blanks(false)
    const not = this.peek() === '!'
    if (not) this.c.at++
    const commands = [this.#command()]
    for (;;) {
      this.blanks(false)
      if (this.c.next !== '|' || this.c.starts('||')) break
      this.c.at += this.c.starts('|&') ? 2 : 1
      this.blanks(true)
      commands.push(this.#command())
    }
    const [only] = commands
    return commands.length === 1 && only && !not ? only : { kind: 'pipe', line, commands, not }
  }

  #command(): Command {
    this.blanks(false)
    const c = this.c
    const { line } = c
    const compound = this.#compound(line)
    if (!compound) return this.#simple(line)
    this.redirects() // of a whole group: what it writes is not followed
    return compound
  }

  #compound(line: number): Command | undefined {
    const c = this.c
    if (c.starts('((')) return this.#doubleParens(line)
    if (c.next === '(') {
      c.at++
      const body = this.#list(new Set())
      this.expect(')')
      return { kind: 'group', line, body }
    }
    switch (this.peek()) {
      case 'if':
        return this.#conditional(line)
      case 'case':
        return this.#cases(line)
      case 'for':
      case 'select':
        return this.#loop(line)
      case 'while':
      case 'until':
        return this.#repeated(line)
      case '[[':
        return this.#test(line)
      case '{': {
        c.at++
        const body = this.#list(new Set(['}']))
        this.expect('}')
        return { kind: 'group', line, body }
      }
      case 'function':
        this.word('function')
        return this.#functionNamed(this.name(), line)
      default: {
        const head = c.match(/[A-Za-z_][\w.:-]*[ \t]*\([ \t]*\)/y)
        return head ? this.#functionNamed(this.name(), line) : undefined
      }
    }
  }

  #functionNamed(name: string, line: number): Command {
    const parens = this.c.match(/[ \t]*\([ \t]*\)/y)
    if (parens) this.c.at += parens.length
    this.blanks(true)
    const body = this.c.inside(() => this.#command())
    return { kind: 'function', line, name, body: [body] }
  }

  #doubleParens(line: number): Command {
    const c = this.c
    const end = c.text.indexOf('))', c.at)
    if (end < 0) c.fail('(( is not closed')
    const of = readText(c.text.slice(c.at + 2, end), line)
    c.at = end + 2
    return { kind: 'arithmetic', line, of }
  }

  #conditional(line: number): Command {
    const branches: { condition: Script; body: Script }[] = []
    this.word('if')
    for (;;) {
      const condition = this.#list(new Set(['then']))
      this.word('then')
      const body = this.#list(new Set(['elif', 'else', 'fi']))
      branches.push({ condition, body })
      if (this.peek() !== 'elif') break
      this.word('elif')
    }
    if (this.peek() !== 'else') {
      this.word('fi')
      return { kind: 'if', line, branches }
    }
    this.word('else')
    const rest = this.#list(new Set(['fi']))
    this.word('fi')
    return { kind: 'if', line, branches, rest }
  }

  #cases(line: number): Command {
    this.word('case')
    const subject = this.oneWord()
    this.blanks(true)
    this.word('in')
    const arms: Arm[] = []
    for (;;) {
      this.blanks(true)
      if (this.c.done || this.peek() === 'esac') break
      arms.push(this.#arm())
    }
    this.word('esac')
    return { kind: 'case', line, subject, arms }
  }

  #arm(): Arm {
    const c = this.c
    if (c.next === '(') c.at++
    const patterns = [this.oneWord()]
    for (this.blanks(false); c.next === '|'; this.blanks(false)) {
      c.at++
      patterns.push(this.oneWord())
    }
    this.expect(')')
    const body = this.#list(new Set(['esac']))
    const end = c.match(/;;&|;;|;&/y)
    if (end) c.at += end.length
    return { patterns, body }
  }

  #loop(line: number): Command {
    this.c.at += this.peek().length
    this.blanks(false)
    if (this.c.starts('((')) {
      const head = this.#doubleParens(line)
      const text = head.kind === 'arithmetic' ? head.of : []
      return { kind: 'count', line, parts: splitAtSemicolons(text), body: this.#body() }
    }
    const name = this.name()
    this.blanks(true)
    const items: Word[] = []
    const listed = this.peek() === 'in'
    if (listed) {
      this.word('in')
      for (this.blanks(false); ; this.blanks(false)) {
        const word = readWord(this.c)
        if (!word) break
        items.push(word)
      }
    }
    return { kind: 'for', line, name, ...(listed && { items }), body: this.#body() }
  }

  #repeated(line: number): Command {
    const until = this.peek() === 'until'
    this.c.at += 5
    const condition = this.#list(new Set(['do']))
    return { kind: 'while', line, until, condition, body: this.#body() }
  }

  #body(): Script {
    this.blanks(true)
    this.word('do')
    const body = this.#list(new Set(['done']))
    this.word('done')
    return body
  }

  #test(line: number): Command {
    const c = this.c
    const terms: Term[] = []
    c.at += 2
    for (;;) {
      const blank = c.match(/(?:[ \t\n]|\\\n)+/y)
      if (blank) c.at += blank.length
      if (c.done) c.fail('[[ is not closed')
      const operator = c.match(/\]\]|&&|\|\||[()<>]|!(?=[ \t])/y)
      if (operator) c.at += operator.length
      if (operator === ']]') return { kind: 'test', line, terms }
      if (operator) terms.push({ operator })
      else {
        const word = readWord(c)
        if (!word) return c.fail('[[ is not understood')
        terms.push({ word })
      }
    }
  }

  #simple(line: number): Command {
    const c = this.c
    const assignments: Assignment[] = []
    const words: Word[] = []
    const redirects: Redirect[] = []
    let declares = false
    for (;;) {
      this.blanks(false)
      redirects.push(...this.redirects())
      const assigned = words.length === 0 || declares ? this.#assignment() : undefined
      if (assigned) assignments.push(assigned)
      else {
        const word = readWord(c)
        if (!word) break
        words.push(word)
        const [part] = word
        declares ||= words.length === 1 && part?.kind === 'text' && declaring.has(part.text)
      }
    }
    if (assignments.length + words.length + redirects.length === 0) c.fail(`\`${c.next}\` is not understood`)
    return { kind: 'simple', line, assignments, words, redirects }
  }

  #assignment(): Assignment | undefined {
    const c = this.c
    const head = c.match(/([A-Za-z_]\w*)(\[[^\]\n]*\])?\+?=/y)
    if (!head) return undefined
    const { line } = c
    const [, name = '', index] = /^(\w+)(\[[^\]]*\])?/.exec(head) ?? []
    c.at += head.length
    const value = c.next === '(' ? { elements: this.#elements() } : (readWord(c) ?? [])
    const at = index === undefined ? undefined : readText(index.slice(1, -1), line)
    return { name, append: head.endsWith('+='), value, ...(at && { index: at }) }
  }

  #elements(): Word[] {
    const c = this.c
    const elements: Word[] = []
    c.at++
    for (;;) {
      this.blanks(true)
      if (c.next === ')' || c.done) break
      const word = readWord(c)
      if (word) elements.push(word)
      else c.at++ // what no array holds
    }
    this.expect(')')
    return elements
  }
}

function splitAtSemicolons(word: Word): Word[] {
  const parts: Word[number][][] = [[]]
  for (const part of word) {
    if (part.kind !== 'text') parts.at(-1)?.push(part)
    else
      part.text.split(';').forEach((text, i) => {
        if (i > 0) parts.push([])
        parts.at(-1)?.push({ ...part, text })
      })
  }
  return parts
}
