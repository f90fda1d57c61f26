/** Numbers as people read them, in the reader's language. */
import { language } from './language.js'

const locale = () => (language.value === 'zh' ? 'zh-CN' : 'en')
const cache = new Map<string, Intl.NumberFormat>()

function format(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = locale() + JSON.stringify(options)
  const made = cache.get(key) ?? new Intl.NumberFormat(locale(), options)
  cache.set(key, made)
  return made
}

export const count = (value: number): string => format({ maximumFractionDigits: 0 }).format(value)
/** Three digits that count. */
export const short = (value: number): string => format({ maximumSignificantDigits: 3 }).format(value)
/** A difference that may be next to nothing: 1.7 × 10⁻¹⁵. */
export function tiny(value: number): string {
  if (value === 0 || Math.abs(value) >= 1e-4) return short(value)
  const [digits, power] = value.toExponential(1).split('e')
  return `${digits} × 10${[...power!.replace('+', '')].map(sign => raised[sign] ?? sign).join('')}`
}
const raised: Readonly<Record<string, string>> = Object.fromEntries(
  [...'-0123456789'].map((sign, n) => [sign, [...'⁻⁰¹²³⁴⁵⁶⁷⁸⁹'][n]!]),
)

export const fixed = (value: number, digits: number): string =>
  format({ minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value)
export const percent = (share: number, digits = 1): string =>
  format({ style: 'percent', maximumFractionDigits: digits }).format(share)

/** How much more or less: +2.1%, −0.4%, 0%. */
export function signed(share: number): string {
  const size = percent(Math.abs(share))
  return size === percent(0) ? size : `${share > 0 ? '+' : '−'}${size}`
}

/** 12k, 3.4M, 405B. */
export function thousands(value: number): string {
  const steps = [
    [1e12, 'T'],
    [1e9, 'B'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const
  const [unit, letter] = steps.find(([unit]) => Math.abs(value) >= unit) ?? [1, '']
  return `${short(value / unit)}${letter}`
}

const bytesIn = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
export function bytes(value: number): string {
  const power = value < 1 ? 0 : Math.min(bytesIn.length - 1, Math.floor(Math.log2(Math.abs(value)) / 10))
  return `${short(value / 1024 ** power)} ${bytesIn[power]}`
}

/** Of a link, in powers of ten, as data sheets have it: 450 GB/s. */
export function perSecond(value: number): string {
  const steps = [
    [1e12, 'TB/s'],
    [1e9, 'GB/s'],
    [1e6, 'MB/s'],
    [1e3, 'kB/s'],
  ] as const
  const [unit, name] = steps.find(([unit]) => value >= unit) ?? [1, 'B/s']
  return `${short(value / unit)} ${name}`
}

export function seconds(value: number): string {
  if (value === 0) return '0 s'
  const size = Math.abs(value)
  if (size < 1e-6) return `${short(value * 1e9)} ns`
  if (size < 1e-3) return `${short(value * 1e6)} µs`
  if (size < 1) return `${short(value * 1e3)} ms`
  return `${short(value)} s`
}
