/** A rank's list of commands, with what each command came from and whom it waits for. */
import type { Rank } from '../../../base/index.js'
import { type CommandName, commands } from './commands.js'
import { CommandWriter, type WordsOf } from './writer.js'

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

/** The word of `field` within a command, its header included. */
export const wordOf = <N extends CommandName>(name: N, field: keyof WordsOf<N> & string): number =>
  header + (commands[name] as readonly string[]).indexOf(field)

/**
 * Room for one command at a time: a line that says what is armed and how many commands are behind, then a list of `config`, maybe
 * `dither`, and the command.
 */
export const Hand = { armed: 0, behind: 1, list: 64 } as const

export function handBytes({ words, starts }: CommandList): number {
  const longest = starts.reduce((most, start) => Math.max(most, header + words[start + 1]), 0)
  return Hand.list + 8 * (3 * longest + header)
}

type SteppedCommand = 'dropout' | 'attention' | 'attentionGrad' | 'dither'

export class ListWriter {
  origin: Origin = { step: -1, instr: -1 }
  readonly #writer = new CommandWriter()
  readonly #starts: number[] = []
  readonly #origins: Origin[] = []
  readonly #stepWords: number[] = []
  readonly #peers = new Map<number, readonly Rank[]>()

  /** How many commands there are: the index of the next one. */
  get count(): number {
    return this.#starts.length
  }

  /** Returns the word the command starts at. */
  write<N extends CommandName>(name: N, words: WordsOf<N>): number {
    const start = this.#mark()
    this.#writer.put(name, words)
    return start
  }

  /** Writes a command whose word `step` is the number of the training step. */
  writeTimed<N extends SteppedCommand>(name: N, words: Omit<WordsOf<N>, 'step'>): void {
    const start = this.write(name, { ...words, step: 0 } as unknown as WordsOf<N>) // step is the word left out
    this.#stepWords.push(start + header + (commands[name] as readonly string[]).indexOf('step'))
  }

  /** Says whom the command just written waits for. */
  waitsFor(peers: readonly Rank[]): void {
    this.#peers.set(this.#starts.length - 1, peers)
  }

  set(word: number, value: number): void {
    this.#writer.set(word, value)
  }

  finish(): CommandList {
    this.origin = { step: -1, instr: -1 }
    this.#mark() // of the end, which every list has
    return {
      words: this.#writer.list(),
      starts: this.#starts,
      origins: this.#origins,
      stepWords: this.#stepWords,
      peers: this.#peers,
    }
  }

  #mark(): number {
    this.#starts.push(this.#writer.length)
    this.#origins.push(this.origin)
    return this.#writer.length
  }
}

/** The block and the collective are the first and fourth word of every command that meets. */
export const wordsAt = (list: ListWriter, command: number) => ({
  sync: { list, word: command + header },
  collective: { list, word: command + header + 3 },
})
