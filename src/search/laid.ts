/** Pipelines as they lie on the ranks of a group: with as many ranks and microbatches they are the same, and with other microbatches nearly so. */
import { type BarePipeline, barePipeline, type CutPrice, type KnownPipeline, pipelineIn } from '../estimate/index.js'
import { scheduleFacts } from '../plan/index.js'
import type { Pipeline } from './pipelines.js'
import { plainSplit, type Request, setupOf } from './request.js'
import { type Group, splitFrom } from './space.js'

export interface LaidPipeline extends Pipeline {
  readonly known: KnownPipeline
}

export function laidOnce(
  request: Request,
): (group: Group, pipelines: readonly UnlaidPipeline[]) => readonly LaidPipeline[] {
  const known = new Map<string, readonly LaidPipeline[]>()
  const saving = { zero: 0, recompute: 'none' } as const
  return (group, pipelines) => {
    const key = `${group.pp} ${group.microbatches}`
    // Written out: spread, thousands of them take longer to make than to lay.
    const lay = (one: Pipeline): LaidPipeline => {
      const { schedule, chunks, layers } = one
      const known = pipelineIn(setupOf(request, splitFrom(group, one, saving)))
      return layers ? { schedule, chunks, layers, known } : { schedule, chunks, known }
    }
    const laid = known.get(key) ?? pipelines.map(lay)
    known.set(key, laid)
    return laid
  }
}

/** A pipeline whatever the number of microbatches. */
export interface UnlaidPipeline extends Pipeline {
  /** Of those that are bounded alike the first has it. */
  readonly bare?: BarePipeline
}

export function unlaid({ shape }: Request, pp: number, pipelines: readonly Pipeline[]): UnlaidPipeline[] {
  const seen = new Set<string>()
  return pipelines.map(one => {
    const { placement, backward } = scheduleFacts[one.schedule]
    const key = `${placement} ${backward} ${one.chunks} ${one.layers?.join()}`
    if (seen.has(key)) return one
    seen.add(key)
    return { ...one, bare: barePipeline(shape, { ...plainSplit, ...one, pp }) }
  })
}

/** When the soonest of these can be done with so many microbatches. */
export function leastEndOf(price: CutPrice, pipelines: readonly UnlaidPipeline[], microbatches: number): number {
  let end = Number.POSITIVE_INFINITY
  for (const one of pipelines) {
    if (!one.bare) continue
    const times = Math.floor(microbatches / one.bare.microbatches)
    end = Math.min(end, price.leastEnd(one.bare.pipeline, price.partsOf(one), times))
  }
  return end
}
