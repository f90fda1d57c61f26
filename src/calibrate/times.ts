/**
 * What a run measures of itself: how long each instruction of its program takes, as a file small enough to lie beside its
 * metrics. A collective counts from the moment all its members are there.
 */
import { median } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { begunIn, doneBy, endOf, type Span, startOf } from '../trace/index.js'
import { collectiveOf } from './side-by-side.js'

export const timesFormat = 'lockstep-times-1'

/** The segment, the index of the instruction in it, its kind, seconds, and whether something was always carried meanwhile. */
export type InstrTime = readonly [segment: string, index: number, kind: string, seconds: number, beside: boolean]
/** Bytes from one pipeline coordinate to another. */
export type MessageTime = readonly [bytes: number, from: number, to: number, seconds: number]

/** What the ranks of a pipeline coordinate spend on a step, where single instructions were not timed. */
export interface StageTimes {
  readonly pp: number
  /** Seconds of forward and backward passes, without collectives, and of updates. */
  readonly passes: number
  readonly updates: number
  /** Seconds of collectives by axis, from the moment all members are there. */
  readonly network: Readonly<Record<string, number>>
}

export interface RunTimes {
  readonly format: typeof timesFormat
  /** Steps that were looked at. */
  readonly steps: number
  /** Seconds of a step, the median. */
  readonly step: number
  readonly instructions: readonly InstrTime[]
  readonly messages: readonly MessageTime[]
  /** Of an emitted program. */
  readonly stages?: readonly StageTimes[]
  /** Bytes that a rank could have: of its device, or its share of the host's, or of what a limit leaves of that. */
  readonly memory?: number
}

export interface TimesObserver {
  /** The spans of one step. */
  add(spans: readonly Span[]): void
  /** Undefined before the first step. */
  times(): RunTimes | undefined
}

/** Steps that are remembered. */
const mostSteps = 64

export function timesObserver(program: Program): TimesObserver {
  const steps: number[] = []
  const seen = new Map<string, { readonly times: number[]; beside: boolean }>()
  let looked = 0
  return {
    add(spans) {
      if (spans.length === 0) return
      looked++
      keep(steps, endOf(spans) - startOf(spans))
      for (const [key, { times, beside }] of timesIn(program, spans)) {
        const known = seen.get(key) ?? { times: [], beside: true }
        seen.set(key, known)
        known.beside &&= beside
        keep(known.times, median(times))
      }
    },
    times() {
      if (steps.length === 0) return undefined
      const told = [...seen].map(([key, { times, beside }]) => [JSON.parse(key), short(median(times)), beside] as const)
      return {
        ...{ format: timesFormat, steps: looked, step: short(median(steps)) },
        instructions: told.flatMap(([key, seconds, beside]): InstrTime[] =>
          typeof key[0] === 'string' ? [[key[0], key[1], key[2], seconds, beside]] : [],
        ),
        messages: told.flatMap(([key, seconds]): MessageTime[] =>
          typeof key[0] === 'number' ? [[key[0], key[1], key[2], seconds]] : [],
        ),
      }
    },
  }
}

function keep(times: number[], seconds: number): void {
  times.push(seconds)
  if (times.length > mostSteps) times.shift()
}

const short = (seconds: number): number => Number(seconds.toPrecision(5))

/** By what was done, the times of all ranks and calls: of those during which nothing was carried, where there are any. */
function timesIn(program: Program, spans: readonly Span[]): Map<string, { times: number[]; beside: boolean }> {
  const begun = begunIn(program, spans)
  const carries = carrying(spans)
  // An instruction may be several spans: together they are its time.
  const places = new Map<string, { readonly key: string; seconds: number; disturbed: boolean }>()
  for (const span of spans) {
    const key = keyOf(program, span)
    if (key === undefined) continue
    const isCarried = span.lane === 'network'
    const from = isCarried ? Math.max(span.start, begun(span)?.time ?? span.start) : span.start
    const place = `${span.rank} ${span.step} ${key}`
    const known = places.get(place) ?? { key, seconds: 0, disturbed: false }
    places.set(place, known)
    known.seconds += Math.max(0, span.end - from)
    known.disturbed ||= !isCarried && carries(span)
  }
  const found = new Map<string, { readonly alone: number[]; readonly disturbed: number[] }>()
  for (const { key, seconds, disturbed } of places.values()) {
    const known = found.get(key) ?? { alone: [], disturbed: [] }
    found.set(key, known)
    known[disturbed ? 'disturbed' : 'alone'].push(seconds)
  }
  return new Map(
    [...found].map(([key, { alone, disturbed }]) => {
      const beside = alone.length === 0
      return [key, { times: beside ? disturbed : alone, beside }]
    }),
  )
}

/** Whether the network of the rank carries something during a span: kernels take longer then, which the price adds by itself. */
function carrying(spans: readonly Span[]): (span: Span) => boolean {
  const busy = new Map<number, [start: number, end: number][]>()
  for (const { rank, lane, start, end } of spans.toSorted((a, b) => a.start - b.start)) {
    if (lane !== 'network' || end <= start) continue
    const own = busy.get(rank) ?? []
    busy.set(rank, own)
    const last = own.at(-1)
    if (last && last[1] >= start) last[1] = Math.max(last[1], end)
    else own.push([start, end])
  }
  return ({ rank, start, end }) => {
    const own = busy.get(rank) ?? []
    let [from, to] = [0, own.length]
    while (from < to) {
      const middle = (from + to) >> 1
      if (own[middle][1] > start) to = middle
      else from = middle + 1
    }
    return from < own.length && own[from][0] < end
  }
}

function keyOf(program: Program, span: Span): string | undefined {
  const { step } = doneBy(program, span)
  if (step.kind === 'send') {
    const stream = program.streams.findIndex(({ steps }) => steps[span.step] === step)
    return JSON.stringify([program.streams[stream].frames[step.frame].bytes, stream, step.peer])
  }
  if (step.kind !== 'call') return undefined
  const index = collectiveOf(program, span)
  const instr = program.segments[step.segment].instrs[index]
  return instr ? JSON.stringify([step.segment, index, instr.kind]) : undefined
}

/** Undefined: not such a file, or of a later format. */
export function runTimesOf(value: unknown): RunTimes | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const times = value as Partial<RunTimes> // what is used is looked at below
  const rows = (of: unknown, cells: number): boolean =>
    Array.isArray(of) && of.every(row => Array.isArray(row) && row.length === cells)
  const told = rows(times.instructions, 5) && rows(times.messages, 4)
  const whole = typeof times.step === 'number' && times.step > 0 && told && areStages(times.stages ?? [])
  return times.format === timesFormat && whole ? (times as RunTimes) : undefined
}

const areStages = (all: unknown): boolean =>
  Array.isArray(all) &&
  all.every(
    (one: Partial<StageTimes> | null) =>
      [one?.pp, one?.passes, one?.updates].every(number => typeof number === 'number') &&
      typeof one?.network === 'object' &&
      one.network !== null,
  )
