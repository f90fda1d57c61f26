/**
 * Where ranks meet. Members of a group find each other by who they are and by how many times that group has met;
 * a sender and a receiver find each other by who they are and by the tag. Nobody leaves before everybody has come.
 */
import type { Rank } from '../../base/index.js'
import type { Cells } from '../../geometry/index.js'

/** What one member brings. */
export interface Arrival {
  readonly rank: Rank
  readonly members: readonly Rank[]
  /** Kind, dims and order in words: members that differ in it do not mean the same collective. */
  readonly meaning: string
  /** Where it started, in words. */
  text(): string
  /** The operands, in place. They are read when they must be, not when they arrive. */
  readonly operands: readonly Cells[]
}

export class Rendezvous {
  readonly members: readonly Rank[]
  readonly #arrivals = new Map<Rank, Arrival>()
  #parts: Cells[][] | undefined

  constructor(members: readonly Rank[]) {
    this.members = members
  }

  join(arrival: Arrival): void {
    const [first] = this.#arrivals.values()
    if (first && first.meaning !== arrival.meaning)
      throw new Error(
        `members mean different collectives: rank ${first.rank} ${first.text()} (${first.meaning}), ` +
          `rank ${arrival.rank} ${arrival.text()} (${arrival.meaning})`,
      )
    this.#arrivals.set(arrival.rank, arrival)
  }

  get missing(): Rank[] {
    return this.members.filter(rank => !this.#arrivals.has(rank))
  }

  get ready(): boolean {
    return this.#arrivals.size === this.members.length
  }

  /** Every member's operand of one pair, in group order, as it is when the first member needs one. */
  operands(pair: number): readonly Cells[] {
    this.#parts ??= this.members.map(rank => this.#arrivals.get(rank)!.operands.map(operand => operand.slice()))
    return this.#parts.map(operands => operands[pair])
  }
}

export class RendezvousTable {
  readonly #open = new Map<string, Rendezvous>()
  readonly #turns = new Map<string, number>()

  /** `group` names the members, in whatever order. */
  join(group: string, arrival: Arrival): Rendezvous {
    const mine = `${arrival.rank} of ${group}`
    const turn = this.#turns.get(mine) ?? 0
    this.#turns.set(mine, turn + 1)
    const key = `${group} turn ${turn}`
    const rendezvous = this.#open.get(key) ?? new Rendezvous(arrival.members)
    rendezvous.join(arrival)
    if (rendezvous.ready) this.#open.delete(key)
    else this.#open.set(key, rendezvous)
    return rendezvous
  }
}

interface Address {
  readonly source: Rank
  readonly target: Rank
  readonly tag: string
}

/** One frame on its way from rank to rank. */
export interface Message extends Address {
  /** The frames of both ends, in place, once they have started. */
  from?: Cells
  to?: Cells
  /** What was sent, as it was when the first end waited. */
  data?: Cells
}

export class Mail {
  readonly #messages = new Map<string, Message>()
  readonly #cellBytes: number

  constructor(cellBytes: number) {
    this.#cellBytes = cellBytes
  }

  start(address: Address, side: 'from' | 'to', frame: Cells): Message {
    const { source, target, tag } = address
    const key = `${source} to ${target}: ${tag}`
    const message = this.#messages.get(key) ?? { ...address }
    if (message[side]) throw new Error(`tag ${tag} is used twice between ranks ${source} and ${target}`)
    const other = message.from ?? message.to
    if (other && other.length !== frame.length)
      throw new Error(
        `tag ${tag} from rank ${source} to ${target}: frames of ${other.length * this.#cellBytes} and ${frame.length * this.#cellBytes} bytes`,
      )
    message[side] = frame
    this.#messages.set(key, message)
    return message
  }
}

/** Finishes one end of a message if both have started. */
export function finishMessage(message: Message, side: 'from' | 'to'): boolean {
  if (!message.from || !message.to) return false
  message.data ??= message.from.slice()
  if (side === 'to') message.to.set(message.data)
  return true
}
