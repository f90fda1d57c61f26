/**
 * How fast collectives are, in the form of nccl-tests: time, algbw = size / time, and busbw, which is algbw times what the
 * operation must move per byte, so that it can be compared with what memory can do. Every operand is rewritten before
 * each operation: otherwise small sizes are read from caches that hold them already. `copy` is the limit: every rank
 * copies as many bytes at the same time, without waiting for anybody.
 */
import { median, type Rank } from '../../../base/index.js'
import { Status } from '../lower/commands.js'
import type { ListWriter } from '../lower/list.js'
import { type BenchOp, benchOps } from './bench-ops.js'
import { type Collectives, collectivesOf, type Tensor, type Work } from './collectives.js'
import { type OpenGroup, openGroup } from './group.js'
import { exchange, type GroupOptions } from './heap.js'

/** One row of a collective benchmark: latency and bandwidths as nccl-tests define them. */
export interface BenchRow {
  readonly op: BenchOp
  readonly ranks: number
  /** Bytes as nccl-tests count them: the whole operand, or the result where that is larger. */
  readonly bytes: number
  /** The median operation, from the last rank's start to the last rank's end. */
  readonly seconds: number
  /** In 1e9 bytes/s. */
  readonly algbw: number
  readonly busbw: number
  /** Elements that are not what they should be. */
  readonly wrong: number
}

/** What of `size` elements in all a rank brings and gets. */
interface Shape {
  readonly x: 'all' | 'part'
  readonly out: 'all' | 'part' | 'x'
  /** busbw / algbw, of n ranks. */
  readonly factor: (n: number) => number
  readonly write: (c: Writer, x: Tensor, out: Tensor) => void
  /** What element i of a rank's result is, where rank r brings r + 1 everywhere; undefined: not looked at. */
  readonly expected: (rank: Rank, n: number, i: number, length: number) => number | undefined
}

interface Writer {
  readonly collectives: Collectives<void>
  readonly list: ListWriter
  readonly rank: Rank
  readonly group: OpenGroup
}

const share = (n: number) => (n - 1) / n
const total = (n: number) => (n * (n + 1)) / 2
const owner = (i: number, n: number, length: number) => Math.floor((i * n) / length) + 1

const shapes: Readonly<Record<BenchOp, Shape>> = {
  copy: {
    ...{ x: 'all', out: 'all', factor: () => 1, expected: rank => rank + 1 },
    write: ({ list, rank, group: { heap } }, x, out) =>
      void list.write('copyBytes', { x: heap.at(rank, x), out: heap.at(rank, out), bytes: x.length * 4 }),
  },
  'all-reduce': {
    ...{ x: 'all', out: 'x', factor: n => 2 * share(n), expected: (_, n) => total(n) },
    write: ({ collectives }, x) => collectives.allReduce(x),
  },
  'all-gather': {
    ...{ x: 'part', out: 'all', factor: share, expected: (_, n, i, length) => owner(i, n, length) },
    write: ({ collectives }, x, out) => collectives.allGather(x, out),
  },
  'reduce-scatter': {
    ...{ x: 'all', out: 'part', factor: share, expected: (_, n) => total(n) },
    write: ({ collectives }, x, out) => collectives.reduceScatter(x, out),
  },
  'all-to-all': {
    ...{ x: 'all', out: 'all', factor: share, expected: (_, n, i, length) => owner(i, n, length) },
    write: ({ collectives }, x, out) => collectives.allToAll(x, out),
  },
  broadcast: {
    ...{ x: 'all', out: 'x', factor: () => 1, expected: () => 1 },
    write: ({ collectives }, x) => collectives.broadcast(x),
  },
  reduce: {
    ...{ x: 'all', out: 'all', factor: () => 1, expected: (rank, n) => (rank === 0 ? total(n) : undefined) },
    write: ({ collectives }, x, out) => collectives.reduce(x, out),
  },
  gather: {
    ...{ x: 'part', out: 'all', factor: share },
    expected: (rank, n, i, length) => (rank === 0 ? owner(i, n, length) : undefined),
    write: ({ collectives }, x, out) => collectives.gather(x, out),
  },
  scatter: {
    ...{ x: 'all', out: 'part', factor: share, expected: () => 1 },
    write: ({ collectives }, x, out) => collectives.scatter(x, out),
  },
  // Round the ring, even ranks sending first.
  'send-recv': {
    ...{ x: 'all', out: 'all', factor: () => 1, expected: (rank, n) => ((rank + n - 1) % n) + 1 },
    write({ list, rank, group: { heap, everyone } }, x, out) {
      const n = everyone.members.length
      const send = () => exchange(heap, list, x, { rank, from: rank, to: (rank + 1) % n })
      const recv = () => exchange(heap, list, out, { rank, from: (rank + n - 1) % n, to: rank })
      for (const act of rank % 2 === 0 ? [send, recv] : [recv, send]) act()
    },
  },
}

