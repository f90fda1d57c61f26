/**
 * The chain of tasks that decided when a pipeline was done, as counts: how often each kind of task lies on it, by what makes up
 * its time. With other costs another chain may decide, but this one takes its time all the same: what was found for one plan
 * bounds thousands that share its pipeline.
 */
import type { StageParts } from '../rank-cost.js'
import { farther, type Order, taskKinds } from './order.js'
import type { Pipeline } from './stages.js'

export interface TaskPath {
  /** By kind of task, where `taskKinds` says: layers, embeddings, heads. */
  readonly layers: Float64Array
  readonly firsts: Float64Array
  readonly lasts: Float64Array
  /** Layers without experts beyond those that there would be if they were spread. */
  readonly excess: Float64Array
  /** By kind of task: how many. */
  readonly tasks: Float64Array
  /** Messages to the next rank, and farther. */
  readonly near: number
  readonly far: number
}

/** Of an order that was just played, the chain that ends with a task. */
export function pathTo(order: Order, { stages, excess: beyond }: Pipeline, task: number): TaskPath {
  const column = () => new Float64Array(taskKinds.length)
  const [layers, firsts, lasts, excess, tasks] = [column(), column(), column(), column(), column()]
  let [near, far] = [0, 0]
  for (let at = task; at >= 0; at = order.from[at]) {
    const [kind, stage] = [Math.floor(order.what[at] / order.stages), order.what[at] % order.stages]
    tasks[kind]++
    layers[kind] += stages[stage]
    if (beyond) excess[kind] += beyond[stage]
    if (stage === 0) firsts[kind]++
    if (stage === order.stages - 1) lasts[kind]++
    const before = order.from[at]
    if (before < 0 || order.rank[before] === order.rank[at]) continue
    if (order.sends[order.after[at]] === farther) far++
    else near++
  }
  return { layers, firsts, lasts, excess, tasks, near, far }
}

/** Seconds of messages to the next rank and farther, and what one costs its sender. */
export interface MessageTimes {
  readonly near: number
  readonly far: number
  readonly late: number
}

export function secondsOfPath(
  path: TaskPath,
  { layer, lighter, ends, host }: StageParts,
  messages: MessageTimes,
): number {
  let seconds = path.near * messages.near + path.far * messages.far + path.tasks[0] * host
  for (const [at, kind] of taskKinds.entries()) {
    seconds += path.layers[at] * layer[kind] + path.firsts[at] * ends.first[kind] + path.lasts[at] * ends.last[kind]
    if (lighter) seconds += path.excess[at] * lighter[kind]
    if (kind !== 'W') seconds += path.tasks[at] * messages.late
  }
  return seconds
}
