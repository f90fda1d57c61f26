/** Two plans of one job: their exact numbers, and the fields in which they differ. */
import { build, numbersOf } from './exact.js'
import { jobSaid, type Link, readLink } from './link.js'
import type { Numbers } from './price.js'

export interface CompareInput {
  readonly a: Link
  readonly b: Link
}

export interface Difference {
  readonly field: string
  readonly a: string
  readonly b: string
}

export interface Compared {
  readonly a: Numbers
  readonly b: Numbers
  readonly differences: readonly Difference[]
}

export async function compare({ a, b }: CompareInput): Promise<Compared> {
  const [one, two] = [await readLink(a), await readLink(b)]
  const numbers = (asked: typeof one) => {
    const { forecast, program } = build(asked)
    return numbersOf(forecast, program)
  }
  const [left, right] = [flat(jobSaid(one.job, one.model)), flat(jobSaid(two.job, two.model))]
  const fields = [...new Set([...left.keys(), ...right.keys()])].filter(field => left.get(field) !== right.get(field))
  return {
    ...{ a: numbers(one), b: numbers(two) },
    differences: fields.map(field => ({ field, a: left.get(field) ?? '–', b: right.get(field) ?? '–' })),
  }
}

/** `plan.tp` -> '2' */
function flat(value: unknown, path = '', found = new Map<string, string>()): Map<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) found.set(path, JSON.stringify(value))
  else for (const [key, inner] of Object.entries(value)) flat(inner, path ? `${path}.${key}` : key, found)
  return found
}
