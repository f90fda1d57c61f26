/** Parameters whose matrices are dealt out together: alike ones, as many at a time as there are ranks. */
import type { CompiledParam } from './compiled.js'
import type { SegmentDraft } from './segment.js'

export interface Round {
  readonly params: readonly CompiledParam[]
  readonly draft: SegmentDraft
}

/** Of the parameters that one stream holds. */
export function roundsOf(held: readonly CompiledParam[]): Round[] {
  const alike = new Map<CompiledParam['segments'], CompiledParam[]>()
  for (const param of held)
    if (param.segments.deal) alike.set(param.segments, [...(alike.get(param.segments) ?? []), param])
  return [...alike].flatMap(([{ deal }, params]) => {
    const most = deal!.most(params.length)
    const rounds = Array.from({ length: Math.ceil(params.length / most) }, (_, i) =>
      params.slice(i * most, (i + 1) * most),
    )
    return rounds.map(some => ({ params: some, draft: deal!.round(some.length, params.length) }))
  })
}
