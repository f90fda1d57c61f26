/** Conditions of Python over known values: `not`, `and`, `or`, `is None`, `==`, or a value taken for true or false. */
import type { Value } from './expression.js'
import type { Word } from './statements.js'

/** undefined: it depends on what the file does not say. */
export function truthOf(words: readonly Word[], found: (words: readonly Word[]) => Value): boolean | undefined {
  const either = split(words, 'or')
  if (either.length > 1) return settled(either, true, part => truthOf(part, found))
  const both = split(words, 'and')
  if (both.length > 1) return settled(both, false, part => truthOf(part, found))
  if (words[0]?.text === 'not') return negated(truthOf(words.slice(1), found))
  return compared(words, found)
}

/** The first part that settles it does, if all before it are known. */
function settled(
  parts: readonly (readonly Word[])[],
  by: boolean,
  truth: (part: readonly Word[]) => boolean | undefined,
): boolean | undefined {
  for (const part of parts) {
    const truthful = truth(part)
    if (truthful !== !by) return truthful
  }
  return !by
}

const negated = (value: boolean | undefined): boolean | undefined => (value === undefined ? undefined : !value)

function compared(words: readonly Word[], found: (words: readonly Word[]) => Value): boolean | undefined {
  const at = words.findIndex(({ kind, text }) => (kind === 'name' && text === 'is') || text === '==' || text === '!=')
  if (at < 0) {
    const value = found(words)
    return value === undefined ? undefined : isTrue(value)
  }
  const isNot = words[at].text === '!=' || words[at + 1]?.text === 'not'
  const right = found(words.slice(at + (words[at + 1]?.text === 'not' ? 2 : 1)))
  const left = found(words.slice(0, at))
  const isWhole = left !== undefined && right !== undefined && (isSimple(left) || isSimple(right))
  return isWhole ? (left === right) !== isNot : undefined
}

const isSimple = (value: Value): boolean => value === null || typeof value !== 'object'
const isTrue = (value: Value): boolean =>
  Array.isArray(value)
    ? value.length > 0
    : typeof value === 'object' && value !== null
      ? Object.keys(value).length > 0
      : Boolean(value)

/** By a word that stands in no brackets. */
function split(words: readonly Word[], by: string): readonly (readonly Word[])[] {
  const parts: Word[][] = [[]]
  let depth = 0
  for (const word of words) {
    if (word.kind === 'sign') depth += '([{'.includes(word.text) ? 1 : ')]}'.includes(word.text) ? -1 : 0
    if (depth === 0 && word.kind === 'name' && word.text === by) parts.push([])
    else parts[parts.length - 1].push(word)
  }
  return parts
}
