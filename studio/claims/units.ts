/** Units of the numbers in claims, and how each is written: alike in both languages, but for how many times. */
import { showWhole } from 'lockstep'

export const units = [
  'bytes',
  'bytes/s',
  'seconds',
  'share',
  'times',
  'count',
  'ticks',
  'bytes/parameter',
  'FLOP',
  'FLOP/byte',
  'years',
] as const
export type Unit = (typeof units)[number]

export type Shown<Name extends string> = Readonly<Record<Name, string>>

/** Three digits that say something, no exponent. */
const digits = (value: number): string =>
  Number.isFinite(value)
    ? Math.abs(value) >= 1000
      ? showWhole(Math.round(value))
      : String(Number(value.toPrecision(3)))
    : 'NaN'

const scales: readonly (readonly [number, string])[] = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
  [1, ''],
]

function scaled(value: number, unit: string): string {
  const [factor, prefix] = scales.find(([least]) => Math.abs(value) >= least * 0.9995) ?? [1, '']
  return `${digits(value / factor)} ${prefix}${unit}`
}

function time(value: number): string {
  if (value === 0 || value >= 0.0995) return `${digits(value)} s`
  return value >= 0.9995e-3 ? `${digits(value * 1e3)} ms` : `${digits(value * 1e6)} µs`
}

const writers: Readonly<Record<Unit, (value: number) => string>> = {
  bytes: value => scaled(value, 'B'),
  'bytes/s': value => scaled(value, 'B/s'),
  seconds: time,
  share: value => `${digits(value * 100)} %`,
  times: value => `${digits(value)}x`,
  count: digits,
  ticks: digits,
  'bytes/parameter': value => String(Number(value.toFixed(2))),
  FLOP: value => scaled(value, 'FLOP'),
  'FLOP/byte': value => `${digits(value)} FLOP/B`,
  years: digits,
}

export const written = (value: number, unit: Unit, language: 'en' | 'zh' = 'en'): string =>
  unit === 'times' && language === 'zh' ? `${digits(value)} 倍` : writers[unit](value)

export const shownAs = <Name extends string>(
  units: Readonly<Record<Name, Unit>>,
  values: Readonly<Record<Name, number>>,
  language: 'en' | 'zh',
): Shown<Name> =>
  Object.fromEntries(
    Object.entries<Unit>(units).map(([name, unit]) => [name, written(values[name as Name], unit, language)]),
  ) as Shown<Name> // every name of `units`
