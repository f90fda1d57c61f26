/**
 * Which variant of the register tile is fastest here: each multiplies a few small matrices for some milliseconds, in turns,
 * and the first that is about as fast as the best is taken (preference.ts). It is then tried with other blocks. What was found
 * is remembered for this CPU and this build, and whoever cannot remember measures again.
 */
import { platform } from '../../../platform/index.js'
import { Sync, tuningWords } from '../lower/commands.js'
import { KernelBed, productWords } from './bed.js'
import { mean, preferred } from './preference.js'
import type { Kernels } from './target.js'
import { movements, neighbours, streamed, type Tuning, tuningFor } from './tuning.js'

/** The speed of one tuning: the geometric mean over a set of matmuls, all-reduce sums or dequantizations. */
export interface Attempt {
  readonly tuning: Tuning
  /** In the best of its turns. */
  readonly gflops: number
  /** How many times as long as the best of its race it takes, by which it was chosen or not. */
  readonly behind: number
}

/** The result of kernel tuning on a machine. */
export interface Probed {
  /** What it holds for: a CPU and a build. */
  readonly machine: string
  readonly chosen: Tuning
  /** All that were tried, in the order of preference where they are equally fast; the chosen one is of the last race. */
  readonly races: readonly (readonly Attempt[])[]
}

interface Product {
  readonly m: number
  readonly n: number
  readonly k: number
  readonly form: 'NN' | 'NT' | 'TN'
}

/**
 * Of a layer of a small model: forward, gradient of the input, gradient of the weight. All tiles divide them, or a tile would be judged by
 * edges that larger products hardly have; and what is packed is read by many rows, as in training. WebAssembly, which is slower, has
 * fewer.
 */
const productsOf = (kind: Kernels['kind']): readonly Product[] => {
  const rows = kind === 'wasm' ? 96 : 480
  return [
    { m: rows, n: 768, k: 384, form: 'NN' },
    { m: rows, n: 384, k: 768, form: 'NT' },
    { m: 384, n: 768, k: rows, form: 'TN' },
  ]
}
const flopsOf = ({ m, n, k }: Product): number => 2 * m * n * k

/** In all turns of one tuning together, after a first that warms up: a runtime may compile better what is run often. */
const rounds = { least: 7, most: 12, seconds: 0.04 }

/** Operands for all products, in one memory. */
class Bench {
  readonly #bed: KernelBed
  readonly #words

