/** TOML 1.0, with the line of every key. Dates stay text: nothing here asks for one. */
import { isMapping } from '../plan/index.js'
import { Fields } from './fields.js'
import { escaped, quotedString, type Scanner } from './scanner.js'

type Table = Record<string, unknown>
const deepest = 64

export function readToml(s: Scanner, fields: Fields): unknown {
  const root = Fields.mapping()
  let table = root
  let path = ''
  for (;;) {
    blank(s)
    if (s.ended) return root
    if (s.next === '[') [table, path] = header(s, root, fields)
    else keyValue(s, table, path, fields, 0)
    s.match(/[ \t]*(?:#[^\n]*)?/y)
    if (!s.ended && s.next !== '\n') s.refuse(`expected the end of the line, found \`${s.next}\``)
  }
}

const blank = (s: Scanner): void => {
  while (s.match(/\s+|#[^\n]*/y) !== undefined);
}

function header(s: Scanner, root: Table, fields: Fields): [Table, string] {
  const { line } = s
  const many = s.startsWith('[[')
  s.take(many ? 2 : 1)
  const keys = dottedKey(s)
  if (s.match(many ? /[ \t]*\]\]/y : /[ \t]*\]/y) === undefined)
    s.refuse('the name of a table does not end: ] is missing')
  const path = keys.join('.')
  if (!fields.lines.has(path)) fields.lines.set(path, line)
  const above = inside(s, root, keys.slice(0, -1))
  const key = keys[keys.length - 1]
  if (!many) return [inside(s, above, [key]), path]
  const list = (above[key] ??= [])
  if (!Array.isArray(list)) s.refuse(`\`${path}\` is not a list of tables`)
  const table = Fields.mapping()
  list.push(table)
  return [table, `${path}[${list.length - 1}]`]
}

/** The table that the keys lead to, made where there is none. */
function inside(s: Scanner, table: Table, keys: readonly string[]): Table {
  for (const key of keys) {
    const next = (table[key] ??= Fields.mapping())
    const found: unknown = Array.isArray(next) ? next.at(-1) : next
    if (!isMapping(found)) s.refuse(`\`${key}\` is a value and cannot hold keys`)
    table = found as Table // made here
  }
  return table
}

function dottedKey(s: Scanner): string[] {
  const keys: string[] = []
  do {
    s.match(/[ \t]*/y)
    const key = s.next === '"' ? quotedString(s) : s.next === "'" ? literal(s) : s.match(/[A-Za-z0-9_-]+/y)
    if (key === undefined) s.refuse(`expected a key, found \`${s.next}\``)
    keys.push(key)
    if (keys.length > deepest) s.refuse(`nested more than ${deepest} levels deep`)
    s.match(/[ \t]*/y)
  } while (s.match(/\./y) !== undefined)
  return keys
}

function keyValue(s: Scanner, table: Table, path: string, fields: Fields, depth: number): void {
  const { line } = s
  const keys = dottedKey(s)
  if (s.match(/=[ \t]*/y) === undefined) s.refuse(`\`${keys.join('.').slice(0, 40)}\` has no value: = is missing`)
  const above = [path, ...keys.slice(0, -1)].filter(part => part !== '').join('.')
  fields.put(inside(s, table, keys.slice(0, -1)), above, keys[keys.length - 1], line, inner =>
    valueAt(s, inner, fields, depth),
  )
}

function valueAt(s: Scanner, path: string, fields: Fields, depth: number): unknown {
  if (depth > deepest) s.refuse(`nested more than ${deepest} levels deep`)
  if (s.startsWith('"""')) return longString(s)
  if (s.startsWith("'''")) {
    s.take(3)
    return s.through("'''").slice(0, -3).replace(/^\n/, '')
  }
  if (s.next === '"') return quotedString(s)
  if (s.next === "'") return literal(s)
  if (s.next === '[') return list(s, path, fields, depth)
  if (s.next === '{') return inlineTable(s, path, fields, depth)
  return plain(s)
}

function literal(s: Scanner): string {
  s.take()
  const text = s.match(/[^'\n]*/y) ?? ''
  if (s.next !== "'") s.refuse('a string does not end')
  s.take()
  return text
}

function longString(s: Scanner): string {
  s.take(3)
  s.match(/\n/y)
  let text = ''
  while (!s.startsWith('"""')) {
    if (s.ended) s.refuse('a string does not end')
    const char = s.take()
    text += char !== '\\' ? char : s.match(/[ \t]*\n\s*/y) !== undefined ? '' : escaped(s)
  }
  s.take(3)
  return text
}

function list(s: Scanner, path: string, fields: Fields, depth: number): unknown[] {
  s.take()
  const made: unknown[] = []
  for (;;) {
    blank(s)
    if (s.match(/\]/y)) return made
    if (s.ended) s.refuse('a list does not end: ] is missing')
    made.push(valueAt(s, `${path}[${made.length}]`, fields, depth + 1))
    blank(s)
    if (s.next !== ']' && s.match(/,/y) === undefined) s.refuse('expected , or ] in a list')
  }
}

function inlineTable(s: Scanner, path: string, fields: Fields, depth: number): Table {
  s.take()
  const made = Fields.mapping()
  for (;;) {
    blank(s)
    if (s.match(/\}/y)) return made
    if (s.ended) s.refuse('a table does not end: } is missing')
    keyValue(s, made, path, fields, depth + 1)
    blank(s)
    if (s.next !== '}' && s.match(/,/y) === undefined) s.refuse('expected , or } in a table')
  }
}

function plain(s: Scanner): unknown {
  const text = s.match(/[^\s,\]}#]+/y) ?? ''
  if (text === 'true' || text === 'false') return text === 'true'
  if (/^[+-]?(inf|nan)$/.test(text))
    return text.endsWith('nan') ? Number.NaN : text.startsWith('-') ? -Infinity : Infinity
  if (/^[+-]?(\d[\d_]*)?(\.\d[\d_]*)?([eE][+-]?\d[\d_]*)?$/.test(text) && /\d/.test(text))
    return Number(text.replaceAll('_', ''))
  if (/^0[xob][\dA-Fa-f_]+$/.test(text)) return Number(text.replaceAll('_', ''))
  if (/^\d{4}-\d\d-\d\d|^\d\d:\d\d/.test(text)) return text + (s.match(/ \d\d:[\d:.Z+-]+/y) ?? '')
  return s.refuse(text === '' ? 'a value is missing' : `\`${text.slice(0, 40)}\` is not a value: strings need quotes`)
}
