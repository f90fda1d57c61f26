/** Numbers as files of others keep them: read as f32 or f64, and rounded to nearest, ties to even, where they are written. */
import { elementFacts } from '../base/index.js'
import { decodeNumbers, type Float, type Numbers, type Safetensors } from '../checkpoint/index.js'
import { sizeOf } from './place.js'

const floats: Readonly<Record<string, Float>> = { F64: 'f64', F32: 'f32', BF16: 'bf16', F16: 'f16' }

export const floatOf = (dtype: string): Float | undefined => floats[dtype]

interface Part {
  readonly first: number
  readonly last: number
  readonly scales?: { readonly columns: number; readonly values: Numbers } | undefined
  /** config.json, which says how large blocks of 8-bit numbers are. */
  readonly raw: Readonly<Record<string, unknown>>
}

/** Elements of a tensor. Throws an Error fit to print. */
export function readNumbers(file: Safetensors, name: string, { first, last, scales, raw }: Part): Numbers {
  const { dtype, shape } = file.tensors.get(name)!
  const float = floatOf(dtype)
  if (float) return decodeNumbers(float, file.bytes(name, first, last, elementFacts[float].bytes))
  const codes = file.bytes(name, first, last, 1)
  return scales
    ? scaled(Float32Array.from(codes, codeOf), { first, columns: sizeOf(shape.slice(1)) }, scales, raw)
    : new Float32Array(codes)
}

/** f8e4m3: four bits of exponent, three of fraction. */
function codeOf(bits: number): number {
  const [exponent, fraction] = [(bits >> 3) & 15, bits & 7]
  const size =
    (bits & 127) === 127 ? Number.NaN : exponent === 0 ? fraction * 2 ** -9 : (8 + fraction) * 2 ** (exponent - 10)
  return bits & 128 ? -size : size
}

/** Each number times the scale of its block. */
function scaled(
  values: Float32Array,
  { first, columns }: { readonly first: number; readonly columns: number },
  scales: NonNullable<Part['scales']>,
  raw: Part['raw'],
): Float32Array {
  const [rows = 128, width = 128] = blockOf(raw)
  for (let i = 0; i < values.length; i++) {
    const [row, column] = [Math.floor((first + i) / columns), (first + i) % columns]
    values[i] *= scales.values[Math.floor(row / rows) * scales.columns + Math.floor(column / width)]
  }
  return values
}

function blockOf({ quantization_config: quantization }: Part['raw']): readonly number[] {
  const size = (quantization as { weight_block_size?: unknown } | undefined)?.weight_block_size // any mapping, or none
  return Array.isArray(size) && size.every(n => Number.isSafeInteger(n) && n > 0) ? size : []
}

/** The bytes of numbers in a dtype. */
export function encodeNumbers(values: Numbers, dtype: Float): Uint8Array {
  const bytes = ({ buffer, byteOffset, byteLength }: ArrayBufferView) => new Uint8Array(buffer, byteOffset, byteLength)
  switch (dtype) {
    case 'f64':
      return bytes(Float64Array.from(values))
    case 'f32':
      return bytes(Float32Array.from(values))
    case 'bf16':
      return bytes(Uint16Array.from(values, bf16Of))
    case 'f16':
      return bytes(Uint16Array.from(values, f16Of))
  }
}

const [one, word] = (() => {
  const buffer = new ArrayBuffer(4)
  return [new Float32Array(buffer), new Uint32Array(buffer)] as const
})()

/** The upper half of an f32. */
function bf16Of(value: number): number {
  one[0] = value
  if (Number.isNaN(value)) return 0x7fc0
  return (word[0] + 0x7fff + ((word[0] >>> 16) & 1)) >>> 16
}

function f16Of(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  const size = Math.abs(value)
  if (Number.isNaN(size)) return 0x7e00
  if (size >= 65520) return sign | 0x7c00
  const exponent = Math.max(-14, Math.floor(Math.log2(size)))
  // A power of two too many or too few is put right by what the sum carries.
  const steps = toEven(size / 2 ** (exponent - 10))
  return sign | (size < 2 ** -14 ? steps : ((exponent + 14) << 10) + steps)
}

function toEven(value: number): number {
  const whole = Math.floor(value)
  const rest = value - whole
  return rest > 0.5 || (rest === 0.5 && whole % 2 === 1) ? whole + 1 : whole
}
