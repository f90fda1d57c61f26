/** Numbers as people read them. A unit is chosen after rounding: 0.99999 s is 1.000 s, never 1e+3 ms. */

/** 12345 -> '12.3k', or '12.3 k' where the unit follows at once. */
export function scaled(n: number, space = ''): string {
  const units = ['', 'k', 'M', 'G', 'T', 'P', 'E', 'Z']
  const unit = Math.min(units.length - 1, n < 999.5 ? 0 : Math.floor(Math.log10(Number(n.toPrecision(3))) / 3))
  return `${(n / 1000 ** unit).toPrecision(3)}${space}${units[unit]}`
}

const timeUnits = [
  ['s', 1],
  ['ms', 1e3],
  ['us', 1e6],
] as const

/** The time in the largest unit in which it is at least 1, with so many digits. */
function inUnits(seconds: number, digits: number): [value: number, unit: string] {
  const rounded = Math.abs(Number(seconds.toPrecision(digits)))
  const [unit, by] = timeUnits.find(([, by]) => rounded * by >= 1) ?? timeUnits[timeUnits.length - 1]
  return [seconds * by, unit]
}

/** 0.0123 -> '12.30 ms' */
export function showTime(seconds: number): string {
  const [value, unit] = inUnits(seconds, 4)
  return `${unit === 'us' ? value.toFixed(1) : Math.abs(value) >= 9999.5 ? value.toFixed(0) : value.toPrecision(4)} ${unit}`
}

/** The same, shorter: 0.0123 -> '12.3 ms' */
export function showSeconds(seconds: number): string {
  const [value, unit] = inUnits(seconds, 3)
  if (unit !== 's') return `${value.toPrecision(3)} ${unit}`
  return `${value.toFixed(Math.abs(value) >= 99.995 ? 0 : 2)} s`
}

/** 75 -> '1 min 15 s' */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds))
  const [h, min, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  if (h > 0) return `${h} h ${min} min`
  return min > 0 ? `${min} min ${s} s` : `${s} s`
}

export const showPercent = (share: number, digits = 1): string => `${(100 * share).toFixed(digits)} %`

/** Devices are bought in these. */
export const showGiB = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`

/** '+12.0 ms', '-3.1 us' */
export const signedSeconds = (seconds: number): string => `${seconds < 0 ? '-' : '+'}${showSeconds(Math.abs(seconds))}`
