/**
 * The memory of a group: a heap per rank for its tensors, and the blocks its ranks meet at. Both who drives all ranks and
 * who joins as one of them keep a Heap: it counts what was made and how often ranks have met.
 */
import { type ElementType, type Rank, showBytes } from '../../../base/index.js'
import { platform } from '../../../platform/index.js'
import { type Elements, elementBytes, viewOf } from '../kernels/dtypes.js'
import { type Kernels, loadKernels, type SharedMemory, type Tuning } from '../kernels/kernels.js'
import { Status, Sync } from '../lower/commands.js'
import { type CommandList, ListWriter } from '../lower/list.js'
import { Control, Region } from '../lower/map.js'
import { type Waiting, waitingFor } from '../lower/waiting.js'
import type { Pool } from '../run/pool.js'
import { countProblems, memberProblems, rankProblems, refuse, shapeProblems, tensorProblems } from './check.js'
import type { Seat, Tensor } from './collectives.js'

/** Makes tensors: for all ranks at once, or the same at every rank. */
export interface Tensors {
  /** Room for a tensor at every rank. */
  tensor(dtype: ElementType, length: number): Tensor
}

/** Options of `createGroup`. */
export interface GroupOptions {
  /** Size of each rank's heap, where its tensors lie: 16 MiB by default. */
  readonly bytes?: number
  readonly kernels?: Kernels['kind'] | 'auto'
  /** How long a rank may wait for another: 60 s by default. */
  readonly timeoutMs?: number
  /** false: no threads are started, ranks join from threads of yours. */
  readonly threads?: boolean
  readonly pool?: Pool
}

/** What a thread needs to join a group. It can be posted to a worker. */
export interface GroupToken {
  readonly kernels: Kernels['kind']
  readonly tuning: Tuning
  readonly memory: SharedMemory
  readonly ranks: number
  readonly waiting: Waiting
  /** Byte offsets. */
  readonly control: number
  readonly statuses: readonly number[]
  readonly lists: readonly number[]
  readonly messages: number
  readonly blocks: number
  readonly heaps: readonly number[]
  readonly heapBytes: number
}

const listBytes = 1 << 16
const mostGroups = 64
const mostRanks = 1024
const defaultBytes = 16 << 20
const defaultTimeoutMs = 60_000
/** A timer of Node can wait no longer. */
const longestMs = 2 ** 31 - 1

export function groupProblems(
  ranks: number,
  { bytes = defaultBytes, timeoutMs = defaultTimeoutMs }: GroupOptions,
): string[] {
  const wrong = [
    ...(ranks > mostRanks
      ? [`${ranks} ranks, but a group has at most ${mostRanks}`]
      : countProblems('ranks', ranks, 1)),
    ...countProblems('bytes', bytes),
    ...(timeoutMs > 0 && timeoutMs <= longestMs ? [] : [`timeoutMs is ${timeoutMs}, not between 0 and 2^31`]),
  ]
  if (wrong.length > 0 || ranks * bytes <= platform.memoryBytes) return wrong
  const needed = `${ranks} ranks x ${showBytes(bytes)} = ${showBytes(ranks * bytes)}`
  return [`${needed}, but this machine has ${showBytes(platform.memoryBytes)}`]
}

export function layOut(ranks: number, options: GroupOptions): GroupToken {
  const kernels = loadKernels(options.kernels)
  const region = new Region(kernels.memory(0).start)
  const heapBytes = options.bytes ?? defaultBytes
  const each = (bytes: number, align?: number) => Array.from({ length: ranks }, () => region.take(bytes, align))
  const layout = {
    control: region.take(Control.bytes),
    statuses: each(Status.bytes),
    lists: each(listBytes),
    messages: region.take(Sync.lineBytes * ranks * ranks),
    blocks: region.take(Sync.lineBytes * (ranks + 1) * mostGroups),
    heaps: each(heapBytes, 4096),
    heapBytes,
  }
  const memory = kernels.memory(region.bytes)
  const waiting = waitingFor(ranks, platform.cores, options.timeoutMs ?? defaultTimeoutMs)
  return { kernels: kernels.kind, tuning: kernels.tuning, memory, ranks, waiting, ...layout }
}

/** What is wrong with a token, which is a plain value too. */
export function tokenProblems({ memory, ranks, heapBytes, ...at }: GroupToken, rank: Rank): string[] {
  const { control, statuses, lists, messages, blocks, heaps } = at
  const regions: readonly (readonly [offset: number, bytes: number])[] = [
    [control, Control.bytes],
    [messages, Sync.lineBytes * ranks * ranks],
    [blocks, Sync.lineBytes * (ranks + 1) * mostGroups],
    ...Array.from({ length: ranks }, (_, i) => [
      [statuses[i], Status.bytes] as const,
      [lists[i], listBytes] as const,
      [heaps[i], heapBytes] as const,
    ]).flat(),
  ]
  const size = memory.buffer.byteLength
  const inside = ([offset, bytes]: readonly [number, number]) =>
    offset >= 0 && offset % Sync.lineBytes === 0 && offset + bytes <= size
  return [...rankProblems(rank, ranks), ...(regions.every(inside) ? [] : ['the token is not one of a group'])]
}

