/** Functions of a Python file: what they take, and what they do, statement by statement. */
import { type Statement, statementsOf, type Word } from './statements.js'

export interface Parameter {
  readonly name: string
  /** Empty: it must be given. */
  readonly usual: readonly Word[]
}

export interface Defined {
  readonly parameters: readonly Parameter[]
  readonly body: readonly Statement[]
}

export interface Module {
  readonly functions: ReadonlyMap<string, Defined>
  /** Statements outside of functions and classes. */
  readonly body: readonly Statement[]
}

/** By name. */
export const functionsOf = (text: string): Module['functions'] => moduleOf(text).functions

export function moduleOf(text: string): Module {
  const statements = statementsOf(text)
  const starts = statements.flatMap(({ indent, words }, i) =>
    indent === 0 && words[0]?.text === 'def' && words[1] ? [{ name: words[1].text, words, at: i }] : [],
  )
  const functions = new Map(
    starts.map(({ name, words, at }) => {
      const rest = statements.slice(at + 1)
      const end = rest.findIndex(({ indent }) => indent === 0)
      return [name, { parameters: parametersOf(words), body: rest.slice(0, end < 0 ? undefined : end) }] as const
    }),
  )
  return { functions, body: statements.filter(({ indent }) => indent === 0) }
}

/** Between the outer brackets of a head: `name: type = usual`, one after the other. */
function parametersOf(head: readonly Word[]): Parameter[] {
  const parts: Word[][] = [[]]
  let depth = 0
  for (const word of head.slice(2)) {
    const opens = word.kind === 'sign' && '([{'.includes(word.text)
    if (word.kind === 'sign' && ')]}'.includes(word.text) && --depth === 0) break
    if (word.text === ',' && word.kind === 'sign' && depth === 1) parts.push([])
    else if (depth > 0) parts[parts.length - 1].push(word)
    if (opens) depth++
  }
  return parts.flatMap(part => {
    const equals = part.findIndex(({ kind, text }) => kind === 'sign' && text === '=')
    const [name] = part
    return name?.kind === 'name' ? [{ name: name.text, usual: equals < 0 ? [] : part.slice(equals + 1) }] : []
  })
}
