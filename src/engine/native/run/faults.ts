/**
 * Faults that happen to ranks, as main prepares them: which command of a rank's list each of them concerns, and, before every step,
 * which of them happen in it. A rank to which nothing happens runs its list as ever.
 */
import {
  type Fault,
  type FaultBook,
  type FaultOf,
  faultPath,
  faultRefused,
  type Problem,
  ProblemsError,
  type Rank,
} from '../../../base/index.js'
import { type CommandName, commandNames } from '../lower/commands.js'
import { type CommandList, Hand } from '../lower/list.js'
import type { LoweredProgram } from '../lower/lowered.js'
import type { Deed } from './deeds.js'

/** Those of ranks that do something in a step; of the others only `flip` concerns an engine. */
const deedKinds = ['kill', 'stall', 'slow', 'nan', 'lose'] as const
type DeedFault = FaultOf<(typeof deedKinds)[number]>

/** A word of shared memory has a bit for each. */
const mostOfARank = 31

export class Injector {
  readonly #book: FaultBook
  readonly #lowered: LoweredProgram
  readonly #words: Int32Array
  readonly #byRank: ReadonlyMap<Rank, readonly DeedFault[]>

  constructor(book: FaultBook, lowered: LoweredProgram, buffer: SharedArrayBuffer) {
    this.#book = book
    this.#lowered = lowered
    this.#words = new Int32Array(buffer)
    const own = (rank: Rank) => book.faults.filter(fault => isDeed(fault) && fault.rank === rank) as DeedFault[] // asked first
    this.#byRank = new Map(lowered.lists.flatMap((_, rank) => (own(rank).length > 0 ? [[rank, own(rank)]] : [])))
    for (const faults of this.#byRank.values())
      if (faults.length > mostOfARank)
        throw impossible(
          faultRefused(faultPath(faults[mostOfARank]), 'run/fault/many', { most: mostOfARank, faults: faults.length }),
        )
  }

  /** What a rank is told before the first step. */
  deeds(rank: Rank): readonly Deed[] | undefined {
    return this.#byRank.get(rank)?.map(fault => deedOf(fault, this.#lowered.lists[rank]))
  }

  /** Tells every rank what happens to it in the step; where the step is run again, what happens again. */
  arm(step: number, again = false): void {
    const due: readonly Fault[] = again ? this.#book.again(step) : this.#book.take(step, ...deedKinds)
    for (const [rank, faults] of this.#byRank) {
      const mask = faults.reduce((sum, fault, i) => sum | (due.includes(fault) ? 1 << i : 0), 0)
      Atomics.store(this.#words, this.#lowered.handAt[rank] / 4 + Hand.armed, mask)
    }
  }

  flips = (step: number): FaultOf<'flip'>[] => this.#book.take(step, 'flip')
}

const isDeed = (fault: Fault): fault is DeedFault => (deedKinds as readonly string[]).includes(fault.kind) // widened to ask

function deedOf(fault: DeedFault, list: CommandList): Deed {
  if (fault.kind === 'slow')
    return { kind: 'slow', factor: fault.factor, computes: list.starts.map(start => computes(nameAt(list, start))) }
  const { at = 0, rank } = fault
  const commands = list.starts.length
  if (at >= commands)
    throw impossible(faultRefused(faultPath(fault), 'run/fault/command', { rank, commands, last: commands - 1 }))
  if (fault.kind === 'kill') return { kind: 'kill', command: at }
  if (fault.kind === 'stall') return { kind: 'stall', command: at, seconds: fault.seconds ?? Number.POSITIVE_INFINITY }
  return fault.kind === 'lose' ? { kind: 'lose', command: nextOf(fault, list, at, arrives) } : spoils(fault, list, at)
}

function spoils(fault: FaultOf<'nan'>, list: CommandList, from: number): Deed {
  const command = nextOf(fault, list, from, makesNumbers)
  const word = list.words[list.starts[command] + 2]
  return { kind: 'nan', command, at: Math.floor(word), wide: Number.isInteger(word) }
}

/** The first command from one on that will do. */
function nextOf(fault: DeedFault, list: CommandList, from: number, will: (name: CommandName) => boolean): number {
  const found = list.starts.findIndex((start, i) => i >= from && will(nameAt(list, start)))
  if (found < 0) throw impossible(faultRefused(faultPath(fault), 'run/fault/no-command', { rank: fault.rank, from }))
  return found
}

const nameAt = ({ words }: CommandList, start: number): CommandName => commandNames[words[start]]

const arrivals: ReadonlySet<CommandName> = new Set(['start', 'send', 'recv'])
const arrives = (name: CommandName): boolean => arrivals.has(name)

const silent: ReadonlySet<CommandName> = new Set(['end', 'config', 'alloc', 'free', 'barrier', 'dither', ...arrivals])
const computes = (name: CommandName): boolean => !silent.has(name) && !name.startsWith('wait')

/** What they give first are whole numbers, or codes. */
const ofWhole: ReadonlySet<CommandName> = new Set([
  ...(['topK', 'assign', 'rowsOf', 'countChoices', 'countTop', 'pack', 'packSigns', 'copyBytes', 'copy'] as const),
])
/** The first word of these is where their first result lies. */
const makesNumbers = (name: CommandName): boolean => computes(name) && !ofWhole.has(name)

const impossible = (problem: Problem): ProblemsError => new ProblemsError([problem])
