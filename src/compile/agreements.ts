/** Scales that follow the steps before: ranks agree once a step on what was greatest, on that of all tensors together that lie alike. */
import { layoutKey, partialAxes, whole } from '../base/index.js'
import type { CompiledParam } from './compiled.js'
import type { ShardedMesh } from './layouts.js'
import { type SegmentDraft, SegmentWriter } from './segment.js'
import { gradientOf, slotOf } from './slots.js'

export interface Agreement {
  readonly params: readonly CompiledParam[]
  readonly draft: SegmentDraft
}

/** Of the parameters that one stream holds. */
export function agreementsOf(s: ShardedMesh, held: readonly CompiledParam[]): Agreement[] {
  const alike = new Map<string, CompiledParam[]>()
  for (const param of held) {
    const { agrees } = param.segments
    if (!agrees || (partialAxes(agrees).length === 0 && param.holders.length === 1)) continue
    const key = `${layoutKey(agrees)} ${param.holders}`
    alike.set(key, [...(alike.get(key) ?? []), param])
  }
  return [...alike.values()].map(params => ({ params, draft: draftAgreement(s, params) }))
}

/** Where they lie; a segment knows them by their places. */
function draftAgreement(s: ShardedMesh, params: readonly CompiledParam[]): SegmentDraft {
  const w = new SegmentWriter(s)
  const [{ segments, holders }] = params
  const axes = partialAxes(segments.agrees!)
  const at = (layout = whole) =>
    params.map(
      (param, i) =>
        w.given(`greatest.${i}`, gradientOf(param), layout, slotOf({ is: 'grad', of: String(i) }, 'gradients')).ref,
    )
  const groups = [
    ...(axes.length > 0 ? [{ axes }] : []),
    ...(holders.length > 1 ? [{ axes: ['pp'] as const, stages: holders }] : []),
  ]
  let ins = at(segments.agrees)
  for (const group of groups) {
    const outs = at()
    w.emit({ kind: 'all-reduce', ins, outs, group, combine: 'max' })
    w.emit({ kind: 'wait', on: outs[0] })
    ins = outs
  }
  const name = `agree ${params.length} over ${axes.join()}`
  return w.draft(holders.length > 1 ? `${name}@${holders.join('.')}` : name, 'reduce')
}
