/**
 * Spans as a trace that chrome://tracing and ui.perfetto.dev open: a process per rank, named by its coordinates, a thread per
 * lane and link, memory and bandwidth of the rank as counters, an arrow for each message, one through the members of each
 * collective, and a track of its own for collectives that are in flight while the rank computes. Times count from the
 * first span. What readers ask of such a file is in test/trace-rules.ts.
 */
import { coordinatesOf, worldOf } from '../base/index.js'
import { kinds, type Program } from '../ir/index.js'
import { arrowsOf } from './arrows.js'
import { ratesOf } from './bandwidth.js'
import { memoryOf } from './memory.js'
import { nameOf } from './name.js'
import { flightsOf, type Round, roundsOf } from './round.js'
import { type Slice, slicesOf, threadsPerRank } from './slice.js'
import { doneBy, type Span, startOf } from './span.js'

/** One event of a trace. */
export type ChromeEvent = Readonly<Record<string, unknown>>

export interface ChromeOptions {
  /** The number of the first process: 0 is the idle one to some readers. */
  readonly first?: number
  /** Stands behind the name of each process, where a trace holds several steps of one program. */
  readonly word?: string
}

/** Spans as a Chrome trace (JSON), for chrome://tracing or Perfetto. */
export const printChrome = (program: Program, spans: readonly Span[]): string =>
  printEvents(chromeEvents(program, spans))

/** One event a line: such files are large, and are looked at with grep. */
export const printEvents = (events: readonly ChromeEvent[]): string =>
  `{"displayTimeUnit":"ms","traceEvents":[\n${events.map(event => JSON.stringify(event)).join(',\n')}\n]}\n`

export function chromeEvents(program: Program, all: readonly Span[], options: ChromeOptions = {}): ChromeEvent[] {
  const { first = 1, word = '' } = options
  // Allocs and frees are told by the counter.
  const spans = all.filter(span => !['alloc', 'free'].includes(doneBy(program, span).step.kind))
  const rounds = roundsOf(all)
  const origin = all.length > 0 ? startOf(all) : 0
  const slices = slicesOf(spans, origin)
  const process = (rank: number) => ({ pid: first + rank })
  const place = ({ span, thread }: Slice) => ({
    ...process(span.rank),
    // Some readers know threads by their number alone: it is nobody else's in the whole file.
    tid: (first + span.rank) * threadsPerRank + thread + 1,
  })
  const ranks = [...new Set(spans.map(({ rank }) => rank))].sort((a, b) => a - b)
  return [
    ...ranks.flatMap(rank => processNames(program, rank, word).map(event => ({ ...event, ...process(rank) }))),
    ...threadNames(slices).flatMap(({ name, slice }) => [
      { ph: 'M', name: 'thread_name', ...place(slice), args: { name } },
      { ph: 'M', name: 'thread_sort_index', ...place(slice), args: { sort_index: slice.thread } },
    ]),
    ...slices.map(slice => ({ ...eventOf(program, slice), ...place(slice) })),
    ...rounds
      .flatMap(round => memoryEvents(program, round, origin))
      .map(({ rank, ...event }) => ({ ...event, ...process(rank) })),
    ...ratesOf(program, slices).map(({ rank, ts, rates }) => ({
      ...{ ph: 'C', name: 'network (GB/s)', ...process(rank), ts, args: rates },
    })),
    ...rounds
      .flatMap(round => flightEvents(program, round, { origin, word }))
      .map(({ rank, ...event }) => ({ ...event, ...process(rank) })),
    ...arrowsOf(program, rounds, slices).flatMap(({ name, cat, through }, arrow) =>
      through.map((slice, i) => ({
        ph: i === 0 ? 's' : i === through.length - 1 ? 'f' : 't',
        ...(i === through.length - 1 && { bp: 'e' }),
        ...{ id: `${word}${cat} ${arrow}`, name, cat, ...place(slice), ts: slice.start },
      })),
    ),
  ]
}

function threadNames(slices: readonly Slice[]): { readonly name: string; readonly slice: Slice }[] {
  const known = new Map<string, Slice>()
  for (const slice of slices) {
    const key = `${slice.span.rank} ${slice.thread}`
    if (!known.has(key)) known.set(key, slice)
  }
  return [...known.values()].map(slice => ({ name: slice.track, slice }))
}

/** In MiB, by kind: viewers stack them. */
function memoryEvents(program: Program, round: Round, origin: number) {
  const points = memoryOf(program, round)
  const used = kinds.filter(kind => points.some(({ bytes }) => bytes[kind] > 0))
  const mebibytes = (bytes: number) => Math.round((bytes / 2 ** 20) * 1e3) / 1e3
  return points.map(({ time, bytes }) => ({
    ...{ rank: round.rank, ph: 'C', name: 'memory (MiB)', ts: micro(time - origin) },
    args: Object.fromEntries(used.map(kind => [kind, mebibytes(bytes[kind])])),
  }))
}

/** Begin and end of what is in flight: viewers stack those that overlap. */
function flightEvents(program: Program, round: Round, { origin, word }: { origin: number; word: string }) {
  const { rank, index } = round
  return flightsOf(program, round).flatMap(({ tag, from, start, end, hidden }) => {
    const event = { rank, cat: 'flight', name: nameOf(program, from), id: `${word}${rank} ${index} ${tag}` }
    const args = { hidden: `${Math.round((100 * hidden) / (end - start || 1))} %` }
    return [
      { ph: 'b', ...event, ts: micro(start - origin), args },
      { ph: 'e', ...event, ts: micro(end - origin) },
    ]
  })
}

/** Names that sort as ranks do: not every reader knows of an order of its own. */
function processNames(program: Program, rank: number, word: string): ChromeEvent[] {
  const { mesh } = program
  const at = Object.entries(coordinatesOf(mesh, rank)).filter(
    ([axis]) => (mesh.axes.find(({ name }) => name === axis)?.size ?? 1) > 1,
  )
  const number = String(rank).padStart(String(worldOf(mesh) - 1).length, '0')
  const where = at.length > 0 ? ` (${at.map(([axis, index]) => `${axis} ${index}`).join(', ')})` : ''
  return [
    { ph: 'M', name: 'process_name', args: { name: `rank ${number}${where}${word === '' ? '' : ` ${word}`}` } },
    { ph: 'M', name: 'process_sort_index', args: { sort_index: rank } },
  ]
}

function eventOf(program: Program, { span, start, end }: Slice): ChromeEvent {
  const { step, instr } = doneBy(program, span)
  const call = step.kind === 'call' ? step : undefined
  return {
    ph: 'X',
    name: nameOf(program, span),
    cat: call ? call.segment : 'message',
    ts: start,
    dur: micro((end - start) / 1e6),
    args: {
      op: instr?.kind,
      ...(call && { block: program.blocks[call.block]?.name, microbatch: call.microbatch, param: call.param }),
      ...(step.kind !== 'call' && 'tag' in step && { tag: step.tag }),
    },
  }
}

/** Thousandths of a microsecond are all a trace needs. */
const micro = (seconds: number): number => Math.round(seconds * 1e9) / 1e3
