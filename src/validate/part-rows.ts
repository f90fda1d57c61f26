/** Files of what others measured by itself, a part of a step and not a whole one: a record each, compared or set aside. */
import { recordsOf } from './row.js'

export interface ComparedPart {
  /** Seconds. */
  readonly measured: number
  readonly predicted: number
  /** predicted / measured - 1 */
  readonly error: number
}

export interface PartRows<T extends ComparedPart> {
  readonly compared: readonly T[]
  readonly aside: readonly { readonly reason: string; readonly rows: number }[]
}

/** A cell of a record by the name of its column; empty where there is none. */
export type Cell = (name: string) => string

/** `compare` gives a row, without its error, or says why the record is set aside. */
export function partRows<T extends Omit<ComparedPart, 'error'>>(
  text: string,
  compare: (cell: Cell) => T | string,
): PartRows<T & ComparedPart> {
  const [header = [], ...records] = recordsOf(text)
  const compared: (T & ComparedPart)[] = []
  const aside = new Map<string, number>()
  for (const record of records) {
    const row = compare(name => record[header.indexOf(name)] ?? '')
    if (typeof row === 'string') aside.set(row, (aside.get(row) ?? 0) + 1)
    else compared.push({ ...row, error: row.predicted / row.measured - 1 })
  }
  return { compared, aside: [...aside].map(([reason, rows]) => ({ reason, rows })) }
}