/** A set of ranks that meet: in the order of the set, at a block of their own. */
export interface Circle {
  readonly members: readonly Rank[]
  readonly sync: number
  /** Size of each rank's heap. */
  readonly heapBytes: number
  /** Collectives so far, by rank. */
  readonly collectives: Map<Rank, number>
}

/** What both sides share: where tensors lie, and how often ranks have met. */
export class Heap {
  readonly token: GroupToken
  #used = 0
  #circles = 0
  readonly #messages = new Map<string, number>()

  constructor(token: GroupToken) {
    this.token = token
  }

  tensor(dtype: ElementType, length: number): Tensor {
    refuse('tensor', shapeProblems(dtype, length))
    const offset = Math.ceil(this.#used / Sync.lineBytes) * Sync.lineBytes
    const bytes = length * elementBytes(dtype)
    if (offset + bytes > this.token.heapBytes)
      throw new Error(`a heap of ${this.token.heapBytes} bytes has no room for ${bytes} more; request more bytes`)
    this.#used = offset + bytes
    return { dtype, length, offset }
  }

  at(rank: Rank, tensor: Tensor): number {
    return this.token.heaps[rank] + tensor.offset
  }

  view(rank: Rank, tensor: Tensor): Elements {
    const { ranks, heapBytes } = this.token
    refuse('view', [...rankProblems(rank, ranks), ...tensorProblems('the tensor', tensor, heapBytes)])
    return viewOf(tensor.dtype, this.token.memory.buffer, this.at(rank, tensor), tensor.length)
  }

  circle(members: readonly Rank[]): Circle {
    refuse('subgroup', memberProblems(members, this.token.ranks))
    if (this.#circles === mostGroups) throw new Error(`there is room for ${mostGroups} groups`)
    const sync = this.token.blocks + Sync.lineBytes * (this.token.ranks + 1) * this.#circles++
    return { members, sync, heapBytes: this.token.heapBytes, collectives: new Map() }
  }

  /** Counted on both ends: the next message between two ranks. */
  message(from: Rank, to: Rank, end: 'send' | 'recv') {
    const key = `${end} ${from} ${to}`
    const message = (this.#messages.get(key) ?? 0) + 1
    this.#messages.set(key, message)
    return { sync: this.messageLine(from, to), message }
  }

  /** Where the counters of the messages from one rank to another lie. */
  messageLine(from: Rank, to: Rank): number {
    return this.token.messages + Sync.lineBytes * (from * this.token.ranks + to)
  }

  seat(rank: Rank, { members, sync, collectives }: Circle): Seat {
    return {
      ...{ rank, members, sync, at: (peer, tensor) => this.at(peer, tensor) },
      collective() {
        const next = (collectives.get(rank) ?? 0) + 1
        collectives.set(rank, next)
        return next
      },
    }
  }

  /** Writes a rank's list where its thread runs it. */
  write(rank: Rank, fill: (list: ListWriter) => void, spans?: Tensor): CommandList {
    const { control, waiting, lists, memory } = this.token
    const writer = new ListWriter()
    const ring = { spans: spans ? this.at(rank, spans) : 0, spanCapacity: spans ? Math.floor(spans.length / 3) : 0 }
    writer.write('config', { abort: control, ...waiting, ...ring, workspace: 0, workspaceBytes: 0 })
    fill(writer)
    const list = writer.finish()
    if (list.words.byteLength > listBytes) throw new Error(`internal: a list of ${list.words.byteLength} bytes`)
    new Float64Array(memory.buffer, lists[rank], list.words.length).set(list.words)
    return list
  }

  /** Whom a rank waits for, in words; undefined where it does not wait. */
  waits(rank: Rank, list: CommandList): string | undefined {
    const status = new Int32Array(this.token.memory.buffer, this.token.statuses[rank], 16)
    const missing = status[Status.waitingFor]
    const peer = list.peers.get(status[Status.command])?.[missing - 1]
    return peer === undefined ? undefined : `rank ${rank} is waiting for rank ${peer}`
  }
}

/**
 * Both ends say in the message's line where their tensor lies, where the kernels look (`Sync`). Behind it
 * they may say what they bring and what they take: kernels do not read that.
 */
export const Said = { x: Sync.messageX, out: Sync.messageOut, brings: 48, takes: 56 } as const

/** One end of a message: it starts, and waits until the other has come and the message is copied. */
export function exchange(
  heap: Heap,
  list: ListWriter,
  tensor: Tensor,
  end: { rank: Rank; from: Rank; to: Rank },
): void {
  const { rank, from, to } = end
  const [start, wait, said] =
    rank === from ? (['send', 'waitSend', Said.x] as const) : (['recv', 'waitRecv', Said.out] as const)
  const message = heap.message(from, to, start)
  new Float64Array(heap.token.memory.buffer, message.sync + said, 1)[0] = heap.at(rank, tensor)
  list.write(start, message)
  list.write(wait, { ...message, x: -1, out: -1, bytes: tensor.length * elementBytes(tensor.dtype) })
  list.waitsFor([rank === from ? to : from])
}
