/**
 * The compiler: a model and a plan become one program for every rank. The body of `compile` is its table of contents.
 * Cost does not depend on dp or tp (a stream serves all ranks of its pipeline coordinate) and hardly on depth (a kind
 * of block is compiled once).
 */
import { factsOf, type Layout, type Mesh, type MeshAxis, whole } from '../base/index.js'
import { type DataInput, type Param, type Program, type Results, resultNames, type Segment } from '../ir/index.js'
import type { Block, Model, ParamSpec } from '../model/index.js'
import type { Plan, Training } from '../plan/index.js'
import {
  type BlockContext,
  type CompiledBlock,
  compileBlock,
  Disagreement,
  type ParamLayouts,
  type PhaseName,
} from './blocks.js'
import { cut } from './cut.js'
import { canonical, factorsOf, type Sharded, shardedOn, storageOf } from './layouts.js'
import { type OnceSegments, onceSegments } from './once.js'
import { type ParamDtypes, paramDtypes, storedModel } from './precision.js'
import { onlyForward, type Schedule, tasksOf } from './schedule/index.js'
import { type WrittenStream, writeStreams } from './streams.js'
import { compileParam, type ParamSegments } from './tail.js'

export interface CompileInput {
  /** Of one microbatch: its batch is globalBatch / microbatches. */
  readonly model: Model
  readonly plan: Plan
  readonly training: Pick<Training, 'optimizer' | 'clip'>
  /** rows = pp, stages = pp * chunks. */
  readonly schedule: Schedule
}

/** All that the passes found out, for the one that writes streams. */
export interface Compiled {
  readonly input: CompileInput
  readonly s: Sharded
  readonly stageOf: readonly number[]
  readonly blocks: Readonly<Record<string, CompiledBlock>>
  readonly inputs: readonly DataInput[]
  readonly params: readonly CompiledParam[]
  readonly once: OnceSegments
  /** Pipeline ranks with tasks of the last stage. */
  readonly lossHolders: readonly number[]
  /** Nothing goes back: no gradients, no norm, no update. */
  readonly evaluates: boolean
}

export interface CompiledParam extends ParamDtypes {
  readonly spec: ParamSpec
  readonly layouts: ParamLayouts
  /** Absent where nothing is trained. */
  readonly grad?: Layout
  readonly holders: readonly number[]
  readonly segments: ParamSegments
}

export function compile(given: CompileInput): Program {
  const { plan, schedule } = given
  const model = storedModel(given.model, plan.precision)
  const input = { ...given, model }
  const s = shardedOn(meshOf(plan, model.dims.kvHeads), plan.sequenceParallel)
  const stageOf = cut(model.blocks, plan)
  const layouts = layoutsOfParams(model, plan, s)
  const { blocks, gradLayouts } = compileBlocks(input, s, layouts)
  const held = stagesHeld(schedule)
  const params = compileParams(input, { s, layouts, gradLayouts, stageOf, held })
  const evaluates = onlyForward(schedule)
  const inputs = inputsOf(model, s, evaluates)
  const lossHolders = holdersOf(held, [stageOf[model.blocks.length - 1]])
  const once = onceSegments(s, model, blocks, { lossHolders, evaluates })
  const streams = writeStreams({ input, s, stageOf, blocks, inputs, params, once, lossHolders, evaluates })
  const segments: Record<string, Segment> = {}
  const add = (segment: Segment | undefined) => {
    if (segment) segments[segment.name] = segment
  }
  for (const block of Object.values(blocks)) Object.values(block.segments).forEach(add)
  for (const { segments: p } of params) [p.begin, p.gather, p.reduce, p.norm, p.update].forEach(add)
  Object.values(once).flat().forEach(add)
  return {
    name: model.name,
    mesh: s.mesh,
    microbatches: plan.microbatches,
    stages: schedule.stages,
    ...(evaluates ? { evaluates } : {}),
    blocks: model.blocks.map(({ name, kind }, i) => ({ name, kind, stage: stageOf[i] })),
    params: params.map(param => programParam(param, streams)),
    inputs,
    results: resultsOf(streams),
    segments,
    streams: streams.map(({ stream }) => stream),
  }
}

/** The plan's axes in its rank order, tp factored where key-value heads are fewer. */
export function meshOf(plan: Pick<Plan, MeshAxis | 'order'>, kvHeads?: number): Mesh {
  const names = plan.order.split('-') as MeshAxis[] // checked with the plan
  return { axes: names.flatMap(name => (name === 'tp' ? factorsOf(plan.tp, kvHeads) : [{ name, size: plan[name] }])) }
}

/** The stages each pipeline rank has tasks of. */
const stagesHeld = (schedule: Schedule): ReadonlySet<number>[] =>
  schedule.rows.map(row => new Set(tasksOf(row).map(task => task.stage)))

const holdersOf = (held: readonly ReadonlySet<number>[], stages: readonly number[]): number[] =>
  held.flatMap((on, rank) => (stages.some(stage => on.has(stage)) ? [rank] : []))

function layoutsOfParams(model: Model, plan: Plan, s: Sharded): Map<string, ParamLayouts> {
  const classes = classesOf(model)
  const known = new Map<string, ParamLayouts>()
  return new Map(
    model.params.map(({ name, dims }) => {
      const of = classes.get(name)!
      const layouts = known.get(of) ?? layoutsOfDims(dims, plan, s)
      known.set(of, layouts)
      return [name, layouts]
    }),
  )
}

