/**
 * What a user demands of a plan, in the form they would say it: `tp<=8`, `zero!=3`, `schedule=1f1b|interleaved`,
 * `memory<=70GiB`. Constraints cut the space before it is counted.
 */
import { meshAxes, nearest, type Problem, parseBytes, type Spoken, shorten } from '../base/index.js'
import type { Split } from '../estimate/index.js'
import { pathToday, recomputePolicies, scheduleNames, usualRows } from '../plan/index.js'
import { clause, refused } from './phrases.js'

const relations = {
  '<=': (a: number, b: number) => a <= b,
  '>=': (a: number, b: number) => a >= b,
  '!=': (a: number, b: number) => a !== b,
  '<': (a: number, b: number) => a < b,
  '>': (a: number, b: number) => a > b,
  '=': (a: number, b: number) => a === b,
} as const
export type Relation = keyof typeof relations

/** Numbers may be compared in every way, words only be equal or not. */
const counts = [...meshAxes, 'etp', 'expertCapacity', 'zero', 'chunks', 'microbatches', 'microbatch'] as const
type CountField = (typeof counts)[number]
type WordField = 'schedule' | 'recompute' | 'sequenceParallel' | 'layers' | 'reduce' | 'gather' | 'attention'

/** How queries meet keys where a sequence is split. */
const attentionKinds = ['gather', 'ring', 'ulysses', 'ulysses+ring'] as const
export type AttentionKind = (typeof attentionKinds)[number]

/** A plan as far as it is decided. */
export type Decided = Partial<Split> & { readonly attention?: AttentionKind }

const words: Readonly<Record<WordField, readonly string[]>> = {
  schedule: scheduleNames,
  recompute: recomputePolicies,
  sequenceParallel: ['true', 'false'],
  layers: ['even', 'uneven'],
  reduce: ['microbatch', 'step'],
  gather: ['use', 'step'],
  attention: attentionKinds,
}

export type Constraint =
  | { readonly field: CountField; readonly relation: Relation; readonly value: number; readonly text: string }
  | {
      readonly field: WordField
      readonly relation: '=' | '!='
      readonly values: readonly string[]
      readonly text: string
    }
  | { readonly field: 'memory'; readonly bytes: number; readonly text: string }

/** Bytes that `memory` constraints leave of what a device has. */
export const memoryLimit = (constraints: readonly Constraint[]): number =>
  constraints.reduce((least, c) => (c.field === 'memory' ? Math.min(least, c.bytes) : least), Number.POSITIVE_INFINITY)

/** Whether a plan keeps to them. What is not decided yet is not judged. */
export function keeps(split: Decided, constraints: readonly Constraint[]): boolean {
  return constraints.every(constraint => holds(split, constraint))
}

export function holds(split: Decided, constraint: Constraint): boolean {
  if (constraint.field === 'memory') return true
  if ('values' in constraint) {
    const word = wordOf(split, constraint.field)
    return word === undefined || constraint.values.includes(word) === (constraint.relation === '=')
  }
  const count = countOf(split, constraint.field)
  return count === undefined || relations[constraint.relation](count, constraint.value)
}

/** Where it is decided who shares experts, it is decided too that nobody splits them, and how many rows have room. */
function countOf(split: Partial<Split>, field: CountField): number | undefined {
  if (field === 'expertCapacity') return split.ep === undefined ? undefined : roomCount(split.rows ?? usualRows)
  return field === 'etp' && split.ep !== undefined ? (split.etp ?? 1) : split[field]
}

/** The worst case is more than any number. */
const roomCount = (rows: number | 'worst'): number => (rows === 'worst' ? Number.POSITIVE_INFINITY : rows)

function wordOf(split: Decided, field: WordField): string | undefined {
  // ZeRO below has nothing to reduce to parts, or to gather from them.
  if (field === 'reduce') return (split.zero ?? 0) < 2 ? undefined : (split.reduce ?? 'microbatch')
  if (field === 'gather') return (split.zero ?? 0) < 3 ? undefined : (split.gather ?? 'use')
  if (field === 'layers') return split.schedule === undefined ? undefined : split.layers ? 'uneven' : 'even'
  const value = split[field]
  return value === undefined ? undefined : String(value)
}

const fields = [...counts, ...Object.keys(words), 'memory']
const shape = /^\s*([a-z]+)\s*(<=|>=|!=|<|>|==?)\s*(.+?)\s*$/i

/** Every constraint that was understood, and what is wrong with the others. */
export function parseConstraints(texts: readonly string[]): { constraints: Constraint[]; problems: Problem[] } {
  const read = texts.map(parseConstraint)
  return {
    constraints: read.filter((c): c is Constraint => !('code' in c)),
    problems: read.filter((c): c is Problem => 'code' in c),
  }
}

function parseConstraint(text: string): Constraint | Problem {
  const path = `--constraint '${shorten(text, 60)}'`
  const [, name, sign, value] = shape.exec(text) ?? []
  if (name === undefined) return refused(path, 'constraint/unknown/shape')
  const relation = (sign === '==' ? '=' : sign) as Relation // the pattern allows these only
  const field = name === 'sp' ? 'sequenceParallel' : pathToday(`plan.${name}`).slice('plan.'.length)
  const told: Told = { text: text.trim(), path, relation, value }
  if (field === 'memory') return memoryConstraint(told)
  if (isWord(field)) return wordConstraint(field, told)
  if (!isCount(field)) return refused(path, 'constraint/unknown/field', { name, instead: nearestOf(field, fields) })
  if (field === 'expertCapacity') return rowsConstraint(told)
  if (!/^\d{1,9}$/.test(value)) return refused(path, 'constraint/unknown/integer', { value })
  return { field, relation, value: Number(value), text: told.text }
}

/** What a constraint says of its field, and where problems with it stand. */
interface Told {
  readonly text: string
  readonly path: string
  readonly relation: Relation
  readonly value: string
}

function nearestOf(word: string, all: readonly string[]): Spoken {
  const near = nearest(word, all)
  return near ? clause('.meant', { word: near }) : clause('.there-are', { words: { joint: ',', of: all } })
}

/** Room for rows is a number, or that of the worst case. */
function rowsConstraint({ text, path, relation, value }: Told): Constraint | Problem {
  const room = value === 'worst' ? Number.POSITIVE_INFINITY : Number(value)
  if (Number.isNaN(room) || room < 1) return refused(path, 'constraint/unknown/rows', { value })
  return { field: 'expertCapacity', relation, value: room, text }
}

function memoryConstraint({ text, path, relation, value }: Told): Constraint | Problem {
  const bytes = parseBytes(value)
  if (relation !== '<=' && relation !== '<') return refused(path, 'constraint/unknown/limit')
  if (bytes === undefined || bytes <= 0) return refused(path, 'constraint/unknown/memory', { value })
  return { field: 'memory', bytes, text }
}

function wordConstraint(field: WordField, { text, path, relation, value }: Told): Constraint | Problem {
  const values = value.split('|').map(word => word.trim())
  const unknown = values.find(word => !words[field].includes(word))
  if (relation !== '=' && relation !== '!=') return refused(path, 'constraint/unknown/relation', { field })
  if (unknown !== undefined)
    return refused(path, 'constraint/unknown/word', {
      ...{ field, word: unknown, instead: nearestOf(unknown, words[field]) },
    })
  return { field, relation, values, text }
}

const isCount = (field: string): field is CountField => (counts as readonly string[]).includes(field) // widened to ask
const isWord = (field: string): field is WordField => Object.hasOwn(words, field)
