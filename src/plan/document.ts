/**
 * A YAML (or JSON, which YAML contains) text as a plain value, with the place of every key. Texts come from people
 * and from the internet: too big, binary, nested ten thousand deep, an alias that contains itself or doubles forty
 * times. Each of these is a problem with a line and a column, found quickly; nothing here throws.
 */
import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  Parser,
  type YAMLMap,
} from 'yaml'
import { error, type Problem, shorten, showBytes } from '../base/index.js'
import { showPath } from '../model/index.js'

/** A job is a screen of text. The parser is fast up to here for the worst of texts. */
export const mostBytes = 2 ** 17
const mostValues = 20_000
const deepest = 64

export interface Parsed {
  readonly value: unknown
  /** If there are any, the value may lack what they name. */
  readonly problems: readonly Problem[]
  /** The problem with the line and column of its path, or of the nearest thing around it that is written down. */
  readonly locate: (problem: Problem) => Problem
}

/** Offsets of a key (of a list entry: of the entry) and of its value. */
interface Place {
  readonly key: number
  readonly value: number
}

export function parseText(text: string): Parsed {
  text = text.replace(/^\uFEFF/, '')
  const lines = new LineCounter()
  const place = (offset: number) => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(1, line), column: Math.max(1, col) }
  }
  const refused = (...problems: Problem[]): Parsed => ({ value: undefined, problems, locate: atTop })
  const unread = unreadable(text)
  if (unread) return refused(unread)

  // Tokens first: the parser of tokens needs no stack, the composer does, and a stack that overflows inside a
  // regular expression ends the process instead of throwing.
  const tokens = [...new Parser(lines.addNewLine).parse(text)]
  const deep = tooDeep(tokens)
  if (deep !== undefined)
    return refused({ ...error('file/deep', '', `nested more than ${deepest} levels deep`), ...place(deep) })

  const composer = new Composer({ prettyErrors: false, uniqueKeys: false, lineCounter: lines })
  const documents = [...composer.compose(tokens, true, text.length)]
  const [document, second] = documents
  const broken = [...document.errors, ...document.warnings]
    .slice(0, 10)
    .map(e => ({ ...error('file/yaml', '', `not valid YAML: ${sentence(e.message)}`), ...place(e.pos[0]) }))
  if (broken.length > 0) return refused(...broken)
  if (second)
    return refused({
      ...error('file/documents', '', 'more than one document', 'one job per file'),
      ...place(second.range[0]),
    })

  const { value, problems, places } = read(document)
  return {
    value,
    problems: problems.map(([problem, offset]) => ({ ...problem, ...place(offset) })),
    locate: problem => locate(problem, places, place),
  }
}

const atTop = (problem: Problem): Problem => ({ line: 1, column: 1, ...problem })

