/**
 * JSON as people write it for DeepSpeed, which reads Hjson: comments, commas left out or too many, keys and words without
 * quotes. A word that is no number stays a word, to the end of its line or to what closes it.
 */
import { Fields } from './fields.js'
import { quotedString, type Scanner } from './scanner.js'

const deepest = 64

export function readJson(s: Scanner, fields: Fields): unknown {
  space(s)
  const value = s.next === '{' ? mapping(s, fields, '', 0) : valueAt(s, fields, '', 0)
  space(s)
  if (!s.ended) s.refuse(`something follows the end: \`${s.text.slice(s.at, s.at + 20).split('\n')[0]}\``)
  return value
}

function space(s: Scanner): void {
  for (;;) {
    s.match(/\s+/y)
    if (s.next === '#' || s.startsWith('//')) s.match(/[^\n]*/y)
    else if (s.startsWith('/*')) s.through('*/')
    else return
  }
}

function valueAt(s: Scanner, fields: Fields, path: string, depth: number): unknown {
  if (depth > deepest) s.refuse(`nested more than ${deepest} levels deep`)
  if (s.next === '{') return mapping(s, fields, path, depth)
  if (s.next === '[') return list(s, fields, path, depth)
  if (s.startsWith("'''")) {
    s.take(3)
    return s.through("'''").slice(0, -3)
  }
  if (s.next === '"' || s.next === "'") return quotedString(s)
  return word(s)
}

function mapping(s: Scanner, fields: Fields, path: string, depth: number): unknown {
  s.take()
  const made = Fields.mapping()
  for (;;) {
    separators(s)
    if (s.next === '}') break
    if (s.ended) s.refuse('a mapping does not end: } is missing')
    const line = s.line
    const key = s.next === '"' || s.next === "'" ? quotedString(s) : s.match(/[^\s,:[\]{}"']+/y)
    if (key === undefined) s.refuse(`expected a key, found \`${s.next}\``)
    space(s)
    if (s.next !== ':') s.refuse(`\`${key.slice(0, 40)}\` has no value: a colon is missing`)
    s.take()
    space(s)
    fields.put(made, path, key, line, inner => valueAt(s, fields, inner, depth + 1))
  }
  s.take()
  return made
}

function list(s: Scanner, fields: Fields, path: string, depth: number): unknown[] {
  s.take()
  const made: unknown[] = []
  for (;;) {
    separators(s)
    if (s.next === ']') break
    if (s.ended) s.refuse('a list does not end: ] is missing')
    made.push(valueAt(s, fields, `${path}[${made.length}]`, depth + 1))
  }
  s.take()
  return made
}

function separators(s: Scanner): void {
  space(s)
  while (s.next === ',') {
    s.take()
    space(s)
  }
}

const literals: Readonly<Record<string, unknown>> = { true: true, false: false, null: null }
const plain = /(?:true|false|null|[-+]?[\d.][\d.eE+-]*)(?=[ \t]*(?:[,\]}#\n]|\/\/|\/\*|$))/y

function word(s: Scanner): unknown {
  const found = s.match(plain)
  if (found !== undefined) {
    const number = Number(found)
    return Object.hasOwn(literals, found) ? literals[found] : Number.isFinite(number) ? number : found
  }
  const text = (s.match(/[^\n,\]}#]+/y) ?? '').trim()
  if (text === '') s.refuse(s.ended ? 'the text ends where a value should be' : `expected a value, found \`${s.next}\``)
  return text
}
