/**
 * When the members of a collective have all begun it. A rank that waits for it before that waits for the others; after
 * that it communicates.
 */
import { type Coordinates, coordinatesOf, type Rank, seconds } from '../base/index.js'
import { type Call, type Group, type Instr, isCollective, type Program, type Step } from '../ir/index.js'
import { doneBy, type Span, streamOf } from './span.js'

/** For the span of a wait: when the last member began what is waited for; undefined for every other span. */
export type Begun = (span: Span) => number | undefined

export function begunIn(program: Program, spans: readonly Span[]): Begun {
  const places = new Places(program)
  const begun = new Map<string, number>()
  for (const span of spans)
    for (const place of places.startedBy(span)) begun.set(place, Math.max(begun.get(place) ?? 0, span.end))
  return span => {
    const times = places.awaitedBy(span).flatMap(place => begun.get(place) ?? [])
    return times.length === 0 ? undefined : Math.max(...times)
  }
}

/** Waits for collectives in two: until the others have begun, as a wait for them, and what is left. */
export function waitsApart(program: Program, spans: readonly Span[]): Span[] {
  const begun = begunIn(program, spans)
  return spans.flatMap(span => {
    const all = span.lane === 'network' ? begun(span) : undefined
    if (all === undefined || all <= span.start) return [span]
    const between = seconds(Math.min(all, span.end))
    return [
      { ...span, instr: -1, end: between },
      { ...span, start: between },
    ]
  })
}

/** Names of collectives that are the same for all members and differ from all others of a step. */
class Places {
  readonly #program: Program
  readonly #coordinates = new Map<Rank, Coordinates>()

  constructor(program: Program) {
    this.#program = program
  }

  startedBy({ rank, step, instr }: Span): string[] {
    const done = doneBy(this.#program, { rank, step, instr })
    return done.step.kind === 'call' && done.instr ? this.#named(rank, done.step, step, [done.instr]) : []
  }

  awaitedBy({ rank, step, instr }: Span): string[] {
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
  #ofTag(rank: Rank, tag: string): string[] {
    const steps: readonly Step[] = streamOf(this.#program, rank)?.steps ?? []
    const at = steps.findIndex(step => step.kind === 'call' && step.tag === tag)
    const call = steps[at]
    return call?.kind === 'call' ? this.#named(rank, call, at, this.#program.segments[call.segment].instrs) : []
  }

  #named(rank: Rank, call: Call, step: number, instrs: readonly Instr[]): string[] {
    return instrs.filter(isCollective).map(({ outs: [out], group }) => {
      // Streams of different stages count their steps differently.
      const acrossStages = group.stages !== undefined || group.axes.some(axis => axis.startsWith('pp'))
      const when = acrossStages ? `${call.microbatch} ${call.param ?? call.block}` : step
      return `${call.segment} ${out} ${when} ${this.#others(rank, group)}`
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
