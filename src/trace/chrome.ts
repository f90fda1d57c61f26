/** Spans as a trace that chrome://tracing and ui.perfetto.dev open: a process per rank, a thread per lane. */
import { coordinatesOf } from '../base/index.js'
import type { Lane, Program } from '../ir/index.js'
import { doneBy, type Span } from './span.js'

const lanes: readonly Lane[] = ['compute', 'network', 'host']

/** Links of different kinds are used at once: each is a thread. */
const threadOf = ({ lane, link }: Span): string => (link === undefined ? lane : `${lane}: ${link}`)

export function printChrome(program: Program, spans: readonly Span[]): string {
  const threads: string[] = [...lanes]
  const used = new Map<number, Set<string>>()
  for (const span of spans) {
    const thread = threadOf(span)
    if (!threads.includes(thread)) threads.push(thread)
    if (!used.has(span.rank)) used.set(span.rank, new Set())
    used.get(span.rank)!.add(thread)
  }
  const ranks = [...used].sort(([a], [b]) => a - b)
  const events = [
    ...ranks.flatMap(([rank, own]) => [
      ...namesOf(program, rank),
      ...threads.flatMap((name, tid) =>
        own.has(name) ? [{ ph: 'M', name: 'thread_name', pid: rank, tid, args: { name } }] : [],
      ),
    ]),
    ...spans.map(span => eventOf(program, span, threads.indexOf(threadOf(span)))),
  ]
  // One event a line: such files are large, and are looked at with grep.
  return `{"displayTimeUnit":"ms","traceEvents":[\n${events.map(event => JSON.stringify(event)).join(',\n')}\n]}\n`
}

function namesOf(program: Program, rank: number): object[] {
  const at = Object.entries(coordinatesOf(program.mesh, rank)).filter(
    ([axis]) => (program.mesh.axes.find(({ name }) => name === axis)?.size ?? 1) > 1,
  )
  const name = `rank ${rank}${at.length > 0 ? ` (${at.map(([axis, index]) => `${axis} ${index}`).join(', ')})` : ''}`
  return [
    { ph: 'M', name: 'process_name', pid: rank, args: { name } },
    { ph: 'M', name: 'process_sort_index', pid: rank, args: { sort_index: rank } },
  ]
}

function eventOf(program: Program, span: Span, tid: number): object {
  const { step, instr } = doneBy(program, span)
  const call = step.kind === 'call' ? step : undefined
  return {
    ph: 'X',
    name: instr?.kind ?? (call ? call.segment : step.kind),
    cat: call ? call.segment : 'message',
    pid: span.rank,
    tid,
    ts: micro(span.start),
    dur: micro(span.end - span.start),
    args: call
      ? { block: program.blocks[call.block]?.name, microbatch: call.microbatch, param: call.param }
      : { tag: 'tag' in step ? step.tag : undefined },
  }
}

/** Thousandths of a microsecond are all a trace needs. */
const micro = (seconds: number): number => Math.round(seconds * 1e9) / 1e3
