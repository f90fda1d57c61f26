/** What `[ ]` and `[[ ]]` decide. undefined: not known from the script. */
import { matches } from './pattern.js'

export type Truth = boolean | undefined

/** One term: an operator, or a value that may not be known. */
export type Operand = { readonly operator: string } | { readonly value: string | undefined }

export const not = (a: Truth): Truth => (a === undefined ? undefined : !a)
export const and = (a: Truth, b: Truth): Truth => (a === false || b === false ? false : a && b)
export const or = (a: Truth, b: Truth): Truth => (a === true || b === true ? true : a === false ? b : undefined)

export interface Facts {
  isSet(name: string): Truth
}

const number = (text: string): number | undefined => (/^\s*[-+]?\d+\s*$/.test(text) ? Number(text) : undefined)

const compared: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '-eq': (a, b) => a === b,
  '-ne': (a, b) => a !== b,
  '-lt': (a, b) => a < b,
  '-le': (a, b) => a <= b,
  '-gt': (a, b) => a > b,
  '-ge': (a, b) => a >= b,
}

function binary(op: string, a: string | undefined, b: string | undefined, patterns: boolean): Truth {
  if (a === undefined || b === undefined) return undefined
  const numeric = compared[op]
  if (numeric) {
    const [x, y] = [number(a.trim() === '' ? '0' : a), number(b.trim() === '' ? '0' : b)]
    return x === undefined || y === undefined ? undefined : numeric(x, y)
  }
  if (op === '<') return a < b
  if (op === '>') return a > b
  if (op === '=~') return found(a, b)
  const same = patterns ? matches(b, a) : a === b
  return op === '!=' ? !same : same
}

/** Only expressions whose time is bounded: no groups, few repeats. */
function found(text: string, pattern: string): Truth {
  if (pattern.length > 60 || text.length > 500 || /[(){}\\]/.test(pattern)) return undefined
  if ((pattern.match(/[*+?]/g) ?? []).length > 2) return undefined
  try {
    return new RegExp(pattern).test(text)
  } catch {
    return undefined
  }
}

const binaries = new Set([...Object.keys(compared), '=', '==', '!=', '=~', '<', '>', '-ef', '-nt', '-ot'])
/** What is asked of files: they are taken to be there, as they are where the script runs. */
const ofFiles = /^-[bcdefghkLOprsSuwxGN]$/

class Condition {
  #at = 0
  #depth = 0
  readonly #terms: readonly Operand[]
  readonly #facts: Facts
  readonly #patterns: boolean

  constructor(terms: readonly Operand[], facts: Facts, patterns: boolean) {
    this.#terms = terms
    this.#facts = facts
    this.#patterns = patterns
  }

  #op(...wanted: readonly string[]): boolean {
    const term = this.#terms[this.#at]
    const text = term && ('operator' in term ? term.operator : this.#patterns ? undefined : term.value)
    if (text === undefined || !wanted.includes(text)) return false
    this.#at++
    return true
  }

  either(): Truth {
    let value = this.#both()
    while (this.#op('||', '-o')) value = or(value, this.#both())
    return value
  }
  #both(): Truth {
    let value = this.#negated()
    while (this.#op('&&', '-a')) value = and(value, this.#negated())
    return value
  }
  #negated(): Truth {
    if (++this.#depth > 60) return undefined
    const left = this.#terms.length - this.#at
    return left > 1 && this.#op('!') ? not(this.#negated()) : this.#primary()
  }

  #textAt(i: number): string | undefined {
    const term = this.#terms[this.#at + i]
    return term && ('operator' in term ? term.operator : term.value)
  }

  #primary(): Truth {
    const [first, second] = [this.#textAt(0), this.#textAt(1)]
    if (second !== undefined && binaries.has(second) && this.#at + 2 < this.#terms.length) {
      const third = this.#textAt(2)
      this.#at += 3
      return /^-(ef|nt|ot)$/.test(second) ? undefined : binary(second, first, third, this.#patterns)
    }
    if (this.#op('(')) {
      const value = this.either()
      this.#op(')')
      return value
    }
    if (first !== undefined && binaries.has(first) && this.#terms.length === 2) return false // nothing stood on its left
    const isUnary = first !== undefined && /^-[a-zA-Z]$/.test(first) && this.#at + 1 < this.#terms.length
    this.#at += isUnary ? 2 : 1
    return isUnary ? this.#unary(first, second) : first === undefined ? undefined : first !== ''
  }

  #unary(op: string, value: string | undefined): Truth {
    if (op === '-z' || op === '-n') return value === undefined ? undefined : (value === '') === (op === '-z')
    if (op === '-v') return value === undefined ? undefined : this.#facts.isSet(value)
    return ofFiles.test(op) ? true : undefined
  }
}

/** `patterns`: the right side of `==` is one, as in `[[ ]]`. */
export const decide = (terms: readonly Operand[], facts: Facts, patterns: boolean): Truth =>
  terms.length === 0 ? false : new Condition(terms, facts, patterns).either()
