/** What stands in `$(( ))`: whole numbers, names of variables, the operators of C. undefined: not known. */

export interface Names {
  read(name: string, index?: number): string | undefined
  write(name: string, value: number): void
}

const token =
  /\s*(?:(0[xX][0-9a-fA-F]+|[0-9]+(?:#[0-9a-zA-Z]+)?)|([A-Za-z_]\w*)|(\*\*=?|<<=?|>>=?|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|[-+*/%<>=!~&|^?:()[\],]))/y

type Token = { readonly number: number } | { readonly name: string } | { readonly op: string }

function tokensOf(text: string): Token[] | undefined {
  const tokens: Token[] = []
  let at = 0
  const end = text.trimEnd().length
  while (at < end) {
    token.lastIndex = at
    const [all, number, name, op] = token.exec(text) ?? []
    if (all === undefined || tokens.length > 2000) return undefined
    at += all.length
    if (number !== undefined) tokens.push({ number: numberOf(number) })
    else tokens.push(name === undefined ? { op: op ?? '' } : { name })
  }
  return tokens
}

function numberOf(text: string): number {
  const [base, digits] = text.split('#')
  if (digits !== undefined) return Number.parseInt(digits, Number(base))
  return /^0[0-7]+$/.test(text) ? Number.parseInt(text, 8) : Number(text)
}

const levels: readonly (readonly string[])[] = [
  ['||'],
  ['&&'],
  ['|'],
  ['^'],
  ['&'],
  ['==', '!='],
  ['<', '<=', '>', '>='],
  ['<<', '>>'],
  ['+', '-'],
  ['*', '/', '%'],
]

const binary: Readonly<Record<string, (a: number, b: number) => number>> = {
  '||': (a, b) => (a || b ? 1 : 0),
  '&&': (a, b) => (a && b ? 1 : 0),
  '|': (a, b) => a | b,
  '^': (a, b) => a ^ b,
  '&': (a, b) => a & b,
  '==': (a, b) => (a === b ? 1 : 0),
  '!=': (a, b) => (a === b ? 0 : 1),
  '<': (a, b) => (a < b ? 1 : 0),
  '<=': (a, b) => (a <= b ? 1 : 0),
  '>': (a, b) => (a > b ? 1 : 0),
  '>=': (a, b) => (a >= b ? 1 : 0),
  '<<': (a, b) => a * 2 ** b,
  '>>': (a, b) => Math.floor(a / 2 ** b),
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => Math.trunc(a / b),
  '%': (a, b) => a % b,
  '**': (a, b) => a ** b,
}

type Value = number | undefined

const apply = (op: string, a: Value, b: Value): Value => {
  const got = a === undefined || b === undefined ? undefined : binary[op]?.(a, b)
  return got !== undefined && Number.isFinite(got) ? got : undefined
}

/** A value, or undefined where a variable is not known or the text is no arithmetic. */
export function evaluate(text: string, names: Names, depth = 0): number | undefined {
  const tokens = depth > 8 ? undefined : tokensOf(text)
  if (!tokens) return undefined
  if (tokens.length === 0) return 0
  const reader = new Evaluation(tokens, names, depth)
  const value = reader.comma()
  return reader.done ? value : undefined
}

class Evaluation {
  #at = 0
  #nested = 0
  readonly #tokens: readonly Token[]
  readonly #names: Names
  readonly #depth: number

  constructor(tokens: readonly Token[], names: Names, depth: number) {
    this.#tokens = tokens
    this.#names = names
    this.#depth = depth
  }

  get done(): boolean {
    return this.#at === this.#tokens.length
  }
  #op(...wanted: readonly string[]): string | undefined {
    const next = this.#tokens[this.#at]
    if (!next || !('op' in next) || !wanted.includes(next.op)) return undefined
    this.#at++
    return next.op
  }

  comma(): Value {
    let value = this.#assigned()
    while (this.#op(',')) value = this.#assigned()
    return value
  }

  #assigned(): Value {
    const next = this.#tokens[this.#at]
    const after = this.#tokens[this.#at + 1]
    const op = next && 'name' in next && after && 'op' in after ? after.op : ''
    if (!next || !('name' in next) || !/^(?:\*\*|<<|>>|[-+*/%&|^])?=$/.test(op)) return this.#choice()
    this.#at += 2
    const right = this.#inside(() => this.#assigned())
    const value = op === '=' ? right : apply(op.slice(0, -1), this.#held(next.name), right)
    if (value !== undefined) this.#names.write(next.name, value)
    return value
  }

  #choice(): Value {
    const condition = this.#level(0)
    if (!this.#op('?')) return condition
    const yes = this.#inside(() => this.#assigned())
    this.#op(':')
    const no = this.#inside(() => this.#assigned())
    return condition === undefined ? undefined : condition ? yes : no
  }

  #level(i: number): Value {
    const ops = levels[i]
    if (!ops) return this.#power()
    let left = this.#level(i + 1)
    for (let op = this.#op(...ops); op; op = this.#op(...ops)) left = apply(op, left, this.#level(i + 1))
    return left
  }

  #power(): Value {
    const left = this.#unary()
    return this.#op('**')
      ? apply(
          '**',
          left,
          this.#inside(() => this.#power()),
        )
      : left
  }

  #unary(): Value {
    const op = this.#op('-', '+', '!', '~', '++', '--')
    if (!op) return this.#primary()
    const next = this.#tokens[this.#at]
    const value = this.#inside(() => this.#unary())
    if (value === undefined) return undefined
    if (op === '++' || op === '--') {
      const changed = value + (op === '++' ? 1 : -1)
      if (next && 'name' in next) this.#names.write(next.name, changed)
      return changed
    }
    return op === '-' ? -value : op === '!' ? (value ? 0 : 1) : op === '~' ? ~value : value
  }

  #primary(): Value {
    if (this.#op('(')) {
      const value = this.#inside(() => this.comma())
      this.#op(')')
      return value
    }
    const next = this.#tokens[this.#at]
    if (!next || 'op' in next) return undefined
    this.#at++
    if ('number' in next) return next.number
    if (this.#op('[')) {
      const index = this.#inside(() => this.comma())
      this.#op(']')
      return index === undefined ? undefined : this.#held(next.name, index)
    }
    const value = this.#held(next.name)
    const op = this.#op('++', '--')
    if (op && value !== undefined) this.#names.write(next.name, value + (op === '++' ? 1 : -1))
    return value
  }

  /** What a variable holds is arithmetic again; nothing at all is 0. */
  #held(name: string, index?: number): Value {
    const text = this.#names.read(name, index)
    if (text === undefined) return undefined
    return text.trim() === '' ? 0 : evaluate(text, this.#names, this.#depth + 1)
  }

  #inside(read: () => Value): Value {
    if (++this.#nested > 60) return undefined
    const value = read()
    this.#nested--
    return value
  }
}
