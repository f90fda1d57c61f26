/**
 * Which ranks are alike, so that only one of them is simulated. A *column* is a place on every axis but the pipeline's:
 * the ranks of one column hand microbatches to each other and to nobody else. Without slow ranks all columns are alike.
 * With them columns are told apart by their own slow ranks, then by the company they keep in collectives, until nothing
 * new is told apart: ranks of one class do the same at the same time.
 */
import { type Axis, coordinatesOf, type Mesh, type Rank, rankAt, sizeOf, worldOf } from '../base/index.js'
import type { Group, Program } from '../ir/index.js'

export interface Place {
  readonly pp: number
  readonly column: number
}

export interface Alike {
  readonly classes: number
  /** Columns in each class. */
  readonly counts: readonly number[]
  readonly classOf: ArrayLike<number>
  /** Some column of each class. */
  readonly columnOf: readonly number[]
  readonly placeOf: (rank: Rank) => Place
  readonly rankOf: (place: Place) => Rank
  /** For each class the company it meets in along these axes (the pipeline's left out): equal numbers meet. */
  readonly collectivesOf: (group: Group) => Collectives
}

export interface Collectives {
  readonly of: Int32Array
  readonly count: number
}

/** `all`: every rank is itself (each has its own luck). */
export function alikeRanks(program: Program, slow: ReadonlyMap<Rank, number>, all = false): Alike {
  const { mesh } = program
  const flat: Mesh = { axes: mesh.axes.filter(({ name }) => name !== 'pp') }
  const columns = worldOf(flat)
  const placeOf = (rank: Rank): Place => {
    const at = coordinatesOf(mesh, rank)
    return { pp: at.pp ?? 0, column: rankAt(flat, at) }
  }
  const rankOf = ({ pp, column }: Place): Rank => rankAt(mesh, { ...coordinatesOf(flat, column), pp })
  if (slow.size === 0 && !all) return { ...allAlike(columns), placeOf, rankOf }
  const partitions = axesMet(program).map(axes => partition(flat, axes))
  const classOf = all
    ? Int32Array.from({ length: columns }, (_, i) => i)
    : refined(colours(columns, slow, placeOf), partitions)
  const { counts, columnOf } = countedBy(classOf)
  const known = new Map<string, Collectives>()
  const collectivesOf = (group: Group): Collectives => {
    const axes = flatAxes(group, mesh)
    const key = axes.join()
    const found = known.get(key) ?? companies(classOf, columnOf, partition(flat, axes))
    known.set(key, found)
    return found
  }
  return { classes: counts.length, counts, classOf, columnOf, placeOf, rankOf, collectivesOf }
}

const allAlike = (columns: number): Omit<Alike, 'placeOf' | 'rankOf'> => {
  const collectives = { of: new Int32Array(1), count: 1 }
  const classOf = new Int32Array(columns)
  return { classes: 1, counts: [columns], classOf, columnOf: [0], collectivesOf: () => collectives }
}

const flatAxes = ({ axes }: Group, mesh: Mesh): Axis[] => axes.filter(axis => axis !== 'pp' && sizeOf(mesh, axis) > 1)

/** Every set of axes that some collective of the program goes over. */
function axesMet({ mesh, segments }: Program): Axis[][] {
  const found = new Map<string, Axis[]>()
  for (const { instrs } of Object.values(segments))
    for (const instr of instrs)
      if ('group' in instr) {
        const axes = flatAxes(instr.group, mesh)
        if (axes.length > 0) found.set(axes.join(), axes)
      }
  return [...found.values()]
}

/** The group of each column along some axes. */
function partition(flat: Mesh, axes: readonly Axis[]): Int32Array {
  const groups = new Int32Array(worldOf(flat))
  let stride = 1
  let inner = 1
  for (const { name, size } of flat.axes) {
    if (!axes.includes(name)) {
      for (let column = 0; column < groups.length; column++)
        groups[column] += (Math.floor(column / stride) % size) * inner
      inner *= size
    }
    stride *= size
  }
  return groups
}

/** Columns by their own slow ranks. */
function colours(columns: number, slow: ReadonlyMap<Rank, number>, placeOf: (rank: Rank) => Place): Int32Array {
  const own = new Map<number, string[]>()
  for (const [rank, factor] of [...slow].sort(([a], [b]) => a - b)) {
    const { pp, column } = placeOf(rank)
    if (factor !== 1) own.set(column, [...(own.get(column) ?? []), `${pp}:${factor}`])
  }
  return numbered(columns, column => own.get(column)?.join() ?? '')
}

function refined(start: Int32Array, partitions: readonly Int32Array[]): Int32Array {
  let classOf = start
  for (let before = 0, count = countOf(classOf); count !== before; ) {
    before = count
    const company = partitions.map(groups => companyOf(classOf, groups))
    classOf = numbered(classOf.length, i => `${classOf[i]} ${company.map(of => of[i]).join(' ')}`)
    count = countOf(classOf)
  }
  return classOf
}

/** For each column a number that is equal where the classes of its group are, one by one. */
function companyOf(classOf: Int32Array, groups: Int32Array): Int32Array {
  const members: number[][] = []
  groups.forEach((group, column) => {
    members[group] ??= []
    members[group].push(classOf[column])
  })
  const kinds = numbered(members.length, group => members[group].sort((a, b) => a - b).join())
  return groups.map(group => kinds[group])
}

function companies(classOf: Int32Array, columnOf: readonly number[], groups: Int32Array): Collectives {
  const company = companyOf(classOf, groups)
  const of = numbered(columnOf.length, i => String(company[columnOf[i]]))
  return { of, count: countOf(of) }
}

/** Equal keys get equal numbers, from 0 on, in the order they are first seen. */
function numbered(length: number, keyOf: (index: number) => string): Int32Array {
  const numbers = new Map<string, number>()
  return Int32Array.from({ length }, (_, i) => {
    const key = keyOf(i)
    const number = numbers.get(key) ?? numbers.size
    numbers.set(key, number)
    return number
  })
}

const countOf = (numbers: Int32Array): number => numbers.reduce((most, n) => Math.max(most, n + 1), 0)

function countedBy(classOf: Int32Array): { counts: number[]; columnOf: number[] } {
  const counts: number[] = []
  const columnOf: number[] = []
  classOf.forEach((of, column) => {
    counts[of] = (counts[of] ?? 0) + 1
    columnOf[of] ??= column
  })
  return { counts, columnOf }
}
