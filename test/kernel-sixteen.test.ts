/**
 * Every compute command on operands of 16 bits: it computes what its f32 kernel, which is held to the interpreter elsewhere, makes of
 * the same numbers, rounded once to nearest even.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import type { ElementType } from '../src/base/index.js'
import { type Kernels, loadKernels, loadWasm, nativeMissing } from '../src/engine/native/index.js'
import { decode, encode } from '../src/engine/native/kernels/dtypes.js'
import { later, test } from './families.js'
import { KernelBench } from './kernel-bench.js'
import { type ComputeCommand, computeCommands, type KernelCase, kernelCase } from './kernel-cases.js'

/** Words that are f32 whatever the precision: statistics, numbers of the step, what a product packs. */
const wide: readonly string[] = [
  ...['lse', 'beforeLse', 'aLse', 'bLse', 'max', 'sumExp', 'loss', 'count', 'weight', 'dweight'],
  ...['normSquared', 'lr', 'taken', 'scale', 'panels'],
]

/** What is known of matrices, and of their lengths. */
const factors = [
  ...['paramSquared', 'stepSquared', 'v', 'rows', 'columns', 'mean'],
  ...['rowMeans', 'columnMeans', 'meanSquare'],
]

/** Commands some words of which are f32 as well. */
const wider: Partial<Record<ComputeCommand, readonly string[]>> = {
  ...{ maxColumns: ['out'], sumExp: ['out'], pick: ['out'], sumSquares: ['out'] },
  ...{ blend: ['grad'], scoresGrad: ['dy', 'y'], zLossGrad: ['logits'], lambSquares: ['paramSquared', 'stepSquared'] },
  ...{ factorSquares: ['rows', 'columns', 'mean'], adafactorSquares: factors, adafactor: factors, average: ['ema'] },
}

/** Commands of statistics and whole numbers alone. */
const others: readonly ComputeCommand[] = [
  ...([
    'tokenLoss',
    'countLabels',
    'take',
    'weigh',
    'scores',
    'topK',
    'chosen',
    'chosenGrad',
    'assign',
    'rowsOf',
  ] as const),
  ...([
    'countChoices',
    'countTop',
    'balanceLoss',
    'balanceLossGrad',
    'zLoss',
    'balance',
    'normalise',
    'rescale',
    'become',
    'gramSchmidt',
    'greatest',
    'scatter',
  ] as const),
]

/** Commands that move numbers: results are stored as operands are. */
const moves: readonly ComputeCommand[] = ['joinPart', 'embed', 'copy', 'dispatchRows']

/** What rounding may change of a number: half of its last digit. */
const rounding: Partial<Record<ElementType, { readonly part: number; readonly least: number }>> = {
  bf16: { part: 2 ** -8, least: 0 },
  f16: { part: 2 ** -11, least: 2 ** -25 },
}

/** The case with every number that is stored so as it is stored. */
function rounded(given: KernelCase, dtypeOf: (word: string) => ElementType): KernelCase {
  const round = (numbers: KernelCase['ins']) =>
    Object.fromEntries(
      Object.entries(numbers).map(([word, values]) => {
        const dtype = dtypeOf(word)
        return [word, Float32Array.from(values, value => decode(dtype, encode(dtype, Math.fround(value))))]
      }),
    )
  return { ...given, ins: round(given.ins), ...(given.initial && { initial: round(given.initial) }) }
}

/** The worst difference from f32, as a part of what rounding and f32 may make. */
function worst(
  given: KernelCase,
  exact: Record<string, Float32Array>,
  found: Record<string, Float32Array>,
  dtypeOf: (word: string) => ElementType,
): number {
  const { magnitude = 0, bound } = given
  const parts = Object.entries(found).flatMap(([word, values]) => {
    const weights = typeof magnitude === 'object' ? magnitude[word] : magnitude
    const { part, least } = rounding[dtypeOf(word)] ?? { part: 0, least: 0 }
    return Array.from(values, (value, i) => {
      const [right, weight] = [exact[word][i], typeof weights === 'number' ? weights : weights[i]]
      if (Object.is(value, right)) return 0
      return (
        Math.abs(value - right) / (part * Math.abs(right) + least + 2 * (bound + 1e-7) * (Math.abs(right) + weight))
      )
    })
  })
  return parts.reduce((most, x) => (x <= most ? most : x), 0)
}