function layoutsOfDims(dims: ParamSpec['dims'], plan: Plan, s: Sharded): ParamLayouts {
  const compute = canonical(s, dims, 'param')
  const storage = storageOf(s, dims, compute)
  return { compute, storage, found: plan.zero >= 3 && plan.gather === 'use' ? storage : compute }
}

const inputsOf = (model: Model, s: Sharded, evaluates: boolean): DataInput[] => [
  ...model.inputs.map(({ name, dtype, dims }) => ({ name, dtype, dims, layout: canonical(s, dims, 'input') })),
  ...(evaluates ? [] : ['lr', 'step']).map(name => ({ name, dtype: 'f32' as const, dims: [], layout: whole })),
]

/** Parameters of one class (the same parameter of blocks of one kind) share layouts and segments. */
export function classesOf(model: Model): Map<string, string> {
  const classes = new Map<string, string>()
  for (const { kind, params } of model.blocks)
    for (const [local, name] of Object.entries(params)) if (!classes.has(name)) classes.set(name, `${kind}.${local}`)
  return classes
}

function compileBlocks(
  { model, plan, schedule }: CompileInput,
  s: Sharded,
  layouts: ReadonlyMap<string, ParamLayouts>,
) {
  const kindsUsed = new Set(schedule.rows.flatMap(row => tasksOf(row).map(task => task.kind)))
  const phases = (['F', 'I', 'W', 'B'] as const satisfies PhaseName[]).filter(phase => kindsUsed.has(phase))
  const classes = classesOf(model)
  const agreed = new Map<string, Layout>()
  for (;;) {
    const gradLayouts = new Map(agreed)
    const context: BlockContext = {
      s,
      plan,
      phases,
      layoutsOf: name => layouts.get(name)!,
      classOf: name => classes.get(name)!,
      gradLayouts,
    }
    const blocks: Record<string, CompiledBlock> = {}
    try {
      for (const block of model.blocks) blocks[block.kind] ??= compileBlock(block, context)
      return { blocks, gradLayouts }
    } catch (error) {
      if (!(error instanceof Disagreement) || agreed.has(error.param)) throw error
      const [name] = [...classes].find(([, of]) => of === error.param)!
      agreed.set(error.param, summedOverData(s, layouts.get(name)!.compute))
    }
  }
}

/** What every producer of a gradient can be brought to. */
const summedOverData = (s: Sharded, compute: Layout): Layout => ({
  ...compute,
  partial: Object.fromEntries(s.axes.filter(axis => factsOf(axis).data).map(axis => [axis, 'sum'])),
})

interface ParamFacts {
  readonly s: Sharded
  readonly layouts: ReadonlyMap<string, ParamLayouts>
  readonly gradLayouts: ReadonlyMap<string, Layout>
  readonly stageOf: readonly number[]
  readonly held: readonly ReadonlySet<number>[]
}

function compileParams(input: CompileInput, { s, layouts, gradLayouts, stageOf, held }: ParamFacts): CompiledParam[] {
  const { model, plan } = input
  const classes = classesOf(model)
  const stages = stagesOfParams(model.blocks, stageOf)
  const made = new Map<string, ParamSegments>()
  const known = new Map<string, number[]>()
  const holdersAt = (at: readonly number[]) => {
    const holders = known.get(at.join()) ?? holdersOf(held, at)
    known.set(at.join(), holders)
    return holders
  }
  return model.params.map(spec => {
    const holders = holdersAt(stages.get(spec.name)!)
    const name = holders.length > 1 ? `${classes.get(spec.name)!}@${holders.join('.')}` : classes.get(spec.name)!
    const split = plan.zero >= 2 && plan.reduce === 'microbatch'
    const produced = split ? layouts.get(spec.name)!.storage : gradLayouts.get(classes.get(spec.name)!)
    const grad = produced && !onlyForward(input.schedule) ? { grad: produced } : {}
    const own = { spec, ...paramDtypes[plan.precision], layouts: layouts.get(spec.name)!, ...grad, holders }
    const segments = made.get(name) ?? compileParam({ name, ...own }, { ...input, s })
    made.set(name, segments)
    return { ...own, segments }
  })
}

function stagesOfParams(blocks: readonly Block[], stageOf: readonly number[]): Map<string, number[]> {
  const stages = new Map<string, number[]>()
  for (const [i, { params }] of blocks.entries())
    for (const name of Object.values(params)) stages.set(name, [...(stages.get(name) ?? []), stageOf[i]])
  return stages
}

const resultsOf = (streams: readonly WrittenStream[]): Results =>
  Object.fromEntries(
    resultNames.map(name => [
      name,
      Object.fromEntries(streams.flatMap(({ results }, pp) => (name in results ? [[pp, results[name]]] : []))),
    ]),
  ) as Results // a record of every name

function programParam(
  { spec, dtype, layouts, grad, holders, segments }: CompiledParam,
  streams: readonly WrittenStream[],
): Param {
  const frames = holders.map(pp => {
    const { frameOf } = streams[pp]
    return [
      pp,
      {
        param: frameOf(spec.name),
        ...(grad && { grad: frameOf(`grad.${spec.name}`) }),
        states: Object.fromEntries(segments.states.map(state => [state, frameOf(`${state}.${spec.name}`)])),
      },
    ]
  })
  return {
    name: spec.name,
    dtype,
    dims: spec.dims,
    init: spec.init,
    compute: layouts.compute,
    storage: layouts.storage,
    frames: Object.fromEntries(frames),
    kept: segments.kept,
    state: segments.state,
  }
}
