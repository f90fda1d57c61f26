/**
 * Matmul on the CPU's matrix tiles: an f32 goes in as three bf16, so the answer must be as good as f32 arithmetic on
 * whatever the numbers are, and what bf16 cannot hold must take the other way. Held against f64, and against vectors.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { normal } from '../src/base/index.js'
import { type Kernels, loadKernels, nativeMissing } from '../src/engine/native/index.js'
import { KernelBench } from './kernel-bench.js'

const native = nativeMissing() === undefined ? loadKernels('native') : undefined
const skip = native?.description.includes('tiles') ? false : 'this CPU has no matrix tiles'

interface Product {
  readonly m: number
  readonly n: number
  readonly k: number
  /** Which operands lie transposed: NN, NT, TN, TT. */
  readonly form: string
  readonly a: Float32Array
  readonly b: Float32Array
  readonly bias?: Float32Array
  readonly add?: Float32Array
}

type Numbers = (count: number, name: string) => Float32Array

const known = new Map<string, Float32Array>()
const noise: Numbers = (count, name) => {
  const value = normal({ seed: 5, name })
  const numbers = known.get(`${name} ${count}`) ?? Float32Array.from({ length: count }, (_, i) => value(i))
  known.set(`${name} ${count}`, numbers)
  return numbers.slice()
}

const product = (m: number, n: number, k: number, form: string, numbers: Numbers = noise): Product => ({
  ...{ m, n, k, form, a: numbers(m * k, `a ${form}`), b: numbers(k * n, `b ${form}`) },
})

const benches = new Map<Kernels['kind'], KernelBench>()
function run(kind: 'native' | 'vectors', { m, n, k, form, a, b, bias, add }: Product): Float32Array {
  const bench = benches.get(kind) ?? new KernelBench(loadKernels(kind))
  benches.set(kind, bench)
  const given = {
    command: 'matmul' as const,
    ins: { a, b, ...(bias && { bias }), ...(add && { add }) },
    words: {
      ...(bias ? {} : { bias: 0 }),
      ...(add ? {} : { add: 0 }),
      ...{ m, n, k, transA: Number(form[0] === 'T'), transB: Number(form[1] === 'T') },
      ...{ batch: 1, strideA: 0, strideB: 0, strideOut: 0 },
    },
    expected: { out: new Float32Array(m * n) },
    bound: 0,
  }
  return bench.results(given).out
}

/** The worst error of a result, as a part of what the terms of its sum weigh; rows from all over are looked at. */
function errorOf({ m, n, k, form, a, b, bias, add }: Product, out: Float32Array): number {
  let worst = 0
  for (let i = 0; i < m; i += i % 16 === 15 ? 1 : 5)
    for (let j = 0; j < n; j++) {
      const addends = [bias?.[j] ?? 0, add?.[i * n + j] ?? 0]
      let sum = addends[0] + addends[1]
      let weight = Math.abs(addends[0]) + Math.abs(addends[1])
      for (let p = 0; p < k; p++) {
        const term = (form[0] === 'T' ? a[p * m + i] : a[i * k + p]) * (form[1] === 'T' ? b[j * k + p] : b[p * n + j])
        sum += term
        weight += Math.abs(term)
      }
      const off = Math.abs(out[i * n + j] - sum)
      if (off > 0) worst = Math.max(worst, off / weight)
      if (Number.isNaN(off)) return Infinity
    }
  return worst
}

/** Three roundings to f32. Vectors, which add the terms one by one, come to 2.5e-7 on the same numbers. */
const bound = 1.8e-7

/** Near multiples of a tile: with more to fill up than a quarter vectors are faster, and are taken. */
const sizes = [
  [64, 64, 64],
  [96, 128, 160],
  [127, 255, 159],
  [94, 522, 125],
  [250, 92, 400],
  [127, 125, 900],
] as const

for (const form of ['NN', 'NT', 'TN', 'TT'])
  test(`tiles: ${form} is as good as f32 arithmetic`, { skip }, () => {
    for (const [m, n, k] of sizes) {
      const given = product(m, n, k, form)
      const [bias, add] = [noise(n, 'bias'), noise(m * n, 'add')]
      for (const more of [{}, { bias }, { add }, { bias, add }]) {
        const error = errorOf({ ...given, ...more }, run('native', { ...given, ...more }))
        ok(error < bound, `${m} x ${n} x ${k}${Object.keys(more).map(key => ` + ${key}`)}: ${error}`)
      }
    }
  })

