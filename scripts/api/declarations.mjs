/**
 * A reader of declaration files: which names a module of dist exports, and how each is declared. TypeScript 7 has no compiler API yet, and
 * what `tsc` writes is regular: imports, exports and one declaration after the other, each with the comment above it.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const opening = '([{'
const closing = ')]}'

/** Index after the comment, string or character at `at`; brackets are left to the caller. */
function after(text, at) {
  const two = text.slice(at, at + 2)
  if (two === '/*') return text.indexOf('*/', at) + 2
  if (two === '//') return (text.indexOf('\n', at) + 1 || text.length + 1) - 1
  if (!'\'"`'.includes(text[at])) return at + 1
  let end = at + 1
  while (text[end] !== text[at]) end += text[end] === '\\' ? 2 : 1
  return end + 1
}

const isBlock = text => /^(export )?(declare )?(abstract )?(interface|class|enum|namespace) /.test(text)

/** Statements of a file in order, each with the documentation comment directly above it. */
export function statementsOf(text) {
  const statements = []
  let comment
  let start = 0
  let depth = 0
  for (let at = 0; at < text.length; ) {
    const next = after(text, at)
    const idle = text.slice(start, at).trim() === ''
    if (idle && text.startsWith('/*', at)) {
      comment = { text: text.slice(at, next), at }
      start = next
    } else if (opening.includes(text[at])) depth++
    else if (closing.includes(text[at])) depth--
    if (depth === 0 && (text[at] === ';' || (text[at] === '}' && isBlock(text.slice(start, next).trim())))) {
      statements.push({ text: text.slice(start, next).trim(), comment })
      comment = undefined
      start = next
    }
    at = next
  }
  return statements
}

/** `{ a, type b, c as d }`: the name in the module it comes from and the name here. */
const namesIn = braces =>
  braces
    .split(',')
    .map(part => part.trim().replace(/^type /, ''))
    .filter(part => part !== '')
    .map(part => {
      const [theirs, ours = theirs] = part.split(' as ')
      return { theirs, ours }
    })

const files = new Map()

/** What a declaration file says: its declarations by name, and where other names come from. */
export function moduleOf(path) {
  if (!files.has(path)) files.set(path, readModule(path))
  return files.get(path)
}

function readModule(path) {
  const text = readFileSync(path, 'utf8')
  const module = { path, declarations: new Map(), from: new Map(), stars: [], exported: new Set() }
  const target = specifier =>
    specifier.startsWith('.') ? join(dirname(path), specifier.replace(/\.js$/, '.d.ts')) : undefined
  for (const statement of statementsOf(text)) {
    const star = /^export \* from '(.*)';$/.exec(statement.text)
    const named = /^(import|export) (?:type )?\{([\s\S]*?)\}(?: from '(.*)')?;$/.exec(statement.text)
    const declared =
      /^(export )?(?:declare )?(?:abstract )?(function|const|let|class|interface|type|enum)\s+(\w+)/.exec(
        statement.text,
      )
    if (star) module.stars.push(target(star[1]))
    else if (named) {
      for (const { theirs, ours } of namesIn(named[2])) {
        if (named[1] === 'export') module.exported.add(ours)
        if (named[3] !== undefined) module.from.set(ours, { path: target(named[3]), name: theirs })
      }
    } else if (declared) {
      const [, isExported, kind, name] = declared
      if (isExported) module.exported.add(name)
      const list = module.declarations.get(name) ?? []
      list.push({ kind, name, text: statement.text, comment: ownComment(path, statement.comment), path })
      module.declarations.set(name, list)
    }
  }
  return module
}

/** The comment that opens a file is about the file, unless the source has the declaration directly below it. */
function ownComment(path, comment) {
  if (comment === undefined || comment.at > 0) return comment?.text
  const source = existsSync(sourceOf(path)) ? readFileSync(sourceOf(path), 'utf8') : ''
  const rest = source.startsWith(comment.text) ? source.slice(comment.text.length) : ''
  return /^\n(\n|import|export (\*|\{|type \{))/.test(rest) ? undefined : comment.text
}

/** `dist/src/plan/job.d.ts` is made from `src/plan/job.ts`. */
export const sourceOf = path => path.replace(/(^|\/)dist\/src\//, '$1src/').replace(/\.d\.ts$/, '.ts')

/** Declarations of a name as a module sees it: several where a value and a type share it, or a function is overloaded. */
export function declarationsOf(path, name) {
  const module = moduleOf(path)
  const here = module.declarations.get(name)
  if (here) return here
  const from = module.from.get(name)
  if (from) return from.path === undefined ? [] : declarationsOf(from.path, from.name)
  for (const star of module.stars) {
    const found = exportedBy(star).has(name) ? declarationsOf(star, name) : []
    if (found.length > 0) return found
  }
  return []
}

/** Every name that a module exports. */
export function exportedBy(path) {
  const module = moduleOf(path)
  return new Set([...module.exported, ...module.stars.flatMap(star => [...exportedBy(star)])])
}
