/**
 * Matmul on one core against OpenBLAS with one thread: squares, every transpose form, odd sizes, and the products of a
 * step of the GPT in bench/training.ts on one of two ranks. An answer is a matrix, and is checked against a vector:
 * (A B) r must be A (B r), computed in f64. Times are processor time: one thread, whatever else the machine does.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kernels, loadKernels, loadWasm } from '../src/engine/native/index.js'
import { KernelBed } from '../src/engine/native/kernels/bed.js'
import type { Child } from './child.js'
import type { Options, Say } from './main.js'
import { noise } from './numbers.js'
import { narrowOpenblas, openblas, unlessMissing } from './peers.js'
import { type Contender, geometricMean, type Race, type Result, run } from './race.js'
import { ratiosOf, showResults, type Versus } from './report.js'

export interface Product {
  readonly m: number
  readonly n: number
  readonly k: number
  readonly transA: boolean
  readonly transB: boolean
  readonly accumulate: boolean
}

const product = (m: number, n: number, k: number, form = 'NN'): Product => ({
  ...{ m, n, k },
  ...{ transA: form[0] === 'T', transB: form[1] === 'T', accumulate: form.endsWith('+') },
})

const squares = [128, 192, 256, 384, 512, 768, 1024, 1536, 2048].map(n => product(n, n, n))
const forms = [128, 512, 1024].flatMap(n => ['TN', 'NT', 'TT', 'NN+'].map(form => product(n, n, n, form)))
const odd = [
  product(131, 257, 129),
  product(127, 255, 63, 'TN'),
  product(129, 131, 513, 'NT'),
  product(1021, 509, 253),
  product(333, 777, 555, 'TT'),
  product(1023, 1025, 1000),
]

/** Rows are the tokens of one rank. The input's gradient is NT, the weight's TN. */
const layer = (rows: number, from: number, to: number): Product[] => [
  product(rows, to, from),
  product(rows, from, to, 'NT'),
  product(from, to, rows, 'TN'),
]
const gpt = [
  ...layer(1024, 384, 384),
  ...layer(1024, 384, 1536),
  ...layer(1024, 1536, 384),
  product(1024, 256, 384, 'NT'),
]

export const products: readonly Product[] = [...squares, ...forms, ...odd, ...gpt]

const titleOf = ({ m, n, k, transA, transB, accumulate }: Product): string =>
  `${m} x ${n} x ${k} ${transA ? 'T' : 'N'}${transB ? 'T' : 'N'}${accumulate ? '+' : ''}`

/** Enough runs in a row that the clock does not matter. */
const runsOf = ({ m, n, k }: Product): number => Math.max(1, Math.ceil(5e8 / (2 * m * n * k)))

const inputsOf = ({ m, n, k }: Product) => ({ a: noise(m * k, 1), b: noise(k * n, 2), out: noise(m * n, 3) })

/** x[rows columns] r, in f64. */
function timesVector(x: Float32Array, rows: number, r: Float64Array, transposed: boolean): Float64Array {
  const columns = r.length
  return Float64Array.from({ length: rows }, (_, i) => {
    let sum = 0
    for (let j = 0; j < columns; j++) sum += (transposed ? x[j * rows + i] : x[i * columns + j]) * r[j]
    return sum
  })
}

const probe = (n: number): Float64Array => Float64Array.from(noise(n, 4))

function expectedOf(p: Product): Float64Array {
  const { a, b, out } = inputsOf(p)
  const r = probe(p.n)
  const before = timesVector(out, p.m, r, false)
  const product = timesVector(a, p.m, timesVector(b, p.k, r, p.transB), p.transA)
  return p.accumulate ? product.map((value, i) => value + before[i]) : product
}

