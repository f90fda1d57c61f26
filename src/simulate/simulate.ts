/** One step of a program on a cluster that nobody needs to own: how long it takes, where the time goes, and every span. */
import { asPart, elsewheres, finish, type Rank, type Seconds, seconds, type Work, worldOf } from '../base/index.js'
import { type Kind, type Program, roomIn, type Step } from '../ir/index.js'
import { type Parts, partNames } from '../metrics/index.js'
import { type Span, type SpanColumns, spansIn } from '../trace/index.js'
import { type Alike, alikeRanks } from './alike.js'
import { type Jitter, paceOf } from './pace.js'
import type { Prices } from './prices.js'
import { Recorder } from './record.js'
import { type Score, type ScoreBook, scoresOf } from './score.js'
import { type PartSeconds, type WatchedClass, walking } from './walk.js'

export interface SimulateOptions {
  /** Ranks whose work takes longer, and how many times as long. */
  readonly slow?: ReadonlyMap<Rank, number>
  readonly jitter?: Jitter
  /**
   * Whose spans to keep. Left out: of every rank while ranks are alike; of the pipeline of rank 0 and of the slow ones
   * where they are not, since a hundred thousand of them would fill the memory.
   */
  readonly watch?: readonly Rank[]
  /** What was worked out before for programs with the same segments and prices. */
  readonly book?: ScoreBook
}

/** A simulated step: its time by category, memory, traffic, and spans on request. */
export interface Simulation {
  readonly step: Seconds
  /** Means over all ranks; they add up to the step. */
  readonly parts: Parts
  /** The same for each pipeline coordinate. */
  readonly stages: readonly Parts[]
  readonly flops: ExecutedFlops
  readonly memory: HeaviestRank
  /** Simulated ranks, one per class of equivalent ranks. */
  readonly roles: readonly RankRole[]
  /** Index into `roles`. */
  readonly roleOf: (rank: Rank) => number
  /** Ranks whose spans there are. */
  readonly watched: (rank: Rank) => boolean
  /**
   * The spans of one rank in order of their start; ranks of one role are equal. A copy, which the caller may
   * transfer.
   */
  readonly columnsOf: (rank: Rank) => SpanColumns
  /** The same as objects. */
  readonly spansOf: (rank: Rank) => Span[]
}

/** FLOPs that all ranks execute in a step: attention without the masked half. */
export interface ExecutedFlops {
  readonly executed: number
  /** The part of it that is recomputation, and the attention in that. */
  readonly repeated: number
  readonly repeatedAttention: number
}

/** A class of equivalent ranks, which do the same at the same time. */
export interface RankRole {
  readonly pp: number
  /** The first rank, and the number of ranks. */
  readonly rank: Rank
  readonly ranks: number
}

/** Bytes by kind, each at its own peak, and of the arena that holds them all. */
export interface HeaviestRank {
  readonly pp: number
  readonly arena: number
  readonly peak: Readonly<Record<Kind, number>>
  /** Bytes of the host that the rank with most of them takes, where any does. */
  readonly host?: number
  /** The same of the disk. */
  readonly disk?: number
}

/** Simulates one step of a program, event by event, once per class of equivalent ranks. */
export const simulate = (program: Program, prices: Prices, options: SimulateOptions = {}): Simulation =>
  finish(simulating(program, prices, options))

/** `simulate` as a generator that yields the fraction done. */
export function* simulating(program: Program, prices: Prices, options: SimulateOptions = {}): Work<Simulation> {
  const { slow = new Map<Rank, number>(), jitter } = options
  const { streams } = program
  const alike = alikeRanks(program, slow, jitter !== undefined)
  const scores = scoresOf(program, prices, options.book ?? new WeakMap())
  const recorders = recordersOf(program, alike, options.watch ?? defaultWatch(program, alike, slow))
  yield 0.1
  const playing = walking(program, {
    ...{ alike, scores, prices, watched: recorders.map(watchedOf) },
    paceOf: paceOf(streams.length, alike, slow, jitter),
    steady: slow.size === 0 && !jitter,
  })
  const walked = yield* asPart(0.1, 1, playing)
  const recorderOf = (rank: Rank) => {
    const { pp, column } = alike.placeOf(rank)
    return recorders[pp]?.get(alike.classOf[column])
  }
  const columnsOf = (rank: Rank): SpanColumns => {
    const recorder = recorderOf(rank)
    if (!recorder) throw new Error(`internal: the spans of rank ${rank} were not kept`)
    return recorder.columns(prices.links)
  }
  const stages = walked.spent.map(spent => averageOf(spent, alike))
  return {
    step: seconds(walked.seconds),
    parts: meanOf(stages),
    stages,
    flops: flopsOf(program, scores),
    memory: heaviestOf(program),
    ...rolesOf(streams.length, alike),
    watched: rank => recorderOf(rank) !== undefined,
    columnsOf,
    spansOf: rank => spansIn(columnsOf(rank), rank),
  }
}

