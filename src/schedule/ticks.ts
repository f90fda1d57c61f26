/**
 * Ranks on a V run tick by tick, every task taking one. Each rank takes the pass that is due next; if that cannot
 * run, something out of turn or a weight gradient. Nobody holds more activations than the limit.
 */
import { vStage } from './place.js'
import type { Counts, Task } from './task.js'

/** The four passes that other ranks wait for, in the order a microbatch meets them; even ones go down the ranks. */
const passes = [
  { kind: 'F', chunk: 0 },
  { kind: 'F', chunk: 1 },
  { kind: 'I', chunk: 1 },
  { kind: 'I', chunk: 0 },
] as const
export type Pass = 0 | 1 | 2 | 3
const everyPass: readonly Pass[] = [0, 1, 2, 3]

/** A microbatch is six tasks on every rank: two forwards, two input gradients, two weight gradients. */
export const period = 6

/** What may be done out of turn: before weight gradients, after them, and how many activations must stay free. */
export interface Patience {
  readonly before: readonly Pass[]
  readonly after: readonly Pass[]
  readonly spare: number
}

export interface Ways {
  readonly limit: number
  /** Per rank and pass: when microbatch 0 is due. */
  readonly due: readonly (readonly number[])[]
  readonly patience: Patience
}

interface RankState {
  readonly row: Task[]
  /** Weight gradients made possible so far, oldest first, and how many of them are done. */
  readonly weights: Task[]
  weightsDone: number
  live: number
  /** Of the live ones, those of chunk 0. One place is kept for chunk 1, or nothing could ever come back up. */
  liveDown: number
  /** The tick of the first task, and the one after the last. */
  first: number
  last: number
}

interface World extends Counts, Ways {
  readonly states: readonly RankState[]
  /** At 4 * rank + pass: the microbatch that comes next. */
  readonly next: Int32Array
  /** The same as it was when the tick began: what the neighbours know. */
  readonly seen: Int32Array
}

export interface TickRun {
  readonly rows: Task[][]
  /** Infinite where everybody waits: the limit is too tight for this order. */
  readonly ticks: number
  /** Idle ticks between the first and the last task of each rank, all together. */
  readonly inside: number
}

export function runTicks(counts: Counts, ways: Ways): TickRun {
  const states = ways.due.map(
    (): RankState => ({ row: [], weights: [], weightsDone: 0, live: 0, liveDown: 0, first: -1, last: 0 }),
  )
  const size = 4 * counts.ranks
  const world: World = { ...counts, ...ways, states, next: new Int32Array(size), seen: new Int32Array(size) }
  let ticks = 0
  for (let left = period * counts.ranks * counts.microbatches; left > 0; ticks++) {
    world.seen.set(world.next)
    const before = left
    for (let rank = 0; rank < counts.ranks; rank++) {
      const choice = choose(world, rank)
      if (choice === undefined) continue
      perform(world, rank, choice, ticks)
      left--
    }
    if (left === before) return { rows: [], ticks: Number.POSITIVE_INFINITY, inside: 0 }
  }
  const inside = states.reduce((idle, { first, last, row }) => idle + last - first - row.length, 0)
  return { rows: states.map(state => state.row), ticks, inside }
}

function choose(world: World, rank: number): Pass | 'W' | undefined {
  const { weights, weightsDone } = world.states[rank]
  const { before, after, spare } = world.patience
  const head = earliest(world, rank, everyPass)
  if (head !== undefined && ready(world, rank, head, 0)) return head
  return (
    earliest(world, rank, before, spare) ?? (weights.length > weightsDone ? 'W' : earliest(world, rank, after, spare))
  )
}

/** The pass that is due first: of all that remain, or, where `spare` is given, of those that can run now. */
function earliest(world: World, rank: number, among: readonly Pass[], spare?: number): Pass | undefined {
  let best: Pass | undefined
  let soonest = Number.POSITIVE_INFINITY
  for (const pass of among) {
    const microbatch = world.next[4 * rank + pass]
    const due = period * microbatch + world.due[rank][pass]
    if (microbatch >= world.microbatches || due >= soonest) continue
    if (spare !== undefined && !ready(world, rank, pass, spare)) continue
    best = pass
    soonest = due
  }
  return best
}

function ready(world: World, rank: number, pass: Pass, spare: number): boolean {
  const { next, seen, limit } = world
  const { live, liveDown } = world.states[rank]
  const microbatch = next[4 * rank + pass]
  if (microbatch >= arrived(world, rank, pass)) return false
  if (pass === 0) return live < limit - spare && liveDown < limit - 1 - spare
  return pass === 1 ? live < limit - spare : microbatch < seen[4 * rank + 3 - pass]
}

/** How many microbatches have reached a pass of a rank, from its neighbour or from its own pass before. */
function arrived({ ranks, microbatches, seen }: World, rank: number, pass: Pass): number {
  const from = pass % 2 === 0 ? rank - 1 : rank + 1
  if (from >= 0 && from < ranks) return seen[4 * from + pass]
  return pass === 0 ? microbatches : seen[4 * rank + pass - 1]
}

function perform(world: World, rank: number, choice: Pass | 'W', tick: number): void {
  const state = world.states[rank]
  if (state.first < 0) state.first = tick
  state.last = tick + 1
  if (choice === 'W') {
    const task = state.weights[state.weightsDone++]
    state.row.push(task)
    state.live--
    if (task.stage < world.ranks) state.liveDown--
    return
  }
  const { kind, chunk } = passes[choice]
  const task: Task = { kind, stage: vStage(world.ranks, rank, chunk), microbatch: world.next[4 * rank + choice]++ }
  state.row.push(task)
  if (kind === 'I') state.weights.push({ ...task, kind: 'W' })
  else {
    state.live++
    if (chunk === 0) state.liveDown++
  }
}
