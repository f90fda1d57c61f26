/**
 * How long a pipeline takes, in closed form. `ranks` have the time of one microbatch on each pipeline rank; what is
 * beyond the busiest rank's own work is the bubble. The event simulation of the schedule itself is the judge of these.
 */
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

/** The others wait for one pass through all ranks but the busiest, cut as fine as there are chunks. */
const alternating = ({ sum, busiest, chunks }: Pipeline): number => (whole(sum) - whole(busiest)) / chunks

/**
 * Weight gradients fill the gaps, `lead` of them for each rank; what a pass there and back takes longer than that is
 * left. With few microbatches there are not enough of them.
 */
const filled =
  (lead: number) =>
  ({ sum, busiest, chunks, ranks, microbatches }: Pipeline): number => {
    const path = (sum.forward + sum.input - busiest.forward - busiest.input) / chunks
    return Math.max(0, path - (Math.min(lead * (ranks - 1), microbatches - 1) * busiest.weight) / chunks)
  }

const bubbles: Readonly<Record<string, (pipeline: Pipeline) => number>> = {
  gpipe: pipeline => alternating({ ...pipeline, chunks: 1 }),
  '1f1b': alternating,
  interleaved: alternating,
  'looped-bfs': alternating,
  'interleaved-zb': filled(1),
  'zb-h1': filled(1),
  'zb-h2': filled(2),
  'zb-v': filled(2),
  'dualpipe-v': filled(2),
  dualpipe: filled(2),
  'v-half': filled(1),
  'v-min': filled(1),
}

/** Seconds the busiest rank is idle in a step. */
export const bubbleOf = (schedule: string, pipeline: Pipeline): number =>
  pipeline.ranks <= 1 ? 0 : (bubbles[schedule] ?? alternating)(pipeline)
