/**
 * Spans as a trace that chrome://tracing and ui.perfetto.dev open: a process per rank, a thread per lane, the memory
 * of the rank as a counter, an arrow for each message, and a track of its own for collectives that are in flight while the
 * rank computes. Times count from the first span.
 */
import { coordinatesOf } from '../base/index.js'
import { kinds, type Lane, type Program } from '../ir/index.js'
import { nameOf } from './name.js'
import { flightsOf, memoryOf, messagesOf, type Round, roundsOf } from './round.js'
import { doneBy, type Span, startOf } from './span.js'

const lanes: readonly Lane[] = ['compute', 'network', 'host']

/** Links of different kinds are used at once: each is a thread. */
const threadOf = ({ lane, link }: Span): string => (link === undefined ? lane : `${lane}: ${link}`)

export function printChrome(program: Program, all: readonly Span[]): string {
  // Allocs and frees are told by the counter.
  const spans = all.filter(span => !['alloc', 'free'].includes(doneBy(program, span).step.kind))
  const threads = [...new Set([...lanes, ...spans.map(threadOf)])]
  const rounds = roundsOf(all)
  const origin = all.length > 0 ? startOf(all) : 0
  const place = (span: Span) => ({ pid: span.rank, tid: threads.indexOf(threadOf(span)) })
  const events = [
    ...[...new Set(spans.map(({ rank }) => rank))]
      .sort((a, b) => a - b)
      .flatMap(rank => [...namesOf(program, rank), ...threadNames(rank, threads, spans)]),
    ...spans.map(span => ({ ...eventOf(program, span, origin), ...place(span) })),
    ...rounds.flatMap(round => memoryEvents(program, round, origin)),
    ...rounds.flatMap(round => flightEvents(program, round, origin)),
    ...messagesOf(program, rounds).flatMap(({ tag, from, to }, id) => [
      { ph: 's', id, name: tag, cat: 'message', ...place(from), ts: micro(from.start - origin) },
      { ph: 'f', bp: 'e', id, name: tag, cat: 'message', ...place(to), ts: micro(to.start - origin) },
    ]),
  ]
  // One event a line: such files are large, and are looked at with grep.
  return `{"displayTimeUnit":"ms","traceEvents":[\n${events.map(event => JSON.stringify(event)).join(',\n')}\n]}\n`
}

function threadNames(rank: number, threads: readonly string[], spans: readonly Span[]): object[] {
  const used = new Set(spans.filter(span => span.rank === rank).map(threadOf))
  return threads.flatMap((name, tid) =>
    used.has(name) ? [{ ph: 'M', name: 'thread_name', pid: rank, tid, args: { name } }] : [],
  )
}

/** In MiB, by kind: viewers stack them. */
function memoryEvents(program: Program, round: Round, origin: number): object[] {
  const points = memoryOf(program, round)
  const used = kinds.filter(kind => points.some(({ bytes }) => bytes[kind] > 0))
  const mebibytes = (bytes: number) => Math.round((bytes / 2 ** 20) * 1e3) / 1e3
  return points.map(({ time, bytes }) => ({
    ...{ ph: 'C', name: 'memory (MiB)', pid: round.rank, ts: micro(time - origin) },
    args: Object.fromEntries(used.map(kind => [kind, mebibytes(bytes[kind])])),
  }))
}

/** Begin and end of what is in flight: viewers stack those that overlap. */
function flightEvents(program: Program, round: Round, origin: number): object[] {
  return flightsOf(program, round).flatMap(({ tag, from, start, end, hidden }) => {
    const event = {
      cat: 'flight',
      name: nameOf(program, from),
      pid: round.rank,
      id: `${round.rank} ${round.index} ${tag}`,
    }
    return [
      {
        ph: 'b',
        ...event,
        ts: micro(start - origin),
        args: { hidden: `${Math.round((100 * hidden) / (end - start))} %` },
      },
      { ph: 'e', ...event, ts: micro(end - origin) },
    ]
  })
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

function eventOf(program: Program, span: Span, origin: number): object {
  const { step, instr } = doneBy(program, span)
  const call = step.kind === 'call' ? step : undefined
  return {
    ph: 'X',
    name: nameOf(program, span),
    cat: call ? call.segment : 'message',
    ts: micro(span.start - origin),
    dur: micro(span.end - span.start),
    args: {
      op: instr?.kind,
      ...(call && { block: program.blocks[call.block]?.name, microbatch: call.microbatch, param: call.param }),
      ...(step.kind !== 'call' && 'tag' in step && { tag: step.tag }),
    },
  }
}

/** Thousandths of a microsecond are all a trace needs. */
const micro = (seconds: number): number => Math.round(seconds * 1e9) / 1e3
