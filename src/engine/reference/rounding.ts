/**
 * What is stored in 16 bits or 8. A machine in f32 rounds every result to the dtype of its buffer when it is stored, once and to
 * nearest even, as hardware does that sums in f32. A machine in f64 keeps all its digits whatever the dtype, so that
 * plans can be compared exactly.
 */
import { type CodeFacts, codeFacts, type DType } from '../../base/index.js'
import type { Cells } from '../../geometry/index.js'

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)

/** The bf16 number nearest to an f32 one; of two equally near, the one whose last bit is 0. */
export function roundToBf16(value: number): number {
  float[0] = value
  if (Number.isNaN(float[0])) return Number.NaN
  bits[0] = (bits[0] + 0x7fff + ((bits[0] >>> 16) & 1)) & 0xffff0000
  return float[0]
}

/** The bf16 number next to an f32 one, away from 0 where a draw of 16 bits is below what would be cut off: on average it is the number itself. */
export function roundToBf16By(draw: number, value: number): number {
  float[0] = value
  if (Number.isNaN(float[0])) return Number.NaN
  bits[0] = (bits[0] & 0xffff0000) + (draw < (bits[0] & 0xffff) ? 0x10000 : 0)
  return float[0]
}

/** The f16 number nearest to an f32 one, likewise. From 65520 on that is infinity, and below 2^-14 numbers lie 2^-24 apart. */
export function roundToF16(value: number): number {
  float[0] = value
  const size = Math.abs(float[0])
  if (Number.isNaN(size)) return Number.NaN
  const exponent = Math.max(-14, ((bits[0] >>> 23) & 0xff) - 127)
  const integer = 2 ** (exponent - 10 + 52) // f64 numbers from here on lie as far apart as f16 numbers of this size
  const rounded = size >= 65520 ? Number.POSITIVE_INFINITY : size + integer - integer
  return bits[0] >>> 31 ? -rounded : rounded
}

/** The 8-bit number nearest to an f32 one, likewise; beyond the greatest as PyTorch rounds. */
export const roundToCode =
  ({ greatest, fraction, least, beyond }: CodeFacts) =>
  (value: number): number => {
    float[0] = value
    const size = Math.abs(float[0])
    if (Number.isNaN(size)) return Number.NaN
    const exponent = Math.max(least, ((bits[0] >>> 23) & 0xff) - 127)
    const integer = 2 ** (exponent - fraction + 52)
    const nearest = size === Number.POSITIVE_INFINITY ? size : size + integer - integer
    const rounded = nearest <= greatest ? nearest : beyond
    return bits[0] >>> 31 ? -rounded : rounded
  }

export const roundToE4M3 = roundToCode(codeFacts.f8e4m3)
export const roundToE5M2 = roundToCode(codeFacts.f8e5m2)

/** To the nearest number of a dtype; undefined where an f32 number is one already. */
const rounders: Readonly<Record<DType, ((value: number) => number) | undefined>> = {
  f32: undefined,
  bf16: roundToBf16,
  f16: roundToF16,
  i32: undefined,
  i8: undefined,
  f8e4m3: roundToE4M3,
  f8e5m2: roundToE5M2,
}

export const isRounded = (cells: Cells, dtype: DType): boolean =>
  cells instanceof Float32Array && rounders[dtype] !== undefined

/** All of them, in place, on a machine that has no more digits than it stores. */
export function roundCells(cells: Cells, dtype: DType): void {
  const round = rounders[dtype]
  if (!round || !isRounded(cells, dtype)) return
  for (let i = 0; i < cells.length; i++) cells[i] = round(cells[i])
}
