/**
 * Follows a script as a shell would, as far as it can be known, and runs nothing: what counts is what variables hold
 * when something is launched. A condition that is not known is taken as false, and named.
 */
import { and, decide, not, type Operand, or, type Truth } from './condition.js'
import { calculated, fieldsOf, isSet, numberOf, textOf } from './expand.js'
import { launched } from './launch.js'
import { parseScript } from './parse.js'
import { matches } from './pattern.js'
import { type Given, isUnknown, OutOfWork, State } from './state.js'
import type { Assignment, Command, Redirect, Script, Word } from './syntax.js'

/** What leaves a loop, a function or the script. */
class Leave extends Error {
  readonly what: 'break' | 'continue' | 'return' | 'exit'
  constructor(what: Leave['what']) {
    super(what)
    this.what = what
  }
}

const mostTurns = 2_000
const mostDepth = 24

export function followScript(text: string, given: Given): State {
  const state = new State(given)
  try {
    new Runner(state).file(text)
  } catch (error) {
    if (error instanceof OutOfWork) state.remark(0, error.message)
    else if (!(error instanceof Leave)) throw error
  }
  return state
}

export class Runner {
  #depth = 0
  readonly state: State

  constructor(state: State) {
    this.state = state
  }

  /** A script, or a text that is read as one. */
  file(text: string, line = 1): Truth {
    this.state.spend(1 + text.length / 100)
    const { script, remarks } = parseScript(this.state.bounded(text), line)
    for (const { line: at, message } of remarks) this.state.remark(at, message)
    for (const [, options] of text.matchAll(/^#SBATCH[ \t]+(.*)$/gm)) this.state.sbatch.push(options ?? '')
    return this.#script(script)
  }

  /** Another file: what leaves it does not leave this one. */
  other(text: string, args: readonly string[] | undefined): Truth {
    return this.#nested(() => {
      const { args: before } = this.state
      if (args) this.state.args = args
      try {
        return this.file(text)
      } catch (error) {
        if (!(error instanceof Leave) || (error.what === 'exit' && this.state.launches.length > 0)) throw error
        return undefined
      } finally {
        if (args) this.state.args = before
      }
    })
  }

  #nested(run: () => Truth): Truth {
    if (this.#depth >= mostDepth) return undefined
    this.#depth++
    try {
      return run()
    } finally {
      this.#depth--
    }
  }

