/**
 * What an RMS norm multiplies a row by, its scale, is needed again by recomputation and by both gradients. The first
 * segment that works it out leaves it beside the rows it belongs to, in their frame, and later ones take it from there:
 * four bytes a row that the plan does not count, for passes over memory that nobody makes.
 */
import { type Instr, type InstrOf, type Program, type Ref, type Segment, type Stream, traitsOf } from '../ir/index.js'

export type Norm = InstrOf<'rmsNorm' | 'rmsNormInputGrad' | 'rmsNormWeightGrad'>

const kinds: readonly Instr['kind'][] = ['rmsNorm', 'rmsNormInputGrad', 'rmsNormWeightGrad'] satisfies Norm['kind'][]
export const isNorm = (instr: Instr): instr is Norm => kinds.includes(instr.kind)

/** The rows that are normalised. */
export const normalised = (norm: Norm): Ref => (norm.kind === 'rmsNorm' ? norm.ins[0] : norm.ins[1])

/** Rows whose scale comes from a frame, and rows whose scale is left in one. */
export interface Scales {
  readonly taken: ReadonlySet<Ref>
  readonly left: ReadonlySet<Ref>
}

interface ScaleDraft {
  readonly taken: Set<Ref>
  readonly missed: Set<Ref>
  readonly left: Set<Ref>
}

/** `outlives` says of a segment's values whether they are in a frame that is there after the call. */
export function scalesOf(
  program: Program,
  outlives: (segment: Segment, ref: Ref) => boolean,
): (segment: Segment) => Scales {
  const drafts = new Map<Segment, ScaleDraft>()
  const draftOf = (segment: Segment): ScaleDraft => {
    const draft = drafts.get(segment) ?? { taken: new Set(), missed: new Set(), left: new Set() }
    drafts.set(segment, draft)
    return draft
  }
  for (const stream of program.streams) followed(program, stream, outlives, draftOf)
  return segment => {
    const { taken, missed, left } = draftOf(segment)
    return { taken: new Set([...taken].filter(ref => !missed.has(ref))), left }
  }
}

/** Along a stream: which scales lie in frames, and who left them there. */
function followed(
  { segments }: Program,
  { steps }: Stream,
  outlives: (segment: Segment, ref: Ref) => boolean,
  draftOf: (segment: Segment) => ScaleDraft,
): void {
  const lying = new Map<string, () => void>()
  const forget = (place: string) => {
    for (const key of lying.keys()) if (key.startsWith(place)) lying.delete(key)
  }
  for (const step of steps) {
    if (step.kind !== 'call') {
      if ('frame' in step && step.kind !== 'send') forget(`${step.frame}+`)
      continue
    }
    const segment = segments[step.segment]
    const draft = draftOf(segment)
    const place = (ref: Ref) => `${step.bind[segment.buffers[ref].role]}+${segment.buffers[ref].offset}:`
    const written = new Set(segment.instrs.flatMap(instr => traitsOf(instr).writes))
    const norms = segment.instrs.filter(isNorm)
    for (const norm of norms) {
      const rows = normalised(norm)
      if (written.has(rows)) continue
      const use = lying.get(`${place(rows)}${norm.eps}`)
      use?.()
      draft[use ? 'taken' : 'missed'].add(rows)
    }
    for (const ref of written) forget(place(ref))
    for (const norm of norms) {
      const rows = normalised(norm)
      const key = `${place(rows)}${norm.eps}`
      const overwritten = [...written].some(ref => ref !== rows && place(ref) === place(rows))
      if (outlives(segment, rows) && !overwritten && !lying.has(key)) lying.set(key, () => draft.left.add(rows))
    }
  }
}