/** A role for each pipeline coordinate and class of columns, one coordinate after the other. */
const rolesOf = (coordinates: number, alike: Alike): Pick<Simulation, 'roles' | 'roleOf'> => ({
  roles: Array.from({ length: coordinates }, (_, pp) =>
    alike.columnOf.map((column, k) => ({ pp, rank: alike.rankOf({ pp, column }), ranks: alike.counts[k] })),
  ).flat(),
  roleOf: rank => {
    const { pp, column } = alike.placeOf(rank)
    return pp * alike.classes + alike.classOf[column]
  },
})

/** Most classes of columns of which everything is kept. */
const mostKept = 8

function defaultWatch({ streams }: Program, alike: Alike, slow: ReadonlyMap<Rank, number>): readonly Rank[] {
  const all = alike.classes <= mostKept
  const columns = all ? alike.columnOf : [0, ...slow.keys()].slice(0, mostKept).map(rank => alike.placeOf(rank).column)
  return columns.flatMap(column => streams.map((_, pp) => alike.rankOf({ pp, column })))
}

function recordersOf({ streams }: Program, alike: Alike, watch: readonly Rank[]): Map<number, Recorder>[] {
  const recorders = streams.map(() => new Map<number, Recorder>())
  for (const rank of watch) {
    const { pp, column } = alike.placeOf(rank)
    const of = alike.classOf[column]
    if (!recorders[pp].has(of)) recorders[pp].set(of, new Recorder())
  }
  return recorders
}

const watchedOf = (recorders: ReadonlyMap<number, Recorder>): WatchedClass[] =>
  [...recorders].map(([of, recorder]) => ({ of, recorder }))

/** Over the columns of a stream, each class as often as it is there. */
function averageOf(spent: PartSeconds[number], { counts }: Alike): Parts {
  const columns = counts.reduce((a, b) => a + b, 0)
  const average = (times: Float64Array) => times.reduce((sum, time, k) => sum + time * counts[k], 0) / columns
  return Object.fromEntries(partNames.map(name => [name, average(spent[name])])) as Parts // every part is there
}

const meanOf = (all: readonly Parts[]): Parts =>
  Object.fromEntries(
    partNames.map(name => [name, all.reduce((sum, parts) => sum + parts[name], 0) / all.length]),
  ) as Parts // every part is there

function flopsOf(program: Program, scores: ReadonlyMap<string, Score>): ExecutedFlops {
  const perStream = worldOf(program.mesh) / program.streams.length
  let [executed, repeated, repeatedAttention] = [0, 0, 0]
  const count = (step: Step) => {
    if (step.kind !== 'call') return
    const score = scores.get(step.segment)!
    executed += score.flops * perStream
    repeated += score.repeated * perStream
    repeatedAttention += score.repeatedAttention * perStream
  }
  for (const { steps } of program.streams) steps.forEach(count)
  return { executed, repeated, repeatedAttention }
}

function heaviestOf({ streams }: Program): HeaviestRank {
  const pp = streams.reduce((most, { arena }, i) => (arena > streams[most].arena ? i : most), 0)
  const [host, disk] = elsewheres.map(space => Math.max(...streams.map(stream => roomIn(stream, space).arena)))
  return { pp, arena: streams[pp].arena, peak: streams[pp].peak, ...(host > 0 && { host }), ...(disk > 0 && { disk }) }
}
