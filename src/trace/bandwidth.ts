/** Bytes a second that a rank has under way, by link: of a collective the greater of what it gives and what it gets. */
import { heldElements } from '../base/index.js'
import { bytesPer, type Collective, isCollective, type Program, type Ref, type Segment } from '../ir/index.js'
import type { Slice } from './slice.js'
import { doneBy, streamOf } from './span.js'

export interface RatePoint {
  readonly rank: number
  /** Microseconds. */
  readonly ts: number
  /** GB/s of each link that the rank uses, from then on. */
  readonly rates: Readonly<Record<string, number>>
}

export function ratesOf(program: Program, slices: readonly Slice[]): RatePoint[] {
  const changes = new Map<number, { readonly at: number; readonly link: string; readonly by: number }[]>()
  for (const slice of slices) {
    const bytes = bytesOf(program, slice)
    if (bytes === 0) continue
    const { span, start, end } = slice
    const own = changes.get(span.rank) ?? []
    changes.set(span.rank, own)
    const [link, by] = [span.link ?? 'network', bytes / (end - start) / 1e3]
    own.push({ at: start, link, by }, { at: end, link, by: -by })
  }
  return [...changes].flatMap(([rank, own]) => pointsOf(rank, own))
}

function pointsOf(rank: number, changes: readonly { at: number; link: string; by: number }[]): RatePoint[] {
  const now: Record<string, number> = Object.fromEntries(changes.map(({ link }) => [link, 0]))
  const points: RatePoint[] = []
  for (const { at, link, by } of changes.toSorted((a, b) => a.at - b.at || a.by - b.by)) {
    now[link] = Math.max(0, now[link] + by)
    const rates = Object.fromEntries(Object.entries(now).map(([name, rate]) => [name, Math.round(rate * 1e3) / 1e3]))
    if (points.at(-1)?.ts === at) points.pop()
    points.push({ rank, ts: at, rates })
  }
  return points
}

/** 0: nothing is carried. */
function bytesOf(program: Program, { span }: Slice): number {
  if (span.lane !== 'network') return 0
  const { step, instr } = doneBy(program, span)
  if (step.kind === 'send') return streamOf(program, span.rank).frames[step.frame].bytes
  if (step.kind !== 'call' || !instr) return 0
  const segment = program.segments[step.segment]
  if (isCollective(instr)) return carriedBy(instr, segment, program)
  if (instr.kind !== 'wait') return 0
  const awaited = segment.instrs.find(other => isCollective(other) && other.outs[0] === instr.on)
  return awaited && isCollective(awaited) ? carriedBy(awaited, segment, program) : 0
}

/** Of a collective, the greater of what a rank gives and what it gets. */
export function carriedBy({ ins, outs }: Collective, { buffers }: Segment, { mesh }: Program): number {
  const bytes = (refs: readonly Ref[]) =>
    refs.reduce((sum, ref) => {
      const { dtype, dims, layout } = buffers[ref]
      return sum + bytesPer[dtype] * heldElements(mesh, dims, layout)
    }, 0)
  return Math.max(bytes(ins), bytes(outs))
}