function ours(name: string, kernels: Kernels, p: Product): Contender {
  const bed = new KernelBed(kernels, 4 * (p.m * p.k + p.k * p.n + p.m * p.n) + 1024)
  const [a, b, out] = [p.m * p.k, p.k * p.n, p.m * p.n].map(n => bed.operand(n))
  const inputs = inputsOf(p)
  a.values.set(inputs.a)
  b.values.set(inputs.b)
  const words = {
    ...{
      out: out.offset,
      a: a.offset,
      b: b.offset,
      bias: 0,
      add: p.accumulate ? out.offset : 0,
      m: p.m,
      n: p.n,
      k: p.k,
    },
    ...{ transA: Number(p.transA), transB: Number(p.transB) },
    ...{ batch: 1, strideA: 0, strideB: 0, strideOut: 0 },
  }
  return {
    name,
    answer: async () => {
      out.values.set(inputs.out)
      bed.time('matmul', words)
      return timesVector(out.values, p.m, probe(p.n), false)
    },
    time: async () => {
      out.values.set(inputs.out)
      bed.time('matmul', words) // everybody's caches are warm
      return bed.time('matmul', words, runsOf(p))
    },
  }
}

function theirs(name: string, child: Child, folder: string, p: Product): Contender {
  const words = [p.m, p.n, p.k, Number(p.transA), Number(p.transB), Number(p.accumulate)]
  return {
    name,
    answer: async () => {
      const file = join(folder, 'answer')
      await child.ask('answer', ...words, file)
      const bytes = readFileSync(file)
      return timesVector(new Float32Array(bytes.buffer, bytes.byteOffset, p.m * p.n), p.m, probe(p.n), false)
    },
    time: async () => (await child.askNumbers('time', ...words, runsOf(p)))[0],
  }
}

const targets = {
  native: () => loadKernels('native'),
  vectors: () => loadKernels('vectors'),
  relaxed: () => loadWasm('relaxed'),
  plain: () => loadWasm('plain'),
}

export async function matmul(say: Say, { rounds = 9, only = '' }: Options = {}): Promise<Result[]> {
  const kernels = Object.entries(targets).flatMap(([name, load]) => {
    try {
      return [{ name, kernels: load() }]
    } catch (error) {
      say(`skipped: ${name}: ${(error as Error).message}`)
      return []
    }
  })
  const peers: [string, Child][] = []
  for (const [name, start] of Object.entries({ OpenBLAS: openblas, [narrow]: narrowOpenblas })) {
    const child = await unlessMissing(start, say)
    if (child) peers.push([name, child])
  }
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-bench-'))
  const results: Result[] = []
  try {
    for (const p of products.filter(p => titleOf(p).includes(only))) {
      const contenders = kernels.map(({ name, kernels }) => ours(name, kernels, p))
      contenders.push(...peers.map(([name, child]) => theirs(name, child, folder, p)))
      const race: Race = { title: titleOf(p), expected: expectedOf(p), tolerance: 1e-4, contenders }
      results.push(await run(race, { rounds }))
      say(`${race.title} done`)
    }
  } finally {
    await Promise.all(peers.map(([, child]) => child.stop()))
    rmSync(folder, { recursive: true })
  }
  return results
}

const narrow = 'OpenBLAS, 128 bits'

/** WebAssembly has vectors of 128 bits: beside what the CPU can do, it is held against OpenBLAS with as many. */
const versus: readonly Versus[] = [
  ...Object.keys(targets).map(name => ({ name, peer: 'OpenBLAS' })),
  { name: 'relaxed', peer: narrow },
  { name: 'plain', peer: narrow },
]

export function showMatmul(results: readonly Result[]): string {
  const summaries = versus.flatMap(pair => {
    const [best, medians] = (['best', 'median'] as const).map(by => ratiosOf(results, pair, by))
    if (best.length === 0) return []
    const [mean, worst] = [geometricMean(best), Math.min(...best)].map(ratio => ratio.toFixed(2))
    const middle = geometricMean(medians).toFixed(2)
    return [`${pair.name} : ${pair.peer}: geometric mean ${mean} (of medians ${middle}), worst ${worst}`]
  })
  return [showResults(results, versus), '', ...summaries].join('\n')
}
