/** Spans as a trace that chrome://tracing and ui.perfetto.dev open: a process per rank, a thread per lane. */
import { coordinatesOf } from '../base/index.js'
import type { Lane, Program } from '../ir/index.js'
import { doneBy, type Span } from './span.js'

const lanes: readonly Lane[] = ['compute', 'network', 'host']

export function printChrome(program: Program, spans: readonly Span[]): string {
  const ranks = [...new Set(spans.map(({ rank }) => rank))].sort((a, b) => a - b)
  const events = [...ranks.flatMap(rank => namesOf(program, rank, spans)), ...spans.map(span => eventOf(program, span))]
  // One event a line: such files are large, and are looked at with grep.
  return `{"displayTimeUnit":"ms","traceEvents":[\n${events.map(event => JSON.stringify(event)).join(',\n')}\n]}\n`
}

function namesOf(program: Program, rank: number, spans: readonly Span[]): object[] {
  const at = Object.entries(coordinatesOf(program.mesh, rank)).filter(
    ([axis]) => (program.mesh.axes.find(({ name }) => name === axis)?.size ?? 1) > 1,
  )
  const name = `rank ${rank}${at.length > 0 ? ` (${at.map(([axis, index]) => `${axis} ${index}`).join(', ')})` : ''}`
  const used = lanes.filter(lane => spans.some(span => span.rank === rank && span.lane === lane))
  return [
    { ph: 'M', name: 'process_name', pid: rank, args: { name } },
    { ph: 'M', name: 'process_sort_index', pid: rank, args: { sort_index: rank } },
    ...used.map(lane => ({ ph: 'M', name: 'thread_name', pid: rank, tid: lanes.indexOf(lane), args: { name: lane } })),
  ]
}

function eventOf(program: Program, span: Span): object {
  const { step, instr } = doneBy(program, span)
  const call = step.kind === 'call' ? step : undefined
  return {
    ph: 'X',
    name: instr?.kind ?? (call ? call.segment : step.kind),
    cat: call ? call.segment : 'message',
    pid: span.rank,
    tid: lanes.indexOf(span.lane),
    ts: micro(span.start),
    dur: micro(span.end - span.start),
    args: call
      ? { block: program.blocks[call.block]?.name, microbatch: call.microbatch, param: call.param }
      : { tag: 'tag' in step ? step.tag : undefined },
  }
}

/** Thousandths of a microsecond are all a trace needs. */
const micro = (seconds: number): number => Math.round(seconds * 1e9) / 1e3