/** The lower half of every number, as bits: what the high part is rounded by, and what is cut off after it. */
const lowerHalf = (bits: number): Numbers => {
  return (count, name) => {
    const numbers = noise(count, name)
    const words = new Uint32Array(numbers.buffer)
    for (let i = 0; i < count; i++) words[i] = ((words[i] & 0xffff0000) | bits) >>> 0
    return numbers
  }
}

for (const bits of [0x0001, 0x7fff, 0x8000, 0x8001, 0xffff])
  test(`tiles: numbers that all end in ${bits.toString(16)} lose nothing`, { skip }, () => {
    const given = product(64, 96, 128, 'NN', lowerHalf(bits))
    const error = errorOf(given, run('native', given))
    ok(error < bound, `${error}`)
  })

/** Magnitudes from 2^-32 to 2^32 side by side: most terms of a sum are far below the largest. */
const spread: Numbers = (count, name) => {
  const powers = noise(count, `powers of ${name}`)
  return noise(count, name).map((x, i) => x * 2 ** Math.round(8 * powers[i]))
}

/** Every second term takes away nearly all of the one before. */
const cancelling: Numbers = (count, name) => {
  const numbers = noise(count, name)
  return name[0] === 'a'
    ? numbers.map((x, i) => (i % 2 ? -numbers[i - 1] * (1 + x * 2 ** -12) : x))
    : numbers.fill(1.0009765)
}

for (const [title, numbers] of Object.entries({ spread, cancelling }))
  test(`tiles: no worse than vectors on numbers that are ${title}`, { skip }, () => {
    for (const form of ['NN', 'TT']) {
      const given = product(96, 96, 256, form, numbers)
      const [tiles, vectors] = (['native', 'vectors'] as const).map(kind => errorOf(given, run(kind, given)))
      ok(tiles <= vectors, `${form}: ${tiles}, vectors ${vectors}`)
    }
  })

const strange = {
  'infinity and NaN': [Infinity, -Infinity, NaN],
  'the largest f32': [3.4e38, -3.4e38],
  'below the smallest normal f32': [1e-39, -1e-44],
  'parts below the smallest normal f32': [1e-33, -3e-37],
  'products below the smallest normal f32': [1e-22, -1e-19],
}

for (const [title, values] of Object.entries(strange))
  test(`tiles: ${title} give what vectors give`, { skip }, () => {
    const numbers: Numbers = (count, name) => noise(count, name).map((x, i) => (i % 97 ? x : values[i % values.length]))
    const tiny = Math.abs(values[0]) < 1
    // Where all is small, nothing larger hides what is lost.
    const small: Numbers = (count, name) => noise(count, name).map(x => x * values[0])
    for (const given of [product(96, 80, 130, 'NN', numbers), ...(tiny ? [product(80, 96, 64, 'NT', small)] : [])])
      deepEqual(run('native', given), run('vectors', given))
  })

test('tiles: numbers too small for a high part count when they meet large ones', { skip }, () => {
  const numbers: Numbers = (count, name) => noise(count, name).map(x => (name[0] === 'a' ? 1e-41 * x : 1e35 * x))
  const given = product(64, 64, 64, 'NN', numbers)
  const out = run('native', given)
  deepEqual(out, run('vectors', given))
  ok(out.some(x => x !== 0))
})

test('tiles: zeros alone are no reason for vectors, and give zeros', { skip }, () => {
  const zeros: Numbers = count => new Float32Array(count)
  deepEqual(run('native', product(64, 64, 64, 'NN', zeros)), new Float32Array(64 * 64))
})

test('tiles: a row has the same bits however many rows there are', { skip }, () => {
  const whole = product(300, 192, 500, 'NN')
  const out = run('native', whole)
  for (const [from, to] of [
    [0, 64],
    [64, 300],
    [100, 195],
  ]) {
    const part = run('native', { ...whole, m: to - from, a: whole.a.slice(from * whole.k, to * whole.k) })
    deepEqual(part, out.slice(from * whole.n, to * whole.n))
  }
})

test('tiles: the same bits every time', { skip }, () => {
  const given = product(130, 160, 700, 'TN')
  deepEqual(run('native', given), run('native', given))
})
