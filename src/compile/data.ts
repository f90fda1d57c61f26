/**
 * *data*: the flights of each stream, and their segments. A flight gathers parameters from their parts, or brings gradients
 * to their sums: one collective over many tensors, that works in place wherever the parts lie inside the whole. Flights
 * of the same parameters of alike blocks share a segment.
 */
import { type Axis, flatAxes, layoutKey } from '../base/index.js'
import { type RoleName, traitsOf } from '../ir/index.js'
import {
  type DataCall,
  type DataPolicy,
  type Flight,
  type FlightPlan,
  planFlights,
  tasksOf,
} from '../schedule/index.js'
import type { PhaseName } from './blocks.js'
import { blocksOfStages, type CompiledParam, evaluates, type Sharding } from './compiled.js'
import { localBytes, type SegmentDraft, SegmentWriter, type Slot, type Tensor } from './segment.js'
import type { Gradient } from './tail.js'

export interface FlightDrafts {
  readonly plan: FlightPlan
  readonly segments: ReadonlyMap<Flight, FlightSegments>
}

/** What moves, and for gradients of one call what adds them up. */
export interface FlightSegments {
  readonly moves: SegmentDraft
  readonly adds?: SegmentDraft
}

export function draftFlights(sharding: Sharding): FlightDrafts[] {
  const params = new Map(sharding.params.map(param => [param.spec.name, param]))
  const drafter = new FlightDrafter(sharding, name => params.get(name)!)
  return sharding.schedule.rows.map((_, pp) => drafter.draft(dataCalls(sharding, drafter, pp)))
}

function policyOf(sharding: Sharding): DataPolicy {
  const { plan, params } = sharding
  const inParts = params.some(({ segments }) => segments.kept.layout.flat)
  const scatters = params.some(({ layouts }) => layouts.fresh)
  return {
    gather: !inParts ? 'never' : plan.zero === 3 ? plan.gather : 'step',
    reduce: evaluates(sharding) ? 'never' : scatters ? 'call' : 'step',
    bucket: plan.bucket,
    prefetch: plan.prefetch,
    waits: !plan.overlap,
  }
}

const bytesIn = ({ s }: Sharding, { spec, gradientDtype, layouts }: CompiledParam): number =>
  localBytes(s, { ...spec, dtype: gradientDtype }, layouts.compute)

/** The calls of blocks on a stream, in its order: those whose segments do anything. */
function dataCalls({ blocks, model, schedule, stageOf }: Sharding, drafter: FlightDrafter, pp: number): DataCall[] {
  const known = model.blocks.map((): Partial<Record<PhaseName, DataCall[]>> => ({}))
  const callOf = (block: number, phase: PhaseName): DataCall[] => {
    const { kind, params } = model.blocks[block]
    const draft = blocks[kind].segments[phase]!
    known[block][phase] ??= draft.instrs.length === 0 ? [] : [drafter.callOf(draft, local => params[local])]
    return known[block][phase]
  }
  const stages = blocksOfStages({ schedule, stageOf })
  return tasksOf(schedule.rows[pp]).flatMap(({ kind, stage }) =>
    (kind === 'F' ? stages[stage] : stages[stage].toReversed()).flatMap(block => callOf(block, kind)),
  )
}

const fliesOnce = (gradient: Gradient | undefined): boolean =>
  gradient?.reduction.kind === 'scatter' || gradient?.reduction.kind === 'sum'

/** The block's own names of the parameters that play one of these roles in a segment. */
function rolesUsed({ buffers, instrs }: SegmentDraft, kinds: readonly RoleName['is'][]): string[] {
  const used = new Set(instrs.flatMap(instr => [...traitsOf(instr).reads, ...traitsOf(instr).writes]))
  const roles = [...buffers].flatMap(([ref, { slot }]) =>
    used.has(ref) && typeof slot === 'object' ? [slot.role] : [],
  )
  const names = roles.flatMap(role =>
    kinds.includes(role.is) && 'of' in role && role.of !== undefined ? [role.of] : [],
  )
  return [...new Set(names)]
}