/** Options of `benchCollectives`. */
export interface BenchOptions extends Pick<GroupOptions, 'kernels' | 'timeoutMs' | 'pool'> {
  readonly ranks: number
  /** In bytes. */
  readonly sizes: readonly number[]
  readonly ops?: readonly BenchOp[]
  /** Operations timed of each kind and size; by default fewer the larger they are. */
  readonly repeats?: number
}

const mostRepeats = 21

/** Benchmarks collectives and yields rows as they are measured, by size. */
export async function* benchCollectives(options: BenchOptions): AsyncGenerator<BenchRow> {
  const { ranks, sizes, ops = benchOps } = options
  const most = Math.max(...sizes)
  const group = await openGroup(ranks, { ...options, bytes: 2 * most + (1 << 20) })
  try {
    const spans = group.heap.tensor('f64', 3 * 1024)
    const elements = (bytes: number) => Math.max(1, Math.floor(bytes / 4 / ranks)) * ranks
    const [x, out] = [group.heap.tensor('f32', elements(most)), group.heap.tensor('f32', elements(most))]
    for (const bytes of sizes)
      for (const op of ops) {
        if (op === 'send-recv' && ranks < 2) continue
        const repeats = options.repeats ?? Math.max(5, Math.min(mostRepeats, Math.round(2 ** 28 / bytes)))
        const size = elements(bytes)
        const part = (of: Tensor, what: 'all' | 'part') => ({ ...of, length: what === 'all' ? size : size / ranks })
        const shape = shapes[op]
        const operands = { x: part(x, shape.x), out: shape.out === 'x' ? part(x, shape.x) : part(out, shape.out) }
        const seconds = await timed(group, shape, operands, spans, repeats)
        const algbw = (size * 4) / seconds / 1e9
        const wrong = wrongIn(group, shape, operands.out)
        yield { op, ranks, bytes: size * 4, seconds, algbw, busbw: algbw * shape.factor(ranks), wrong }
      }
  } finally {
    await group.stop()
  }
}

interface Operands {
  readonly x: Tensor
  readonly out: Tensor
}

/** The median time of one operation; the first is not counted. */
async function timed(
  group: OpenGroup,
  shape: Shape,
  { x, out }: Operands,
  spans: Tensor,
  repeats: number,
): Promise<number> {
  const { heap, everyone } = group
  const { members } = everyone
  const { memory, statuses } = heap.token
  for (const rank of members) new Int32Array(memory.buffer, statuses[rank], 16)[Status.spans] = 0
  // Per rank, the last command before each operation, and its own last.
  const marks = members.map(() => [] as { before: number; last: number }[])
  await group.runAll((rank, list) => {
    const seat = heap.seat(rank, everyone)
    const collectives = collectivesOf({ members, heapBytes: heap.token.heapBytes }, (work: Work) => work(list, seat))
    for (let i = 0; i <= repeats; i++) {
      list.write('fill', { out: heap.at(rank, x), n: x.length, value: rank + 1 })
      if (out.offset !== x.offset) list.write('fill', { out: heap.at(rank, out), n: out.length, value: 0 })
      collectives.barrier()
      const before = list.count - 1
      shape.write({ collectives, list, rank, group }, x, out)
      marks[rank].push({ before, last: list.count - 1 })
    }
  }, spans)
  const ends = members.map(rank => endsOf(heap.view(rank, spans)))
  const times = marks[0].slice(1).map((_, i) => {
    const latest = (which: 'before' | 'last') =>
      Math.max(...members.map(rank => ends[rank].get(marks[rank][i + 1][which])!))
    return latest('last') - latest('before')
  })
  return median(times)
}

/** When each command of a ring of (command, start, end) ended. */
const endsOf = (ring: ArrayLike<number>): Map<number, number> =>
  new Map(Array.from({ length: ring.length / 3 }, (_, i) => [ring[3 * i], ring[3 * i + 2]]))

function wrongIn({ heap, everyone }: OpenGroup, { expected }: Shape, out: Tensor): number {
  const n = everyone.members.length
  let wrong = 0
  for (const rank of everyone.members) {
    const values = heap.view(rank, out)
    if (expected(rank, n, 0, out.length) === undefined) continue
    for (let i = 0; i < values.length; i++) if (values[i] !== expected(rank, n, i, out.length)) wrong++
  }
  return wrong
}
