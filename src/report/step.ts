/**
 * What a rank did in a step, in boxes large enough to see: spans of one task (the forward of a microbatch through a
 * stage) become one box, so do the updates of all parameters. Simulated and measured spans are read alike.
 */
import { axisOfGroup, axisTitles, rankOrder } from '../base/index.js'
import { type Phase, type Program, traitsOf } from '../ir/index.js'
import { doneBy, type Span } from '../trace/index.js'

const titles = {
  ...{ F: 'forward', B: 'backward', I: 'input gradient', W: 'weight gradient' },
  ...{ optimizer: 'optimizer', other: 'loading, clearing, counting' },
  ...axisTitles,
  mesh: 'sum over all ranks',
}
export type BoxKind = keyof typeof titles
export const boxKinds: readonly (readonly [BoxKind, string])[] = (
  ['F', 'B', 'I', 'W', 'optimizer', 'other', ...rankOrder, 'mesh'] as const
).map(kind => [kind, titles[kind]])

export interface Box {
  readonly kind: BoxKind
  /** The task it belongs to; absent for what happens once a step. */
  readonly task?: { readonly stage: number; readonly microbatch: number }
  readonly start: number
  readonly end: number
}

export interface Boxes {
  readonly work: readonly Box[]
  /** Boxes by link; measured spans know of one. */
  readonly network: ReadonlyMap<string, readonly Box[]>
}

/** Boxes on the network that are nearer to each other than this, as a share of the step, are drawn as one. */
const visible = 1 / 4000

/** `spans` are of one rank; `end` is when the step is over. */
export function boxesOf(program: Program, spans: readonly Span[], end: number): Boxes {
  const work: Box[] = []
  const network = new Map<string, Box[]>()
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    if (span.lane === 'network') {
      const link = span.link ?? 'network'
      if (!network.has(link)) network.set(link, [])
      add(network.get(link)!, carried(program, span), end * visible)
    } else add(work, worked(program, span), Number.POSITIVE_INFINITY)
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

const kindOfPhase: Readonly<Record<Phase, BoxKind>> = {
  ...{ F: 'F', B: 'B', I: 'I', W: 'W', norm: 'optimizer', update: 'optimizer' },
  ...{
    C: 'other',
    begin: 'other',
    load: 'other',
    count: 'other',
    move: 'other',
    gather: 'other',
    reduce: 'other',
    add: 'other',
  },
}

function worked(program: Program, span: Span): Box {
  const { step } = doneBy(program, span)
  const { start, end } = span
  if (step.kind !== 'call') return { kind: 'other', start, end }
  const kind = kindOfPhase[program.segments[step.segment].phase]
  const stage = program.blocks[step.block]?.stage
  return { kind, start, end, ...(stage === undefined ? {} : { task: { stage, microbatch: step.microbatch } }) }
}

/** A collective by the axis it goes over. */
function carried(program: Program, span: Span): Box {
  const { start, end } = span
  const { instr } = doneBy(program, span)
  if (span.instr < 0) return { kind: 'pp', start, end }
  return { kind: axisOfGroup((instr && traitsOf(instr).meets?.axes) ?? []) ?? 'mesh', start, end }
}
