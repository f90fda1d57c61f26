/**
 * What a rank did in a step, in boxes large enough to see: spans of one task (the forward of a microbatch through a
 * stage) become one box, so do the updates of all parameters. Simulated and measured spans are read alike.
 */
import { axisTitles, coordinatesOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { Labeller, type Span, type SpanKind, type SpanLabel, spanKinds } from '../trace/index.js'

const titles: Readonly<Record<SpanKind, string>> = {
  ...{ F: 'forward', B: 'backward', I: 'input gradient', W: 'weight gradient' },
  ...{ optimizer: 'optimizer', other: 'loading, clearing, counting' },
  ...axisTitles,
  mesh: 'sum over all ranks',
}
/** The kinds of rectangles on a timeline, each with its title. */
export const boxKinds: readonly (readonly [SpanKind, string])[] = spanKinds.map(kind => [kind, titles[kind]])

/** A rectangle of a timeline: adjacent spans of one kind, merged until they are large enough to see. */
export interface Box {
  readonly kind: SpanKind
  /** The task it belongs to; absent for what happens once a step. */
  readonly task?: { readonly stage: number; readonly microbatch: number }
  readonly start: number
  readonly end: number
}

/** The rectangles of one rank's timeline, by lane. */
export interface Boxes {
  readonly work: readonly Box[]
  /** Rectangles by link; measured spans have one link. */
  readonly network: ReadonlyMap<string, readonly Box[]>
}

/** Boxes on the network that are nearer to each other than this, as a share of the step, are drawn as one. */
const visible = 1 / 4000

/** Merges the spans of one rank into rectangles of a timeline that ends at `end`. */
export function boxesOf(program: Program, spans: readonly Span[], end: number): Boxes {
  const work: Box[] = []
  const network = new Map<string, Box[]>()
  const labeller = new Labeller(program)
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    const box = boxOf(labeller.of(coordinatesOf(program.mesh, span.rank).pp ?? 0, span), span)
    if (span.lane === 'network') {
      const link = span.link ?? 'network'
      if (!network.has(link)) network.set(link, [])
      add(network.get(link)!, box, end * visible)
    } else add(work, box, Number.POSITIVE_INFINITY)
  }
  return { work, network }
}

/** Extends the box before it, if it is of the same task and near enough. */
function add(boxes: Box[], box: Box, gap: number): void {
  const last = boxes.at(-1)
  const same = last?.kind === box.kind && sameTask(last, box) && box.start - last.end <= gap
  if (last && same) boxes[boxes.length - 1] = { ...last, end: Math.max(last.end, box.end) }
  else boxes.push(box)
}

const sameTask = ({ task: a }: Box, { task: b }: Box): boolean =>
  a?.stage === b?.stage && a?.microbatch === b?.microbatch

function boxOf({ kind, stage, microbatch }: SpanLabel, { lane, start, end }: Span): Box {
  const task = lane !== 'network' && stage >= 0 ? { task: { stage, microbatch } } : {}
  return { kind, start, end, ...task }
}
