/** The element types kernels work on: their codes in commands, and numbers to and from them. */
import { type DType, type ElementType, elementFacts, elementTypes } from '../../../base/index.js'

/** What a program stores; of these the engine has no kernels for 8-bit codes, and nothing that reads a program lets them come here. */
type Stored = ElementType | DType

function elementOf(dtype: Stored): ElementType {
  const found = elementTypes.find(type => type === dtype)
  if (!found) throw new Error(`internal: the engine has no kernels for ${dtype}`)
  return found
}

export const codeOf = (dtype: Stored): number => elementTypes.indexOf(elementOf(dtype))
export const elementBytes = (dtype: Stored): number => elementFacts[dtype].bytes

/** What a word that names a tensor has behind its point: the code of what its numbers are in, in eighths, where that is 16 bits. */
export const markOf = (dtype: Stored): number => (elementFacts[dtype].bytes === 2 ? codeOf(dtype) / 8 : 0)

/** 16-bit numbers are seen as their bits. */
export type Elements = Float32Array | Float64Array | Uint16Array | Int32Array | Int8Array

const views: Readonly<
  Record<ElementType, new (buffer: SharedArrayBuffer, offset: number, length: number) => Elements>
> = {
  f32: Float32Array,
  f64: Float64Array,
  bf16: Uint16Array,
  f16: Uint16Array,
  i32: Int32Array,
  i8: Int8Array,
}

export const viewOf = (dtype: Stored, buffer: SharedArrayBuffer, offset: number, length: number): Elements =>
  new views[elementOf(dtype)](buffer, offset, length)

const scratch = new DataView(new ArrayBuffer(4))

const bitsOf = (value: number): number => {
  scratch.setFloat32(0, value)
  return scratch.getUint32(0)
}

const fromBits = (bits: number): number => {
  scratch.setUint32(0, bits)
  return scratch.getFloat32(0)
}

/** To the nearest, halves to even. */
function toBf16(value: number): number {
  const bits = bitsOf(value)
  return Number.isNaN(value) ? 0x7fc0 : ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff
}

function toF16(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  const size = Math.abs(value)
  if (Number.isNaN(value)) return 0x7e00
  if (size >= 65520) return sign | 0x7c00
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 1)))
  const step = 2 ** (exponent - 10)
  const units = roundEven(size / step) // 1024 to 2048 for normal numbers, below for subnormal ones
  return sign | (size < 2 ** -14 ? units : ((exponent + 14) << 10) + units)
}

const roundEven = (x: number): number => {
  const floor = Math.floor(x)
  const rest = x - floor
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor
}

function fromF16(bits: number): number {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023]
  if (exponent === 31) return fraction ? NaN : sign * Infinity
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25))
}

const same = (x: number) => x
const codecs: Readonly<Record<ElementType, { encode: (x: number) => number; decode: (x: number) => number }>> = {
  f32: { encode: same, decode: same },
  f64: { encode: same, decode: same },
  bf16: { encode: toBf16, decode: bits => fromBits((bits << 16) >>> 0) },
  f16: { encode: toF16, decode: fromF16 },
  i32: { encode: same, decode: same },
  i8: { encode: same, decode: same },
}

export const encode = (dtype: Stored, value: number): number => codecs[elementOf(dtype)].encode(value)
export const decode = (dtype: Stored, bits: number): number => codecs[elementOf(dtype)].decode(bits)

/** Numbers that lie in memory: as they lie there where JavaScript has such numbers, else a copy. */
export function numbersIn(dtype: Stored, elements: Elements): Float32Array {
  return elements instanceof Float32Array ? elements : Float32Array.from(elements, bits => decode(dtype, bits))
}

/** Writes numbers, rounded to the stored dtype. */
export function layNumbers(dtype: Stored, elements: Elements, values: ArrayLike<number>, first = 0): void {
  if (elements instanceof Uint16Array)
    for (let i = 0; i < values.length; i++) elements[first + i] = encode(dtype, Math.fround(values[i]))
  else elements.set(values, first)
}