/** The name each parameter of a flight has in its segment: that of its class, told apart where blocks are alike. */
export function namesIn(params: readonly CompiledParam[]): string[] {
  const times = new Map<string, number>()
  return params.map(({ of }) => {
    const n = times.get(of) ?? 0
    times.set(of, n + 1)
    return n === 0 ? of : `${of}.${n}`
  })
}

/** Drafts the flights of streams whose parameters are alike. */
export class FlightDrafter {
  readonly #sharding: Sharding
  readonly #paramOf: (name: string) => CompiledParam
  readonly #used = new Map<SegmentDraft, DataCall>()
  readonly #known = new Map<string, FlightSegments>()
  readonly #lists: Readonly<Record<Flight['kind'], Map<readonly string[], FlightSegments>>> = {
    gather: new Map(),
    reduce: new Map(),
  }
  readonly #names = new Map<string, number>()

  constructor(sharding: Sharding, paramOf: (name: string) => CompiledParam) {
    this.#sharding = sharding
    this.#paramOf = paramOf
  }

  /** The call of a segment of a block; `nameOf` says what the block calls its parameters. */
  callOf(draft: SegmentDraft, nameOf: (local: string) => string): DataCall {
    const used = this.#used.get(draft) ?? {
      reads: rolesUsed(draft, ['param']),
      makes: rolesUsed(draft, ['grad', 'fresh']),
    }
    this.#used.set(draft, used)
    const flies = (name: string) => fliesOnce(this.#paramOf(name).segments.gradient)
    const inParts = (name: string) => this.#paramOf(name).segments.kept.layout.flat !== undefined
    return { reads: used.reads.map(nameOf).filter(inParts), makes: used.makes.map(nameOf).filter(flies) }
  }

  draft(calls: readonly DataCall[]): FlightDrafts {
    const plan = planFlights(calls, policyOf(this.#sharding), param => bytesIn(this.#sharding, this.#paramOf(param)))
    const segments = new Map<Flight, FlightSegments>()
    for (const events of [[plan.begin], plan.before, plan.after])
      for (const some of events)
        for (const { flight } of some) if (!segments.has(flight)) segments.set(flight, this.#ofList(flight))
    return { plan, segments }
  }

  /** Flights of single calls of one block have one list of parameters. */
  #ofList(flight: Flight): FlightSegments {
    if (flight.call === undefined) return this.#segmentsOf(flight)
    const known = this.#lists[flight.kind].get(flight.params) ?? this.#segmentsOf(flight)
    this.#lists[flight.kind].set(flight.params, known)
    return known
  }

  #segmentsOf(flight: Flight): FlightSegments {
    const params = flight.params.map(this.#paramOf)
    const key = `${flight.kind} ${flight.call === undefined} ${params.map(({ of }) => of).join(' ')}`
    const known = this.#known.get(key) ?? this.#draft(flight, params)
    this.#known.set(key, known)
    return known
  }

  #draft(flight: Flight, params: readonly CompiledParam[]): FlightSegments {
    const name = this.#nameOf(flight, params)
    if (flight.kind === 'gather') return { moves: draftGather(this.#sharding, params, name) }
    if (flight.call === undefined) return { moves: draftReduce(this.#sharding, params, 'grad', name) }
    const moves = draftReduce(this.#sharding, params, 'fresh', name)
    return { moves, adds: draftAdd(this.#sharding, params, name.replace(/^reduce/, 'add')) }
  }

  /** After the blocks it concerns; numbered where several flights would be called the same. */
  #nameOf({ kind }: Flight, params: readonly CompiledParam[]): string {
    const kinds = params.map(({ of }) => of.slice(0, of.indexOf('.')))
    const counts = new Map<string, number>()
    for (const [i, { of }] of params.entries()) {
      const repeats = params.filter(other => other.of === of).length
      counts.set(kinds[i], Math.max(counts.get(kinds[i]) ?? 0, repeats))
    }
    const title = `${kind} ${[...counts].map(([of, n]) => (n === 1 ? of : `${n} ${of}`)).join(', ')}`
    const n = this.#names.get(title) ?? 0
    this.#names.set(title, n + 1)
    return n === 0 ? title : `${title} (${n + 1})`
  }
}

const slotOf = (is: 'param' | 'full' | 'grad' | 'fresh', of: string): Slot => ({
  role: { is, of },
  kind: is === 'param' || is === 'full' ? 'parameters' : 'gradients',
  offset: 0,
})

/** Parameters whose parts are of the same ranks travel together. */
function draftGather({ s }: Sharding, params: readonly CompiledParam[], name: string): SegmentDraft {
  const w = new SegmentWriter(s)
  const together = new Map<string, { axes: readonly Axis[]; ins: string[]; outs: string[] }>()
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, dtype, layouts, segments } = params[i]
    const { layout, inside } = segments.kept
    const tensor: Tensor = { ...spec, name: of, dtype }
    const slot = slotOf('param', of)
    const part = w.held(of, tensor, segments.kept, slot)
    const whole = w.given(of, { ...tensor, name: `${of}.whole` }, layouts.compute, inside ? slot : slotOf('full', of))
    w.makeRoom(whole.ref, layout)
    const axes = flatAxes(layout)
    const group = together.get(axes.join()) ?? { axes, ins: [], outs: [] }
    group.ins.push(part.ref)
    group.outs.push(whole.ref)
    together.set(axes.join(), group)
  }
  for (const { axes, ins, outs } of together.values()) w.emit({ kind: 'all-gather', ins, outs, group: { axes } })
  return w.draft(name, 'gather')
}

/** Gradients that are scattered, and those that are summed, each over the same axes, travel together. */
function draftReduce(
  { s }: Sharding,
  params: readonly CompiledParam[],
  is: 'grad' | 'fresh',
  name: string,
): SegmentDraft {
  const w = new SegmentWriter(s)
  const together = new Map<string, { kind: 'scatter' | 'sum'; axes: readonly Axis[]; ins: string[]; outs: string[] }>()
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, gradientDtype, layouts, segments } = params[i]
    const { produced, reduction } = segments.gradient!
    if (!('axes' in reduction)) throw new Error(`internal: ${of} does not fly`)
    const tensor: Tensor = { ...spec, name: of, dtype: gradientDtype }
    const slot = slotOf(is, of)
    const from = w.given(of, tensor, produced, slot)
    const sum = { ...tensor, name: `${of}.sum` }
    const scatters = reduction.kind === 'scatter'
    const to = scatters ? w.own(of, sum, layouts.storage, slot) : w.given(of, sum, { ...produced, partial: {} }, slot)
    if (scatters) w.makeRoom(from.ref, layouts.storage)
    const key = `${reduction.kind} ${layoutKey({ splits: { all: reduction.axes }, partial: {} })}`
    const group = together.get(key) ?? { ...reduction, ins: [], outs: [] }
    group.ins.push(from.ref)
    group.outs.push(to.ref)
    together.set(key, group)
  }
  for (const { kind, axes, ins, outs } of together.values())
    if (kind === 'scatter') w.emit({ kind: 'reduce-scatter', ins, outs, group: { axes } })
    else w.emit({ kind: 'all-reduce', ins, outs, group: { axes }, combine: 'sum' })
  return w.draft(name, 'reduce')
}

/** The rank's own part of what arrived, added to the sums of the step. */
function draftAdd({ s }: Sharding, params: readonly CompiledParam[], name: string): SegmentDraft {
  const w = new SegmentWriter(s)
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, gradientDtype, layouts, segments } = params[i]
    const { produced, reduction } = segments.gradient!
    const tensor: Tensor = { ...spec, name: of, dtype: gradientDtype }
    const slot = slotOf('fresh', of)
    if (reduction.kind === 'scatter') w.own(of, tensor, layouts.storage, slot)
    else w.given(of, tensor, { ...produced, partial: {} }, slot)
    const part = w.demand(of, layouts.storage)
    const total = w.given(of, { ...tensor, name: `${of}.total` }, layouts.storage, slotOf('grad', of))
    w.emit({ kind: 'accumulate', ins: [part.ref], outs: [total.ref] })
  }
  return w.draft(name, 'add')
}