interface Contender {
  readonly name: string
  readonly load: () => Kernels
  readonly skip?: string | undefined
}

const missing = nativeMissing()
const contenders: Contender[] = [
  { name: 'native', load: () => loadKernels('native'), skip: missing && `no native kernels: ${missing}` },
  { name: 'WebAssembly', load: () => loadWasm('plain') },
  { name: 'WebAssembly with relaxed SIMD', load: () => loadWasm('relaxed') },
]

for (const { name, load, skip } of contenders)
  for (const dtype of ['bf16', 'f16'] as const) {
    const family = name === 'native' && dtype === 'bf16' ? test : later
    let bench: KernelBench | undefined
    for (const command of computeCommands.filter(command => !others.includes(command)))
      family(`${name}: ${command} of ${dtype} is f32 rounded once, seeds 1 to 3`, skip ? { skip } : {}, () => {
        bench ??= new KernelBench(load())
        for (const seed of [1, 2, 3])
          for (const results of moves.includes(command) ? [dtype] : [dtype, 'f32' as const]) {
            const drawn = kernelCase(command, seed)
            const isWide = (word: string) => [...wide, ...(wider[command] ?? [])].includes(word)
            const ids = [...Object.keys(drawn.ids ?? {}), ...(drawn.integers ?? [])]
            const dtypeOf = (word: string): ElementType =>
              isWide(word) || ids.includes(word) ? 'f32' : word in drawn.expected ? results : dtype
            const given = rounded(drawn, dtypeOf)
            const [exact, found] = [bench.results(given), bench.stored(given, dtypeOf)]
            const off = worst(given, exact, found, dtypeOf)
            ok(off <= 1, `seed ${seed}, results in ${results}: off by ${off} of what rounding may make`)
          }
      })
  }

test('whatever is neither a statistic nor a whole number is in one of the lists', () => {
  deepEqual(computeCommands.filter(command => others.includes(command)).toSorted(), others.toSorted())
})

/** Every number of 16 bits, and f32 numbers beside each, half way to the next, a little less and a little more; the ends, and NaN. */
function numbersAround(dtype: ElementType): number[] {
  const all = Array.from({ length: 65536 }, (_, bits) => decode(dtype, bits))
  const between = all.flatMap((value, i) => {
    const middle = Math.fround((value + all[(i + 1) % all.length]) / 2)
    return [value, middle, Math.fround(middle * (1 + 2 ** -23)), Math.fround(middle * (1 - 2 ** -23))]
  })
  return [...between, Infinity, -Infinity, NaN, 1e-45, -1e-45, 3.4e38, 65519.99, 65520].map(Math.fround)
}

const copied = (values: readonly number[]): KernelCase => ({
  ...{ command: 'scale', ins: { x: values }, words: { n: values.length, by: 1 } },
  ...{ expected: { out: values }, bound: 0 },
})

const firstDifference = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  Array.from(a).findIndex((value, i) => !Object.is(value, b[i]))

for (const { name, load, skip } of contenders)
  for (const dtype of ['bf16', 'f16'] as const)
    (name === 'native' ? test : later)(`${name}: ${dtype} to f32 and back, bit for bit`, skip ? { skip } : {}, () => {
      const bench = new KernelBench(load())
      const numbers = numbersAround(dtype)
      const nearest = numbers.map(value => decode(dtype, encode(dtype, value)))
      const { out } = bench.stored(copied(numbers), word => (word === 'x' ? 'f32' : dtype))
      equal(firstDifference(out, nearest), -1)
      const back = bench.stored(copied(nearest), word => (word === 'x' ? dtype : 'f32'))
      equal(firstDifference(back.out, nearest), -1)
    })
