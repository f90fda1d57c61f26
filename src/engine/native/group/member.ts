/** One rank of a group, from a thread of its own. */
import { elementTypes, type Rank } from '../../../base/index.js'
import { codeOf, type Elements } from '../kernels/dtypes.js'
import { loadKernels } from '../kernels/kernels.js'
import { errors, Sync } from '../lower/commands.js'
import type { ListWriter } from '../lower/list.js'
import { rankProblems, refuse, tensorProblems } from './check.js'
import { type Collectives, collectivesOf, type Tensor } from './collectives.js'
import { type Circle, exchange, type GroupToken, Heap, Said, type Tensors, tokenProblems } from './heap.js'

/** One rank of a group, used from its own thread: every call blocks until it is done. */
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

/** What the errors of exec mean to who called. */
const reasons: Readonly<Record<number, string>> = {
  [errors.indexOf('aborted')]: 'another rank timed out',
  [errors.indexOf('timeout')]: 'it did not arrive in time',
}

/** dtype and length as one number. */
const shapeCode = ({ dtype, length }: Tensor): number => length * elementTypes.length + codeOf(dtype)
const showShape = (code: number): string =>
  `${elementTypes[code % elementTypes.length]}[${Math.floor(code / elementTypes.length)}]`

/** Makes the calling thread a rank of a group that another thread created with `threads: false`. */
export function joinGroup(token: GroupToken, rank: Rank): Member {
  refuse('joinGroup', tokenProblems(token, rank))
  const heap = new Heap(token)
  const exec = loadKernels(token.kernels, token.tuning).attach(token.memory)
  const everyone = heap.circle(Array.from({ length: token.ranks }, (_, i) => i))
  const run = (fill: (list: ListWriter) => void) => {
    const list = heap.write(rank, fill)
    const code = exec(token.lists[rank], token.statuses[rank])
    if (code !== 0)
      throw new Error(`${heap.waits(rank, list) ?? `rank ${rank} stopped`}: ${reasons[code] ?? `error ${code}`}`)
  }
  /** The ends agree on what is passed before anything is copied: neither can see the other's call. */
  const pass = (call: 'send' | 'recv', tensor: Tensor, peer: Rank) => {
    const self = peer === rank ? [`rank ${rank} cannot send to itself`] : []
    refuse(call, [
      ...tensorProblems('the tensor', tensor, token.heapBytes),
      ...rankProblems(peer, token.ranks),
      ...self,
    ])
    const [from, to] = call === 'send' ? [rank, peer] : [peer, rank]
    const line = heap.messageLine(from, to)
    const words = new Float64Array(token.memory.buffer, line, Sync.lineBytes / 8)
    const [mine, theirs] = call === 'send' ? [Said.brings / 8, Said.takes / 8] : [Said.takes / 8, Said.brings / 8]
    words[mine] = shapeCode(tensor)
    run(list => exchange(heap, list, { ...tensor, length: 0 }, { rank, from, to }))
    if (words[theirs] !== words[mine])
      refuse(call, [
        `rank ${from} sends ${showShape(words[Said.brings / 8])}, rank ${to} takes ${showShape(words[Said.takes / 8])}`,
      ])
    run(list => exchange(heap, list, tensor, { rank, from, to }))
  }
  const among = (circle: Circle) =>
    collectivesOf(circle, work => {
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
    send: (x, to) => pass('send', x, to),
    recv: (out, from) => pass('recv', out, from),
  }
}
