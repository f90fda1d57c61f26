/**
 * What a function of a Python file sets, statement by statement: literals, what is computed from them, keywords of calls, and
 * functions of the same file. Whatever else it does is named with its line. Nothing is executed.
 */
import { isMapping } from '../../plan/index.js'
import { truthOf } from './condition.js'
import { type Call, evaluated, type Value } from './expression.js'
import { type Module, moduleOf } from './functions.js'
import type { Statement, Word } from './statements.js'

export interface Followed {
  /** What the function returns. */
  readonly value: Value
  /** Of the statement that has set what lies at a path. */
  readonly lineOf: (path: string) => number | undefined
  readonly remarks: readonly { readonly line: number; readonly message: string }[]
}

export interface Following {
  /**
   * What becomes of a call of others' functions: its keywords, these with its name (`_target_`, and `_args_` for what is no keyword), or, of
   * NeMo's `run.Config(X, ...)`, what X is given; names that nobody set then stand for themselves.
   */
  readonly others?: 'keywords' | 'targets' | 'configs'
  /** Functions of others whose name is all that is known of what they return: a call without arguments is that name. */
  readonly named?: (name: string) => boolean
  /** Arguments of the function. */
  readonly given?: Readonly<Record<string, Value>>
}

export function followFunction(
  text: string,
  name: string,
  { others = 'keywords', named = () => false, given = {} }: Following = {},
): Followed {
  const follower = new Follower(moduleOf(text), { others, named })
  const value = follower.run({ name, positional: [], named: given })
  return { value, remarks: follower.remarks, lineOf: path => follower.lineOf(path) }
}

const deepest = 8
const mostSteps = 20_000
type Variables = Map<string, Value>
type Open = { [key: string]: Value }
const open = (value: Value): Open => ({ ...(isMapping(value) ? (value as Open) : {}) }) // a mapping of values, just looked at

class Follower {
  readonly remarks: { line: number; message: string }[] = []
  readonly #functions: Module['functions']
  readonly #others: NonNullable<Following['others']>
  readonly #isName: NonNullable<Following['named']>
  readonly #constants: Variables = new Map()
  readonly #lines = new Map<string, number>()
  #depth = 0
  #steps = 0
  #line = 1

  constructor({ functions, body }: Module, { others, named }: Required<Pick<Following, 'others' | 'named'>>) {
    this.#functions = functions
    this.#others = others
    this.#isName = named
    for (const { words } of body) this.#constant(words)
  }

