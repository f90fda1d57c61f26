/**
 * The reciprocal RMS of each row of an RMSNorm, its scale, is reused by recomputation and by both gradients. The first
 * segment that computes it stores it with its rows, in their buffer, and later ones read it there: four bytes per row that
 * the memory plan does not count, instead of further passes over memory.
 */
import type { Work } from '../base/index.js'
import { type Instr, type InstrOf, type Program, type Ref, type Segment, type Stream, traitsOf } from '../ir/index.js'

export type Norm = InstrOf<'rmsNorm' | 'rmsNormInputGrad' | 'rmsNormWeightGrad'>

const kinds: readonly Instr['kind'][] = ['rmsNorm', 'rmsNormInputGrad', 'rmsNormWeightGrad'] satisfies Norm['kind'][]
export const isNorm = (instr: Instr): instr is Norm => kinds.includes(instr.kind)

/** The rows that are normalised. */
export const normalizedRows = (norm: Norm): Ref => (norm.kind === 'rmsNorm' ? norm.ins[0] : norm.ins[1])

/** Rows whose scale comes from a frame, and rows whose scale is left in one. */
export interface Scales {
  readonly taken: ReadonlySet<Ref>
  readonly left: ReadonlySet<Ref>
}

interface ScaleDraft {
  readonly written: ReadonlySet<Ref>
  readonly norms: readonly { readonly rows: Ref; readonly eps: number }[]
  readonly taken: Set<Ref>
  readonly missed: Set<Ref>
  readonly left: Set<Ref>
}

/** `outlives` says of a segment's values whether they are in a frame that is there after the call. */
export function* findingScales(
  program: Program,
  outlives: (segment: Segment, ref: Ref) => boolean,
): Work<(segment: Segment) => Scales> {
  const drafts = new Map<Segment, ScaleDraft>()
  const draftOf = (segment: Segment): ScaleDraft => {
    const draft = drafts.get(segment) ?? scaleDraft(segment)
    drafts.set(segment, draft)
    return draft
  }
  for (const [pp, stream] of program.streams.entries()) {
    yield pp / program.streams.length
    followed(program, stream, outlives, draftOf)
  }
  return segment => {
    const { taken, missed, left } = draftOf(segment)
    return { taken: new Set([...taken].filter(ref => !missed.has(ref))), left }
  }
}

const scaleDraft = ({ instrs }: Segment): ScaleDraft => ({
  written: new Set(instrs.flatMap(instr => traitsOf(instr).writes)),
  norms: instrs.filter(isNorm).map(norm => ({ rows: normalizedRows(norm), eps: norm.eps })),
  ...{ taken: new Set(), missed: new Set(), left: new Set() },
})

/** Along a stream: which scales lie in frames, and who left them there. */
function followed(
  { segments }: Program,
  { steps }: Stream,
  outlives: (segment: Segment, ref: Ref) => boolean,
  draftOf: (segment: Segment) => ScaleDraft,
): void {
  const lying = new Lying()
  for (const step of steps) {
    if (step.kind !== 'call') {
      if ('frame' in step && step.kind !== 'send') lying.forget(step.frame)
      continue
    }
    const segment = segments[step.segment]
    const draft = draftOf(segment)
    const { written, norms } = draft
    const frame = (ref: Ref) => step.bind[segment.buffers[ref].role]
    const offset = (ref: Ref) => segment.buffers[ref].offset
    for (const { rows, eps } of norms) {
      if (written.has(rows)) continue
      const use = lying.at(frame(rows), offset(rows)).get(eps)
      use?.()
      draft[use ? 'taken' : 'missed'].add(rows)
    }
    for (const ref of written) lying.at(frame(ref), offset(ref)).clear()
    for (const { rows, eps } of norms) {
      const isThere = (ref: Ref) => ref !== rows && frame(ref) === frame(rows) && offset(ref) === offset(rows)
      const here = lying.at(frame(rows), offset(rows))
      if (outlives(segment, rows) && !here.has(eps) && ![...written].some(isThere))
        here.set(eps, () => draft.left.add(rows))
    }
  }
}

/** Scales by the place of their rows and by the norm's eps, each with what to do when it is used. */
class Lying {
  readonly #frames = new Map<number, Map<number, Map<number, () => void>>>()

  at(frame: number, offset: number): Map<number, () => void> {
    const places = this.#frames.get(frame) ?? new Map<number, Map<number, () => void>>()
    const scales = places.get(offset) ?? new Map<number, () => void>()
    this.#frames.set(frame, places.set(offset, scales))
    return scales
  }

  forget(frame: number): void {
    this.#frames.delete(frame)
  }
}
