/** Step times as others measured them, beside what the closed form says. */
import { type Definition, estimate, type Setup } from '../estimate/index.js'
import { secondsOf } from './figure.js'
import type { SetAside } from './memory.js'
import type { Row } from './row.js'
import { setupOf } from './setup.js'
import { studies, studyOf, unknownSource } from './studies.js'

/** A published row with its measured and its predicted step time. */
export interface Timed {
  readonly row: Row
  readonly study: string
  readonly setup: Setup
  /** How the source counts FLOPs. */
  readonly counts: Definition
  /** Seconds of a step. */
  readonly measured: number
  readonly predicted: number
  /** predicted / measured - 1 */
  readonly error: number
  /** A constant was fitted on this row, so it is not counted. */
  readonly fitted: boolean
}

/** Published rows costed, and those set aside with the reason. */
export interface Times {
  readonly timed: readonly Timed[]
  readonly aside: readonly (SetAside & { readonly study: string })[]
}

/** `unseen`: rows that are not of `validation/`, so that nothing was fitted on them. */
export function compareTimes(rows: readonly Row[], unseen = false): Times {
  const timed: Timed[] = []
  const aside: (SetAside & { study: string })[] = []
  for (const row of rows) {
    const known = studyOf(row)
    if (!known) {
      aside.push({ row, study: 'unknown', reason: unknownSource(row) })
      continue
    }
    const [name, study] = known
    const made = setupOf(row, study)
    const setup = 'setup' in made ? made.setup : undefined
    const measured = setup && secondsOf(row, setup.shape, study.figure, setup.cluster.device.peak.bf16 ?? 0)
    if (!setup || measured === undefined) {
      aside.push({ row, study: name, reason: 'aside' in made ? made.aside : 'no time, rate or utilization' })
      continue
    }
    const predicted = estimate(setup).step
    const fitted = !unseen && (study.fitted?.(row.line, row) ?? false)
    const counts = study.figure
    timed.push({ row, study: name, setup, counts, measured, predicted, error: predicted / measured - 1, fitted })
  }
  return { timed, aside }
}

export interface Summary {
  readonly study: string
  readonly title: string
  /** Rows that count; rows a constant was fitted on; rows set aside. */
  readonly rows: number
  readonly fitted: number
  readonly aside: number
  /** Of the rows that count, if there are any: mean of the absolute error, and of the error. */
  readonly mean?: number
  readonly bias?: number
}

export const counted = (timed: readonly Timed[]): readonly Timed[] => timed.filter(({ fitted }) => !fitted)

export const meanAbsolute = (compared: readonly { readonly error: number }[]): number =>
  compared.reduce((sum, { error }) => sum + Math.abs(error), 0) / compared.length

/** One line for each study, in the order of the table of studies. */
export function summarise({ timed, aside }: Times): Summary[] {
  return Object.entries(studies).flatMap(([study, { title }]) => {
    const own = timed.filter(t => t.study === study)
    const left = aside.filter(a => a.study === study).length
    if (own.length + left === 0) return []
    const rows = counted(own)
    const numbers = { rows: rows.length, fitted: own.length - rows.length, aside: left }
    const bias = rows.reduce((sum, { error }) => sum + error, 0) / rows.length
    return [{ study, title, ...numbers, ...(rows.length > 0 && { mean: meanAbsolute(rows), bias }) }]
  })
}

/** Reasons why rows were left out, and how many rows each. */
export function reasonsOf(aside: Times['aside']): { study: string; reason: string; rows: number }[] {
  const counts = new Map<string, { study: string; reason: string; rows: number }>()
  for (const { study, reason } of aside) {
    const key = `${study}: ${reason}`
    const found = counts.get(key) ?? { study, reason, rows: 0 }
    counts.set(key, { ...found, rows: found.rows + 1 })
  }
  return [...counts.values()]
}
