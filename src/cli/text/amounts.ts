/** Amounts as people write them on a command line. */
import { InvalidArgumentError } from 'commander'

const timeUnits: Readonly<Record<string, number>> = {
  us: 1e-6,
  ms: 1e-3,
  s: 1,
  min: 60,
  h: 3600,
  d: 86_400,
  y: 365 * 86_400,
}

/** '4.2s', '120 ms', '30min', '2h' -> seconds. */
export function duration(text: string): number {
  const [, digits, unit = 's'] = /^(\d+(?:\.\d+)?(?:e\d+)?) ?([a-z]+)?$/.exec(text.trim()) ?? []
  if (digits === undefined || !Object.hasOwn(timeUnits, unit) || !Number.isFinite(Number(digits)))
    throw new InvalidArgumentError(`expected a time, such as 4.2s, 120ms, 30min or 2h.`)
  return Number(digits) * timeUnits[unit]
}

/** The same, but not nothing. */
export function someTime(text: string): number {
  const seconds = duration(text)
  if (seconds === 0) throw new InvalidArgumentError('expected a time above 0, such as 4.2s.')
  return seconds
}

const countUnits: Readonly<Record<string, number>> = { k: 1e3, m: 1e6, b: 1e9, g: 1e9, t: 1e12 }

/** '15T', '300B', '1e12' -> a count. */
export function count(text: string): number {
  const [, digits, unit = ''] = /^(\d+(?:\.\d+)?(?:e\d+)?) ?([a-z])?$/i.exec(text.trim()) ?? []
  const by = unit === '' ? 1 : countUnits[unit.toLowerCase()]
  if (digits === undefined || by === undefined || !(Number(digits) > 0))
    throw new InvalidArgumentError('expected a count, such as 15T, 300B or 1e12.')
  return Number(digits) * by
}

export function positive(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (!(value > 0) || !Number.isFinite(value)) throw new InvalidArgumentError('expected a number above 0.')
  return value
}

/** A share from 0 up: 0.02. */
export function share(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (!(value >= 0) || value > 10) throw new InvalidArgumentError('expected a fraction, such as 0.02.')
  return value
}

/** '17:1.3,32-39:1.1', given once or often -> rank: factor. */
export function slowdowns(text: string, before: ReadonlyMap<number, number> = new Map()): Map<number, number> {
  const slow = new Map(before)
  for (const part of text.split(',')) {
    const [, from, to = from, factor] = /^\s*(\d+)(?:-(\d+))?:(\d+(?:\.\d+)?)\s*$/.exec(part) ?? []
    if (from === undefined || Number(to) < Number(from) || !(Number(factor) > 0) || Number(to) > 1e7)
      throw new InvalidArgumentError(`'${part.trim()}' is not rank:factor or first-last:factor, such as 17:1.3.`)
    for (let rank = Number(from); rank <= Number(to); rank++) slow.set(rank, Number(factor))
  }
  return slow
}
