/**
 * Collectives for anyone: what each rank's commands are, whoever writes them. Tensors are symmetric: every rank of a group
 * has one of the same type and length at the same place of its heap, so a rank knows where its peers' lie.
 */
import type { ElementType, Rank } from '../../../base/index.js'
import { codeOf, elementBytes } from '../kernels/dtypes.js'
import { type CombineName, combineCode } from '../lower/commands.js'
import type { ListWriter } from '../lower/list.js'
import { type CollectiveRequest, collectiveProblems, refuse } from './check.js'
import type { Circle } from './heap.js'

/** The reduction of a collective: sum, max and so on. */
export type Combine = CombineName

/** A tensor in the heap that the ranks of a group share. */
export interface Tensor {
  readonly dtype: ElementType
  readonly length: number
  /** Bytes from the start of each rank's heap. */
  readonly offset: number
}

/** One rank at one collective. */
export interface Seat {
  readonly rank: Rank
  readonly members: readonly Rank[]
  /** The group's block, and the number of its next collective. */
  readonly sync: number
  collective(): number
  at(rank: Rank, tensor: Tensor): number
}

/** Writes what one rank does. */
export type Work = (list: ListWriter, seat: Seat) => void

export interface RootOptions {
  /** The member that has or gets everything: 0 unless said. */
  readonly root?: Rank
}

export interface ReduceOptions {
  /** sum unless said. */
  readonly combine?: Combine
}

/**
 * The collectives of a group. Calls on a rank block, calls on the main thread return promises. Lengths are in
 * elements.
 */
export interface Collectives<Result> {
  /** Every rank gets the root's x. */
  broadcast(x: Tensor, options?: RootOptions): Result
  /** Member i gets part i of the root's x. */
  scatter(x: Tensor, out: Tensor, options?: RootOptions): Result
  /** The root gets the x of all ranks, in rank order. */
  gather(x: Tensor, out: Tensor, options?: RootOptions): Result
  /** The root gets the sum of x over all ranks (or the reduction `combine`). */
  reduce(x: Tensor, out: Tensor, options?: RootOptions & ReduceOptions): Result
  /** Every rank gets the x of all ranks, in rank order. */
  allGather(x: Tensor, out: Tensor): Result
  /** Rank i gets shard i of the sum of x over all ranks. */
  reduceScatter(x: Tensor, out: Tensor, options?: ReduceOptions): Result
  /** Every rank gets the sum of x over all ranks; in place unless `out` is given. */
  allReduce(x: Tensor, options?: ReduceOptions & { readonly out?: Tensor }): Result
  /** Part i of member j's x becomes part j of member i's out. */
  allToAll(x: Tensor, out: Tensor): Result
  /** An all-to-all with parts of any size: counts[j][i] elements go from member j to member i. */
  allToAllUneven(x: Tensor, out: Tensor, counts: readonly (readonly number[])[]): Result
  /** No rank returns before all ranks have called. */
  barrier(): Result
}

const bytesOf = ({ dtype, length }: Tensor): number => length * elementBytes(dtype)

const meet = ({ sync, members, rank }: Seat, collective: number) => ({
  ...{ sync, me: members.indexOf(rank), members: members.length, collective },
})

const barrier: Work = (list, seat) => {
  list.write('barrier', meet(seat, seat.collective()))
  list.waitsFor(seat.members)
}

/** What is done by copying alone stands between two barriers: everybody has come, everybody has copied. */
const between =
  (copies: Work): Work =>
  (list, seat) => {
    barrier(list, seat)
    copies(list, seat)
    barrier(list, seat)
  }

const copy = (list: ListWriter, out: number, x: number, bytes: number): void => {
  if (bytes > 0 && out !== x) list.write('copyBytes', { out, x, bytes })
}

function started(list: ListWriter, seat: Seat) {
  const collective = meet(seat, seat.collective())
  list.write('start', collective)
  return collective
}

const offsetsOf = ({ members, at }: Seat, x: Tensor): number[] => members.map(rank => at(rank, x))

const broadcasting = (x: Tensor, root: Rank): Work =>
  between((list, { rank, members, at }) => copy(list, at(rank, x), at(members[root], x), bytesOf(x)))

const scattering = (x: Tensor, out: Tensor, root: Rank): Work =>
  between((list, { rank, members, at }) => {
    const part = members.indexOf(rank) * bytesOf(out)
    copy(list, at(rank, out), at(members[root], x) + part, bytesOf(out))
  })

