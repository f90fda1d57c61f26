/** What cp makes of attention, in seconds: its kernels, and the collectives that bring queries and keys together. */
import { activationBytes, gcd } from '../../base/index.js'
import { type Kernel, pairsSeen, type TokenRun } from '../../cost/index.js'
import { kvSplit } from '../counts.js'
import { entry } from '../entry.js'
import { attentionKernels, type StreamCut } from '../layer.js'
import type { PriceTable } from '../prices.js'
import type { Setup, Split } from '../setup.js'
import type { Shape } from '../shape.js'
import type { KernelPrices } from './kernels.js'
import type { Lanes } from './lanes.js'
import type { BothWays, MeetingTraffic, MeetingWork } from './meeting.js'

/** Elements of one token on one rank. */
interface AttendedWidths {
  readonly queries: number
  readonly keys: number
  readonly values: number
  /** What attention gives. */
  readonly results: number
}

export function attendedWidths(shape: Shape, tp: number): AttendedWidths {
  const { heads, kvHeads, headDim, latent } = shape
  if (latent) {
    const [asked, given] = [(heads * (latent.plain + latent.turned)) / tp, (heads * latent.values) / tp]
    return { queries: asked, keys: asked, values: given, results: given }
  }
  const [queries, keys] = [(heads * headDim) / tp, (kvHeads * headDim) / kvSplit(shape, tp)]
  return { queries, keys, values: keys, results: queries }
}

export function meetingWork(setup: Omit<Setup, 'split'>, cut: StreamCut, prices: KernelPrices): MeetingWork {
  const { shape, precision, software } = setup
  const rows = (cut.microbatch * shape.seq) / cut.cp
  const element = activationBytes(precision)
  const widths = attendedWidths(shape, cut.tp)
  const { forward, backward } = attentionKernels(shape, cut, precision, software)
  const priced = (kernel: Kernel) =>
    prices.of(shape.dropout && kernel.kind === 'attention' ? { ...kernel, dropout: true } : kernel)
  const sum = (kernels: readonly Kernel[]) => kernels.reduce((seconds, kernel) => seconds + priced(kernel), 0)
  const ofWidth = (width: number) => onceEach(times => prices.memory(times * rows * width * element))
  const sums = (4 * shape.heads) / cut.tp
  const seen = cut.ring ? keysOfTurns(shape, cut) : []
  const [ahead] = forward
  const [back] = backward
  // Of a ring nearly all turns are alike.
  const turnOf = onceEach((keys): BothWays => {
    const ofTurn = (kernel: Kernel): Kernel =>
      kernel.kind === 'attention' ? { ...kernel, keys, causal: false, unevenness: 1 } : kernel
    return { forward: priced(ofTurn(ahead)), backward: priced(ofTurn(back)) }
  })
  return {
    attention: { forward: sum(forward), backward: sum(backward) },
    turns: seen.map(turnOf),
    results: onceEach(times => prices.memory(times * rows * (widths.results * element + sums))),
    queries: ofWidth(widths.queries),
    keys: ofWidth(widths.keys),
    values: ofWidth(widths.values),
    turnsBack: shape.positions === 'rotary' && !shape.latent && (cut.ulysses ?? 1) === 1,
  }
}

/** Asked for again and again with a few numbers. */
function onceEach<T>(of: (number: number) => T): (number: number) => T {
  const known = new Map<number, T>()
  return number => entry(known, number, () => of(number))
}

/**
 * Keys that a query sees at each turn on the rank where it sees most. In zigzag every rank sees half of what comes; in order
 * the last sees all of it. At first a rank sees its own.
 */
function keysOfTurns({ seq, window }: Shape, { cp, ulysses = 1, inOrder }: StreamCut): number[] {
  const ranks = cp / ulysses
  const own = seq / ranks
  if (window && window.tokens < seq) return keysOfWindow(runsOf(ranks, own, inOrder), own, window.tokens)
  return Array.from({ length: ranks }, (_, turn) => (turn === 0 ? (own + 1) / 2 : inOrder ? own : own / 2))
}

/** The tokens of each rank: one run in order, an early and a late one in zigzag. */
function runsOf(ranks: number, own: number, inOrder: boolean | undefined): TokenRun[][] {
  const half = own / 2
  return Array.from({ length: ranks }, (_, rank) =>
    inOrder
      ? [{ first: rank * own, length: own }]
      : [rank, 2 * ranks - 1 - rank].map(chunk => ({ first: chunk * half, length: half })),
  )
}

/** The same of a window, pair by pair; turns at which nobody sees anything are not taken. */
function keysOfWindow(runs: readonly (readonly TokenRun[])[], own: number, window: number): number[] {
  const ofRank = (turn: number, rank: number) => {
    const keys = runs[(rank + runs.length - turn) % runs.length]
    return runs[rank].flatMap(query => keys.map(key => pairsSeen(query, key, window))).reduce((a, b) => a + b, 0)
  }
  return runs.map((_, turn) => Math.max(...runs.map((_, rank) => ofRank(turn, rank))) / own).filter(keys => keys > 0)
}

type ContextSplit = Pick<Split, 'tp' | 'cp' | 'ulysses' | 'ring' | 'microbatch'>
type ContextSetup = Omit<Setup, 'split'> & { readonly split: ContextSplit }

export function meetingTraffic(
  { shape, split, precision }: ContextSetup,
  table: PriceTable,
  lanes: Lanes,
): MeetingTraffic {
  const { tp, cp, ulysses = 1, ring, microbatch } = split
  const outer = cp / ulysses
  const bytes = ((microbatch * shape.seq) / cp) * activationBytes(precision)
  const { queries, keys, values, results } = attendedWidths(shape, tp)
  const [size, stride] = [outer, tp * ulysses]
  const gathers = !ring && outer > 1
  const gathered = (kind: 'all-gather' | 'reduce-scatter') => (width: number) =>
    gathers ? table.collective(kind, outer * bytes * width, size, stride) : 0
  const [gather, sum] = [gathered('all-gather'), gathered('reduce-scatter')]
  const swap = exchange(shape, split, table)
  return {
    gather: { keys: gather(keys), values: gather(values) },
    sum: { keys: sum(keys), values: sum(values) },
    shift: ring ? table.collective('send', bytes * (keys + values), size, stride) : 0,
    around: lanes.of(size, stride),
    exchange: {
      queries: swap.queries(bytes * queries),
      keys: swap.keys(bytes * keys),
      values: swap.keys(bytes * values),
      result: swap.queries(bytes * results),
      again: swap.again(bytes * (queries + results), bytes * (keys + values)),
    },
    exchanging: lanes.of(ulysses, tp),
  }
}

/** Key-value heads that are too few are exchanged among as many ranks as there are, and copied to the others. */
function exchange(shape: Shape, { tp, ulysses = 1 }: ContextSplit, table: PriceTable) {
  const own = shape.latent ? shape.heads / tp : shape.kvHeads / kvSplit(shape, tp)
  const few = gcd(ulysses, own)
  const groups = ulysses / few
  const swapped = (bytes: number, size: number, stride: number) => table.collective('all-to-all', bytes, size, stride)
  const copied = (bytes: number) => table.collective('all-gather', groups * bytes, groups, tp * few)
  return {
    queries: (bytes: number) => swapped(bytes, few, tp) + swapped(bytes, groups, tp * few),
    keys: (bytes: number) => swapped(bytes, few, tp) + copied(bytes),
    /** What is kept has taken the first step: going back it takes the second once more. */
    again: (asked: number, given: number) => swapped(asked / 2, groups, tp * few) + 2 * copied(given / 2),
  }
}
