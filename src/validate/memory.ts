/** Memory as others measured it, beside what the closed form says: peaks in bytes, and layouts that ran out of it. */
import { deviceOf } from '../cluster/index.js'
import { chanceOf, footprint, memoryProfileOf, roomOf, totalBytes } from '../estimate/index.js'
import { layoutPlaced, measuredOrigins } from './origins.js'
import type { Row } from './row.js'

/** A row that cannot be compared, and why. */
export interface SetAside {
  readonly row: Row
  readonly reason: string
}

export interface Compared {
  readonly row: Row
  readonly origin: string
  /** Bytes. */
  readonly measured: number
  readonly predicted: number
  /** predicted / measured - 1 */
  readonly error: number
  /** A constant was chosen with this row in sight: it is not counted. */
  readonly fitted: boolean
}

/** `unseen`: rows that are not of `validation/`, so that nothing was fitted on them. */
export function compareMemory(rows: readonly Row[], unseen = false): { compared: Compared[]; aside: SetAside[] } {
  const compared: Compared[] = []
  const aside: SetAside[] = []
  for (const row of rows) {
    if (row.reported_peak_mem_gb === undefined) continue
    const found = compareRow(row, row.reported_peak_mem_gb, unseen)
    if (typeof found === 'string') aside.push({ row, reason: found })
    else compared.push(found)
  }
  return { compared, aside }
}

function compareRow(row: Row, reported: number, unseen: boolean): Compared | string {
  const origin = measuredOrigins.find(({ source }) => source.test(row.source))
  if (!origin) return 'a source without a reader'
  const placed = meshProblem(row) ?? origin.placed(row)
  if (typeof placed === 'string') return placed
  const measured = reported * origin.unit
  const predicted = totalBytes(footprint(placed))
  const fitted = !unseen && origin.fitted.includes(row.line)
  return { row, origin: origin.name, measured, predicted, error: predicted / measured - 1, fitted }
}

function meshProblem({ tp = 1, pp = 1, cp = 1, n_gpus = 1 }: Row): string | undefined {
  const size = tp * pp * cp
  return n_gpus % size === 0 ? undefined : `tp ${tp} x pp ${pp} x cp ${cp} = ${size} does not divide ${n_gpus} devices`
}

/** Mean absolute error of the rows that nothing was fitted on. */
export function meanError(compared: readonly Compared[]): number {
  const counted = compared.filter(({ fitted }) => !fitted)
  return counted.reduce((sum, { error }) => sum + Math.abs(error), 0) / counted.length
}

export interface Classified {
  readonly row: Row
  readonly predicted: number
  readonly tooMuch: boolean
  /** Of fitting, from 0 to 1. */
  readonly chance: number
  readonly ranOut: boolean
  readonly fitted: boolean
}

const device = deviceOf('a100-80')

/** Layouts of one study: does the closed form say which ran out of memory? Its constants were chosen on the 13B model. */
export function classifyLayouts(rows: readonly Row[]): { classified: Classified[]; aside: SetAside[] } {
  const classified: Classified[] = []
  const aside: SetAside[] = []
  for (const row of rows) {
    const placed = meshProblem(row) ?? layoutPlaced(row)
    if (typeof placed === 'string') {
      aside.push({ row, reason: placed })
      continue
    }
    const predicted = totalBytes(footprint(placed))
    const room = roomOf(device, placed.software)
    classified.push({
      row,
      predicted,
      tooMuch: predicted > room,
      chance: chanceOf(predicted, room, memoryProfileOf(placed.software)),
      ranOut: row.notes.includes('OOM'),
      fitted: row.model.includes('13B'),
    })
  }
  return { classified, aside }
}

/** Of those that ran out, how many were foreseen; of those foreseen, how many ran out. */
export function recallAndPrecision(classified: readonly Classified[]): { recall: number; precision: number } {
  const both = classified.filter(({ tooMuch, ranOut }) => tooMuch && ranOut).length
  return {
    recall: both / classified.filter(({ ranOut }) => ranOut).length,
    precision: both / classified.filter(({ tooMuch }) => tooMuch).length,
  }
}
