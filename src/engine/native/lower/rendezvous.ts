/**
 * Who meets whom, found while lists are written: members of a group find each other by how many times that group has
 * met, a sender and a receiver by their tag. Only when every rank's list is there are all operands known, so the words
 * that name others' operands are filled in at the end.
 */
import type { Rank } from '../../../base/index.js'
import { Sync } from './commands.js'
import type { ListWriter } from './list.js'
import type { Region } from './map.js'

/** A place in a rank's list. */
export interface Word {
  readonly list: ListWriter
  readonly word: number
}

/** Where an operand and its result lie. */
interface PairPlace {
  readonly x: number
  readonly out: number
}

/** Where the operands of all members are named, followed by their results; `stride` words on, those of the next pair. */
interface OperandWords extends Word {
  readonly stride: number
}

interface Member {
  readonly pairs: readonly PairPlace[]
  /** Words to be filled in: where the block is, which collective it is, and all members' operands. */
  readonly sync: Word[]
  readonly collective: Word[]
  readonly operands: OperandWords[]
}

class Rendezvous {
  readonly meaning: string
  readonly members = new Map<Rank, Member>()
  /** Somebody waits for it before an earlier one: it must not share counters with others. */
  alone = false
  constructor(meaning: string) {
    this.meaning = meaning
  }
}

class Group {
  readonly members: readonly Rank[]
  readonly collectives: Rendezvous[] = []
  readonly turns = new Map<Rank, number>()
  /** Per rank, the collectives started and not yet waited for. */
  readonly open = new Map<Rank, Rendezvous[]>()
  constructor(members: readonly Rank[]) {
    this.members = members
  }
}

export interface Arrival {
  readonly rank: Rank
  readonly members: readonly Rank[]
  /** Kind, dims and order in words: members that differ in it do not mean the same collective. */
  readonly meaning: string
  readonly pairs: readonly PairPlace[]
}

/** One rank's side of a collective that has started. */
export interface RankCollective {
  readonly members: readonly Rank[]
  readonly me: number
  /** Says where a command names its block, its collective and (a wait) the operands. */
  name(words: { sync: Word; collective: Word; operands?: OperandWords }): void
  /** Called where it is waited for. */
  close(): void
}

interface Message {
  /** Where both ends' frames lie. */
  x?: number
  out?: number
  /** Words to be filled in: the block, and the two frames. */
  readonly sync: Word[]
  readonly frames: { readonly x: Word; readonly out: Word }[]
}

export class RendezvousTable {
  readonly #groups = new Map<string, Group>()
  readonly #messages = new Map<string, Message>()

  join({ rank, members, meaning, pairs }: Arrival): RankCollective {
    const key = members.join(' ')
    const group = this.#groups.get(key) ?? new Group(members)
    this.#groups.set(key, group)
    const turn = group.turns.get(rank) ?? 0
    group.turns.set(rank, turn + 1)
    const collective = (group.collectives[turn] ??= new Rendezvous(meaning))
    if (collective.meaning !== meaning)
      throw new Error(
        `internal: members mean different collectives: ${collective.meaning} and, at rank ${rank}, ${meaning}`,
      )
    const member: Member = { pairs, sync: [], collective: [], operands: [] }
    collective.members.set(rank, member)
    const open = group.open.get(rank) ?? []
    open.push(collective)
    group.open.set(rank, open)
    return {
      members,
      me: members.indexOf(rank),
      name(words) {
        member.sync.push(words.sync)
        member.collective.push(words.collective)
        if (words.operands) member.operands.push(words.operands)
      },
      close() {
        const place = open.indexOf(collective)
        if (open.slice(0, place).some(other => !other.alone)) collective.alone = true
        open.splice(place, 1)
      },
    }
  }

  /** One end of a message starts: its frame, and the word that names the block. */
  post(address: string, end: 'x' | 'out', frame: number, sync: Word): void {
    const message = this.#message(address)
    message[end] = frame
    message.sync.push(sync)
  }

  /** One end waits: the words of the block and of both frames. */
  collect(address: string, words: { sync: Word; x: Word; out: Word }): void {
    const message = this.#message(address)
    message.sync.push(words.sync)
    message.frames.push(words)
  }

  /** Lays out the blocks and fills in every word that was left open. */
  settle(region: Region): void {
    for (const group of this.#groups.values()) settleGroup(group, region)
    for (const [address, { x, out, sync, frames }] of this.#messages) {
      if (x === undefined || out === undefined) throw new Error(`internal: ${address} has only one end`)
      const block = region.take(Sync.lineBytes)
      for (const { list, word } of sync) list.set(word, block)
      for (const words of frames) {
        words.x.list.set(words.x.word, x)
        words.out.list.set(words.out.word, out)
      }
    }
  }

  #message(address: string): Message {
    const message = this.#messages.get(address) ?? { sync: [], frames: [] }
    this.#messages.set(address, message)
    return message
  }
}

function settleGroup({ members, collectives }: Group, region: Region): void {
  const take = () => region.take(Sync.lineBytes * (members.length + 1))
  const shared = take()
  let count = 0
  for (const collective of collectives) {
    const missing = members.filter(rank => !collective.members.has(rank))
    if (missing.length > 0)
      throw new Error(`internal: ${collective.meaning}: ranks ${missing.join(' ')} never come to it`)
    const [block, number] = collective.alone ? [take(), 1] : [shared, ++count]
    const arrived = members.map(rank => collective.members.get(rank)!)
    for (const member of arrived) {
      for (const { list, word } of member.sync) list.set(word, block)
      for (const { list, word } of member.collective) list.set(word, number)
      for (const operands of member.operands) nameOperands(operands, arrived)
    }
  }
}

function nameOperands({ list, word, stride }: OperandWords, members: readonly Member[]): void {
  for (const [i, { pairs }] of members.entries())
    for (const [pair, { x, out }] of pairs.entries()) {
      list.set(word + pair * stride + i, x)
      list.set(word + pair * stride + members.length + i, out)
    }
}
