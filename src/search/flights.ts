/**
 * The flights of a plan in outline. The compiler plans and drafts them, for as many layers as the plan has: the parameters
 * of a layer are those of the miniature's, whatever its number.
 */
import { type CompiledParam, FlightDrafter, placeBuffers, type SegmentDraft, type Sharding } from '../compile/index.js'
import type { Segment, Step } from '../ir/index.js'
import { type DataCall, departures, type FlightEvent, type FlightPlan, type TaskKind } from '../schedule/index.js'

/** The flights of one stream, as steps. */
export type OutlinedFlights = { readonly [When in 'begin' | 'end']: readonly Step[] } & {
  readonly [When in 'before' | 'after' | 'later']: (call: number, last: boolean) => readonly Step[]
}

/** The flights of all streams whose plans share a miniature. */
export class Flights {
  readonly #sharding: Sharding
  readonly #params: Map<string, CompiledParam>
  readonly #drafter: FlightDrafter
  readonly #segments = new Map<SegmentDraft, Segment>()

  constructor(sharding: Sharding) {
    this.#sharding = sharding
    this.#params = new Map(sharding.params.map(param => [param.spec.name, param]))
    this.#drafter = new FlightDrafter(sharding, name => this.#params.get(name)!)
  }

  /** What a task of a block reads and makes; `layer` tells those apart that are one block of the miniature. */
  callOf(block: number, kind: TaskKind, layer?: number): DataCall {
    const { model, blocks } = this.#sharding
    const { kind: of, params } = model.blocks[block]
    const nameOf = (local: string): string => {
      const name = layer === undefined ? params[local] : `${layer} ${params[local]}`
      if (!this.#params.has(name)) this.#params.set(name, this.#params.get(params[local])!)
      return name
    }
    const codes = kind === 'F' ? [blocks[of].codes] : []
    return this.#drafter.callOf(blocks[of].segments[kind]!, nameOf, codes)
  }

  /** `segments` gets those that are called. */
  of(calls: readonly DataCall[], segments: Record<string, Segment>): OutlinedFlights {
    const { plan, segments: drafts } = this.#drafter.draft(calls)
    const called = (draft: SegmentDraft, tag?: string): Step => {
      const segment = this.#placed(draft)
      segments[segment.name] = segment
      return { kind: 'call', segment: segment.name, ...nobodys, ...(tag !== undefined && { tag }) }
    }
    const stepsOf = (events: readonly FlightEvent[]): Step[] =>
      events.map(({ event, flight }) => {
        if (event === 'wait') return { kind: 'wait', tag: flight.tag }
        const { moves, adds } = drafts.get(flight)!
        return event === 'start' ? called(moves, flight.tag) : called(adds!)
      })
    return asSteps(plan, stepsOf)
  }

  #placed(draft: SegmentDraft): Segment {
    const known = this.#segments.get(draft) ?? placeBuffers(this.#sharding.s.mesh, draft)
    this.#segments.set(draft, known)
    return known
  }
}

const nobodys = { block: -1, microbatch: -1, bind: [] } as const

const asSteps = (plan: FlightPlan, stepsOf: (events: readonly FlightEvent[]) => Step[]): OutlinedFlights => ({
  begin: stepsOf(plan.begin),
  before: call => stepsOf(plan.before[call]),
  after: (call, last) => stepsOf(departures(plan.after[call], last).now),
  later: (call, last) => stepsOf(departures(plan.after[call], last).later),
  end: stepsOf(plan.end),
})
