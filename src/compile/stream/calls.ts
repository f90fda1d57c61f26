/** Calls that belong to no block: of what happens once a step, and of one parameter. */
import type { CompiledParam } from '../compiled.js'
import type { SegmentDraft } from '../segment.js'
import { placed, type StreamContext } from './context.js'
import { onceFrame, paramFrame } from './frames.js'
import type { Where } from './writer.js'

export const once: Where = { block: -1, microbatch: -1 }

export function callOnce(context: StreamContext, drafts: readonly SegmentDraft[]): void {
  for (const draft of drafts) context.out.call(placed(context, draft), once, onceFrame)
}

/** With a tag it only starts. */
export function callParam(
  context: StreamContext,
  { spec }: CompiledParam,
  draft: SegmentDraft | undefined,
  tag?: string,
): void {
  if (!draft || draft.instrs.length === 0) return
  const where = { ...once, param: spec.name, ...(tag !== undefined && { tag }) }
  context.out.call(placed(context, draft), where, role => paramFrame(role, spec.name))
}