  /** `NAME = value` of the module, where the value can be read. */
  #constant(words: readonly Word[]): void {
    const at = words.findIndex(({ kind, text }) => kind === 'sign' && text === '=')
    const isOne = words[0]?.kind === 'name' && (at === 1 || (at > 1 && words[1].text === ':'))
    const value = isOne ? this.#quietly(words.slice(at + 1), this.#constants) : undefined
    if (value !== undefined) this.#constants.set(words[0].text, value)
  }

  lineOf(path: string): number | undefined {
    const keys = path.split('.')
    for (let n = keys.length; n > 0; n--) {
      const line = this.#lines.get(keys.slice(0, n).join('.'))
      if (line !== undefined) return line
    }
    return undefined
  }

  run({ name, positional, named }: Call): Value {
    const { parameters, body } = this.#functions.get(name) ?? { parameters: [], body: [] }
    const variables: Variables = new Map()
    for (const [i, { name: parameter, usual }] of parameters.entries()) {
      const isGiven = Object.hasOwn(named, parameter) || i < positional.length
      const value = Object.hasOwn(named, parameter) ? named[parameter] : positional[i]
      variables.set(parameter, isGiven || usual.length === 0 ? value : this.#quietly(usual, variables))
    }
    this.#depth++
    const returned = this.#block(body, variables)
    this.#depth--
    return returned?.value
  }

  /** What a block returns, where it does. */
  #block(body: readonly Statement[], variables: Variables): { readonly value: Value } | undefined {
    for (let i = 0; i < body.length; i++) {
      const { words, line } = body[i]
      this.#line = line
      if (++this.#steps > mostSteps) return undefined
      const [first] = words
      if (first?.text === 'return') return { value: this.#valueOf(words.slice(1), variables) }
      const end = endOfBlock(body, i)
      if (first?.text === 'if' && end > i + 1) {
        const chain = chainOf(body, i)
        const returned = this.#chain(chain.branches, variables)
        if (returned) return returned
        i = chain.end - 1
        continue
      }
      if (words.length > 1 || first?.kind !== 'string') this.#set(words, variables)
      i = end - 1 // of a block that is not followed, which was named
    }
    return undefined
  }

  /** The branch that is taken, where every condition before it is known. */
  #chain(branches: readonly Branch[], variables: Variables): { readonly value: Value } | undefined {
    for (const { condition, body } of branches) {
      const truth = condition ? truthOf(condition, words => this.#quietly(words, variables)) : true
      if (truth === undefined) {
        this.#skip([{ kind: 'name', text: 'if' }, ...(condition ?? [])])
        return undefined
      }
      if (truth) return this.#block(body, variables)
    }
    return undefined
  }

  #set(words: readonly Word[], variables: Variables): void {
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

  /** Without a word where there is no value. */
  #quietly(words: readonly Word[], variables: ReadonlyMap<string, Value>): Value {
    return evaluated(words, { value: name => this.#named(name, variables), call: () => undefined })
  }

  #named(name: string, variables: ReadonlyMap<string, Value>): Value {
    const [root = '', ...path] = name.split('.')
    const scope = variables.has(root) ? variables : this.#constants
    if (root === 'torch' || (this.#others === 'configs' && !scope.has(root))) return name
    return path.reduce<Value>((value, key) => (isMapping(value) ? open(value)[key] : undefined), scope.get(root))
  }

  /** A function of the file is followed; of others the keywords are what they set, or the one word they are given. */
  #call(call: Call): Value {
    const { name, positional, named } = call
    if (this.#functions.has(name) && this.#depth < deepest) {
      const line = this.#line
      const value = this.run(call)
      this.#line = line
      return value
    }
    if (this.#others === 'configs') return configOf(call)
    if (this.#others === 'targets')
      return { _target_: name, ...(positional.length > 0 && { _args_: positional }), ...named }
    if (Object.keys(named).length > 0) return named
    if (positional.length === 1 && typeof positional[0] === 'string') return positional[0]
    if (positional.length === 0 && this.#isName(name)) return name.slice(name.lastIndexOf('.') + 1)
    this.remarks.push({ line: this.#line, message: `the settings of ${name}() are not in the file` })
    return positional.find(isMapping) ?? {}
  }
}

function configOf({ name, positional, named }: Call): Value {
  const isConfig = /(^|\.)(Config|Partial)$/.test(name)
  const [target, args] = isConfig ? [positional[0], positional.slice(1)] : [name, positional]
  return { _target_: target, ...(args.length > 0 && { _args_: args }), ...named }
}

interface Branch {
  /** undefined: else. */
  readonly condition: readonly Word[] | undefined
  readonly body: readonly Statement[]
}

/** Behind the statements that are indented further than the one at `i`. */
function endOfBlock(body: readonly Statement[], i: number): number {
  let end = i + 1
  while (end < body.length && body[end].indent > body[i].indent) end++
  return end
}

/** An if with what else it has. */
function chainOf(body: readonly Statement[], from: number): { branches: Branch[]; end: number } {
  const branches: Branch[] = []
  let at = from
  do {
    const { words } = body[at]
    const end = endOfBlock(body, at)
    const condition = words[0].text === 'else' ? undefined : words.slice(1, -1)
    branches.push({ condition, body: body.slice(at + 1, end) })
    at = end
  } while (body[at]?.indent === body[from].indent && ['elif', 'else'].includes(body[at].words[0]?.text ?? ''))
  return { branches, end: at }
}

/** With a value at a path; a word that is there is a key of what takes its place. */
function placed(value: Value, [key = '', ...rest]: readonly string[], set: Value): Open {
  const mapping = typeof value === 'string' ? { [value]: true } : open(value)
  return { ...mapping, [key]: rest.length === 0 ? set : placed(mapping[key], rest, set) }
}
