/** Numbers that must not meet. Arithmetic drops the brand; it is put back where someone has thought. */
declare const brand: unique symbol
export type Brand<T, Name extends string> = T & { readonly [brand]: Name }

export type Bytes = Brand<number, 'Bytes'>
export const bytes = (n: number): Bytes => n as Bytes
export const KiB = (n: number): Bytes => (n * 2 ** 10) as Bytes
export const MiB = (n: number): Bytes => (n * 2 ** 20) as Bytes
export const GiB = (n: number): Bytes => (n * 2 ** 30) as Bytes

export type Seconds = Brand<number, 'Seconds'>
export const seconds = (n: number): Seconds => n as Seconds
export const microseconds = (n: number): Seconds => (n * 1e-6) as Seconds

const steps = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

/** 1536 -> '1.50 KiB'. Whole bytes have no decimals. */
export function showBytes(n: number): string {
  const step = n < 1 ? 0 : Math.min(steps.length - 1, Math.floor(Math.log2(n) / 10))
  return `${step === 0 ? n : (n / 2 ** (10 * step)).toFixed(2)} ${steps[step]}`
}

/** 8030261248 -> '8.03 B' (billions), the way parameter counts are written. */
export function showCount(n: number): string {
  const [by, unit] =
    n >= 1e12 ? [1e12, ' T'] : n >= 1e9 ? [1e9, ' B'] : n >= 1e6 ? [1e6, ' M'] : n >= 1e3 ? [1e3, ' k'] : [1, '']
  return `${by === 1 ? n : (n / by).toFixed(2)}${unit}`
}

/** An integer with separators: 8343102 as '8,343,102'. Unlike Intl it needs no locale data, which is slow to load. */
export const showWhole = (n: number): string => String(n).replace(/\B(?=(?:\d{3})+$)/g, ',')

const powers = 'bkmgt'

/** '80GiB', '80Gi', '1.5 TB', '4096' -> bytes; undefined if it is no amount of memory. */
/** '8192', '8k', '1M', '1.5k' -> a whole number; k is 1000 or 1024 of the base unit. undefined: it is none. */
export function parseCount(text: string, k: 1000 | 1024): number | undefined {
  const [, digits, power = ''] = /^\s*(\d{1,15}(?:\.\d{1,6})?)\s*([kmgbt]?)\s*$/i.exec(text) ?? []
  if (digits === undefined) return undefined
  const value = Number(digits) * k ** '_kmgt'.indexOf(power.toLowerCase().replace('b', 'g') || '_')
  return Number.isSafeInteger(value) ? value : undefined
}

export function parseBytes(text: string): Bytes | undefined {
  const [, digits, power = 'b', binary] = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(i)?)?b?\s*$/i.exec(text) ?? []
  if (digits === undefined) return undefined
  return bytes(Math.round(Number(digits) * (binary ? 1024 : 1000) ** powers.indexOf(power.toLowerCase())))
}
