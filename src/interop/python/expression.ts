/** Literals of Python, what is computed from them, and calls by what they are given. */
import type { Word } from './statements.js'

export type Value = string | number | boolean | null | undefined | readonly Value[] | { readonly [key: string]: Value }

export interface Call {
  readonly name: string
  readonly positional: readonly Value[]
  readonly named: { readonly [key: string]: Value }
}

export interface Scope {
  /** undefined: the file does not say what it is. */
  readonly value: (name: string) => Value
  readonly call: (call: Call) => Value
}

/** The value of an expression; undefined where it is none that can be read. */
export function evaluated(words: readonly Word[], scope: Scope): Value {
  const reader = new Expression(words, scope)
  const value = reader.sum()
  return reader.isWhole ? value : undefined
}

const deepest = 50
const constants: Readonly<Record<string, boolean | null>> = { True: true, False: false, None: null }
const computed: Readonly<Record<string, (a: number, b: number) => number>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '//': (a, b) => Math.floor(a / b),
  '**': (a, b) => a ** b,
}

class Expression {
  #at = 0
  #depth = 0
  readonly #words: readonly Word[]
  readonly #scope: Scope

  constructor(words: readonly Word[], scope: Scope, depth = 0) {
    this.#depth = depth
    this.#words = words
    this.#scope = scope
  }

  /** Every word was read. */
  get isWhole(): boolean {
    return this.#at === this.#words.length
  }

  get #isOver(): boolean {
    return this.#at >= this.#words.length
  }

  sum(): Value {
    return this.#chain(['+', '-'], () => this.#chain(['*', '/', '//'], () => this.#chain(['**'], () => this.#unary())))
  }

  #chain(signs: readonly string[], part: () => Value): Value {
    let value = part()
    for (let sign = this.#sign(signs); sign !== undefined; sign = this.#sign(signs)) {
      const other = part()
      value = typeof value === 'number' && typeof other === 'number' ? computed[sign](value, other) : undefined
    }
    return value
  }

  #unary(): Value {
    if (this.#sign(['-'])) {
      const value = this.#unary()
      return typeof value === 'number' ? -value : undefined
    }
    if (++this.#depth > deepest) return this.#giveUp()
    const value = this.#atom()
    this.#depth--
    return value
  }

  #atom(): Value {
    const word = this.#words[this.#at++]
    if (!word) return undefined
    if (word.kind === 'number') return Number(word.text.replaceAll('_', ''))
    if (word.kind === 'string') return word.text
    if (word.kind === 'name') return this.#named(word.text)
    if (word.text === '[') return this.#list(']')
    if (word.text === '{') return this.#mapping()
    if (word.text !== '(') return this.#giveUp()
    const list = this.#list(')')
    return list.length === 1 && this.#words[this.#at - 2]?.text !== ',' ? list[0] : list
  }

  /** A constant, a name with its attributes, or a call. */
  #named(first: string): Value {
    if (Object.hasOwn(constants, first)) return constants[first]
    let name = first
    while (this.#sign(['.'])) name += `.${this.#words[this.#at++]?.text}`
    if (!this.#sign(['('])) return this.#scope.value(name)
    const positional: Value[] = []
    const named: Record<string, Value> = {}
    while (!this.#isOver && !this.#sign([')'])) {
      const [key, equals] = [this.#words[this.#at], this.#words[this.#at + 1]]
      const isNamed = key?.kind === 'name' && equals?.text === '='
      if (isNamed) this.#at += 2
      const value = this.#part()
      if (isNamed) named[key.text] = value
      else positional.push(value)
      this.#sign([','])
    }
    return this.#scope.call({ name, positional, named })
  }

  #list(end: string): Value[] {
    const list: Value[] = []
    while (!this.#isOver && !this.#sign([end])) {
      list.push(this.#part())
      this.#sign([','])
    }
    return list
  }

  #mapping(): Value {
    const mapping: Record<string, Value> = {}
    while (!this.#isOver && !this.#sign(['}'])) {
      if (this.#sign(['**'])) this.sum()
      else {
        const key = this.sum()
        if (!this.#sign([':'])) return this.#giveUp()
        mapping[String(key)] = this.sum()
      }
      if (!this.#sign([',']) && this.#words[this.#at]?.text !== '}') return this.#giveUp()
    }
    return mapping
  }

  /** Up to the next comma or closing bracket: what cannot be read of it has no value, and the rest goes on. */
  #part(): Value {
    const from = this.#at
    let depth = 0
    for (; !this.#isOver; this.#at++) {
      const { kind, text } = this.#words[this.#at]
      if (kind !== 'sign') continue
      if ('([{'.includes(text)) depth++
      else if (depth === 0 && ',)]}'.includes(text)) break
      else if (')]}'.includes(text)) depth--
    }
    const inner = new Expression(this.#words.slice(from, this.#at), this.#scope, this.#depth)
    const value = inner.sum()
    return inner.isWhole ? value : undefined
  }

  #sign(signs: readonly string[]): string | undefined {
    const word = this.#words[this.#at]
    if (word?.kind !== 'sign' || !signs.includes(word.text)) return undefined
    this.#at++
    return word.text
  }

  /** What is left is not read: the whole has no value. */
  #giveUp(): undefined {
    this.#at = this.#words.length + 1
  }
}
