/**
 * What a function of a Python file sets, statement by statement: literals, what is computed from them, keywords of calls, and
 * functions of the same file. Whatever else it does is named with its line. Nothing is executed.
 */
import { isMapping } from '../../plan/index.js'
import { type Call, evaluated, type Value } from './expression.js'
import { type Statement, statementsOf, type Word } from './statements.js'

export interface Followed {
  /** What the function returns. */
  readonly value: Value
  /** Of the statement that has set what lies at a path. */
  readonly lineOf: (path: string) => number | undefined
  readonly remarks: readonly { readonly line: number; readonly message: string }[]
}

/** Functions of the file, by name. */
export function functionsOf(text: string): ReadonlyMap<string, readonly Statement[]> {
  const statements = statementsOf(text)
  const starts = statements.flatMap(({ indent, words }, i) =>
    indent === 0 && words[0]?.text === 'def' && words[1] ? [{ name: words[1].text, at: i }] : [],
  )
  return new Map(
    starts.map(({ name, at }) => {
      const rest = statements.slice(at + 1)
      const end = rest.findIndex(({ indent }) => indent === 0)
      return [name, rest.slice(0, end < 0 ? undefined : end)] as const
    }),
  )
}

export interface Following {
  /** What others' functions are given is kept with their names: `_target_`, and `_args_` where they are not keywords. */
  readonly targets?: boolean
}

export function followFunction(text: string, name: string, { targets = false }: Following = {}): Followed {
  const follower = new Follower(functionsOf(text), targets)
  const value = follower.run(name)
  return { value, remarks: follower.remarks, lineOf: path => follower.lineOf(path) }
}

const deepest = 8
const mostSteps = 20_000
type Open = { [key: string]: Value }
const open = (value: Value): Open => ({ ...(isMapping(value) ? (value as Open) : {}) }) // a mapping of values, just looked at

class Follower {
  readonly remarks: { line: number; message: string }[] = []
  readonly #functions: ReadonlyMap<string, readonly Statement[]>
  readonly #targets: boolean
  readonly #lines = new Map<string, number>()
  #depth = 0
  #steps = 0
  #line = 1

  constructor(functions: ReadonlyMap<string, readonly Statement[]>, targets: boolean) {
    this.#functions = functions
    this.#targets = targets
  }

  lineOf(path: string): number | undefined {
    const keys = path.split('.')
    for (let n = keys.length; n > 0; n--) {
      const line = this.#lines.get(keys.slice(0, n).join('.'))
      if (line !== undefined) return line
    }
    return undefined
  }

  run(name: string): Value {
    const body = this.#functions.get(name) ?? []
    const variables = new Map<string, Value>()
    const indent = body[0]?.indent ?? 0
    this.#depth++
    for (const statement of body) {
      this.#line = statement.line
      if (++this.#steps > mostSteps) break
      if (statement.indent > indent) continue // of a block that is not followed, which was named
      const { words } = statement
      if (words[0]?.text === 'return') {
        this.#depth--
        return this.#valueOf(words.slice(1), variables)
      }
      if (words.length > 1 || words[0]?.kind !== 'string') this.#set(words, variables)
    }
    this.#depth--
    return undefined
  }

  #set(words: readonly Word[], variables: Map<string, Value>): void {
    const at = words.findIndex(({ kind, text }) => kind === 'sign' && text === '=')
    const before = words.slice(0, at < 0 ? 0 : at)
    const colon = before.findIndex(({ text }) => text === ':')
    const target = colon < 0 ? before : before.slice(0, colon)
    const isPath = target.length > 0 && target.every(({ kind, text }, i) => (i % 2 ? text === '.' : kind === 'name'))
    if (!isPath) {
      this.#skip(words)
      return
    }
    const [root, ...path] = target.filter((_, i) => i % 2 === 0).map(({ text }) => text)
    const value = this.#valueOf(words.slice(at + 1), variables)
    if (root === undefined) return
    if (path.length > 0) this.#lines.set(path.join('.'), this.#line)
    variables.set(root, path.length === 0 ? value : placed(variables.get(root), path, value))
  }

  #skip(words: readonly Word[]): void {
    const said = words.slice(0, 8).map(({ text }) => text)
    this.remarks.push({ line: this.#line, message: `not followed: ${said.join(' ').slice(0, 80)}` })
  }

  #valueOf(words: readonly Word[], variables: ReadonlyMap<string, Value>): Value {
    const value = evaluated(words, { value: name => this.#named(name, variables), call: call => this.#call(call) })
    if (value === undefined) this.#skip(words)
    return value
  }

  #named(name: string, variables: ReadonlyMap<string, Value>): Value {
    const [root = '', ...path] = name.split('.')
    if (root === 'torch') return name
    return path.reduce<Value>((value, key) => (isMapping(value) ? open(value)[key] : undefined), variables.get(root))
  }

  /** A function of the file is followed; of others the keywords are what they set, or the one word they are given. */
  #call({ name, positional, named }: Call): Value {
    if (this.#functions.has(name) && this.#depth < deepest) {
      const line = this.#line
      const value = this.run(name)
      this.#line = line
      return value
    }
    if (this.#targets) return { _target_: name, ...(positional.length > 0 && { _args_: positional }), ...named }
    if (Object.keys(named).length > 0) return named
    if (positional.length === 1 && typeof positional[0] === 'string') return positional[0]
    this.remarks.push({ line: this.#line, message: `what ${name}() sets is not in the file` })
    return positional.find(isMapping) ?? {}
  }
}

/** With a value at a path; a word that is there is a key of what takes its place. */
function placed(value: Value, [key = '', ...rest]: readonly string[], set: Value): Open {
  const mapping = typeof value === 'string' ? { [value]: true } : open(value)
  return { ...mapping, [key]: rest.length === 0 ? set : placed(mapping[key], rest, set) }
}
