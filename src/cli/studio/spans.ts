/** The spans of a step as columns: a page draws them without an object each. */
import { worldOf } from '../../base/index.js'
import { collectivesOf, nameOf, type Span, startOf, waitsApart } from '../../trace/index.js'
import type { Session } from '../../train/index.js'
import type { PackedSpans, SpansHead } from './messages.js'

/** Waiting for a collective that others have not begun is a lane of its own here. */
const lanes = ['compute', 'network', 'host', 'wait'] as const

export function packedSpans({
  program,
  trainer,
  behind,
}: Pick<Session, 'program' | 'trainer' | 'behind'>): PackedSpans {
  const measured = trainer.spans
  const spans = trainer.concurrent ? waitsApart(program, measured) : measured
  const origin = spans.length > 0 ? startOf(spans) : 0
  const [names, ids] = [[] as string[], new Map<string, number>()]
  const idOf = (name: string): number => {
    if (!ids.has(name)) ids.set(name, names.push(name) - 1)
    return ids.get(name) ?? 0
  }
  const waits = new Set(spans.filter((span, i) => isWait(span, spans[i + 1])))
  const column = {
    start: Float64Array.from(spans, ({ start }) => start - origin),
    end: Float64Array.from(spans, ({ end }) => end - origin),
    rank: Int32Array.from(spans, ({ rank }) => rank),
    name: Int32Array.from(spans, span => idOf(nameOf(program, span))),
    lane: Uint8Array.from(spans, span => lanes.indexOf(waits.has(span) ? 'wait' : span.lane)),
  }
  const head: SpansHead = {
    ...{ step: behind, ranks: worldOf(program.mesh), count: spans.length },
    seconds: column.end.reduce((most, end) => Math.max(most, end), 0),
    ...{ lanes, names, collectives: collectivesOf(program, measured) },
    columns: Object.entries(column).map(([name, values]) => ({ name, type: typeOf(values) })),
  }
  return { head, columns: joined(Object.values(column)) }
}

/** The first half of a wait that was cut in two. */
const isWait = (span: Span, next: Span | undefined): boolean =>
  span.lane === 'network' && span.instr === -1 && next?.rank === span.rank && next.step === span.step

const typeOf = (values: Float64Array | Int32Array | Uint8Array) =>
  values instanceof Float64Array ? 'f64' : values instanceof Int32Array ? 'i32' : 'u8'

/** One behind the other, each from a multiple of 8 on. */
function joined(columns: readonly (Float64Array | Int32Array | Uint8Array)[]): Uint8Array {
  const padded = (bytes: number) => Math.ceil(bytes / 8) * 8
  const all = new Uint8Array(columns.reduce((sum, { byteLength }) => sum + padded(byteLength), 0))
  let at = 0
  for (const { buffer, byteOffset, byteLength } of columns) {
    all.set(new Uint8Array(buffer, byteOffset, byteLength), at)
    at += padded(byteLength)
  }
  return all
}

/** As it is sent: the length of the head in 4 bytes, the head in JSON, padded so that columns begin at a multiple of 8. */
export function spansBody({ head, columns }: PackedSpans): Uint8Array {
  const text = Buffer.from(JSON.stringify(head))
  const length = Math.ceil((4 + text.length) / 8) * 8 - 4
  const body = Buffer.alloc(4 + length + columns.length, ' ')
  body.writeUInt32LE(length)
  text.copy(body, 4)
  body.set(columns, 4 + length)
  return body
}
