/**
 * How long a pipeline takes, in closed form. `ranks` have the time of one microbatch on each pipeline rank; what is
 * beyond the busiest rank's own work is the bubble. The event simulation of the schedule itself is the judge of these.
 */
import type { ScheduleName } from '../../plan/index.js'

export interface RankTime {
  readonly forward: number
  /** Backward in two: gradient of the input, and of the weights. */
  readonly input: number
  readonly weight: number
}

/** The pipeline seen from outside: the busiest rank, and all ranks together. */
export interface Pipeline {
  readonly ranks: number
  readonly chunks: number
  readonly microbatches: number
  readonly busiest: RankTime
  readonly sum: RankTime
}

const whole = ({ forward, input, weight }: RankTime): number => forward + input + weight

/**
 * The others wait for one pass through all ranks but the busiest, cut as fine as there are chunks. With fewer
 * microbatches than ranks a rank has nothing to do between its chunks: the pass through all of them is what takes time.
 */
const alternating = ({ sum, busiest, chunks, microbatches: m }: Pipeline): number => {
  const [all, one] = [whole(sum), whole(busiest)]
  return Math.max((all - one) / chunks, all - m * one + ((m - 1) * one) / chunks)
}

/** Likewise where weight gradients are put off: forward, input gradient, and the last weight gradient. */
const emptied = ({ sum, busiest, chunks, microbatches: m }: Pipeline): number => {
  const pass = busiest.forward + busiest.input
  return sum.forward + sum.input + (busiest.weight + (m - 1) * pass) / chunks - m * whole(busiest)
}

/**
 * Weight gradients fill the gaps, `lead` of them for each rank; what a pass there and back takes longer than that is
 * left, and no rank starts before the first forward reaches it.
 */
const filled =
  (lead: number) =>
  (pipeline: Pipeline): number => {
    const { sum, busiest, chunks, ranks, microbatches } = pipeline
    const path = (sum.forward + sum.input - busiest.forward - busiest.input) / chunks
    const left = path - (Math.min(lead * (ranks - 1), microbatches - 1) * busiest.weight) / chunks
    return Math.max((sum.forward - busiest.forward) / chunks, left, emptied(pipeline))
  }

/** On a V every rank starts and ends a chunk later than its neighbour. */
const onV = (pipeline: Pipeline): number => {
  const { ranks, chunks, busiest } = pipeline
  return Math.max(((ranks - 1) * longestOf(busiest)) / chunks, emptied(pipeline))
}

/**
 * Schedules that hold little: a rank waits about one round of three tasks for each other rank, and as their order
 * takes the three as equally long, `share` of the difference in every microbatch. Read off the schedules themselves.
 */
const sparing =
  (share: number) =>
  (pipeline: Pipeline): number => {
    const { ranks, chunks, microbatches, busiest } = pipeline
    if (ranks < 4) return onV(pipeline)
    const uneven = 3 * Math.max(busiest.forward, busiest.input) - whole(busiest)
    const rounds = ((ranks - 1) * whole(busiest)) / chunks
    return Math.max(rounds + Math.max(0, share * microbatches * uneven), emptied(pipeline))
  }

/** A forward and a backward run as one pair: (ranks - 1)(F&B + B - 3W) of DeepSeek-V3, `ranks` those of one direction. */
const paired =
  (directions: 1 | 2) =>
  ({ ranks, chunks, microbatches: m, busiest }: Pipeline): number => {
    const [F, I, W] = [busiest.forward / chunks, busiest.input / chunks, busiest.weight / chunks]
    const deep = ranks / directions
    const few = deep * (2 * (F + I) + W) - (F + I + W) - (2 / directions) * F * m
    return Math.max((deep - 1) * Math.max(F + 2 * I - W, 2 * F), few, 0)
  }

const longestOf = ({ forward, input, weight }: RankTime): number => Math.max(forward, input, weight)

const bubbles: Readonly<Record<ScheduleName, (pipeline: Pipeline) => number>> = {
  gpipe: pipeline => alternating({ ...pipeline, chunks: 1 }),
  '1f1b': alternating,
  interleaved: alternating,
  'looped-bfs': alternating,
  'interleaved-zb': filled(1),
  'zb-h1': filled(1),
  'zb-h2': filled(2),
  'zb-v': onV,
  'dualpipe-v': paired(1),
  dualpipe: paired(2),
  'v-half': sparing(0.5),
  'v-min': sparing(1),
}

/** Seconds the busiest rank is idle in a step. */
export const bubbleOf = (schedule: ScheduleName, pipeline: Pipeline): number =>
  pipeline.ranks <= 1 ? 0 : bubbles[schedule](pipeline)
