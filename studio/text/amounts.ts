/** Amounts in sentences, with the digits that the command line prints: what two languages say about one plan must be the same numbers. */

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

export function bytes(n: number): string {
  const step = n < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(n) / 10))
  return `${step === 0 ? n : (n / 2 ** (10 * step)).toFixed(2)} ${units[step]}`
}

export const gibibytes = (n: number): string => `${(n / 2 ** 30).toFixed(1)} GiB`

export const percent = (share: number, digits = 1): string => `${(100 * share).toFixed(digits)}%`

/** In 亿 and 万, as parameters are counted in Chinese. */
export function many(n: number): string {
  if (n >= 1e12) return `${(n / 1e12).toFixed(2)} 万亿`
  if (n >= 1e8) return `${(n / 1e8).toFixed(1)} 亿`
  return n >= 1e4 ? `${(n / 1e4).toFixed(1)} 万` : String(n)
}

const times = [
  ['s', 1],
  ['ms', 1e3],
  ['µs', 1e6],
] as const

/** A unit is chosen after rounding: 0.99999 s is 1.00 s. */
export function seconds(n: number): string {
  const rounded = Math.abs(Number(n.toPrecision(3)))
  const [unit, by] = times.find(([, by]) => rounded * by >= 1) ?? times[times.length - 1]
  const value = n * by
  if (unit !== 's') return `${value.toPrecision(3)} ${unit}`
  return `${value.toFixed(Math.abs(value) >= 99.995 ? 0 : 2)} s`
}

export const signedSeconds = (n: number): string => `${n < 0 ? '−' : '+'}${seconds(Math.abs(n))}`
