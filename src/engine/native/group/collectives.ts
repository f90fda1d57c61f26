/**
 * Collectives for anyone: what each rank's commands are, whoever writes them. Tensors are symmetric: every rank of a group
 * has one of the same type and length at the same place of its heap, so a rank knows where its peers' lie.
 */
import type { ElementType, Rank } from '../../../base/index.js'
import { codeOf, elementBytes } from '../kernels/dtypes.js'
import { type CombineName, combineCode } from '../lower/commands.js'
import type { ListWriter } from '../lower/list.js'

export type Combine = CombineName

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
  /** The group's block, and the number of its next meeting. */
  readonly sync: number
  meeting(): number
  at(rank: Rank, tensor: Tensor): number
}

/** Writes what one rank does. */
export type Work = (list: ListWriter, seat: Seat) => void

export interface Rooted {
  /** The member that has or gets everything: 0 unless said. */
  readonly root?: Rank
}

export interface Reduced {
  /** sum unless said. */
  readonly combine?: Combine
}

/** What a group can do; rank-side calls return when done, main-side calls return promises. Lengths are in elements. */
export interface Collectives<Result> {
  /** Everybody gets the root's x. */
  broadcast(x: Tensor, options?: Rooted): Result
  /** Member i gets part i of the root's x. */
  scatter(x: Tensor, out: Tensor, options?: Rooted): Result
  /** The root gets everybody's x, in member order. */
  gather(x: Tensor, out: Tensor, options?: Rooted): Result
  /** The root gets the sum (or what `combine` says) of everybody's x. */
  reduce(x: Tensor, out: Tensor, options?: Rooted & Reduced): Result
  /** Everybody gets everybody's x, in member order. */
  allGather(x: Tensor, out: Tensor): Result
  /** Member i gets part i of the sum of everybody's x. */
  reduceScatter(x: Tensor, out: Tensor, options?: Reduced): Result
  /** Everybody gets the sum of everybody's x; in place unless `out` is given. */
  allReduce(x: Tensor, options?: Reduced & { readonly out?: Tensor }): Result
  /** Part i of member j's x becomes part j of member i's out. */
  allToAll(x: Tensor, out: Tensor): Result
  /** As allToAll with parts of any size: counts[j][i] elements go from member j to member i. */
  allToAllUneven(x: Tensor, out: Tensor, counts: readonly (readonly number[])[]): Result
  /** Nobody returns before everybody has called. */
  barrier(): Result
}

const must = (condition: boolean, text: string): void => {
  if (!condition) throw new Error(text)
}

function fit(name: string, x: Tensor, out: Tensor, [xParts, outParts]: readonly [number, number]): void {
  must(x.dtype === out.dtype, `${name}: x is ${x.dtype}, but out is ${out.dtype}`)
  must(
    x.length * xParts === out.length * outParts,
    `${name}: x of ${x.length} elements asks for an out of ${(x.length * xParts) / outParts}, not ${out.length}`,
  )
}

const bytesOf = ({ dtype, length }: Tensor): number => length * elementBytes(dtype)

const meet = ({ sync, members, rank }: Seat, meeting: number) => ({
  ...{ sync, me: members.indexOf(rank), members: members.length, meeting },
})

const barrier: Work = (list, seat) => {
  list.write('barrier', meet(seat, seat.meeting()))
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
  const meeting = meet(seat, seat.meeting())
  list.write('start', meeting)
  return meeting
}

const offsetsOf = ({ members, at }: Seat, x: Tensor): number[] => members.map(rank => at(rank, x))

/** The sum goes to everybody, or to the root alone. */
function reducing(name: string, x: Tensor, out: Tensor, { combine = 'sum' }: Reduced, root?: Rank): Work {
  fit(name, x, out, [1, 1])
  return (list, seat) => {
    const fields = { ...started(list, seat), n: x.length, combine: combineCode(combine), dtype: codeOf(x.dtype) }
    const outs = seat.members.map((rank, i) => (root === undefined || i === root ? seat.at(rank, out) : -1))
    list.write('waitAllReduce', { ...fields, x: offsetsOf(seat, x), out: outs })
    list.waitsFor(seat.members)
  }
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0)

