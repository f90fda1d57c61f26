/** How layers are put on the stages of a pipeline: schedule, virtual stages, and the layers of each stage. */
import { evenParts } from '../base/index.js'
import type { Shape } from '../estimate/index.js'
import { type ScheduleName, scheduleFacts, scheduleNames } from '../plan/index.js'
import { keeps } from './constraint.js'
import type { Request } from './request.js'

export interface Pipeline {
  readonly schedule: ScheduleName
  readonly chunks: number
  readonly layers?: readonly number[]
}

/** `own`: the chunks of a plan whose alternatives these are; as many are always tried. */
export function pipelinesOf(
  { shape, constraints }: Pick<Request, 'shape' | 'constraints'>,
  pp: number,
  own = 1,
): Pipeline[] {
  const { layers } = shape
  const most = constraints.some(({ field }) => field === 'chunks') ? mostChunks : Math.max(usualChunks, own)
  const head = headWeight(shape)
  const named = pp === 1 ? (['1f1b'] as const) : usualFirst
  return named
    .flatMap(schedule => chunksOf(schedule, pp, { layers, most }).map(chunks => ({ schedule, chunks })))
    .flatMap(({ schedule, chunks }) =>
      layerSplits(layers, pp * chunks, head).map(split => ({ schedule, chunks, ...split })),
    )
    .filter(pipeline => keeps(pipeline, constraints))
}

/** Schedules in the order tried: of plans that come to the same thing the first is kept. */
const usualFirst = [...new Set<ScheduleName>(['1f1b', 'interleaved', ...scheduleNames])]

/** Virtual stages per rank that are searched unless a constraint names `chunks`: no published run has more (Nemotron-4 340B has 12). */
const usualChunks = 12
const mostChunks = 64

/** The embedding and the head may have stages of their own. */
export const mostStages = (layers: number): number => layers + 2

/**
 * Of the chunk counts that leave the fullest stage as it is the least: with more of them a rank has more stages of
 * that size to go through, and the bubble, which is as long as a stage, does not shrink.
 */
function chunksOf(
  schedule: ScheduleName,
  pp: number,
  { layers, most: limit }: { readonly layers: number; readonly most: number },
): number[] {
  const { chunks, chunksFixed } = scheduleFacts[schedule]
  if (chunksFixed) return pp * chunks <= mostStages(layers) ? [chunks] : []
  const most = Math.min(limit, Math.floor(mostStages(layers) / pp))
  const all = Array.from({ length: Math.max(0, most - 1) }, (_, i) => i + 2)
  return all.filter(n => n === 2 || fullest(layers, pp * n) < fullest(layers, pp * (n - 1)))
}

/** With one layer a stage, the first and the last may have none. */
const fullest = (layers: number, stages: number): number => (stages > layers ? 0.5 : Math.ceil(layers / stages))

/**
 * Even; or the last stage lighter, or the first and the last: they also hold the head and the embedding. `head` is
 * what the head weighs, in layers: no stage is left lighter than that asks for. The others hold as many layers as the
 * fullest of an even split, or one more.
 */
export function layerSplits(layers: number, stages: number, head = 1): { readonly layers?: readonly number[] }[] {
  const even = evenParts(layers, stages)
  const found = new Map<string, readonly number[]>()
  for (const most of [even[0], even[0] + 1])
    for (const ends of [1, 2]) {
      const inner = stages - ends
      const end = Math.max(0, Math.ceil((layers - most * inner) / ends), most - Math.max(1, Math.ceil(head)))
      const middle = inner > 0 ? evenParts(layers - ends * end, inner) : []
      if (end >= most || middle[0] !== most || middle[inner - 1] < 1) continue
      const split = [...(ends === 2 ? [end] : []), ...middle, end]
      if (split.join() !== even.join() || stages > layers) found.set(split.join(), split)
    }
  return [...(stages <= layers ? [{}] : []), ...[...found.values()].map(split => ({ layers: split }))]
}

/** Parameters of the head over those of a layer: its share of time is about that. */
export const headWeight = ({ heads, kvHeads, headDim, ffn, gated, vocab }: Shape): number =>
  vocab / (2 * headDim * (heads + kvHeads) + (gated ? 3 : 2) * ffn)
