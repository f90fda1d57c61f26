/** Writing a list of commands: words by name, in the order of the contract, with what each command came from. */
import type { Rank } from '../../base/index.js'
import { type CommandName, commands, opcodes } from './commands.js'

type Words<N extends CommandName> = (typeof commands)[N][number]

/** The words of a command, but for the runs of offsets at its end. */
export type Fields<N extends CommandName> = { readonly [W in Exclude<Words<N>, `...${string}`>]: number }

/** Where a command came from: a step of the stream and an instruction of the segment it calls; -1: the step itself. */
export interface Origin {
  readonly step: number
  readonly instr: number
}

/** A rank's step. `starts[i]` is the word command i starts at. */
export interface CommandList {
  readonly words: Float64Array<ArrayBuffer>
  readonly starts: readonly number[]
  readonly origins: readonly Origin[]
  /** Words that hold the number of the training step. */
  readonly stepWords: readonly number[]
  /** Whom a command waits for, by index: the members of a group, or the other end of a message. */
  readonly peers: ReadonlyMap<number, readonly Rank[]>
}

const header = 2

const isRun = (word: string): boolean => word.startsWith('...')
const named = Object.fromEntries(
  Object.entries(commands).map(([name, words]) => [name, (words as readonly string[]).filter(word => !isRun(word))]),
) as unknown as Readonly<Record<CommandName, readonly string[]>> // one entry per command

/** The word of `field` within a command, its header included. */
export const wordOf = <N extends CommandName>(name: N, field: Words<N>): number =>
  header + (commands[name] as readonly string[]).indexOf(field)

export class ListWriter {
  origin: Origin = { step: -1, instr: -1 }
  readonly #words: number[] = []
  readonly #starts: number[] = []
  readonly #origins: Origin[] = []
  readonly #stepWords: number[] = []
  readonly #peers = new Map<number, readonly Rank[]>()

  /** How many commands there are: the index of the next one. */
  get count(): number {
    return this.#starts.length
  }

  /** Returns the word the command starts at. */
  write<N extends CommandName>(name: N, fields: Fields<N>, ...rest: readonly number[]): number {
    const start = this.#words.length
    this.#words.push(opcodes[name], named[name].length + rest.length)
    for (const word of named[name]) {
      const value = (fields as Readonly<Record<string, number>>)[word] // the keys are the words
      if (typeof value !== 'number') throw new Error(`internal: ${name} has no ${word}`)
      this.#words.push(value)
    }
    this.#words.push(...rest)
    this.#starts.push(start)
    this.#origins.push(this.origin)
    return start
  }

  /** As write, for a command whose word `step` is the number of the training step. */
  writeTimed<N extends 'dropout' | 'attention' | 'attentionGrad'>(name: N, fields: Omit<Fields<N>, 'step'>): void {
    const start = this.write(name, { ...fields, step: 0 } as unknown as Fields<N>) // step is the word left out
    this.#stepWords.push(start + wordOf(name, 'step' as Words<N>))
  }

  /** Says whom the command just written waits for. */
  waitsFor(peers: readonly Rank[]): void {
    this.#peers.set(this.#starts.length - 1, peers)
  }

  set(word: number, value: number): void {
    this.#words[word] = value
  }

  finish(): CommandList {
    this.origin = { step: -1, instr: -1 }
    this.write('end', {})
    return {
      words: Float64Array.from(this.#words),
      starts: this.#starts,
      origins: this.#origins,
      stepWords: this.#stepWords,
      peers: this.#peers,
    }
  }
}
