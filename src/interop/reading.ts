/**
 * A configuration while it is read. Values are asked for by their path, and every key ends in a note: what the reader did not
 * mention by the end is reported as not carried, so that nothing can be dropped in silence.
 */
import { describeValue, either, shorten } from '../base/index.js'
import { type Foreign, isMapping, type Mapping, mappingOf } from '../plan/index.js'
import type { Imported, JobDraft, Note, NoteKind } from './note.js'
import type { Tree } from './tree.js'

/** What is known of keys beforehand, by path or pattern (`wandb.*`, `*.freq`): why they are not carried; '' is cosmetic. */
export type KeyTable = Readonly<Record<string, string>>

export class Reading {
  readonly source: Foreign
  readonly value: Mapping
  readonly #tree: Tree
  readonly #notes: Note[] = []
  readonly #noted = new Set<string>()
  readonly #job: Record<string, unknown> = {}
  world: number | undefined

  constructor(source: Foreign, tree: Tree) {
    this.source = source
    this.#tree = tree
    this.value = mappingOf(tree.value)
    for (const { path, line, message } of tree.refused) this.#note('refused', path, message, undefined, line)
    if (tree.refused.length === 0 && !isMapping(tree.value)) this.refuse('', 'expected a mapping of keys to values')
    for (const { path, line } of tree.twice)
      this.#notes.push({ kind: 'notCarried', path, line, message: 'duplicate key: the last value is used' })
  }

  /** The value as it is written; undefined where there is none. */
  raw(path: string): unknown {
    let value: unknown = this.value
    for (const key of path.split('.')) {
      if (!isMapping(value) || !Object.hasOwn(value, key)) return undefined
      value = value[key]
    }
    return value
  }

  has(path: string): boolean {
    const value = this.raw(path)
    return value !== undefined && value !== null
  }

  /** Text that spells a number counts as one: `8`, `1e-5`, `220_000_000`. */
  number(path: string): number | undefined {
    const value = this.#present(path)
    if (value === undefined) return undefined
    const number = numberOf(value)
    return number ?? this.#wrong(path, 'a number', value)
  }

  whole(path: string, least = 0): number | undefined {
    const value = this.number(path)
    if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return value
    return this.#wrong(path, `an integer of at least ${least}`, value)
  }

  /** YAML 1.1 reads `no` as false and YAML 1.2 as a word: both are. */
  bool(path: string): boolean | undefined {
    const value = this.#present(path)
    if (value === undefined) return undefined
    const found = booleanOf(value)
    return found ?? this.#wrong(path, 'true or false', value)
  }

  word(path: string): string | undefined {
    const value = this.#present(path)
    if (value === undefined) return undefined
    if (isMapping(value) || Array.isArray(value)) return this.#wrong(path, 'a word', value)
    return String(value)
  }

  /** An enumerated key: what its value stands for. Another value is reported as not carried, with what happens instead. */
  choice<T>(path: string, meanings: Readonly<Record<string, T>>, instead: string): T | undefined {
    const word = this.word(path)
    if (word === undefined || Object.hasOwn(meanings, word)) return word === undefined ? undefined : meanings[word]
    this.drop(path, unknownValue(word, meanings, instead))
    return undefined
  }

  list(path: string): readonly unknown[] | undefined {
    const value = this.#present(path)
    return value === undefined || Array.isArray(value) ? value : this.#wrong(path, 'a list', value)
  }

  /** Keys of the mapping at the path; none where there is none. */
  keys(path: string): readonly string[] {
    const value = path === '' ? this.value : this.raw(path)
    return isMapping(value) ? Object.keys(value) : []
  }

  /** A key that became a field. With a message where they are not the same in other words. */
  carry(path: string, field: string, value: unknown, message = ''): void {
    this.set(field, value)
    this.#note('carried', path, message, field)
  }

  /** A field that follows from several keys, with its equation. The path is the key it is most about. */
  derive(path: string, field: string, value: unknown, equation: string): void {
    this.set(field, value)
    this.#note('derived', path, equation, field === '' ? undefined : field)
  }

  /** A field that the file leaves out, by a default of the framework: say of which release. */
  assume(path: string, field: string, value: unknown, message: string): void {
    this.set(field, value)
    this.#note('assumed', path, message, field)
  }

  /** What no job can say, and what that changes. */
  drop(path: string, message: string): void {
    this.#note('notCarried', path, message)
  }

  /** Keys that change neither numbers nor memory nor time. */
  cosmetic(...paths: readonly string[]): void {
    for (const path of paths) if (this.raw(path) !== undefined) this.#note('cosmetic', path, '')
  }

