/**
 * Collectives outside a training program, as with torch.distributed: a group of ranks with tensors in shared memory.
 *
 * Driven from one place, for all ranks at once:
 *
 *   const group = await createGroup(4)
 *   const x = group.tensor('f32', 2)
 *   group.write(0, x, [1, 2])         // and so on for the other ranks
 *   await group.allReduce(x)          // every rank's x is now the sum
 *   group.read(3, x)
 *   await group.stop()
 *
 * Or from the ranks, each in a thread of its own: `createGroup(4, { threads: false })`, send `group.token` to the threads,
 * and in each `const me = joinGroup(token, rank)`. Its calls block until the collective is done. Ranks make the same
 * tensors, subgroups and calls in the same order. In a browser a thread awaits `prepareKernels()` before it joins.
 */
import type { ElementType, Rank } from '../../../base/index.js'
import { decode, type Elements, elementBytes, encode, viewOf } from '../kernels/dtypes.js'
import { type Kernels, loadKernels, prepareKernels, type SharedMemory } from '../kernels/kernels.js'
import { type ExecError, errors, Status, Sync } from '../lower/commands.js'
import { type CommandList, ListWriter } from '../lower/list.js'
import { type Waiting, waitingFor } from '../lower/lower.js'
import { Control, Region } from '../lower/map.js'
import { Crew, type Trouble } from '../run/crew.js'
import { platform } from '../run/platform.js'
import type { Pool } from '../run/pool.js'
import { type Collectives, collectivesOf, type Seat, type Tensor, type Work } from './collectives.js'

export interface GroupOptions {
  /** Of each rank's heap, where its tensors lie: 16 MiB unless said. */
  readonly bytes?: number
  readonly kernels?: Kernels['kind'] | 'auto'
  /** How long a rank may wait for another: 60 s unless said. */
  readonly timeoutMs?: number
  /** false: no threads are started, ranks join from threads of yours. */
  readonly threads?: boolean
  readonly pool?: Pool
}

/** Everything a thread needs to join. It can be sent to a worker as it is. */
export interface GroupToken {
  readonly kernels: Kernels['kind']
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

function layOut(ranks: number, options: GroupOptions): GroupToken {
  const kernels = loadKernels(options.kernels)
  const region = new Region(kernels.memory(0).start)
  const heapBytes = options.bytes ?? 16 << 20
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
  const waiting = waitingFor(ranks, platform.cores, options.timeoutMs ?? 60_000)
  return { kernels: kernels.kind, memory, ranks, waiting, ...layout }
}

/** A set of ranks that meet: in the order of the set, at a block of their own. */
export interface Circle {
  readonly members: readonly Rank[]
  readonly sync: number
  /** Meetings so far, by rank. */
  readonly meetings: Map<Rank, number>
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
    const offset = Math.ceil(this.#used / Sync.lineBytes) * Sync.lineBytes
    const bytes = length * elementBytes(dtype)
    if (offset + bytes > this.token.heapBytes)
      throw new Error(`a heap of ${this.token.heapBytes} bytes has no room for ${bytes} more; ask for more bytes`)
    this.#used = offset + bytes
    return { dtype, length, offset }
  }

  at(rank: Rank, tensor: Tensor): number {
    return this.token.heaps[rank] + tensor.offset
  }

  view(rank: Rank, tensor: Tensor): Elements {
    return viewOf(tensor.dtype, this.token.memory.buffer, this.at(rank, tensor), tensor.length)
  }

