/**
 * When the members of a collective have all begun it. A rank that waits for it before that waits for the others; after
 * that it communicates.
 */
import { type Coordinates, coordinatesOf, type MeshAxis, type Rank, seconds } from '../base/index.js'
import {
  axisOfCollective,
  type Call,
  type Group,
  type Instr,
  isCollective,
  type Program,
  type Step,
} from '../ir/index.js'
import { doneBy, type Span, streamOf } from './span.js'

/** When the last member began a collective, who that was, and the axis along which they meet, if it is one. */
export interface LastBegun {
  readonly time: number
  readonly rank: Rank
  readonly axis: MeshAxis | undefined
}

/** For the span of a wait: who began last what is waited for; undefined for every other span. */
export type Begun = (span: Span) => LastBegun | undefined

export function begunIn(program: Program, spans: readonly Span[]): Begun {
  const places = new Places(program)
  const finishing = finishesIn(program, spans)
  const begun = new Map<string, LastBegun>()
  for (const span of spans) {
    if (finishing.has(span)) continue
    for (const { name, axis } of places.startedBy(span)) {
      const before = begun.get(name)
      if (!before || span.end > before.time) begun.set(name, { time: span.end, rank: span.rank, axis })
    }
  }
  return span => {
    const awaited = finishing.has(span) ? places.startedBy(span) : places.awaitedBy(span)
    const all = awaited.flatMap(({ name }) => begun.get(name) ?? [])
    return all.length === 0 ? undefined : all.reduce((a, b) => (b.time > a.time ? b : a))
  }
}

/**
 * An engine writes the wait for a call that only starts down as the call's own work: of the spans of such a collective in one
 * step the first half begins it, the second waits for it. A simulation has one span.
 */
function finishesIn(program: Program, spans: readonly Span[]): ReadonlySet<Span> {
  const flying = new Map<string, Span[]>()
  for (const span of spans) {
    if (span.lane !== 'network' || span.instr < 0) continue
    const { step } = doneBy(program, span)
    if (step.kind !== 'call' || step.tag === undefined) continue
    const key = `${span.rank} ${span.step} ${span.instr}`
    const same = flying.get(key)
    if (same) same.push(span)
    else flying.set(key, [span])
  }
  const inTime = (same: readonly Span[]) => same.toSorted((a, b) => a.start - b.start)
  return new Set([...flying.values()].flatMap(same => inTime(same).slice(Math.ceil(same.length / 2))))
}

/** Waits for collectives in two: until the others have begun, as a wait for them, and what is left. */
export function waitsApart(program: Program, spans: readonly Span[]): Span[] {
  const begun = begunIn(program, spans)
  return spans.flatMap(span => {
    const all = span.lane === 'network' ? begun(span)?.time : undefined
    if (all === undefined || all <= span.start) return [span]
    const between = seconds(Math.min(all, span.end))
    return [
      { ...span, instr: -1, end: between },
      { ...span, start: between },
    ]
  })
}

/** Which collectives spans are of. */
export const placesOf = (program: Program): Pick<Places, 'startedBy' | 'awaitedBy'> => new Places(program)

/** A collective, by a name that is the same for all members and differs from all others of a step. */
interface Place {
  readonly name: string
  readonly axis: MeshAxis | undefined
}

class Places {
  readonly #program: Program
  readonly #coordinates = new Map<Rank, Coordinates>()

  constructor(program: Program) {
    this.#program = program
  }

  startedBy({ rank, step, instr }: Span): Place[] {
    const done = doneBy(this.#program, { rank, step, instr })
    return done.step.kind === 'call' && done.instr ? this.#named(rank, done.step, step, [done.instr]) : []
  }

  awaitedBy({ rank, step, instr }: Span): Place[] {
    const done = doneBy(this.#program, { rank, step, instr })
    if (done.step.kind === 'call' && done.instr?.kind === 'wait') {
      const { on } = done.instr
      const { instrs } = this.#program.segments[done.step.segment]
      const started = instrs.slice(0, instr).findLast(other => isCollective(other) && other.outs[0] === on)
      return started ? this.#named(rank, done.step, step, [started]) : []
    }
    return done.step.kind === 'wait' ? this.#ofTag(rank, done.step.tag) : []
  }

  /** The collectives of a call that only started, whose wait is a step of its own. */
  #ofTag(rank: Rank, tag: string): Place[] {
    const steps: readonly Step[] = streamOf(this.#program, rank)?.steps ?? []
    const at = steps.findIndex(step => step.kind === 'call' && step.tag === tag)
    const call = steps[at]
    return call?.kind === 'call' ? this.#named(rank, call, at, this.#program.segments[call.segment].instrs) : []
  }

  #named(rank: Rank, call: Call, step: number, instrs: readonly Instr[]): Place[] {
    return instrs.filter(isCollective).map(instr => {
      const { outs, group } = instr
      // Streams of different stages count their steps differently.
      const acrossStages = group.stages !== undefined || group.axes.some(axis => axis.startsWith('pp'))
      const when = acrossStages ? `${call.microbatch} ${call.param ?? call.block}` : step
      const name = `${call.segment} ${outs[0]} ${when} ${this.#others(rank, group)}`
      return { name, axis: axisOfCollective(instr) }
    })
  }

  /** Where the members stand on the axes that they do not meet along. */
  #others(rank: Rank, { axes, stages }: Group): string {
    const at = this.#coordinates.get(rank) ?? coordinatesOf(this.#program.mesh, rank)
    this.#coordinates.set(rank, at)
    const meets = (axis: string) => axes.some(own => own === axis) || (axis === 'pp' && stages !== undefined)
    return Object.entries(at)
      .flatMap(([axis, index]) => (meets(axis) ? [] : [`${axis}${index}`]))
      .join(' ')
  }
}
