/**
 * *data*: the flights of each stream, and their segments. A flight gathers parameters from their parts, or brings gradients
 * to their sums: one collective over many tensors, that works in place wherever the parts lie inside the whole. Flights
 * of the same parameters of alike blocks share a segment.
 */
import type { Work } from '../base/index.js'
import { type RoleName, traitsOf } from '../ir/index.js'
import type { Plan } from '../plan/index.js'
import {
  type DataCall,
  type DataPolicy,
  type Flight,
  type FlightPlan,
  planFlights,
  type Task,
  tasksOf,
} from '../schedule/index.js'
import type { PhaseName } from './blocks.js'
import { blocksOfStages, type CompiledParam, evaluates, type Sharding } from './compiled.js'
import { draftAdd, draftGather, draftReduce, draftSum, travels } from './flight-segments.js'
import type { FlightSegments } from './flight-writer.js'
import { localBytes, type SegmentDraft } from './segment.js'
import type { Gradient } from './tail.js'

export interface FlightDrafts {
  readonly plan: FlightPlan
  readonly segments: ReadonlyMap<Flight, FlightSegments>
}

export function* draftingFlights(sharding: Sharding): Work<FlightDrafts[]> {
  const { rows } = sharding.schedule
  const params = new Map(sharding.params.map(param => [param.spec.name, param]))
  const drafter = new FlightDrafter(sharding, name => params.get(name)!)
  const drafts: FlightDrafts[] = []
  for (const pp of rows.keys()) {
    drafts.push(drafter.draft(dataCalls(sharding, drafter, pp)))
    yield drafts.length / rows.length
  }
  return drafts
}

function policyOf(sharding: Sharding): DataPolicy {
  const { plan, params } = sharding
  const byName = new Map(params.map(param => [param.spec.name, param]))
  const inParts = params.some(isGathered(plan))
  const scatters = params.some(({ layouts }) => layouts.fresh)
  return {
    gather: !inParts ? 'never' : gathersOnce(plan) ? 'step' : 'use',
    reduce: evaluates(sharding) ? 'never' : scatters ? 'call' : 'step',
    bucket: plan.bucket,
    prefetch: plan.prefetch,
    ...(params.some(isReplicated) && { isSummed: (name: string) => isReplicated(byName.get(name)!) }),
    lifts: params.some(({ segments }) => segments.space !== undefined),
    waits: !plan.overlap,
  }
}

/** Whether calls read another frame than the parameter's own, or that one once it is whole. Of what lives elsewhere too. */
export const isGathered =
  (plan: Pick<Plan, 'compress'>) =>
  (param: CompiledParam): boolean =>
    param.segments.space !== undefined || travels(plan, param)

export const gathersOnce = ({ zero, gather }: Pick<Plan, 'zero' | 'gather'>): boolean => zero < 3 || gather === 'step'

/** Whether its reduced part is still to be summed over replicas. */
const isReplicated = ({ segments: { gradient } }: CompiledParam): boolean =>
  gradient?.reduction.kind === 'scatter' && gradient.reduction.replicas.length > 0

const bytesIn = ({ s }: Sharding, { spec, gradientDtype, layouts }: CompiledParam): number =>
  localBytes(s, { ...spec, dtype: gradientDtype }, layouts.compute)

/** The calls of blocks on a stream, in its order: those whose segments do anything. */
function dataCalls(sharding: Sharding, drafter: FlightDrafter, pp: number): DataCall[] {
  const { blocks, model, schedule, stageOf, params } = sharding
  const ranks = Math.max(...params.map(({ layouts: { fresh, dealt } }) => (fresh && dealt ? dealt.turns.length : 0)), 0)
  const known = model.blocks.map((): Partial<Record<PhaseName, DataCall[]>> => ({}))
  const callOf = (block: number, phase: PhaseName): DataCall[] => {
    const { kind, params } = model.blocks[block]
    const draft = blocks[kind].segments[phase]!
    const codes = phase === 'F' ? [blocks[kind].codes] : []
    known[block][phase] ??= draft.instrs.length === 0 ? [] : [drafter.callOf(draft, local => params[local], codes)]
    return known[block][phase]
  }
  const stages = blocksOfStages({ schedule, stageOf })
  const ofTask = ({ kind, stage, microbatch }: Task, block: number): DataCall[] =>
    callOf(block, kind).map(call =>
      ranks > 0 ? { ...call, together: `${kind} ${block} ${stage} ${Math.floor(microbatch / ranks)}` } : call,
    )
  return tasksOf(schedule.rows[pp]).flatMap(task =>
    (task.kind === 'F' ? stages[task.stage] : stages[task.stage].toReversed()).flatMap(block => ofTask(task, block)),
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

/** Drafts the flights of streams whose parameters are alike. */
export class FlightDrafter {
  readonly #sharding: Sharding
  readonly #paramOf: (name: string) => CompiledParam
  readonly #used = new Map<SegmentDraft, DataCall>()
  readonly #known = new Map<string, FlightSegments>()
  readonly #lists: Readonly<Record<Flight['kind'], Map<readonly string[], FlightSegments>>> = {
    gather: new Map(),
    reduce: new Map(),
    sum: new Map(),
  }
  readonly #names = new Map<string, number>()

  constructor(sharding: Sharding, paramOf: (name: string) => CompiledParam) {
    this.#sharding = sharding
    this.#paramOf = paramOf
  }

  /** The call of a segment of a block, behind others that read for it; `nameOf` says what the block calls its parameters. */
  callOf(draft: SegmentDraft, nameOf: (local: string) => string, before: readonly SegmentDraft[] = []): DataCall {
    const used = this.#used.get(draft) ?? {
      reads: [...new Set([...before, draft].flatMap(each => rolesUsed(each, ['param'])))],
      makes: rolesUsed(draft, ['grad', 'fresh']),
    }
    this.#used.set(draft, used)
    const flies = (name: string) => fliesOnce(this.#paramOf(name).segments.gradient)
    const isRead = isGathered(this.#sharding.plan)
    const inParts = (name: string) => isRead(this.#paramOf(name))
    return { reads: used.reads.map(nameOf).filter(inParts), makes: used.makes.map(nameOf).filter(flies) }
  }

  draft(calls: readonly DataCall[]): FlightDrafts {
    const plan = planFlights(calls, policyOf(this.#sharding), param => bytesIn(this.#sharding, this.#paramOf(param)))
    const segments = new Map<Flight, FlightSegments>()
    for (const events of [[plan.begin], plan.before, plan.after, [plan.end]])
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
    if (flight.kind === 'gather') return draftGather(this.#sharding, params, name)
    if (flight.kind === 'sum') return draftSum(this.#sharding, params, name)
    if (flight.call === undefined) return draftReduce(this.#sharding, params, 'grad', name)
    const adds = draftAdd(this.#sharding, params, name.replace(/^reduce/, 'add'))
    return { ...draftReduce(this.#sharding, params, 'fresh', name), adds }
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
