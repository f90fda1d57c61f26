/**
 * Collectives on numbers of the reader's: done by the engine, each rank a thread, and read back from every rank. In a page that may not
 * share memory the plain ones of the reference do it, which leave the same bits.
 */
import { clusterOf, quote, runCollective } from 'lockstep'
import { createGroup, type Group, type GroupCombine, type Tensor } from 'lockstep/engine'
import { type RingState, ringOf } from './ring.js'

export const operations = [
  'broadcast',
  'scatter',
  'gather',
  'reduce',
  'all-gather',
  'reduce-scatter',
  'all-reduce',
  'all-to-all',
  'send-recv',
] as const
export type Operation = (typeof operations)[number]
export type Combine = Extract<GroupCombine, 'sum' | 'min' | 'max' | 'mean'>

/** Rows of numbers, one a rank. */
export type Grid = readonly (readonly number[])[]

export interface CollectiveInput {
  readonly op: Operation
  readonly combine: Combine
  readonly root: number
  readonly x: Grid
}

export interface CollectiveAnswer {
  /** What each rank has afterwards; empty where it gets nothing. */
  readonly out: Grid
}

/** Ranks wait for the next question: starting threads takes longer than any of these collectives. */
let open: Promise<Group> | undefined

async function groupOf(ranks: number): Promise<Group> {
  const before = await open
  if (before?.ranks === ranks) return before
  await before?.stop()
  open = createGroup(ranks, { bytes: 1 << 20 })
  return open
}

export async function collective(input: CollectiveInput): Promise<CollectiveAnswer> {
  return { out: await performed(input) }
}

/** The heap of a group is never given back, so every question has a group's tensors of the same sizes made once. */
const tensors = new WeakMap<Group, Map<number, Tensor[]>>()

function pairOf(group: Group, input: number, output: number) {
  const known = tensors.get(group) ?? new Map<number, Tensor[]>()
  tensors.set(group, known)
  const take = (length: number, n: number) => {
    const list = known.get(length) ?? []
    known.set(length, list)
    list[n] ??= group.tensor('f32', length)
    return list[n]
  }
  return { x: take(input, 0), out: take(output, 1) }
}

const performed = (input: CollectiveInput): Promise<number[][]> =>
  globalThis.crossOriginIsolated ? onThreads(input) : Promise.resolve(plainly(input))

function plainly({ op, combine, root, x }: CollectiveInput): number[][] {
  const [brought] = lengthsOf(op, x.length)
  const inputs = x.map(row => row.slice(0, brought).map(Math.fround))
  if (op === 'send-recv') return inputs.map((_, rank) => (rank === (root + 1) % x.length ? inputs[root]! : []))
  return runCollective({ kind: op, inputs, combine, root }).map(held => Array.from(held))
}

async function onThreads({ op, combine, root, x: rows }: CollectiveInput): Promise<number[][]> {
  const n = rows.length
  const group = await groupOf(n)
  const [brought, got] = lengthsOf(op, n)
  const { x, out } = pairOf(group, brought, got)
  for (const [rank, row] of rows.entries()) group.write(rank, x, row.slice(0, brought))
  const to = (root + 1) % n
  const run: Readonly<Record<Operation, () => Promise<void>>> = {
    broadcast: () => group.broadcast(x, { root }),
    scatter: () => group.scatter(x, out, { root }),
    gather: () => group.gather(x, out, { root }),
    reduce: () => group.reduce(x, out, { root, combine }),
    'all-gather': () => group.allGather(x, out),
    'reduce-scatter': () => group.reduceScatter(x, out, { combine }),
    'all-reduce': () => group.allReduce(x, { combine }),
    'all-to-all': () => group.allToAll(x, out),
    'send-recv': () => group.sendRecv(x, out, { from: root, to }),
  }
  await run[op]()
  const place = op === 'broadcast' || op === 'all-reduce' ? x : out
  const getter = { gather: root, reduce: root, 'send-recv': to }[op as string]
  return rows.map((_, rank) => (getter === undefined || rank === getter ? group.read(rank, place) : []))
}

/** Numbers a rank brings, and has room for. */
function lengthsOf(op: Operation, n: number): readonly [number, number] {
  if (op === 'gather' || op === 'all-gather') return [1, n]
  return op === 'scatter' || op === 'reduce-scatter' ? [n, 1] : [n, n]
}

/** The first number of rank 0 after summing twice in a row. */
export async function twice({ x }: { readonly x: Grid }): Promise<number> {
  const once = await performed({ op: 'all-reduce', combine: 'sum', root: 0, x })
  return (await performed({ op: 'all-reduce', combine: 'sum', root: 0, x: once }))[0]![0]!
}

export interface TwoWaysInput {
  readonly ranks: number
  readonly elements: number
}

export interface TwoWaysAnswer {
  readonly differing: number
  /** The first few: what ranks bring, and the bits of both results on rank 0. */
  readonly sample: readonly { readonly brought: readonly number[]; readonly direct: string; readonly inTwo: string }[]
}