const collecting = (x: Tensor, out: Tensor, root: Rank): Work =>
  between((list, { rank, members, at }) => {
    const part = members.indexOf(rank) * bytesOf(x)
    copy(list, at(members[root], out) + part, at(rank, x), bytesOf(x))
  })

/** The sum goes to everybody, or to the root alone. */
const reducing =
  (x: Tensor, out: Tensor, combine: Combine, root?: Rank): Work =>
  (list, seat) => {
    const fields = { ...started(list, seat), n: x.length, combine: combineCode(combine), dtype: codeOf(x.dtype) }
    const outs = seat.members.map((rank, i) => (root === undefined || i === root ? seat.at(rank, out) : -1))
    list.write('waitAllReduce', { ...fields, x: offsetsOf(seat, x), out: outs })
    list.waitsFor(seat.members)
  }

const gathering =
  (x: Tensor, out: Tensor): Work =>
  (list, seat) => {
    const fields = { ...started(list, seat), outer: 1, innerBytes: bytesOf(x), zigzag: 0 }
    list.write('waitAllGather', { ...fields, x: offsetsOf(seat, x), out: offsetsOf(seat, out) })
    list.waitsFor(seat.members)
  }

const reduceScattering =
  (x: Tensor, out: Tensor, combine: Combine): Work =>
  (list, seat) => {
    const how = { combine: combineCode(combine), dtype: codeOf(x.dtype) }
    const fields = { ...started(list, seat), outer: 1, inner: out.length, zigzag: 0, ...how }
    list.write('waitReduceScatter', { ...fields, x: offsetsOf(seat, x), out: offsetsOf(seat, out) })
    list.waitsFor(seat.members)
  }

const exchanging =
  (x: Tensor, out: Tensor): Work =>
  (list, seat) => {
    const one = { outer: 1, first: 1, middle: 1, second: 1, cutFirst: 1 }
    const fields = { ...started(list, seat), ...one, innerBytes: bytesOf(x) / seat.members.length }
    list.write('waitAllToAll', { ...fields, x: offsetsOf(seat, x), out: offsetsOf(seat, out) })
    list.waitsFor(seat.members)
  }

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0)

const exchangingUnevenly = (x: Tensor, out: Tensor, counts: readonly (readonly number[])[]): Work =>
  between((list, { rank, members, at }) => {
    const width = elementBytes(x.dtype)
    const me = members.indexOf(rank)
    let to = at(rank, out)
    for (const [j, row] of counts.entries()) {
      copy(list, to, at(members[j], x) + sumOf(row.slice(0, me)) * width, row[me] * width)
      to += row[me] * width
    }
  })

/** Every collective over `run`, which does the work: at one rank, or at all. A call that is wrong does none. */
export function collectivesOf<Result>(
  { members, heapBytes }: Pick<Circle, 'members' | 'heapBytes'>,
  run: (work: Work) => Result,
): Collectives<Result> {
  const n = members.length
  const check = (call: string, asked: CollectiveRequest) => refuse(call, collectiveProblems(asked, n, heapBytes))
  return {
    broadcast(x, { root = 0 } = {}) {
      check('broadcast', { x, root })
      return run(broadcasting(x, root))
    },
    scatter(x, out, { root = 0 } = {}) {
      check('scatter', { x, out, root, parts: [1, n] })
      return run(scattering(x, out, root))
    },
    gather(x, out, { root = 0 } = {}) {
      check('gather', { x, out, root, parts: [n, 1] })
      return run(collecting(x, out, root))
    },
    reduce(x, out, { root = 0, combine = 'sum' } = {}) {
      check('reduce', { x, out, root, combine })
      return run(reducing(x, out, combine, root))
    },
    allGather(x, out) {
      check('allGather', { x, out, parts: [n, 1] })
      return run(gathering(x, out))
    },
    reduceScatter(x, out, { combine = 'sum' } = {}) {
      check('reduceScatter', { x, out, combine, parts: [1, n] })
      return run(reduceScattering(x, out, combine))
    },
    allReduce(x, { combine = 'sum', out = x } = {}) {
      check('allReduce', { x, out, combine })
      return run(reducing(x, out, combine))
    },
    allToAll(x, out) {
      check('allToAll', { x, out, cut: n })
      return run(exchanging(x, out))
    },
    allToAllUneven(x, out, counts) {
      check('allToAllUneven', { x, out, counts })
      return run(exchangingUnevenly(x, out, counts))
    },
    barrier: () => run(barrier),
  }
}
