/** `lockstep bench kernels`: what each kernel does per second here, on every target; only after its answer was checked. */
import { type Dim, type ElementType, elementsOf, error, showBytes, table, type Work } from '../../base/index.js'
import { prepare } from '../../engine/index.js'
import {
  type Chosen,
  type CommandName,
  chosenFor,
  type Kernels,
  loadKernels,
  loadWasm,
  type Tuning,
  type WordsOf,
} from '../../engine/native/index.js'
import { KernelBed } from '../../engine/native/kernels/bed.js'
import {
  decode,
  type Elements,
  elementBytes,
  encode,
  layNumbers,
  numbersIn,
} from '../../engine/native/kernels/dtypes.js'
import { type Limits, limitsOf, productFlops } from '../../engine/native/kernels/roofline.js'
import { type Sizes, type Trial, trials } from '../../engine/native/kernels/table.js'
import type { Io } from '../io.js'
import { problemsJson } from '../text/problems.js'
import { withProgress } from '../text/progress.js'
import type { KernelTarget, TokenType } from '../words/bench.js'

interface Target {
  readonly load: (tuning: Tuning) => Kernels
  /** Why it is tuned as it is. */
  readonly choice: () => Chosen
}

const targets: Readonly<Record<string, Target>> = {
  native: { load: tuning => loadKernels('native', tuning), choice: () => chosenFor('native') },
  vectors: { load: tuning => loadKernels('vectors', tuning), choice: () => chosenFor('native') },
  wasm: { load: tuning => loadWasm('relaxed', tuning), choice: () => chosenFor('relaxed') },
  'wasm-plain': { load: tuning => loadWasm('plain', tuning), choice: () => chosenFor('plain') },
} satisfies Record<KernelTarget, Target>

/** Small enough for the plain reference, and large enough to time. */
const checked = { batch: 2, seq: 32 }
const timed = { batch: 4, seq: 256 }
/** Of the greatest number of a result; of 16 bits a rounding and a half. */
const tolerances: Readonly<Record<TokenType, number>> = { f32: 1e-4, bf16: 6e-3, f16: 8e-4 }

const rounded =
  (dtype: ElementType) =>
  (value: number): number =>
    decode(dtype, encode(dtype, Math.fround(value)))

const dimsOf = (sizes: Sizes): Dim[] => Object.entries(sizes).map(([name, size]) => ({ name, size }))
const countOf = (sizes: Sizes): number => elementsOf(dimsOf(sizes))

/** A trial's operands, filled with the same numbers everywhere, tokens and parameters rounded to what they are in. */
class Stage {
  readonly trial: Trial
  readonly #bed: KernelBed
  readonly #operands = new Map<string, { readonly dtype: ElementType; readonly elements: Elements }>()
  readonly #words: Record<string, number>

  constructor(kernels: Kernels, trial: Trial, token: TokenType) {
    this.trial = trial
    const operands = Object.entries({ ...trial.ins, ...trial.outs })
    const bytes = operands.reduce((sum, [, sizes]) => sum + 4 * countOf(sizes) + 64, 0)
    this.#bed = new KernelBed(kernels, bytes)
    this.#words = { ...trial.words }
    for (const [word, sizes] of operands) {
      const dtype = dtypeOf(trial, word, token)
      const { elements, word: named } = this.#bed.numbers(countOf(sizes), dtype)
      this.#operands.set(word, { dtype, elements })
      this.#words[word] = named
      layNumbers(dtype, elements, valuesOf(trial, word, countOf(sizes)))
    }
  }

  run(times = 1): number {
    return this.#bed.time(this.trial.command, this.#words as unknown as WordsOf<CommandName>, times) // the table's words
  }

  values(word: string): Float32Array {
    const { dtype, elements } = this.#operands.get(word)!
    return numbersIn(dtype, elements)
  }
}

const dtypeOf = ({ wide = [] }: Trial, word: string, token: TokenType): ElementType =>
  integers.includes(word) ? 'i32' : wide.includes(word) ? 'f32' : token

