/** Numbers of ranks in a link: `x=0,1,2:1,2,3`, a row a rank. */
import { place, setQuery } from './router.js'

export type Grid = readonly (readonly number[])[]

/** The link's numbers where they have the shape asked for, else `usual`; `bad` where a link says something else. */
export function readGrid(name: string, shape: readonly [number, number], usual: Grid): { grid: Grid; bad: boolean } {
  const said = place.value.query[name]
  if (said === undefined) return { grid: usual, bad: false }
  const grid = said.split(':').map(row => row.split(',').map(word => (word.trim() === '' ? Number.NaN : Number(word))))
  const fits = grid.length === shape[0] && grid.every(row => row.length === shape[1] && row.every(isFinite32))
  return fits ? { grid, bad: false } : { grid: usual, bad: true }
}

const isFinite32 = (value: number): boolean => Number.isFinite(Math.fround(value))

/**
 * One number of a square grid is another. Its neighbours are those of the link, not those that are shown: who types fast is ahead of
 * what is drawn.
 */
export function putNumber(name: string, ranks: number, [rank, at]: readonly [number, number], number: number): void {
  const { grid } = readGrid(name, [ranks, ranks], counted(ranks, ranks))
  const next = grid.map((row, r) => (r === rank ? row.map((old, i) => (i === at ? number : old)) : row))
  setQuery({ [name]: next.map(row => row.join(',')).join(':') }, true)
}

/** Element i of rank r is i + r. */
export const counted = (ranks: number, elements: number): Grid =>
  Array.from({ length: ranks }, (_, rank) => Array.from({ length: elements }, (_, i) => i + rank))
