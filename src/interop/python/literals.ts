/** What is typed for an argument of a function: a number, true, false or None, or a word. */
import { booleanOf, numberOf } from '../reading.js'
import type { Value } from './expression.js'

export const literals = (set: Readonly<Record<string, string>> = {}): Readonly<Record<string, Value>> =>
  Object.fromEntries(Object.entries(set).map(([name, text]) => [name, literal(text)]))

const literal = (text: string): Value =>
  text === 'None' ? null : (numberOf(text) ?? (/^(true|false)$/i.test(text) ? booleanOf(text) : text))