/** About as large as normal noise, but cheap: an integer hash of the index. */
const hashed = (i: number, salt: number): number =>
  (Math.imul(Math.imul(i + 1, 2654435761) + salt, 2246822519) >>> 8) / 2 ** 22 - 2

/** Ids of rows and of classes. */
const integers = ['ids', 'labels']
/** Steps that were taken; no less than any number that `hashed` gives; as many labels as count. */
const fixed: Readonly<Record<string, number>> = { taken: 1, max: 2, count: 64 }

function valuesOf(trial: Trial, word: string, n: number): Float64Array {
  if (Object.hasOwn(fixed, word)) return new Float64Array(n).fill(fixed[word])
  if (integers.includes(word)) return Float64Array.from({ length: n }, (_, i) => (i * 7919) % (trial.below ?? 1))
  const values = new Float64Array(n)
  const salt = word.length * 40503 + word.charCodeAt(0)
  // What is a sum of squares or a rate is above 0.
  const positive = word === 'sumExp' || (trial.command === 'adamw' && ['v', 'lr', 'normSquared'].includes(word))
  for (let i = 0; i < n; i++) values[i] = positive ? Math.fround(0.01 * Math.abs(hashed(i, salt))) : hashed(i, salt)
  return values
}

/** What the reference says, by word of the results. */
function expectedOf(trial: Trial, token: TokenType): Map<string, Float64Array> {
  const operands = Object.entries({ ...trial.ins, ...trial.outs })
  const cells = new Float64Array(operands.reduce((sum, [, sizes]) => sum + countOf(sizes), 0))
  let next = 0
  const places = operands.map(([word, sizes]) => {
    const at = next
    const dtype = dtypeOf(trial, word, token)
    cells.set(valuesOf(trial, word, countOf(sizes)).map(rounded(dtype)), at)
    next += countOf(sizes)
    return { at, parts: dimsOf(sizes).map(({ size }) => ({ origin: 0, until: size, gap: 0 })) }
  })
  const shapes = operands.map(([, sizes]) => ({ dims: dimsOf(sizes), whole: dimsOf(sizes) }))
  const ins = Object.keys(trial.ins).length
  const kernel = prepare(trial.op, shapes.slice(0, ins), shapes.slice(ins))
  kernel(cells, places.slice(0, ins), places.slice(ins), { seed: 1, step: 0, block: '', microbatch: 0, at: {} })
  const results = Object.entries(trial.outs)
  return new Map(
    results.map(([word, sizes], i) => [word, cells.slice(places[ins + i].at, places[ins + i].at + countOf(sizes))]),
  )
}

/** undefined: right. */
function mistake(kernels: Kernels, trial: Trial, token: TokenType): string | undefined {
  const stage = new Stage(kernels, trial, token)
  const expected = expectedOf(trial, token)
  stage.run()
  for (const [word, wanted] of expected) {
    const found = stage.values(word)
    const scale = wanted.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
    const nearest = rounded(dtypeOf(trial, word, token)) // beyond the range it is infinite
    const at = wanted.findIndex(
      (value, i) => found[i] !== nearest(value) && !(Math.abs(found[i] - value) <= tolerances[token] * scale),
    )
    if (at >= 0) return `${word}[${at}] is ${found[at]}, not ${wanted[at]}`
  }
  return undefined
}

/** The best of several turns, each long enough for the clock; in turns with its limits, where they are asked for, and with f32. */
function timesOf(kernels: Kernels, trial: Trial, { milliseconds, dtype }: Asked, limits?: Limits) {
  const stage = new Stage(kernels, trial, dtype)
  const full = dtype === 'f32' ? undefined : new Stage(kernels, trial, 'f32')
  const once = Math.max(stage.run(), stage.run(3), 1e-6)
  const times = Math.max(1, Math.ceil(milliseconds / 5 / 1000 / once))
  limits?.copy() // its pages are touched
  const turns = Array.from({ length: 5 }, () => ({
    seconds: stage.run(times),
    full: full?.run(times) ?? 0,
    copy: limits?.copy() ?? 0,
    product: limits?.product() ?? 0,
  }))
  const best = (what: 'seconds' | 'full' | 'copy' | 'product') => Math.min(...turns.map(turn => turn[what]))
  return { seconds: best('seconds'), full: best('full'), copy: best('copy'), product: best('product') }
}