  constructor(kernels: Kernels, products: readonly Product[]) {
    const [m, n, k] = (['m', 'n', 'k'] as const).map(size => Math.max(...products.map(product => product[size])))
    this.#bed = new KernelBed(kernels, 4 * (m * k + k * n + m * n) + 256)
    const [a, b, out] = [m * k, k * n, m * n].map(count => this.#bed.operand(count))
    for (const { values } of [a, b]) for (let i = 0; i < values.length; i++) values[i] = (i % 1021) / 1021 - 0.5
    this.#words = products.map(({ form, ...sizes }) => productWords({ a, b, out }, sizes, form))
  }

  seconds(kernels: Kernels, product: number): number {
    this.#bed.use(kernels)
    return Math.max(this.#bed.time('matmul', this.#words[product]), 1e-6)
  }
}

/**
 * An all-reduce of two ranks, both of them played by this thread: the second has only started when the first does the work
 * of both. What one core makes of its stores shows; what two cores take from each other does not.
 */
class Reduction {
  readonly #bed: KernelBed
  readonly #words
  #collective = 0

  constructor(kernels: Kernels) {
    this.#bed = new KernelBed(kernels, 8 * reduced + 4 * Sync.lineBytes)
    const [sync, a, b] = [Sync.lineBytes, reduced, reduced].map(count => this.#bed.operand(count))
    for (const { values } of [a, b]) values.fill(1)
    sync.values.fill(0)
    const all = [a.offset, b.offset]
    this.#words = { sync: sync.offset, members: 2, n: reduced, combine: 0, dtype: 0, x: all, out: all }
  }

  seconds(kernels: Kernels): number {
    this.#bed.use(kernels)
    const { sync, members } = this.#words
    const collective = ++this.#collective
    const both = [0, 1].map(me => ({ sync, me, members, collective }))
    const seconds = this.#bed.timeAll(writer =>
      both
        .reduce((started, words) => started.put('start', words), writer)
        .put('waitAllReduce', { ...this.#words, ...both[0] })
        .put('waitAllReduce', { ...this.#words, ...both[1] }),
    )
    return Math.max(seconds, 1e-6)
  }
}

/** Elements: 4 MiB a rank, more than a second cache. */
const reduced = 2 ** 20

/** Numbers made of codes: more than caches hold. */
class Unpacking {
  readonly #bed: KernelBed
  readonly #words

  constructor(kernels: Kernels) {
    this.#bed = new KernelBed(kernels, 5 * unpacked + unpacked / 32)
    const [out, codes, units] = [unpacked, unpacked / 4, unpacked / run].map(count => this.#bed.operand(count))
    for (const { values } of [out, codes, units]) values.fill(1)
    const sizes = { n: unpacked, part: unpacked, parts: 1, run, addends: 1 }
    this.#words = { out: out.offset, codes: codes.offset, units: units.offset, ...sizes }
  }

  seconds(kernels: Kernels): number {
    this.#bed.use(kernels)
    return Math.max(this.#bed.time('unpack', this.#words), 1e-6)
  }
}

const unpacked = 2 ** 22
const run = 256

const least = (values: readonly number[]): number => values.reduce((a, b) => Math.min(a, b), Infinity)
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0)

/** Contenders in turns at each of the works, whose flops are given. */
function timed(
  bench: Bench | Reduction | Unpacking,
  contenders: readonly Kernels[],
  flops: readonly number[],
): { readonly attempts: Attempt[]; readonly chosen: Tuning } {
  const turns: number[][][] = []
  const turn = () => flops.map((_, work) => contenders.map(kernels => bench.seconds(kernels, work)))
  turn()
  const over = () =>
    turns.length >= rounds.most ||
    (turns.length >= rounds.least && sum(turns.flat().map(([first]) => first)) > rounds.seconds)
  while (!over()) turns.push(turn())
  const { chosen, behind } = preferred(turns)
  const attempts = contenders.map(({ tuning }, i) => ({
    tuning,
    gflops: mean(flops.map((count, work) => count / least(turns.map(turn => turn[work][i])))) / 1e9,
    behind: behind[i],
  }))
  return { attempts, chosen: contenders[chosen].tuning }
}

/**
 * Variants first; then the winner with other blocks, where the machine tells its caches; then how collectives move bytes, and how codes
 * become numbers.
 * WebAssembly chooses among variants alone.
 */
export function probe(kernels: Kernels, machine: string): Probed {
  const [products, caches] = [productsOf(kernels.kind), platform.caches()]
  const bench = new Bench(kernels, products)
  const tuned = (tunings: readonly Tuning[]) => tunings.map(tuning => kernels.tuned(tuning))
  const race = (tunings: readonly Tuning[]) => timed(bench, tuned(tunings), products.map(flopsOf))
  const variants = race(kernels.variants.map(variant => tuningFor(kernels.kind, variant, caches)))
  const tuning = variants.chosen
  if (kernels.kind === 'wasm') return { machine, chosen: tuning, races: [variants.attempts] }
  const variant = kernels.variants.find(({ name }) => name === tuning.variant)!
  const blocks = race(caches ? [tuning, ...neighbours(tuning, variant)] : [tuning])
  const sums = timed(new Reduction(kernels), tuned([blocks.chosen, ...movements(blocks.chosen)]), [reduced])
  const made = timed(new Unpacking(kernels), tuned([sums.chosen, streamed(sums.chosen)]), [unpacked])
  return { machine, chosen: made.chosen, races: [variants, blocks, sums, made].map(({ attempts }) => attempts) }
}

/** What is remembered of this machine, or measured now and remembered. */
export function probed(kernels: Kernels, name: string, machine: string): Probed {
  const known = parsed(platform.recall(name))
  if (known?.machine === machine && kernels.variants.some(({ name }) => name === known.chosen.variant)) return known
  const found = probe(kernels, machine)
  platform.remember(name, `${JSON.stringify(found, null, 2)}\n`)
  return found
}

/** undefined: nothing, or nothing that was written by `probed`. */
function parsed(text: string | undefined): Probed | undefined {
  try {
    const { machine, chosen, races } = JSON.parse(text ?? '') as Probed // looked at below
    const { variant, ...blocks } = chosen
    const whole = Object.values(blocks).every(Number.isInteger) && Object.keys(blocks).length === tuningWords.length - 2 // variant by name, tiles not at all
    const compared = races.every(race => race.every(({ behind }) => Number.isFinite(behind))) // older ones were not
    return whole && typeof variant === 'string' && compared ? { machine, chosen, races } : undefined
  } catch {
    return undefined
  }
}
