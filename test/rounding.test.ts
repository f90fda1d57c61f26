/** Numbers of 16 bits and of 8: what others round to them, and read them as. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { choices, codeFacts } from '../src/base/index.js'
import { roundToBf16, roundToCode, roundToE4M3, roundToE5M2, roundToF16 } from '../src/engine/index.js'
import { decode, encode } from '../src/engine/native/kernels/dtypes.js'
import { isOwnSet, readFixture } from './fixtures.js'

const roundTo = { bf16: roundToBf16, f16: roundToF16 }
const halves = ['bf16', 'f16'] as const

for (const [value, nearest] of [
  [1, 1],
  [1 + 2 ** -8, 1], // a tie: to even, down
  [1 + 3 * 2 ** -8, 1 + 2 ** -6], // a tie: to even, up
  [1 + 2 ** -8 + 2 ** -20, 1 + 2 ** -7],
  [-(1 + 2 ** -8 + 2 ** -20), -(1 + 2 ** -7)],
  [0, 0],
  [2 ** -133, 2 ** -133],
  [3.4e38, Number.POSITIVE_INFINITY],
  [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY],
  [Number.NaN, Number.NaN],
])
  test(`${value} is ${nearest} in bf16`, () => equal(roundToBf16(value), nearest))

interface Rounding {
  readonly pairs: readonly (readonly [f32: string, code: string])[]
  readonly decodeSha256: string
}

const numberOf = (bits: string) => new Float32Array(Uint32Array.of(Number.parseInt(bits, 16)).buffer)[0]

/** The code of a 16-bit number as hexadecimal digits; every NaN is one. */
const codeOf = (dtype: 'bf16' | 'f16', value: number) =>
  Number.isNaN(value) ? 'nan' : encode(dtype, value).toString(16).padStart(4, '0')

for (const dtype of halves)
  test(`${dtype}: rounded and read as PyTorch does`, () => {
    const { pairs, decodeSha256 }: Rounding = JSON.parse(readFixture(`precision/round-${dtype}.json`))
    ok(pairs.length > (isOwnSet ? 1000 : 0))
    deepEqual(
      pairs.map(([bits]) => [bits, codeOf(dtype, roundTo[dtype](numberOf(bits)))]),
      pairs,
    )
    const all = new DataView(new ArrayBuffer(4 * 2 ** 16))
    for (let code = 0; code < 2 ** 16; code++) {
      const value = decode(dtype, code)
      if (Number.isNaN(value)) all.setUint32(4 * code, 0x7fc00000, true)
      else {
        all.setFloat32(4 * code, value, true)
        ok(Object.is(roundTo[dtype](value), value), `${value} is one of its numbers`)
      }
    }
    equal(createHash('sha256').update(new Uint8Array(all.buffer)).digest('hex'), decodeSha256)
  })

interface Codes {
  readonly formats: Readonly<
    Record<string, { readonly max: number; readonly decode: string[]; readonly encode: string[][] }>
  >
}

for (const [dtype, format, round] of [
  ['f8e4m3', 'e4m3fn', roundToE4M3],
  ['f8e5m2', 'e5m2', roundToE5M2],
] as const)
  test(`${dtype}: rounded as PyTorch does, and all its numbers are`, () => {
    const { formats }: Codes = JSON.parse(readFixture('precision/float8.json'))
    const { max, decode, encode } = formats[format]
    const numbers = decode.map(bits => (bits === 'nan' ? Number.NaN : numberOf(bits)))
    equal(codeFacts[dtype].greatest, max)
    for (const value of numbers) ok(Object.is(round(value), value), `${value} is one of its numbers`)
    ok(encode.length > (isOwnSet ? 300 : 0))
    for (const [bits, code] of encode) {
      const nearest = code === 'nan' ? Number.NaN : numbers[Number.parseInt(code, 16)]
      ok(Object.is(round(numberOf(bits)), nearest), `${numberOf(bits)} is ${round(numberOf(bits))}, not ${nearest}`)
    }
  })

// Formats that programs do not store: AMD's, which have no -0, and the scales of MX, which have no 0 and nothing below 2^-127.
for (const [format, facts] of [
  ['e4m3fnuz', { greatest: 240, fraction: 3, least: -7, beyond: Number.NaN }],
  ['e5m2fnuz', { greatest: 57344, fraction: 2, least: -15, beyond: Number.NaN }],
  ['e8m0fnu', { greatest: 2 ** 127, fraction: 0, least: -127, beyond: Number.NaN }],
] as const)
  test(`${format}: the same rounding by other facts is PyTorch's`, () => {
    const { formats }: Codes = JSON.parse(readFixture('precision/float8.json'))
    const { max, decode, encode } = formats[format]
    const numbers = decode.map(bits => (bits === 'nan' ? Number.NaN : numberOf(bits)))
    const round = roundToCode(facts)
    equal(facts.greatest, max)
    const usual = encode.filter(([bits]) => format !== 'e8m0fnu' || !(numberOf(bits) < 2 ** -126))
    ok(usual.length > (isOwnSet ? 300 : 0))
    for (const [bits, code] of usual) {
      const nearest = code === 'nan' ? Number.NaN : numbers[Number.parseInt(code, 16)]
      ok(
        Object.is(round(numberOf(bits)) + 0, nearest + 0),
        `${numberOf(bits)} is ${round(numberOf(bits))}, not ${nearest}`,
      )
    }
  })

test('the interpreter rounds as the collectives do (SEED=5)', () => {
  const { int } = choices(5)
  const bits = new Uint32Array(1)
  for (let i = 0; i < 20_000; i++) {
    bits[0] = int(2 ** 16) * 2 ** 16 + int(2 ** 16)
    const [value] = new Float32Array(bits.buffer)
    for (const dtype of halves)
      equal(roundTo[dtype](value), decode(dtype, encode(dtype, value)), `${value} in ${dtype}`)
  }
})
