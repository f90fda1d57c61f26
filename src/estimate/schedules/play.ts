/**
 * How long a pipeline takes: its schedule is played task by task on the costs of its stages. A task starts when its rank
 * is free and what it needs has come. What the data axes move meanwhile is played beside it, block by block.
 */
import type { TaskKind } from '../../schedule/index.js'
import type { Acts } from './acts.js'
import { FlownPlay } from './flown.js'
import { farther, firstOfPair, nowhere, type Order, type PlayedOrders, taskIndex, taskKinds } from './order.js'

/** Seconds of one microbatch, by what is done with it. */
export type TaskTimes = Readonly<Record<TaskKind, number>>

export interface PipelineCosts {
  /** Seconds of every task, where `taskIndex` says. */
  readonly tasks: Float64Array
  /** Seconds of a message to the next rank, and farther. */
  readonly near: number
  readonly far: number
  readonly flights: PipelineFlights | undefined
}

export type FlownCosts = PipelineCosts & { readonly flights: PipelineFlights }

/** A block, and what moves because of it. */
export interface FlownBlock {
  /** Of each kind of task: its seconds with nothing beside it, and what it does. */
  readonly seconds: TaskTimes
  readonly acts: Readonly<Record<TaskKind, Acts>>
  /** Its parameters on their way here, its gradients on their way from here, and adding up what has come of them. */
  readonly gather: number
  readonly reduce: number
  readonly add: number
  /** Parts of its parameters on their way from the host, before they are gathered. */
  readonly lift: number
  /** Packing and unpacking its parameters where they travel in fewer bits. */
  readonly unpack: number
  /** Its backward pass reads parameters, too. */
  readonly readsBack: boolean
}

/** What a rank moves once a step, by stage and by block in the order of forward. */
export interface StepFlights {
  /** When the parameters of a block are there, counted from the beginning of the step. */
  readonly arrivals: ReadonlyMap<number, Float64Array>
  /** Seconds of what leaves once the gradients of a block are final. */
  readonly departures: ReadonlyMap<number, Float64Array>
  /** When the last of the parameters is there. */
  readonly begun: number
}

export interface PipelineFlights {
  /** By stage, in the order of forward. */
  readonly blocks: readonly (readonly FlownBlock[])[]
  /** By rank: found when asked for, since a bound looks at one of them. */
  readonly ofStep: (rank: number) => StepFlights
  /** Parameters are gathered for each call, so many calls ahead. */
  readonly prefetch: number | undefined
  /** Gradients leave after each call. */
  readonly reducesEach: boolean
  /** How much slower work is while something flies. */
  readonly contention: number
  /** Collectives over tp, those apart from them, and messages, use the same links. */
  readonly besideTp: boolean
  readonly besideApart: boolean
  readonly besideMessages: boolean
  /** Messages use the links of tp, or of what is apart from them. */
  readonly messagesBesideTp: boolean
  readonly messagesBesideApart: boolean
  /** Ranks agree on scales before each product, on the same links: behind all that flies. */
  readonly agrees: boolean
}

/** The costs of all tasks, where `taskIndex` says. */
export function taskCosts(stages: readonly TaskTimes[]): Float64Array {
  const costs = new Float64Array(taskKinds.length * stages.length)
  for (const [stage, times] of stages.entries())
    for (const kind of taskKinds) costs[taskIndex(stages.length, kind, stage)] = times[kind]
  return costs
}

/** By rank: when it is done, and how long it had nothing to do before that. */
export interface PlayedRanks {
  readonly finish: Float64Array
  readonly idle: Float64Array
}

export interface PlainPlay extends PlayedRanks {
  /** By rank: its last task. */
  readonly last: Int32Array
}

export function playPipeline(
  { order, shorter }: PlayedOrders,
  microbatches: number,
  costs: PipelineCosts,
): PlayedRanks {
  const played = play(order, costs)
  if (!shorter) return played
  const before = play(shorter, costs)
  const further = grownBy(order, shorter, microbatches)
  const grown = (now: Float64Array, then: Float64Array) => now.map((time, rank) => time + further * (time - then[rank]))
  return { finish: grown(played.finish, before.finish), idle: grown(played.idle, before.idle) }
}

/** When one rank would be done if it never waited for another. */
export function playAlone(
  { order, shorter }: PlayedOrders,
  microbatches: number,
  costs: FlownCosts,
  rank: number,
): number {
  const played = new FlownPlay(order, costs, costs.flights).runAlone(rank)
  if (!shorter) return played
  const before = new FlownPlay(shorter, costs, costs.flights).runAlone(rank)
  return played + grownBy(order, shorter, microbatches) * (played - before)
}

/** How many times as much again as one order has more than the other. */
const grownBy = (order: Order, shorter: Order, microbatches: number): number =>
  (microbatches - order.microbatches) / (order.microbatches - shorter.microbatches)

const play = (order: Order, costs: PipelineCosts): PlayedRanks =>
  costs.flights ? new FlownPlay(order, costs, costs.flights).run() : plainPlay(order, costs)

/** With nothing beside the tasks. */
export function plainPlay(order: Order, { tasks, near, far }: PipelineCosts): PlainPlay {
  const { ranks, rank, what, after, sends, marks, arrived, from } = order
  const [now, idle, lane] = [new Float64Array(ranks), new Float64Array(ranks), new Float64Array(ranks)]
  const last = new Int32Array(ranks).fill(-1)
  for (let task = 0; task < rank.length; task++) {
    const by = rank[task]
    const need = after[task]
    const free = now[by]
    const waits = need >= 0 && arrived[need] > free
    const start = waits ? arrived[need] : free
    const end = start + tasks[what[task]]
    // What a pair has made is sent when both are done.
    from[task] = waits ? (marks[need] & firstOfPair ? need + 1 : need) : last[by]
    idle[by] += start - free
    now[by] = end
    last[by] = task
    if (marks[task] & firstOfPair) continue
    if (task > 0 && marks[task - 1] & firstOfPair) arrived[task - 1] = send(task - 1, by, end)
    arrived[task] = send(task, by, end)
  }
  return { finish: now, idle, last }

  function send(task: number, by: number, at: number): number {
    if (sends[task] === nowhere) return at
    const start = lane[by] > at ? lane[by] : at
    lane[by] = start + (sends[task] === farther ? far : near)
    return lane[by]
  }
}