function unevenly(x: Tensor, out: Tensor, counts: readonly (readonly number[])[]): Work {
  must(x.dtype === out.dtype, `allToAllUneven: x is ${x.dtype}, but out is ${out.dtype}`)
  const width = elementBytes(x.dtype)
  return between((list, { rank, members, at }) => {
    const me = members.indexOf(rank)
    let to = at(rank, out)
    must(sumOf(counts.map(row => row[me])) <= out.length, `allToAllUneven: more arrives at rank ${rank} than fits`)
    for (const [j, row] of counts.entries()) {
      must(sumOf(row) <= x.length, `allToAllUneven: member ${j} has ${x.length} elements, not ${sumOf(row)}`)
      copy(list, to, at(members[j], x) + sumOf(row.slice(0, me)) * width, row[me] * width)
      to += row[me] * width
    }
  })
}

/** Every collective over `run`, which does the work: at one rank, or at all. */
export function collectivesOf<Result>(members: readonly Rank[], run: (work: Work) => Result): Collectives<Result> {
  const n = members.length
  const rootIn = ({ root = 0 }: Rooted): Rank => {
    must(root >= 0 && root < n, `there is no member ${root} in a group of ${n}`)
    return root
  }
  return {
    broadcast(x, options = {}) {
      const root = rootIn(options)
      return run(between((list, s) => copy(list, s.at(s.rank, x), s.at(members[root], x), bytesOf(x))))
    },
    scatter(x, out, options = {}) {
      const root = rootIn(options)
      fit('scatter', x, out, [1, n])
      return run(
        between((list, s) => {
          const part = members.indexOf(s.rank) * bytesOf(out)
          copy(list, s.at(s.rank, out), s.at(members[root], x) + part, bytesOf(out))
        }),
      )
    },
    gather(x, out, options = {}) {
      const root = rootIn(options)
      fit('gather', x, out, [n, 1])
      return run(
        between((list, s) => {
          const part = members.indexOf(s.rank) * bytesOf(x)
          copy(list, s.at(members[root], out) + part, s.at(s.rank, x), bytesOf(x))
        }),
      )
    },
    reduce: (x, out, options = {}) => run(reducing('reduce', x, out, options, rootIn(options))),
    allGather(x, out) {
      fit('allGather', x, out, [n, 1])
      return run((list, s) => {
        const fields = { ...started(list, s), outer: 1, innerBytes: bytesOf(x) }
        list.write('waitAllGather', { ...fields, x: offsetsOf(s, x), out: offsetsOf(s, out) })
        list.waitsFor(members)
      })
    },
    reduceScatter(x, out, { combine = 'sum' } = {}) {
      fit('reduceScatter', x, out, [1, n])
      return run((list, s) => {
        const how = { combine: combineCode(combine), dtype: codeOf(x.dtype) }
        const fields = { ...started(list, s), outer: 1, inner: out.length, ...how }
        list.write('waitReduceScatter', { ...fields, x: offsetsOf(s, x), out: offsetsOf(s, out) })
        list.waitsFor(members)
      })
    },
    allReduce: (x, options = {}) => run(reducing('allReduce', x, options.out ?? x, options)),
    allToAll(x, out) {
      fit('allToAll', x, out, [1, 1])
      must(x.length % n === 0, `allToAll: ${x.length} elements cannot be cut into ${n} parts; see allToAllUneven`)
      return run((list, s) => {
        const one = { outer: 1, first: 1, middle: 1, second: 1, cutFirst: 1 }
        const fields = { ...started(list, s), ...one, innerBytes: bytesOf(x) / n }
        list.write('waitAllToAll', { ...fields, x: offsetsOf(s, x), out: offsetsOf(s, out) })
        list.waitsFor(members)
      })
    },
    allToAllUneven: (x, out, counts) => run(unevenly(x, out, counts)),
    barrier: () => run(barrier),
  }
}