/** What a kernel reaches of the least time that memory and arithmetic would let it take. */
function roofOf({ flops = 0, steps = 0 }: Trial, { seconds, copy, product }: ReturnType<typeof timesOf>) {
  const arithmetic = ((flops + 2 * steps) / productFlops) * product
  return { limit: arithmetic > copy ? 'compute' : 'memory', share: Math.max(arithmetic, copy) / seconds }
}

export interface KernelRate {
  readonly kernel: string
  readonly target: string
  readonly seconds?: number
  readonly gflops?: number
  /** Operands once read and results once written. */
  readonly gigabytes?: number
  /** What it is limited by, and the share of that limit that it reaches. */
  readonly limit?: string
  readonly share?: number
  /** How many times as fast as on f32, in turns. */
  readonly ofF32?: number
  readonly wrong?: string
}

interface Asked {
  readonly milliseconds: number
  /** What tokens and parameters are in. */
  readonly dtype: TokenType
  readonly roofline: boolean
}

function rateOf(target: string, kernels: Kernels, index: number, asked: Asked): KernelRate {
  const { milliseconds, roofline, dtype } = asked
  const trial = trials(timed)[index]
  const kernel = trial.form ? `${trial.command} ${trial.form}` : trial.command
  const wrong = mistake(kernels, trials(checked)[index], dtype)
  if (wrong !== undefined) return { kernel, target, wrong }
  const bytesOf = (all: Trial['ins']) =>
    Object.entries(all).reduce((sum, [word, x]) => sum + elementBytes(dtypeOf(trial, word, dtype)) * countOf(x), 0)
  const [ins, outs] = [bytesOf(trial.ins), bytesOf(trial.outs)]
  const bytes = ins + outs * (trial.updates ? 2 : 1)
  const limits = roofline ? limitsOf(kernels, ins + outs, milliseconds) : undefined
  const times = timesOf(kernels, trial, asked, limits)
  return {
    ...{ kernel, target, seconds: times.seconds, gigabytes: bytes / times.seconds / 1e9 },
    ...(trial.flops && { gflops: trial.flops / times.seconds / 1e9 }),
    ...(roofline && roofOf(trial, { ...times, copy: (times.copy * bytes) / (ins + outs) })),
    ...(times.full > 0 && { ofF32: times.full / times.seconds }),
  }
}

interface Loaded {
  readonly name: string
  readonly kernels: Kernels
  readonly choice: Chosen
}

/** What can run here, and why the rest cannot. */
function available(names: readonly string[], io: Io): Loaded[] {
  return names.flatMap(name => {
    try {
      const choice = targets[name].choice()
      return [{ name, kernels: targets[name].load(choice.tuning), choice }]
    } catch (error) {
      io.err(`skipped ${name}: ${(error as Error).message}\n`)
      return []
    }
  })
}

export interface BenchKernelsOptions {
  readonly kernels?: string
  readonly only?: string
  readonly ms?: string
  readonly roofline?: boolean
  readonly dtype?: TokenType
  readonly json?: boolean
}

