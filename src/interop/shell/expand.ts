/** Words to what a command is given: parameters, arithmetic, what little of substitutions can be known. */
import { evaluate } from './arithmetic.js'
import { replaced, without } from './pattern.js'
import { isUnknown, type State } from './state.js'
import { substituted } from './substitute.js'
import type { Param, Part, Word } from './syntax.js'

/** One text; lists are joined. */
export const textOf = (word: Word, state: State): string =>
  state.bounded(word.map(part => valuesOf(part, state).join(' ')).join(''))

/** One field or several, or none. */
export function fieldsOf(word: Word, state: State): string[] {
  const fields: string[] = []
  let current: string | undefined
  const end = () => {
    if (current !== undefined) fields.push(state.bounded(current))
    current = undefined
  }
  for (const part of word) {
    const values = valuesOf(part, state)
    if (part.quoted) {
      values.forEach((value, i) => {
        if (i > 0) end()
        current = (current ?? '') + value
      })
    } else if (part.kind === 'text') current = (current ?? '') + part.text
    else
      values.forEach((value, i) => {
        if (i > 0 || /^\s/.test(value)) end()
        const pieces = value.split(/\s+/).filter(piece => piece !== '')
        pieces.forEach((piece, j) => {
          if (j > 0) end()
          current = (current ?? '') + piece
        })
        if (pieces.length > 0 && /\s$/.test(value)) end()
      })
    state.spend()
  }
  end()
  return word.length === 1 && word[0]?.kind === 'text' && !word[0].quoted ? fields.flatMap(braced) : fields
}

/** `{1..8}` and `{a,b}`. */
function braced(text: string): string[] {
  const [, head = '', inner = '', tail = ''] = /^([^{}$]*)\{([^{}]*)\}([^{}]*)$/.exec(text) ?? []
  const range = /^(-?\d{1,6})\.\.(-?\d{1,6})$/.exec(inner)
  if (range) {
    const [from, to] = [Number(range[1]), Number(range[2])]
    const count = Math.min(Math.abs(to - from) + 1, 10_000)
    return Array.from({ length: count }, (_, i) => `${head}${from + Math.sign(to - from) * i}${tail}`)
  }
  return inner.includes(',') ? inner.split(',').map(one => `${head}${one}${tail}`) : [text]
}

function valuesOf(part: Part, state: State): readonly string[] {
  switch (part.kind) {
    case 'text':
      return [part.text]
    case 'param':
      return paramValues(part.param, state)
    case 'arithmetic':
      return [calculated(part.of, state)]
    case 'command':
      return [substituted(part, state, { fields: fieldsOf, number: numberOf })]
  }
}

/** As text; what is not known stays so. */
export function calculated(of: Word, state: State): string {
  const text = textOf(of, state)
  const value = numberOf(text, state)
  return value === undefined ? state.unknown(`$((${state.shown(text)}))`) : String(value)
}

export const numberOf = (text: string, state: State): number | undefined =>
  isUnknown(text)
    ? undefined
    : evaluate(text, {
        read: (name, index) => {
          const held = heldBy(name, state)
          const one = held[index ?? 0] ?? (name === 'RANDOM' ? undefined : '')
          return one === undefined || isUnknown(one) ? undefined : one
        },
        write: (name, value) => state.set(name, String(value)),
      })

const ofMachine = new Set([
  'RANDOM',
  'HOSTNAME',
  'SECONDS',
  'UID',
  'EPOCHSECONDS',
  'SHLVL',
  'BASHPID',
  '$',
  '!',
  'PPID',
])

/** What a name holds: nothing, one text, or a list. */
function heldBy(name: string, state: State): readonly string[] {
  if (name === '@' || name === '*') return state.args
  if (name === '#') return [String(state.args.length)]
  if (name === '0') return ['script.sh']
  if (name === '?') return ['0']
  if (/^\d+$/.test(name)) return state.args.slice(Number(name) - 1, Number(name))
  const held = state.variables.get(name)
  if (held !== undefined) return typeof held === 'string' ? [held] : held
  if (ofMachine.has(name)) return [state.unknown(`$${name}`)]
  if (name === 'PWD') return ['.']
  return name === 'BASH_SOURCE' ? ['script.sh'] : []
}

export const isSet = (name: string, state: State): boolean => heldBy(name, state).length > 0

function paramValues(param: Param, state: State): readonly string[] {
  const { name, index, prefix, op } = param
  if (prefix === '!' && index === undefined && op === undefined) {
    const target = heldBy(name, state)[0] ?? ''
    return heldBy(target, state).slice(0, 1)
  }
  const at = index === undefined ? undefined : textOf(index, state)
  const held = heldBy(name, state)
  const all = at === '@' || at === '*' || name === '@' || name === '*'
  if (prefix === '!') return held.map((_, i) => String(i))
  const one = all ? held : held.slice(...elementOf(at, held.length, state))
  if (prefix === '#') return [String(all ? held.length : (one[0] ?? '').length)]
  if (held.length === 0 && op === undefined && !all) noteUnset(param, state)
  const values = op === undefined ? one : changed(one, param, state)
  return all || values.length > 0 ? values : ['']
}

function elementOf(at: string | undefined, length: number, state: State): [number, number] {
  const given = at === undefined ? 0 : (numberOf(at, state) ?? 0)
  const i = given < 0 ? length + given : given
  return [i, i + 1]
}

function noteUnset({ name, line }: Param, state: State): void {
  if (/^([A-Za-z_]\w*|\d+)$/.test(name) && !state.unset.has(name)) state.unset.set(name, line)
}

function changed(
  values: readonly string[],
  { name, op = '', operand = [], line }: Param,
  state: State,
): readonly string[] {
  const colon = op.startsWith(':') && op.length === 2
  const isMissing = values.length === 0 || (colon && values.every(value => value === ''))
  switch (op.replace(/^:(?=[-=+?])/, '')) {
    case '-':
      return isMissing ? [textOf(operand, state)] : values
    case '=': {
      if (!isMissing) return values
      const value = textOf(operand, state)
      state.set(name, value)
      return [value]
    }
    case '+':
      return isMissing ? [] : fieldsJoined(operand, state)
    case '?':
      if (isMissing) noteUnset({ name, line }, state)
      return values
    default:
      return values.map(value => edited(value, op, operand, state))
  }
}

const fieldsJoined = (operand: Word, state: State): string[] => [textOf(operand, state)]

function edited(value: string, op: string, operand: Word, state: State): string {
  if (isUnknown(value)) return value
  const text = textOf(operand, state)
  if (op.startsWith('#') || op.startsWith('%')) return without(value, text, op)
  if (op.startsWith('/')) {
    const cut = text.indexOf('/')
    return replaced(value, op, cut < 0 ? text : text.slice(0, cut), cut < 0 ? '' : text.slice(cut + 1))
  }
  if (op === ':') {
    const [from = '0', length] = text.split(':')
    const start = numberOf(from, state) ?? 0
    const begin = start < 0 ? Math.max(0, value.length + start) : start
    const count = length === undefined ? undefined : numberOf(length, state)
    return value.slice(begin, count === undefined ? undefined : count < 0 ? count : begin + count)
  }
  if (op === '^^') return value.toUpperCase()
  if (op === ',,') return value.toLowerCase()
  if (op === '^') return value.slice(0, 1).toUpperCase() + value.slice(1)
  return op === ',' ? value.slice(0, 1).toLowerCase() + value.slice(1) : value
}