/** All-reduce, and reduce-scatter with an all-gather behind it, on the same random f32; compared bit by bit on every rank. */
export async function twoWays({ ranks, elements }: TwoWaysInput): Promise<TwoWaysAnswer> {
  const rows = randomRows(ranks, Math.ceil(elements / ranks) * ranks)
  const [direct, inTwo] = globalThis.crossOriginIsolated ? await bothOnThreads(rows) : bothPlainly(rows)
  const [a, b] = [direct.map(bitsOf), inTwo.map(bitsOf)]
  const differing = a.reduce((sum, words, rank) => sum + words.filter((word, i) => word !== b[rank]![i]).length, 0)
  const sample = [0, 1, 2, 3].map(i => ({
    brought: rows.map(row => Math.fround(row[i]!)),
    direct: hex(a[0]![i]!),
    inTwo: hex(b[0]![i]!),
  }))
  return { differing, sample }
}

type Both = readonly [direct: readonly ArrayLike<number>[], inTwo: readonly ArrayLike<number>[]]

async function bothOnThreads(rows: Grid): Promise<Both> {
  const length = rows[0]!.length
  const group = await createGroup(rows.length, { bytes: 1 << 20 })
  try {
    const [x, part, whole] = [length, length / rows.length, length].map(size => group.tensor('f32', size))
    for (const [rank, row] of rows.entries()) group.write(rank, x!, row)
    await group.reduceScatter(x!, part!)
    await group.allGather(part!, whole!)
    await group.allReduce(x!)
    return [rows.map((_, rank) => group.read(rank, x!)), rows.map((_, rank) => group.read(rank, whole!))]
  } finally {
    await group.stop()
  }
}

function bothPlainly(inputs: Grid): Both {
  const parts = runCollective({ kind: 'reduce-scatter', inputs })
  return [runCollective({ kind: 'all-reduce', inputs }), runCollective({ kind: 'all-gather', inputs: parts })]
}

const bitsOf = (values: ArrayLike<number>): Uint32Array => new Uint32Array(Float32Array.from(values).buffer)
const hex = (word: number): string => word.toString(16).padStart(8, '0')

/** Numbers of very different sizes, so that the order of additions shows. */
function randomRows(ranks: number, length: number): number[][] {
  let state = 0x2545f491
  const next = () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9
    return (state >>> 0) / 2 ** 32
  }
  return Array.from({ length: ranks }, () => Array.from({ length }, () => (next() - 0.5) * 10 ** (4 * next())))
}

export interface RingInput {
  readonly x: Grid
}

export interface RingAnswer {
  readonly states: readonly RingState[]
  /** What the engine's all-reduce leaves on every rank. */
  readonly engine: Grid
  /** Numbers of the ring's last state that are not the engine's. */
  readonly differing: number
}

export async function ring({ x }: RingInput): Promise<RingAnswer> {
  const states = ringOf(x)
  const engine = await performed({ op: 'all-reduce', combine: 'sum', root: 0, x })
  const last = states.at(-1)!.cells
  const differing = last.flat().filter((value, i) => value !== engine.flat()[i]).length
  return { states, engine, differing }
}

/** What the cost model calls them; it prices what programs say. */
const priced = {
  broadcast: 'broadcast',
  'all-gather': 'all-gather',
  'reduce-scatter': 'reduce-scatter',
  'all-reduce': 'all-reduce',
  'all-to-all': 'all-to-all',
  'send-recv': 'send',
} as const satisfies Partial<Record<Operation, string>>

export interface PricedOp {
  readonly kind: (typeof priced)[keyof typeof priced]
  readonly ranks: number
  readonly seconds: number
  readonly algorithm: string
}

/** A gigabyte among neighbours on H100s; null: nobody prices it. */
export function pricedOp({ op, ranks }: { readonly op: Operation; readonly ranks: number }): PricedOp | null {
  const kind = priced[op as keyof typeof priced]
  if (kind === undefined) return null
  const size = kind === 'send' ? 2 : ranks
  const { seconds, chosen } = quote({ kind, bytes: 2 ** 30, group: { size, stride: 1 } }, clusterOf('h100', size))
  return { kind, ranks: size, seconds, algorithm: chosen }
}

export interface CostInput {
  readonly device: string
  readonly ranks: number
}

export interface CostRow {
  readonly bytes: number
  readonly direct: number
  readonly inTwo: number
  readonly chosen: string
}

/** Both ways priced on a cluster, from a kilobyte to a gigabyte. */
export function costs({ device, ranks }: CostInput): readonly CostRow[] {
  const cluster = clusterOf(device, ranks)
  return [10, 14, 17, 20, 23, 26, 30]
    .map(power => 2 ** power)
    .map(bytes => {
      const price = (kind: 'all-reduce' | 'reduce-scatter' | 'all-gather') =>
        quote({ kind, bytes, group: { size: ranks, stride: 1 } }, cluster)
      const direct = price('all-reduce')
      return {
        ...{ bytes, direct: direct.seconds, chosen: direct.chosen },
        inTwo: price('reduce-scatter').seconds + price('all-gather').seconds,
      }
    })
}

/** How many times as many bytes a rank hands on in a ring of `to` ranks as in one of `from`, of a tensor of one size. */
export function grows({ from, to }: { readonly from: number; readonly to: number }): number {
  const handed = (n: number) => {
    const row = Array.from({ length: n }, () => 1)
    return ringOf(row.map(() => row)).reduce(
      (sum, { moves }) => sum + moves.filter(move => move.from === 0).length / n,
      0,
    )
  }
  return handed(to) / handed(from)
}