  /** Keys that are null or false, and switch nothing on; but for those that are on where nobody speaks of them. */
  switchedOff(usuallyOn: readonly string[] = []): void {
    for (const path of leavesOf(this.value)) {
      const value = this.raw(path)
      if ((value === null || value === false) && !usuallyOn.includes(path) && !this.#isNoted(path)) this.cosmetic(path)
    }
  }

  /** Something that is said of a line, or of a key that has no value. */
  remark(path: string, line: number | undefined, message: string, kind: NoteKind = 'notCarried'): void {
    this.#note(kind, path, message, undefined, line)
  }

  isNoted(path: string): boolean {
    return this.#isNoted(path)
  }

  /** Keys that were read, and are part of what another note says. */
  seen(...paths: readonly string[]): void {
    for (const path of paths)
      if (!this.#noted.has(path) && this.raw(path) !== undefined) this.#note('carried', path, '')
  }

  /** No job can come of this. */
  refuse(path: string, message: string): void {
    this.#note('refused', path, message)
  }

  /** What a job needs and nobody said. */
  missing(field: string, message: string): void {
    this.#notes.push({ kind: 'missing', path: field, field, message })
  }

  /** A field of the job, without a note. */
  set(field: string, value: unknown): void {
    if (value === undefined) return
    const keys = field.split('.')
    let at = this.#job
    for (const key of keys.slice(0, -1)) at = (isMapping(at[key]) ? at[key] : (at[key] = {})) as Record<string, unknown>
    at[keys[keys.length - 1]] = value
  }

  field(field: string): unknown {
    return field.split('.').reduce<unknown>((at, key) => (isMapping(at) ? at[key] : undefined), this.#job)
  }

  get job(): JobDraft {
    return this.#job
  }

  get refused(): boolean {
    return this.#notes.some(({ kind }) => kind === 'refused')
  }

  lineOf(path: string): number | undefined {
    return this.#tree.lineOf(path)
  }

  /** Everything that was found. Keys without a note are looked up in the table, then reported as unknown. */
  finish(known: KeyTable = {}, unknown = 'unknown key'): Imported {
    const patterns = Object.entries(known).map(([path, message]) => [patternOf(path), message] as const)
    for (const path of leavesOf(this.value)) {
      if (this.#isNoted(path)) continue
      const found = patterns.find(([pattern]) => pattern.test(path))
      if (found?.[1] === '') this.cosmetic(path)
      else this.drop(path, found?.[1] ?? unknown)
    }
    const { world, refused } = this
    return {
      ...this.source,
      ...(!refused && { job: this.#job }),
      ...(world !== undefined && { world }),
      notes: this.#notes,
    }
  }

  #present(path: string): unknown {
    const value = this.raw(path)
    return value === null || value === undefined ? undefined : value
  }

  #wrong(path: string, wanted: string, value: unknown): undefined {
    this.refuse(path, `expected ${wanted}, got ${describeValue(value)}`)
  }

  /** A note on a mapping speaks for what is in it. */
  #isNoted(path: string): boolean {
    for (let at = path; at !== ''; at = at.slice(0, Math.max(0, at.lastIndexOf('.'))))
      if (this.#noted.has(at)) return true
    return false
  }

  #note(kind: NoteKind, path: string, message: string, field?: string, line = this.lineOf(path)): void {
    this.#noted.add(path)
    if (this.#notes.some(n => n.kind === kind && n.path === path && n.field === field && n.message === message)) return
    this.#notes.push({
      ...{ kind, path: shorten(path, 200), message },
      ...(line !== undefined && { line }),
      ...(field !== undefined && { field }),
    })
  }
}

export function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isNaN(value) ? undefined : value
  if (typeof value !== 'string' || !/^[-+]?(\d|\.\d|inf)/.test(value)) return undefined
  const number = Number(value.replace(/(?<=\d)_(?=\d)/g, '').replace(/^([-+]?)inf$/, '$1Infinity'))
  return Number.isNaN(number) ? undefined : number
}

/** 'got x, expected a or b: c instead' */
export const unknownValue = (word: string, meanings: object, instead: string): string =>
  `got ${shorten(word, 60)}, expected ${either(Object.keys(meanings))}: ${instead}`

/** As text. A mapping of a file has no prototype, and with it no text of its own. */
export const wordOf = (value: unknown): string =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)

const yes = ['true', 'yes', 'on', '1']
const no = ['false', 'no', 'off', '0']

export function booleanOf(value: unknown): boolean | undefined {
  if (typeof value === 'object') return undefined
  const word = String(value).toLowerCase()
  return yes.includes(word) ? true : no.includes(word) ? false : undefined
}

/** Paths of everything that is not itself a mapping; an empty mapping is one. */
function leavesOf(value: Mapping, path = ''): string[] {
  return Object.entries(value).flatMap(([key, inner]) => {
    const at = path === '' ? key : `${path}.${key}`
    return isMapping(inner) && Object.keys(inner).length > 0 ? leavesOf(inner, at) : [at]
  })
}

/** 'wandb.*' matches all below, 'wandb' itself and all below, '*.freq' any key of that name. */
function patternOf(path: string): RegExp {
  const body = path.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')
  return new RegExp(`^${body}(?:\\..*)?$`)
}
