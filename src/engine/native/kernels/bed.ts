/** A memory of its own to run single kernels in, on the calling thread: for timing them and for comparing their answers. */

import type { ElementType } from '../../../base/index.js'
import { platform } from '../../../platform/index.js'
import { type CommandName, Status } from '../lower/commands.js'
import { CommandWriter, type WordsOf } from '../lower/writer.js'
import { type Elements, elementBytes, markOf, viewOf } from './dtypes.js'
import { type Exec, execErrors, type Kernels, type SharedMemory } from './target.js'

/** Operands lie where a rank's buffers would: at multiples of a cache line. */
const line = 64
const roundUp = (bytes: number): number => Math.ceil(bytes / line) * line

export interface Operand {
  readonly offset: number
  readonly values: Float32Array
}

/** The words of one product out = a b, of rows that lie one after the other. */
export const productWords = (
  { a, b, out }: Readonly<Record<'a' | 'b' | 'out', Operand>>,
  sizes: { readonly m: number; readonly n: number; readonly k: number },
  form: 'NN' | 'NT' | 'TN' = 'NN',
): WordsOf<'matmul'> => ({
  ...{ out: out.offset, a: a.offset, b: b.offset, bias: 0, add: 0, ...sizes },
  ...{ transA: Number(form[0] === 'T'), transB: Number(form[1] === 'T') },
  ...{ batch: 1, strideA: 0, strideB: 0, strideOut: 0 },
})

export class KernelBed {
  readonly #memory: SharedMemory
  #exec: Exec
  readonly #execs = new Map<Kernels, Exec>()
  readonly #status: number
  readonly #workspace: number
  readonly #workspaceBytes: number
  readonly #list: number
  #free: number

  /** `bytes`: what all operands together need, a cache line each for good measure. */
  constructor(kernels: Kernels, bytes: number) {
    const listBytes = 8 * 256
    this.#workspaceBytes = kernels.workspaceBytes
    this.#memory = kernels.memory(roundUp(Status.bytes) + roundUp(this.#workspaceBytes) + listBytes + bytes + 2 * line)
    this.#exec = kernels.attach(this.#memory)
    this.#status = roundUp(this.#memory.start)
    this.#workspace = this.#status + roundUp(Status.bytes)
    this.#list = this.#workspace + roundUp(this.#workspaceBytes)
    this.#free = this.#list + listBytes
  }

  /** From now on commands are run by these, which are the same but for how they are tuned. */
  use(kernels: Kernels): void {
    this.#exec = this.#execs.get(kernels) ?? kernels.attach(this.#memory)
    this.#execs.set(kernels, this.#exec)
  }

  /** Room for n elements. */
  operand(n: number): Operand {
    const offset = this.#free
    this.#free += roundUp(4 * n)
    return { offset, values: new Float32Array(this.#memory.buffer, offset, n) }
  }

  /** The same of some dtype, and the word that names it in a command. */
  numbers(n: number, dtype: ElementType): { readonly word: number; readonly elements: Elements } {
    const offset = this.#free
    this.#free += roundUp(elementBytes(dtype) * n)
    return { word: offset + markOf(dtype), elements: viewOf(dtype, this.#memory.buffer, offset, n) }
  }

  /**
   * Processor seconds of one command, the mean of so many in a row. A kernel runs on one thread, so on an idle machine
   * this is the time on the clock; on a busy one it leaves out the others' turns.
   */
  time<N extends CommandName>(name: N, words: WordsOf<N>, runs = 1): number {
    return this.timeAll(writer => writer.put(name, words), runs)
  }

  /** The same of several commands in a row. */
  timeAll(put: (writer: CommandWriter) => CommandWriter, runs = 1): number {
    this.#write(put)
    const before = platform.cpuSeconds()
    for (let run = 0; run < runs; run++) this.#run()
    return (platform.cpuSeconds() - before) / runs
  }

  #write(put: (writer: CommandWriter) => CommandWriter): void {
    const config = new CommandWriter().put('config', {
      ...{ abort: 0, timeoutMs: 1000, spin: 0, yields: 0, spans: 0, spanCapacity: 0 },
      ...{ workspace: this.#workspace, workspaceBytes: this.#workspaceBytes },
    })
    const list = put(config).list()
    new Float64Array(this.#memory.buffer, this.#list, list.length).set(list)
  }

  #run(): void {
    const code = this.#exec(this.#list, this.#status)
    if (code !== 0) throw new Error(`internal: ${execErrors[code as keyof typeof execErrors] ?? `error ${code}`}`)
  }
}
