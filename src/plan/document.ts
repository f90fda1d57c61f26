/**
 * A YAML (or JSON, which YAML contains) text as a plain value, with the place of every key. Texts come from people
 * and from the internet: too big, binary, nested ten thousand deep, an alias that contains itself or doubles forty
 * times. Each of these is a problem with a line and a column, found quickly; nothing here throws.
 */
import {
  Composer,
  type CST,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  Parser,
  type YAMLMap,
  type YAMLParseError,
  type YAMLSeq,
  type YAMLWarning,
} from 'yaml'
import { type Gap, type Problem, shorten, showBytes, showPath } from '../base/index.js'
import { clause, refused } from './phrases.js'

/** A job is a screen of text. The parser is fast up to here for the worst of texts. */
export const mostBytes = 2 ** 17
const mostValues = 20_000
const deepest = 64

export interface ParsedDocument {
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

/** What the text should be, for the sentences that say it is not. */
export interface Kind {
  readonly name: Gap
  readonly holds: Gap
}
const job: Kind = { name: clause('.job'), holds: clause('.job-holds') }

export function parseText(text: string, kind: Kind = job): ParsedDocument {
  text = text.replace(/^\uFEFF/, '')
  const lines = new LineCounter()
  const place = (offset: number) => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(1, line), column: Math.max(1, col) }
  }
  const unusable = (...problems: Problem[]): ParsedDocument => ({ value: undefined, problems, locate: atTop })
  const unread = unreadable(text, kind)
  if (unread) return unusable(unread)

  // Tokens first: the parser of tokens needs no stack, the composer does, and a stack that overflows inside a
  // regular expression ends the process instead of throwing.
  const tokens = [...new Parser(lines.addNewLine).parse(text)]
  const deep = tooDeep(tokens)
  if (deep !== undefined) return unusable({ ...refused('', 'file/deep', { most: deepest }), ...place(deep) })

  const composer = new Composer({ prettyErrors: false, uniqueKeys: false, lineCounter: lines })
  const documents = [...composer.compose(tokens, true, text.length)]
  const [document, second] = documents
  const broken = [...document.errors, ...document.warnings]
    .slice(0, 10)
    .map(e => ({ ...refused('', 'file/yaml', { why: yamlSaid(e) }), ...place(e.pos[0]) }))
  if (broken.length > 0) return unusable(...broken)
  if (second) return unusable({ ...refused('', 'file/documents', { name: kind.name }), ...place(second.range[0]) })

  const reader = new Reader()
  const start = document.contents?.range?.[0] ?? 0
  reader.places.set('', { key: start, value: start })
  const value = reader.read(document.contents, [], start)
  return {
    value,
    problems: reader.problems.map(([problem, offset]) => ({ ...problem, ...place(offset) })),
    locate: problem => locate(problem, reader.places, place),
  }
}

const atTop = (problem: Problem): Problem => ({ line: 1, column: 1, ...problem })

function unreadable(text: string, { name, holds }: Kind): Problem | undefined {
  if (text.length > mostBytes) {
    const words = { name, bytes: showBytes(text.length), most: showBytes(mostBytes) }
    return atTop(refused('', 'file/size', words))
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what tells binary from text
  if (/[\0-\x08\x0E-\x1F\uFFFD]/.test(text)) return atTop(refused('', 'file/binary', { name }))
  if (text.trim() === '') return atTop(refused('', 'file/empty', { holds }))
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

/** What the parser says: in English its own sentence without what follows a line break, and without a capital letter. */
function yamlSaid({ code, message }: YAMLParseError | YAMLWarning): Gap {
  const line = shorten(message.split('\n')[0].trim(), 120)
  return clause(`.yaml/${code}`, { why: line.slice(0, 1).toLowerCase() + line.slice(1) })
}

type Path = readonly (string | number)[]

/** The document as plain values. Mappings have no prototype: a key may be called __proto__ or constructor. */
class Reader {
  readonly problems: (readonly [Problem, offset: number])[] = []
  readonly places = new Map<string, Place>()
  /** Anchors of what was read so far, and which of them are being read: an alias to one of these is a circle. */
  readonly #anchors = new Map<string, unknown>()
  readonly #open = new Set<unknown>()
  #values = 0

  read(node: unknown, path: Path, offset: number): unknown {
    if (++this.#values > mostValues) return this.#once(offset, refused('', 'file/alias/many', { most: mostValues }))
    if (path.length > deepest) return this.#once(offset, refused('', 'file/deep', { most: deepest }))
    if (isAlias(node)) return this.#alias(node.source, path, offset)
    if (isNode(node) && node.anchor) this.#anchors.set(node.anchor, node)
    if (isScalar(node)) return node.value
    if (!isMap(node) && !isSeq(node)) return null
    this.#open.add(node)
    const value = isMap(node) ? this.#mapping(node, path, offset) : this.#list(node, path, offset)
    this.#open.delete(node)
    return value
  }

  #alias(name: string, path: Path, offset: number): unknown {
    const target = this.#anchors.get(name)
    const at = showPath(path)
    const words = { name: shorten(name, 40) }
    if (target === undefined) return this.#refuse(offset, refused(at, 'file/alias/none', words))
    if (this.#open.has(target)) return this.#refuse(offset, refused(at, 'file/alias/circle', words))
    return this.read(target, path, offset)
  }

  #list(node: YAMLSeq, path: Path, offset: number): unknown[] {
    return node.items.map((item, i) => {
      const at = isNode(item) && item.range ? item.range[0] : offset
      this.places.set(showPath([...path, i]), { key: at, value: at })
      return this.read(item, [...path, i], at)
    })
  }

  #mapping(node: YAMLMap, path: Path, offset: number): unknown {
    const fields: Record<string, unknown> = Object.create(null)
    for (const { key, value } of node.items) {
      const at = isNode(key) && key.range ? key.range[0] : offset
      if (!isScalar(key) || key.value === null) {
        this.#refuse(at, refused(showPath(path), 'file/key'))
        continue
      }
      const name = String(key.value)
      const inner = [...path, name]
      if (Object.hasOwn(fields, name))
        this.#refuse(at, refused(showPath(inner), 'file/duplicate', { key: shorten(name, 60) }))
      const valueAt = isNode(value) && value.range ? value.range[0] : at
      this.places.set(showPath(inner), { key: at, value: valueAt })
      fields[name] = this.read(value, inner, valueAt)
    }
    return fields
  }

  #refuse(offset: number, problem: Problem): undefined {
    this.problems.push([problem, offset])
  }

  /** What would be said again for every value that follows. */
  #once(offset: number, problem: Problem): undefined {
    if (!this.problems.some(([{ message }]) => message === problem.message)) this.#refuse(offset, problem)
  }
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
