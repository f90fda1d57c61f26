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
  /** Per pass: the microbatch that comes next. */
  readonly next: number[]
  /** Weight gradients made possible so far, oldest first, and how many of them are done. */
  readonly weights: Task[]
  weightsDone: number
  live: number
  /** Of the live ones, those of chunk 0. One place is kept for chunk 1, or nothing could ever come back up. */
  liveDown: number
}

interface World extends Counts, Ways {
  readonly states: readonly RankState[]
  /** `next` of every rank as it was when the tick began. */
  seen: readonly (readonly number[])[]
}

/** Infinite ticks: everybody waits, the limit is too tight for this order. */
export function runTicks(counts: Counts, ways: Ways): { rows: Task[][]; ticks: number } {
  const states = ways.due.map(
    (): RankState => ({ row: [], next: [0, 0, 0, 0], weights: [], weightsDone: 0, live: 0, liveDown: 0 }),
  )
  const world: World = { ...counts, ...ways, states, seen: [] }
  let ticks = 0
  for (let left = period * counts.ranks * counts.microbatches; left > 0; ticks++) {
    world.seen = states.map(state => [...state.next])
    const choices = states.map((_, rank) => choose(world, rank))
    const moved = choices.filter((choice, rank) => choice !== undefined && perform(world, rank, choice)).length
    if (moved === 0) return { rows: [], ticks: Number.POSITIVE_INFINITY }
    left -= moved
  }
  return { rows: states.map(state => state.row), ticks }
}

function choose(world: World, rank: number): Pass | 'W' | undefined {
  const { next, weights, weightsDone } = world.states[rank]
  const { before, after, spare } = world.patience
  const head = earliest(world, rank, everyPass, pass => next[pass] < world.microbatches)
  if (head !== undefined && ready(world, rank, head, 0)) return head
  const outOfTurn = (among: readonly Pass[]) => earliest(world, rank, among, pass => ready(world, rank, pass, spare))
  return outOfTurn(before) ?? (weights.length > weightsDone ? 'W' : outOfTurn(after))
}

function earliest(world: World, rank: number, among: readonly Pass[], fits: (pass: Pass) => boolean): Pass | undefined {
  const { next } = world.states[rank]
  const due = (pass: Pass) => period * next[pass] + world.due[rank][pass]
  let best: Pass | undefined
  for (const pass of among) if (fits(pass) && (best === undefined || due(pass) < due(best))) best = pass
  return best
}

function ready(world: World, rank: number, pass: Pass, spare: number): boolean {
  const { next, live, liveDown } = world.states[rank]
  if (next[pass] >= arrived(world, rank, pass)) return false
  if (pass === 0) return live < world.limit - spare && liveDown < world.limit - 1 - spare
  return pass === 1 ? live < world.limit - spare : next[pass] < world.seen[rank][3 - pass]
}

/** How many microbatches have reached a pass of a rank, from its neighbour or from its own pass before. */
function arrived({ ranks, microbatches, seen }: World, rank: number, pass: Pass): number {
  const from = pass % 2 === 0 ? rank - 1 : rank + 1
  if (from >= 0 && from < ranks) return seen[from][pass]
  return pass === 0 ? microbatches : seen[rank][pass - 1]
}

function perform(world: World, rank: number, choice: Pass | 'W'): true {
  const state = world.states[rank]
  if (choice === 'W') {
    const task = state.weights[state.weightsDone++]
    state.row.push(task)
    state.live--
    if (task.stage < world.ranks) state.liveDown--
    return true
  }
  const { kind, chunk } = passes[choice]
  const task: Task = { kind, stage: vStage(world.ranks, rank, chunk), microbatch: state.next[choice]++ }
  state.row.push(task)
  if (kind === 'I') state.weights.push({ ...task, kind: 'W' })
  else {
    state.live++
    if (chunk === 0) state.liveDown++
  }
  return true
}
