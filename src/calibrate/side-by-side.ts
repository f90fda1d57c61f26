/** What was simulated and what was measured, brought to the same terms. */
import { seconds } from '../base/index.js'
import { isCollective, type Program } from '../ir/index.js'
import { doneBy, type Span, startOf } from '../trace/index.js'

/** Times from the start of the step; an engine's collective is its wait, a simulator's its start: both are the start here. */
export function measuredSpans(program: Program, spans: readonly Span[]): Span[] {
  const from = startOf(spans)
  // Accounting of memory takes no time, and would cut every task in two.
  const worked = spans.filter(span => !['alloc', 'free'].includes(doneBy(program, span).step.kind))
  return worked.map(span => ({
    ...span,
    instr: collectiveOf(program, span),
    start: seconds(span.start - from),
    end: seconds(span.end - from),
  }))
}

/** The index of the instruction that a span is of; of a wait, that of the collective it waits for. */
export function collectiveOf(program: Program, span: Span): number {
  const { step, instr } = doneBy(program, span)
  if (step.kind !== 'call' || instr?.kind !== 'wait') return span.instr
  const { instrs } = program.segments[step.segment]
  return instrs.findLastIndex((other, at) => at < span.instr && isCollective(other) && other.outs[0] === instr.on)
}

/** Seconds of all instructions of a kind, over all ranks. */
export interface OpTime {
  readonly op: string
  readonly count: number
  readonly predicted: number
  readonly measured: number
}

/** The most time first. Messages have no instruction: their time is waiting. */
export function opTimes(program: Program, predicted: readonly Span[], measured: readonly Span[]): OpTime[] {
  const [ours, theirs] = [byOp(program, predicted), byOp(program, measured)]
  return [...new Set([...ours.keys(), ...theirs.keys()])]
    .map(op => ({
      op,
      count: theirs.get(op)?.places.size ?? 0,
      predicted: ours.get(op)?.time ?? 0,
      measured: theirs.get(op)?.time ?? 0,
    }))
    .sort((a, b) => b.measured - a.measured)
}

function byOp(program: Program, spans: readonly Span[]) {
  const found = new Map<string, { time: number; places: Set<string> }>()
  for (const span of spans) {
    const { step, instr } = doneBy(program, span)
    const op = instr?.kind ?? (step.kind === 'call' ? step.segment : 'messages')
    const known = found.get(op) ?? { time: 0, places: new Set<string>() }
    known.places.add(`${span.rank} ${span.step} ${span.instr}`)
    found.set(op, { ...known, time: known.time + span.end - span.start })
  }
  return found
}