  circle(members: readonly Rank[]): Circle {
    if (this.#circles === mostGroups) throw new Error(`there is room for ${mostGroups} groups`)
    for (const rank of members) if (!(rank >= 0 && rank < this.token.ranks)) throw new Error(`there is no rank ${rank}`)
    const sync = this.token.blocks + Sync.lineBytes * (this.token.ranks + 1) * this.#circles++
    return { members, sync, meetings: new Map() }
  }

  /** Counted on both ends: the next message between two ranks. */
  message(from: Rank, to: Rank, end: 'send' | 'recv') {
    const key = `${end} ${from} ${to}`
    const meeting = (this.#messages.get(key) ?? 0) + 1
    this.#messages.set(key, meeting)
    return { sync: this.token.messages + Sync.lineBytes * (from * this.token.ranks + to), meeting }
  }

  seat(rank: Rank, { members, sync, meetings }: Circle): Seat {
    return {
      ...{ rank, members, sync, at: (peer, tensor) => this.at(peer, tensor) },
      meeting() {
        const next = (meetings.get(rank) ?? 0) + 1
        meetings.set(rank, next)
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
    return peer === undefined ? undefined : `rank ${rank} waits for rank ${peer}`
  }
}

interface Tensors {
  /** Room for a tensor at every rank. */
  tensor(dtype: ElementType, length: number): Tensor
}

/** All ranks, from one place. */
export interface Group extends Collectives<Promise<void>>, Tensors {
  readonly ranks: number
  readonly token: GroupToken
  /** A rank's elements themselves, 16-bit numbers as their bits. */
  view(rank: Rank, tensor: Tensor): Elements
  write(rank: Rank, tensor: Tensor, values: ArrayLike<number>): void
  read(rank: Rank, tensor: Tensor): number[]
  /** The members' collectives among themselves, in the order given. */
  subgroup(members: readonly Rank[]): Collectives<Promise<void>>
  /** x of one rank becomes out of another. */
  sendRecv(x: Tensor, out: Tensor, route: { readonly from: Rank; readonly to: Rank }): Promise<void>
  stop(): Promise<void>
}

/** A group's threads and memory, for those who write its lists themselves. */
export interface OpenGroup {
  readonly heap: Heap
  readonly everyone: Circle
  /** Writes every rank's list and runs them. */
  runAll(fill: (rank: Rank, list: ListWriter) => void, spans?: Tensor): Promise<void>
  stop(): Promise<void>
}

export async function openGroup(ranks: number, options: GroupOptions): Promise<OpenGroup> {
  await prepareKernels()
  const token = layOut(ranks, options)
  const heap = new Heap(token)
  const everyone = heap.circle(Array.from({ length: ranks }, (_, rank) => rank))
  let lists: readonly CommandList[] = []
  const board = { words: new Int32Array(token.memory.buffer), control: token.control, statuses: token.statuses }
  const crew =
    options.threads === false
      ? undefined
      : new Crew(board, {
          ...(options.pool ? { pool: options.pool } : {}),
          timeoutMs: token.waiting.timeoutMs,
          failure: trouble => new Error(describe(heap, lists, trouble)),
        })
  await crew?.start(rank => ({
    ...{ kernels: token.kernels, memory: token.memory, rank, control: token.control },
    ...{ ranks: token.ranks, list: token.lists[rank], status: token.statuses[rank] },
  }))
  return {
    heap,
    everyone,
    async runAll(fill, spans) {
      if (!crew) throw new Error('this group has no threads: its ranks join by joinGroup')
      crew.mustBeReady()
      lists = everyone.members.map(rank => heap.write(rank, list => fill(rank, list), spans))
      await crew.step()
    },
    stop: async () => crew?.stop(),
  }
}

export async function createGroup(ranks: number, options: GroupOptions = {}): Promise<Group> {
  const { heap, everyone, runAll, stop } = await openGroup(ranks, options)
  /** Ranks that are not meant have nothing to do. */
  const among = (circle: Circle) =>
    collectivesOf(circle.members, (work: Work) =>
      runAll((rank, list) => circle.members.includes(rank) && work(list, heap.seat(rank, circle))),
    )
  return {
    ...among(everyone),
    ranks,
    token: heap.token,
    tensor: (dtype, length) => heap.tensor(dtype, length),
    view: (rank, tensor) => heap.view(rank, tensor),
    write(rank, tensor, values) {
      if (values.length !== tensor.length) throw new Error(`${values.length} values for ${tensor.length} elements`)
      heap.view(rank, tensor).set(Array.from(values, value => encode(tensor.dtype, value)))
    },
    read: (rank, tensor) => Array.from(heap.view(rank, tensor), bits => decode(tensor.dtype, bits)),
    subgroup: members => among(heap.circle(members)),
    sendRecv: (x, out, { from, to }) =>
      runAll((rank, list) => {
        if (rank === from || rank === to) exchange(heap, list, rank === from ? x : out, { rank, from, to })
      }),
    stop,
  }
}

/** One end of a message: it starts, and waits until the other has come and the message is copied. */
export function exchange(
  heap: Heap,
  list: ListWriter,
  tensor: Tensor,
  end: { rank: Rank; from: Rank; to: Rank },
): void {
  const { rank, from, to } = end
  const [start, wait, said] =
    rank === from ? (['send', 'waitSend', Sync.messageX] as const) : (['recv', 'waitRecv', Sync.messageOut] as const)
  const message = heap.message(from, to, start)
  new Float64Array(heap.token.memory.buffer, message.sync + said, 1)[0] = heap.at(rank, tensor)
  list.write(start, message)
  list.write(wait, { ...message, x: -1, out: -1, bytes: tensor.length * elementBytes(tensor.dtype) })
  list.waitsFor([rank === from ? to : from])
}

/** Of one that failed the others give up, or are stopped. */
const expected: readonly string[] = ['aborted', 'timeout'] satisfies ExecError[]

function describe(heap: Heap, lists: readonly CommandList[], { dead, failed }: Trouble): string {
  const lost = [...dead].map(([rank, reason]) => `rank ${rank} is dead: ${reason}`)
  const odd = [...failed].flatMap(([rank, message]) => (expected.includes(message) ? [] : [`rank ${rank}: ${message}`]))
  const waiting = lists.flatMap((list, rank) => heap.waits(rank, list) ?? [])
  return `a collective failed: ${[...lost, ...odd, ...waiting].join('; ')}`
}

/** One rank, from its own thread: every call blocks until it is done. */
export interface Member extends Collectives<void>, Tensors {
  readonly rank: Rank
  readonly ranks: number
  /** This rank's elements. */
  view(tensor: Tensor): Elements
  subgroup(members: readonly Rank[]): Collectives<void>
  /** Returns when x has arrived: two ranks that both send first wait for each other. */
  send(x: Tensor, to: Rank): void
  recv(out: Tensor, from: Rank): void
}

export function joinGroup(token: GroupToken, rank: Rank): Member {
  const heap = new Heap(token)
  const exec = loadKernels(token.kernels).attach(token.memory)
  const everyone = heap.circle(Array.from({ length: token.ranks }, (_, i) => i))
  const run = (fill: (list: ListWriter) => void) => {
    const list = heap.write(rank, fill)
    const code = exec(token.lists[rank], token.statuses[rank])
    if (code !== 0) throw new Error(`${heap.waits(rank, list) ?? `rank ${rank} stopped`}: ${errors[code] ?? code}`)
  }
  const among = (circle: Circle) =>
    collectivesOf(circle.members, work => {
      if (!circle.members.includes(rank))
        throw new Error(`rank ${rank} is not in the group of ${circle.members.join(' ')}`)
      run(list => work(list, heap.seat(rank, circle)))
    })
  return {
    ...among(everyone),
    rank,
    ranks: token.ranks,
    tensor: (dtype, length) => heap.tensor(dtype, length),
    view: tensor => heap.view(rank, tensor),
    subgroup: members => among(heap.circle(members)),
    send: (x, to) => run(list => exchange(heap, list, x, { rank, from: rank, to })),
    recv: (out, from) => run(list => exchange(heap, list, out, { rank, from, to: rank })),
  }
}
