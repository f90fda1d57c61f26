/** A memory with a rank's blocks in it, in which commands run on operands that lie at odd places between guards. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import type { ElementType } from '../src/base/index.js'
import {
  type CommandName,
  CommandWriter,
  commands,
  type Kernels,
  Status,
  type WordsOf,
} from '../src/engine/native/index.js'
import { elementBytes, layNumbers, markOf, numbersIn, viewOf } from '../src/engine/native/kernels/dtypes.js'
import type { KernelCase } from './kernel-cases.js'

const guard = 7 // f32 before and after each operand: odd, so that nothing is aligned by accident
const guardValue = 12345.5

export class KernelBench {
  readonly f32: Float32Array
  readonly i32: Int32Array
  readonly f64: Float64Array
  readonly status: number
  readonly #buffer: SharedArrayBuffer
  readonly #exec: (list: number, status: number) => number
  readonly #workspace: number
  readonly #list: number
  readonly #first: number
  #next: number
  readonly kernels: Kernels

  constructor(kernels: Kernels, bytes = 2 ** 25) {
    this.kernels = kernels
    const memory = kernels.memory(bytes)
    const whole = Math.floor(memory.buffer.byteLength / 8) * 8
    this.f32 = new Float32Array(memory.buffer, 0, whole / 4)
    this.i32 = new Int32Array(memory.buffer, 0, whole / 4)
    this.f64 = new Float64Array(memory.buffer, 0, whole / 8)
    this.#buffer = memory.buffer
    this.#exec = kernels.attach(memory)
    this.status = memory.start
    this.#list = this.status + Math.ceil(Status.bytes / 64) * 64
    this.#workspace = this.#list + 65536
    this.#first = this.#next = this.#workspace + kernels.workspaceBytes
  }

  clear() {
    this.#next = this.#first
  }

  /** A place for n elements, 4 bytes past a multiple of 8. */
  place(n: number): number {
    const at = this.#next / 4
    this.f32.fill(guardValue, at, at + guard + n + guard)
    this.#next += 4 * (guard + n + guard + ((guard + n + guard) % 2))
    return (at + guard) * 4
  }

  put(values: ArrayLike<number>, cells: Float32Array | Int32Array = this.f32): number {
    const at = this.place(values.length)
    cells.set(values, at / 4)
    return at
  }

  read = (at: number, n: number): Float32Array => this.f32.slice(at / 4, at / 4 + n)

  /** The guards around an operand are as they were. */
  intact(at: number, n: number): boolean {
    const [before, after] = [this.read(at - 4 * guard, guard), this.read(at + 4 * n, guard)]
    return [...before, ...after].every(value => value === guardValue)
  }

  writer(config: Partial<WordsOf<'config'>> = {}): CommandWriter {
    return new CommandWriter().put('config', {
      abort: 0,
      timeoutMs: 1000,
      spin: 0,
      yields: 0,
      spans: 0,
      spanCapacity: 0,
      workspace: this.#workspace,
      workspaceBytes: this.kernels.workspaceBytes,
      ...config,
    })
  }

  run(writer: CommandWriter): number {
    this.f64.set(writer.list(), this.#list / 8)
    return this.#exec(this.#list, this.status)
  }

  /** Runs a case with operands and results that are stored as `dtypeOf` says of their words; gives its results by word. */
  stored(given: KernelCase, dtypeOf: (word: string) => ElementType): Record<string, Float32Array> {
    this.clear()
    const { ins, ids = {}, initial = {}, expected } = given
    const cells = (word: string, n: number) => Math.ceil((n * elementBytes(dtypeOf(word))) / 4)
    const view = (word: string, at: number, n: number) => viewOf(dtypeOf(word), this.#buffer, at, n)
    const put = (word: string, values: ArrayLike<number>) => {
      const at = this.place(cells(word, values.length))
      layNumbers(dtypeOf(word), view(word, at, values.length), values)
      return at
    }
    const places: Record<string, number> = {}
    for (const [word, values] of Object.entries(ins)) places[word] = put(word, values)
    for (const [word, values] of Object.entries(ids)) places[word] = this.put(values, this.i32)
    for (const [word, values] of Object.entries(expected))
      places[word] = initial[word] ? put(word, initial[word]) : this.place(cells(word, values.length))
    const marked = Object.entries(places).map(([word, at]) => [word, at + markOf(dtypeOf(word))])
    const words = { ...Object.fromEntries(marked), ...given.words } as never // as above
    equal(this.run(this.writer().put(given.command, words)), 0)
    for (const [word, { length }] of Object.entries(expected))
      ok(this.intact(places[word], cells(word, length)), `${word} was written past its ends`)
    const read = (word: string, n: number) => numbersIn(dtypeOf(word), view(word, places[word], n)).slice()
    return Object.fromEntries(Object.entries(expected).map(([word, { length }]) => [word, read(word, length)]))
  }

  /** Runs a case, with results over operands where `over` says so, all moved by `skew` elements; gives its results by word. */
  results(given: KernelCase, over: Readonly<Record<string, string>> = {}, skew = 0): Record<string, Float32Array> {
    this.clear()
    this.#next += 4 * skew
    const places: Record<string, number> = {}
    for (const [word, values] of Object.entries(given.ins)) places[word] = this.put(values)
    for (const [word, values] of Object.entries(given.ids ?? {})) places[word] = this.put(values, this.i32)
    const sizes = Object.entries(given.expected).map(([word, values]) => [word, values.length] as const)
    for (const [word, n] of sizes)
      places[word] = over[word]
        ? places[over[word]]
        : given.initial?.[word]
          ? this.put(given.initial[word])
          : this.place(n)
    const words = { ...places, ...given.words } as never // the words of this command, which the next line checks
    const expected = (commands[given.command] as readonly string[]).map(word => word.replace('...', ''))
    deepEqual(Object.keys(words).sort(), expected.sort())
    equal(this.run(this.writer().put(given.command as CommandName, words)), 0)
    for (const [word, n] of sizes) ok(this.intact(places[word], n), `${word} was written past its ends`)
    const read = (word: string, n: number) =>
      given.integers?.includes(word)
        ? Float32Array.from(this.i32.subarray(places[word] / 4, places[word] / 4 + n))
        : this.read(places[word], n)
    return Object.fromEntries(sizes.map(([word, n]) => [word, read(word, n)]))
  }
}

/** The worst difference of a result, as a part of what it may be. */
export function worstPart(given: KernelCase, results: Record<string, Float32Array>): number {
  let worst = 0
  for (const [word, expected] of Object.entries(given.expected)) {
    const { magnitude } = given
    const weights = typeof magnitude === 'object' ? magnitude[word] : (magnitude ?? 0)
    for (let i = 0; i < expected.length; i++) {
      const weight = typeof weights === 'number' ? weights : weights[i]
      const off = Math.abs(results[word][i] - expected[i])
      if (off !== 0) worst = Math.max(worst, off / (given.bound * (Math.abs(expected[i]) + weight)))
      if (Number.isNaN(off)) return Infinity
    }
  }
  return worst
}
