/** Pipelines as they lie on the ranks of a group: of groups with as many ranks and microbatches they are the same. */
import { type CutPrice, type KnownPipeline, pipelineIn } from '../estimate/index.js'
import { type Request, setupOf } from './request.js'
import { type Group, type Pipeline, splitFrom } from './space.js'

export interface LaidPipeline extends Pipeline {
  readonly known: KnownPipeline
}

export function laidOnce(request: Request): (group: Group, pipelines: readonly Pipeline[]) => readonly LaidPipeline[] {
  const known = new Map<string, readonly LaidPipeline[]>()
  const saving = { zero: 0, recompute: 'none' } as const
  return (group, pipelines) => {
    const key = `${group.pp} ${group.microbatches}`
    const laid =
      known.get(key) ??
      pipelines.map(one => ({ ...one, known: pipelineIn(setupOf(request, splitFrom(group, one, saving))) }))
    known.set(key, laid)
    return laid
  }
}

/** When the soonest of these can be done. */
export function leastEndOf(price: CutPrice, laid: readonly LaidPipeline[]): number {
  let end = Number.POSITIVE_INFINITY
  for (const one of laid) end = Math.min(end, price.leastEnd(one.known.pipeline, price.partsOf(one)))
  return end
}