  #script(commands: Script): Truth {
    let status: Truth = true
    for (const command of commands) status = this.#command(command)
    return status
  }

  #command(command: Command): Truth {
    const { state } = this
    state.spend()
    switch (command.kind) {
      case 'simple':
        return this.#simple(command)
      case 'and': {
        const left = this.#command(command.left)
        return left === true ? this.#command(command.right) : and(left, undefined)
      }
      case 'or': {
        const left = this.#command(command.left)
        return left === false ? this.#command(command.right) : or(left, undefined)
      }
      case 'pipe': {
        const status = command.commands.map(one => this.#command(one)).at(-1)
        return command.not ? not(status) : status
      }
      case 'test':
        return this.#test(
          command.terms.map(term => ('word' in term ? this.#operand(term.word) : term)),
          true,
        )
      case 'arithmetic': {
        const value = numberOf(textOf(command.of, state), state)
        return value === undefined ? undefined : value !== 0
      }
      case 'group':
        return this.#script(command.body)
      case 'function':
        state.functions.set(command.name, command.body)
        return true
      default:
        return this.#choice(command)
    }
  }

  #choice(command: Extract<Command, { kind: 'if' | 'case' | 'for' | 'count' | 'while' }>): Truth {
    const { state } = this
    switch (command.kind) {
      case 'if': {
        for (const { condition, body } of command.branches) {
          const holds = this.#script(condition)
          if (holds === true) return this.#script(body)
          if (holds === undefined)
            state.remark(condition[0]?.line ?? command.line, 'condition is unknown: assumed false')
        }
        return command.rest ? this.#script(command.rest) : true
      }
      case 'case': {
        const subject = textOf(command.subject, state)
        if (isUnknown(subject)) state.remark(command.line, 'the value of this case is unknown')
        const arm = command.arms.find(({ patterns }) => patterns.some(one => matches(textOf(one, state), subject)))
        return arm ? this.#script(arm.body) : true
      }
      case 'for': {
        const items = command.items ? command.items.flatMap(word => fieldsOf(word, state)) : state.args
        const run = (item: string) => {
          state.set(command.name, item)
          return this.#turn(command.body)
        }
        items.slice(0, mostTurns).every(run)
        return true
      }
      case 'count': {
        const [first = [], condition = [], after = []] = command.parts
        calculated(first, state)
        for (let turn = 0; turn < mostTurns && numberOf(textOf(condition, state), state); turn++) {
          if (!this.#turn(command.body)) break
          calculated(after, state)
        }
        return true
      }
      case 'while': {
        for (let turn = 0; turn < mostTurns; turn++) {
          const holds = this.#script(command.condition)
          if (holds === undefined) state.remark(command.line, 'condition of this loop is unknown: assumed false')
          if (holds !== !command.until || !this.#turn(command.body)) break
        }
        return true
      }
    }
  }

  /** false: the loop is left. */
  #turn(body: Script): boolean {
    try {
      this.#script(body)
      return true
    } catch (error) {
      if (!(error instanceof Leave) || (error.what !== 'break' && error.what !== 'continue')) throw error
      return error.what === 'continue'
    }
  }

  #operand(word: Word): Operand {
    const text = textOf(word, this.state)
    return { value: isUnknown(text) ? undefined : text }
  }

  #test(terms: readonly Operand[], patterns: boolean): Truth {
    return decide(terms, { isSet: name => isSet(name, this.state) }, patterns)
  }

  #assign({ name, index, append, value }: Assignment): void {
    const { state } = this
    const before = state.variables.get(name)
    if ('elements' in value) {
      const elements = value.elements.flatMap(word => fieldsOf(word, state))
      const list = before === undefined ? [] : typeof before === 'string' ? [before] : before
      state.set(name, append ? [...list, ...elements] : elements)
      return
    }
    const text = textOf(value, state)
    if (index) {
      const list = typeof before === 'string' ? [before] : [...(before ?? [])]
      const at = numberOf(textOf(index, state), state)
      if (at !== undefined && at >= 0 && at <= list.length) list[at] = append ? (list[at] ?? '') + text : text
      state.set(name, list)
    } else if (append && before !== undefined && typeof before !== 'string')
      state.set(name, [`${before[0] ?? ''}${text}`, ...before.slice(1)])
    else state.set(name, append ? `${before ?? ''}${text}` : text)
  }

  #simple({ assignments, words, redirects, line }: Extract<Command, { kind: 'simple' }>): Truth {
    const { state } = this
    const fields = words.flatMap(word => fieldsOf(word, state))
    for (const one of assignments) this.#assign(one)
    const [program] = fields
    if (program === undefined) return true
    this.#written(fields, redirects)
    const own = state.functions.get(program)
    if (own) return this.#called(own, fields.slice(1))
    const builtin = builtins[program]
    return builtin ? builtin(this, fields.slice(1), line) : launched(fields, line, this)
  }

  #called(body: Script, args: readonly string[]): Truth {
    return this.#nested(() => {
      const { args: before } = this.state
      this.state.args = args
      try {
        return this.#script(body)
      } catch (error) {
        if (!(error instanceof Leave) || error.what !== 'return') throw error
        return undefined
      } finally {
        this.state.args = before
      }
    })
  }

  /** `cat <<EOT > file` and `echo .. > file`: what files hold that the script writes. */
  #written([program, ...args]: readonly string[], redirects: readonly Redirect[]): void {
    const { state } = this
    const body = redirects.find(one => one.body)?.body
    const out = redirects.find(({ op }) => op === '>' || op === '>>' || op === '>|')
    const target = out ? textOf(out.target, state) : program === 'tee' ? args.at(-1) : undefined
    if (target === undefined) return
    const text = body ? textOf(body, state) : program === 'echo' ? args.join(' ') : undefined
    if (text === undefined) return
    const before = out?.op === '>>' ? `${state.files.get(target) ?? ''}\n` : ''
    state.files.set(target, state.bounded(before + text))
  }

  decideWords(words: readonly string[]): Truth {
    return this.#test(
      words.map(text => ({ value: isUnknown(text) ? undefined : text })),
      false,
    )
  }

  leave(what: Leave['what']): never {
    throw new Leave(what)
  }

  /** Nobody has launched anything yet: what ends the script here is what it lacks, so it is read on. */
  exit(line: number): Truth {
    if (this.state.launches.length > 0) this.leave('exit')
    this.state.remark(line, 'the script would end here; reading continues')
    return undefined
  }
}

type Builtin = (runner: Runner, args: readonly string[], line: number) => Truth
const nothing: Builtin = () => true

const source: Builtin = (runner, [path = '', ...args], line) => {
  const text = isUnknown(path) ? undefined : (runner.state.files.get(path) ?? runner.state.read(path))
  if (text !== undefined) return runner.other(text, args.length > 0 ? args : undefined)
  runner.state.remark(line, `${runner.state.shown(path)} cannot be followed: there is no such file`)
  return undefined
}

const builtins: Readonly<Record<string, Builtin | undefined>> = {
  ...Object.fromEntries(
    ['export', 'declare', 'local', 'readonly', 'typeset', ':', 'true', 'echo'].map(name => [name, nothing]),
  ),
  false: () => false,
  '.': source,
  source,
  '[': (runner, args) => runner.decideWords(args.at(-1) === ']' ? args.slice(0, -1) : args),
  test: (runner, args) => runner.decideWords(args),
  eval: (runner, args, line) => runner.file(args.join(' '), line),
  let: (runner, args) => {
    const values = args.map(arg => numberOf(arg, runner.state))
    const last = values.at(-1)
    return last === undefined ? undefined : last !== 0
  },
  shift: ({ state }, [count = '1']) => {
    const by = Number(count)
    if (state.args.length === 0) return false
    state.args = state.args.slice(Number.isInteger(by) && by >= 0 ? by : 1)
    return true
  },
  set: ({ state }, args) => {
    const at = args.indexOf('--')
    if (at >= 0) state.args = args.slice(at + 1)
    return true
  },
  unset: ({ state }, names) => {
    for (const name of names) state.variables.delete(name)
    return true
  },
  read: ({ state }, args) => {
    for (const name of args.filter(arg => /^[A-Za-z_]\w*$/.test(arg))) state.set(name, state.unknown(`$${name}`))
    return undefined
  },
  break: runner => runner.leave('break'),
  continue: runner => runner.leave('continue'),
  return: runner => runner.leave('return'),
  exit: (runner, _, line) => runner.exit(line),
}
