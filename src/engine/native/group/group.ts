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
import type { Rank } from '../../../base/index.js'
import { decode, type Elements, encode } from '../kernels/dtypes.js'
import { prepareKernels } from '../kernels/kernels.js'
import type { ExecError } from '../lower/commands.js'
import type { CommandList, ListWriter } from '../lower/list.js'
import { Crew, type Trouble } from '../run/crew.js'
import { collectiveProblems, rankProblems, refuse } from './check.js'
import { type Collectives, collectivesOf, type Tensor, type Work } from './collectives.js'
import {
  type Circle,
  exchange,
  type GroupOptions,
  type GroupToken,
  groupProblems,
  Heap,
  layOut,
  type Tensors,
} from './heap.js'

/** A process group seen from the main thread: all its ranks. */
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
  refuse('createGroup', groupProblems(ranks, options))
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
    ...{ kernels: token.kernels, tuning: token.tuning, memory: token.memory, rank, control: token.control },
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
    stop: async () => void (await crew?.stop()),
  }
}

/** Starts a process group: n ranks as threads with shared memory, which run collectives over your tensors. */
export async function createGroup(ranks: number, options: GroupOptions = {}): Promise<Group> {
  const { heap, everyone, runAll, stop } = await openGroup(ranks, options)
  /** Ranks that are not meant have nothing to do. */
  const among = (circle: Circle) =>
    collectivesOf(circle, (work: Work) =>
      runAll((rank, list) => circle.members.includes(rank) && work(list, heap.seat(rank, circle))),
    )
  return {
    ...among(everyone),
    ranks,
    token: heap.token,
    tensor: (dtype, length) => heap.tensor(dtype, length),
    view: (rank, tensor) => heap.view(rank, tensor),
    write(rank, tensor, values) {
      const elements = heap.view(rank, tensor)
      if (values.length !== tensor.length) refuse('write', [`${values.length} values for ${tensor.length} elements`])
      elements.set(Array.from(values, value => encode(tensor.dtype, value)))
    },
    read: (rank, tensor) => Array.from(heap.view(rank, tensor), bits => decode(tensor.dtype, bits)),
    subgroup: members => among(heap.circle(members)),
    sendRecv(x, out, { from, to }) {
      refuse('sendRecv', [
        ...collectiveProblems({ x, out }, ranks, heap.token.heapBytes),
        ...rankProblems(from, ranks),
        ...rankProblems(to, ranks),
        ...(from === to ? [`rank ${from} cannot send to itself`] : []),
      ])
      return runAll((rank, list) => {
        if (rank === from || rank === to) exchange(heap, list, rank === from ? x : out, { rank, from, to })
      })
    },
    stop,
  }
}

/** How the others end when one rank has failed: they give up, or are stopped. */
const expected: readonly string[] = ['aborted', 'timeout'] satisfies ExecError[]

function describe(heap: Heap, lists: readonly CommandList[], { dead, failed }: Trouble): string {
  const lost = [...dead].map(([rank, reason]) => `rank ${rank} is dead: ${reason}`)
  const odd = [...failed].flatMap(([rank, message]) => (expected.includes(message) ? [] : [`rank ${rank}: ${message}`]))
  const waiting = lists.flatMap((list, rank) => heap.waits(rank, list) ?? [])
  return `a collective failed: ${[...lost, ...odd, ...waiting].join('; ')}`
}
