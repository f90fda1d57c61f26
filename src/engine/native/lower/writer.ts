/** Writes command lists by name, so that nobody counts words. */
import { type CommandName, commands, opcodes } from './commands.js'

type WordName<N extends CommandName> = (typeof commands)[N][number]

/** The operands of a command, by name; a list of operands (`...x` in the table) is an array. */
export type WordsOf<N extends CommandName> = {
  readonly [W in WordName<N> as W extends `...${infer List}` ? List : W]: W extends `...${string}`
    ? readonly number[]
    : number
}

const wordNames: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.entries(commands).map(([name, words]) => [name, words.map((word: string) => word.replace('...', ''))]),
)

/** Writes a command list. */
export class CommandWriter {
  #words = new Float64Array(256)
  #length = 0
  /** How many commands were put: the index of the next one in spans and status. */
  count = 0

  put<N extends CommandName>(name: N, words: WordsOf<N>): this {
    const values = words as Readonly<Record<string, number | readonly number[]>> // one entry per word of the table
    const header = this.#length
    this.#push(opcodes[name])
    this.#push(0)
    for (const word of wordNames[name]) {
      const value = values[word]
      if (typeof value === 'number') this.#push(value)
      else for (const each of value) this.#push(each)
    }
    this.#words[header + 1] = this.#length - header - 2
    this.count++
    return this
  }

  /** Words so far: where the next command starts. */
  get length(): number {
    return this.#length
  }

  /** Changes a word that was written before all was known. */
  set(word: number, value: number): void {
    this.#words[word] = value
  }

  /** The list so far, ended. */
  list(): Float64Array<ArrayBuffer> {
    const list = new Float64Array(this.#length + 2) // `end` is 0, and no words follow
    list.set(this.#words.subarray(0, this.#length))
    return list
  }

  #push(word: number): void {
    if (this.#length === this.#words.length) {
      const longer = new Float64Array(2 * this.#length)
      longer.set(this.#words)
      this.#words = longer
    }
    this.#words[this.#length++] = word
  }
}