function unreadable(text: string): Problem | undefined {
  if (text.length > mostBytes) {
    const message = `${showBytes(text.length)} is too big for a job file; at most ${showBytes(mostBytes)}`
    return atTop(error('file/size', '', message, 'a job is a screen of text: is this the right file?'))
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what tells binary from text
  if (/[\0-\x08\x0E-\x1F\uFFFD]/.test(text))
    return atTop(error('file/binary', '', 'not a text file', 'a job is YAML or JSON in UTF-8'))
  if (text.trim() === '')
    return atTop(error('file/empty', '', 'the file is empty', 'a job has model, training and plan'))
  return undefined
}

/** Where the nesting passes what a stack can carry. */
function tooDeep(tokens: readonly CST.Token[]): number | undefined {
  const open: [CST.Token, number][] = tokens.map(token => [token, 0])
  for (let next = open.pop(); next; next = open.pop()) {
    const [token, depth] = next
    if (depth > deepest) return token.offset
    if (token.type === 'document' && token.value) open.push([token.value, depth])
    if ('items' in token)
      for (const { key, value } of token.items)
        for (const child of [key, value]) if (child) open.push([child, depth + 1])
  }
  return undefined
}

/** 'Flow sequence ... must end with a ]' -> without what follows a line break, and without a capital letter. */
const sentence = (message: string): string => {
  const line = shorten(message.split('\n')[0].trim(), 120)
  return line.slice(0, 1).toLowerCase() + line.slice(1)
}

type Path = readonly (string | number)[]

interface Read {
  readonly value: unknown
  readonly problems: readonly (readonly [Problem, offset: number])[]
  readonly places: ReadonlyMap<string, Place>
}

/** The document as plain values. Mappings have no prototype: a key may be called __proto__ or constructor. */
function read(document: Document): Read {
  const problems: [Problem, number][] = []
  const places = new Map<string, Place>()
  const anchors = new Map<string, unknown>()
  const open = new Set<unknown>()
  let values = 0

  const refuse = (offset: number, code: string, path: Path, message: string, suggestion?: string): undefined => {
    problems.push([error(code, showPath(path), message, suggestion), offset])
  }

  function plain(node: unknown, path: Path, offset: number): unknown {
    if (++values > mostValues)
      return values === mostValues + 1
        ? refuse(offset, 'file/alias', [], `more than ${mostValues} values, aliases counted each time`)
        : undefined
    if (path.length > deepest)
      return refuse(offset, 'file/deep', path.slice(0, 3), `nested more than ${deepest} levels deep`)
    if (isAlias(node)) {
      if (!anchors.has(node.source))
        return refuse(offset, 'file/alias', path, `no anchor \`&${shorten(node.source, 40)}\` before this alias`)
      const target = anchors.get(node.source)
      if (open.has(target))
        return refuse(offset, 'file/alias', path, `the alias \`*${shorten(node.source, 40)}\` contains itself`)
      return plain(target, path, offset)
    }
    if (isNode(node) && node.anchor) anchors.set(node.anchor, node)
    if (isScalar(node)) return node.value
    if (!isMap(node) && !isSeq(node)) return null
    open.add(node)
    const value = isMap(node)
      ? mapping(node, path, offset)
      : node.items.map((item, i) => {
          const at = isNode(item) && item.range ? item.range[0] : offset
          places.set(showPath([...path, i]), { key: at, value: at })
          return plain(item, [...path, i], at)
        })
    open.delete(node)
    return value
  }

  function mapping(node: YAMLMap, path: Path, offset: number): unknown {
    const fields: Record<string, unknown> = Object.create(null)
    for (const { key, value } of node.items) {
      const at = isNode(key) && key.range ? key.range[0] : offset
      if (!isScalar(key) || key.value === null) {
        refuse(at, 'file/key', path, 'a key must be a word')
        continue
      }
      const name = String(key.value)
      const inner = [...path, name]
      if (Object.hasOwn(fields, name)) {
        refuse(at, 'file/duplicate', inner, `the key \`${shorten(name, 60)}\` is written twice`, 'keep one of them')
        continue
      }
      const valueAt = isNode(value) && value.range ? value.range[0] : at
      places.set(showPath(inner), { key: at, value: valueAt })
      fields[name] = plain(value, inner, valueAt)
    }
    return fields
  }

  const start = document.contents?.range?.[0] ?? 0
  places.set('', { key: start, value: start })
  return { value: plain(document.contents, [], start), problems, places }
}

function locate(
  problem: Problem,
  places: ReadonlyMap<string, Place>,
  place: (offset: number) => { line: number; column: number },
): Problem {
  if (problem.line !== undefined) return problem
  const exact = places.get(problem.path)
  if (exact) return { ...problem, ...place(problem.code === 'schema/key' ? exact.key : exact.value) }
  let around = problem.path
  while (!places.has(around)) around = around.slice(0, Math.max(0, around.lastIndexOf('.'), around.lastIndexOf('[')))
  return { ...problem, ...place(places.get(around)?.key ?? 0) }
}