export async function benchKernels(options: BenchKernelsOptions, io: Io): Promise<number> {
  const names = options.kernels?.split(',') ?? Object.keys(targets)
  const unknown = names.filter(name => !Object.hasOwn(targets, name))
  const [milliseconds, dtype] = [Number(options.ms ?? 100), options.dtype ?? 'f32']
  if (unknown.length > 0 || !(milliseconds > 0)) {
    const reason =
      unknown.length > 0 ? `--kernels ${unknown[0]}: must be some of ${Object.keys(targets).join(', ')}` : undefined
    const message = reason ?? `--ms ${options.ms}: not a number above 0`
    io.err(`error ${message}\n`)
    if (options.json) io.out(problemsJson([error('command/usage', '', message)]))
    return 2
  }
  const wanted = trials(timed).flatMap(({ command }, i) => (command.includes(options.only ?? '') ? [i] : []))
  const loaded = available(names, io)
  const runs = wanted.flatMap(i =>
    loaded.map(
      ({ name, kernels }) =>
        () =>
          rateOf(name, kernels, i, { milliseconds, dtype, roofline: options.roofline ?? false }),
    ),
  )
  const rates = await withProgress(io, progress => {
    progress.expect({ 'timing kernels': 1 })
    return progress.run('timing kernels', timing(runs))
  })
  if (options.json) io.out(rates.map(rate => `${JSON.stringify(rate)}\n`).join(''))
  else io.out(`${loaded.map(showLoaded).join('')}${showChoices(loaded)}\n${showRates(rates)}\n`)
  return rates.some(({ wrong }) => wrong !== undefined) ? 1 : 0
}

function* timing(runs: readonly (() => KernelRate)[]): Work<KernelRate[]> {
  const rates: KernelRate[] = []
  for (const run of runs) {
    yield rates.length / runs.length
    rates.push(run())
  }
  return rates
}

const showRates = (rates: readonly KernelRate[]): string =>
  table(
    ['kernel', 'target', 'time', 'GFLOP/s', 'GB/s', 'limit', 'reached', 'to f32', 'answer'],
    rates.map(({ kernel, target, seconds, gflops, gigabytes, limit, share, ofF32, wrong }) => [
      kernel,
      target,
      seconds === undefined ? '' : `${(seconds * 1e6).toFixed(1)} us`,
      gflops?.toFixed(1) ?? '',
      gigabytes?.toFixed(1) ?? '',
      limit ?? '',
      share?.toFixed(2) ?? '',
      ofF32?.toFixed(2) ?? '',
      wrong === undefined ? 'right' : `wrong: ${wrong}`,
    ]),
  )

const showLoaded = ({ name, kernels }: Loaded): string => `${name}: ${kernels.description}\n`

/** What each target's register tile was chosen from, and in which blocks it multiplies. */
function showChoices(loaded: readonly Loaded[]): string {
  const rows = loaded.flatMap(({ name, choice: { tuning, probed } }) => {
    if (name === 'vectors' && loaded.some(({ name }) => name === 'native')) return [] // the same choice
    if (!probed) return [[name, ...showTuning(tuning), '', '', 'asked for']]
    return probed.races.flatMap((race, i) =>
      race.map(({ tuning: tried, gflops, behind }) => [
        ...[name, ...showTuning(tried), gflops.toFixed(1), `${Math.round(100 / behind)} %`],
        i === probed.races.length - 1 && sameTuning(tried, tuning) ? 'chosen' : '',
      ]),
    )
  })
  const head = ['target', 'tile', 'blocks, rows x k x columns', 'rows in place up to', 'pieces, fetched up to', 'codes']
  return `\n${table([...head, 'GFLOP/s', 'of the best', ''], rows)}\n`
}

/** Tile and blocks of products, pieces of collectives, how numbers made of codes are written. */
const showTuning = (tuning: Tuning): string[] => [
  tuning.variant,
  `${tuning.blockRows} x ${tuning.blockK} x ${tuning.blockColumns}`,
  tuning.unpacked > 0 ? `${tuning.unpacked} columns` : '',
  `${showBytes(tuning.pieceBytes)}, ${showBytes(4 * tuning.fetched)}`,
  tuning.codedBytes > tuning.streamedBytes ? 'through the caches' : 'past the caches',
]

const sameTuning = (a: Tuning, b: Tuning): boolean =>
  (Object.keys(a) as (keyof Tuning)[]).every(word => a[word] === b[word]) // all of its words
