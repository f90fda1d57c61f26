/**
 * The compiler: a model and a plan become one program for every rank. `shardStep` and `compiling` call its passes in the
 * order of the list in passes.ts. Cost does not depend on dp or tp (one stream stands for all ranks of its pipeline coordinate) and
 * hardly on depth (a kind of block is compiled once).
 */
import {
  asPart,
  finish,
  mapStates,
  type Scalars,
  type States,
  sameDims,
  sameLayout,
  scalarEntries,
  stateEntries,
  type Work,
  whole,
} from '../base/index.js'
import {
  type DataInput,
  type Param,
  type Program,
  type Results,
  resultNames,
  type Scalar,
  type Segment,
  type StateTensor,
  type Stream,
} from '../ir/index.js'
import type { Model } from '../model/index.js'
import { type Plan, scalarStarts, stateSpace } from '../plan/index.js'
import { agreementsOf } from './agreements.js'
import { type BlockContext, draftBlock, type PhaseName } from './blocks.js'
import { type Boundaries, draftBoundaries } from './boundaries.js'
import { codedModel, codesOnce } from './codes.js'
import {
  type ByKind,
  type CompiledParam,
  type CompileInput,
  type Drafts,
  eachKind,
  evaluates,
  type Facts,
  phasesIn,
  type Sharding,
  stagesHeld,
  type TrainedBy,
} from './compiled.js'
import { cut } from './cut.js'
import { draftingFlights, type FlightDrafts } from './data.js'
import { type DerivedGraph, differentiate } from './differentiate.js'
import { boundRows } from './experts.js'
import { agree, settled } from './gradients.js'
import { canonical, type ShardedMesh } from './layouts.js'
import { shardedMeshOf } from './mesh.js'
import { draftOnce, type OnceDrafts, toldTo } from './once.js'
import { overlap } from './overlap.js'
import { classesOf, draftParams, layoutsOfParams } from './params.js'
import { watching } from './passes.js'
import { type Arenas, anyArenas, noArenas, placeBuffers, placeFrames } from './place.js'
import { storedGradients, storedModel } from './precision.js'
import { recompute } from './recompute.js'
import { roundsOf } from './rounds.js'
import type { SegmentDraft } from './segment.js'
import { frameNames } from './stream/frames.js'
import { draftingStreams, type StreamScript } from './stream/streams.js'

/** A model with the dtypes of a plan, its blocks differentiated: all that does not depend on the mesh. */
export interface Differentiated {
  readonly model: Model
  readonly graphs: ByKind<DerivedGraph>
  readonly rules: Facts['rules']
}

export function differentiated(of: Model, given: Pick<CompileInput, 'plan' | 'training' | 'watch'>): Differentiated {
  const { plan, training } = given
  const scaled = training.lossScale !== undefined
  const pass = watching(given)
  const stored = pass('store', storedModel(of, plan.precision))
  const model = pass('quantize', codedModel(stored, plan.fp8))
  const isFrozen = new Set(model.params.flatMap(({ name, frozen }) => (frozen ? [name] : [])))
  const graphs = eachKind(model, ({ graph, params }) => {
    const frozen = new Set(Object.keys(params).filter(local => isFrozen.has(params[local])))
    return storedGradients(differentiate(graph, { scaled, frozen }), plan)
  })
  return { model, graphs: pass('differentiate', graphs), rules: new WeakMap() }
}

/** What is known of a step before anything is sharded: its mesh, what each phase runs, its stages. */
function factsOf(given: CompileInput, known?: Differentiated): Facts {
  const { plan, schedule } = given
  const s = shardedMeshOf(plan, given.model.dims)
  const pass = watching(given)
  const { model, graphs, rules } = known ?? differentiated(pass('expert rows', boundRows(given.model, plan, s)), given)
  const kept = eachKind(model, ({ kind }) => recompute(graphs[kind], plan.recompute, codesOnce(plan)))
  const nodes = pass('recompute', kept)
  const stageOf = pass('cut', cut(model.blocks, plan))
  const layouts = layoutsOfParams(model, s, plan)
  return { ...given, model, s, graphs, rules, nodes, stageOf, held: stagesHeld(schedule), layouts }
}

/** The first passes, up to *shard*: what every block and parameter does, whatever the order of tasks. */
export function shardStep(given: CompileInput): Sharding {
  const facts = factsOf(given)
  return { ...facts, ...watching(given)('shard', shard(facts)) }
}

/** Runs the passes on a model, training and plan. Nothing is checked or verified: `compileVerified` does both for a job. */
export const compile = (given: CompileInput, sharding?: Sharding): Program => finish(compiling(given, sharding))

/** The shares are about those of a large program, whose time goes into its streams. */
export function* compiling(given: CompileInput, sharding: Sharding = shardStep(given)): Work<Program> {
  const { plan, schedule, model, s, stageOf, params } = sharding
  yield 0.1
  const pass = watching(given)
  const flights = pass('data parallel', yield* asPart(0.1, 0.25, draftingFlights(sharding)))
  const boundaries = pass('offload', draftBoundaries(sharding))
  const drafts = segmentsOf(sharding, flights, boundaries)
  const ordered = pass('overlap', plan.overlap ? drafts.map(overlap) : drafts)
  const segments = pass('place segments', byName(ordered.map(draft => placeBuffers(s.mesh, draft))))
  yield 0.35
  const sources = { ...sharding, boundaries, flights, segments }
  const scripts = pass('schedule', yield* asPart(0.35, 0.85, draftingStreams(sources)))
  const streams = pass('place streams', yield* asPart(0.85, 1, placingFrames(scripts, given)))
  return pass('program', {
    name: model.name,
    mesh: s.mesh,
    microbatches: plan.microbatches,
    stages: schedule.stages,
    ...(evaluates(given) ? { evaluates: true } : {}),
    blocks: model.blocks.map(({ name, kind }, i) => ({ name, kind, stage: stageOf[i] })),
    params: params.map(param => programParam(param, plan, scripts)),
    inputs: inputsOf(model, s, evaluates(given) ? [] : toldTo(given.training)),
    results: resultsOf(scripts),
    ...(evaluates(given) ? {} : { scalars: scalarsOf(given.training, scripts) }),
    segments,
    streams,
  })
}

/** Where only the heaviest stream is asked for, packing another stops once it takes no more than those before it; where none is, none is packed. */
function* placingFrames(scripts: readonly StreamScript[], { placing }: CompileInput): Work<Stream[]> {
  const streams: Stream[] = []
  let most = noArenas
  for (const script of scripts) {
    yield streams.length / scripts.length
    const stream = placeFrames(script, placing === 'none' ? anyArenas : most)
    streams.push(stream)
    if (placing === 'heaviest') most = greater(most, stream)
  }
  return streams
}

const greater = (most: Arenas, { arena, elsewhere }: Stream): Arenas => ({
  device: Math.max(most.device, arena),
  host: Math.max(most.host, elsewhere?.host?.arena ?? 0),
  disk: Math.max(most.disk, elsewhere?.disk?.arena ?? 0),
})

/** Every segment, in layouts: of each kind of block, of each parameter, and what happens once a step. */
function shard(facts: Facts): Drafts {
  const context = blockContext(facts, phasesIn(facts))
  const gradients = agree(facts, context)
  const blocks = eachKind(facts.model, block => draftBlock(block, { ...context, gradients }))
  return { blocks, params: draftParams(facts, settled(blocks, gradients)), once: draftOnce(facts, blocks) }
}

const blockContext = (facts: Facts, phases: readonly PhaseName[]): BlockContext => ({
  ...facts,
  ...{ phases, classes: classesOf(facts.model), sizes: facts.model.dims, gradients: new Map() },
})

/** What one layer of each kind does in every phase, without a pipeline around it. */
export interface BlockDraftsByKind {
  readonly s: ShardedMesh
  readonly kinds: ByKind<Readonly<Partial<Record<PhaseName | 'C', SegmentDraft>>>>
}

/**
 * Compiles some blocks of a step, by name: their segments in all phases, whichever of them a schedule has tasks of. Expert buffers are
 * not limited by the plan's capacity.
 */
export function compileBlocks(given: CompileInput, known: Differentiated, names: readonly string[]): BlockDraftsByKind {
  const facts = factsOf(given, known)
  const gradients = agree(facts, blockContext(facts, ['F', 'B']))
  const context = { ...blockContext(facts, ['F', 'B', 'I', 'W']), gradients }
  const ordered = (draft: SegmentDraft) => (given.plan.overlap ? overlap(draft) : draft)
  const blocks = facts.model.blocks.filter(({ name }) => names.includes(name))
  const kinds = eachKind({ ...facts.model, blocks }, block => {
    const { segments, codes } = draftBlock(block, context)
    return Object.fromEntries(Object.values({ ...segments, C: codes }).map(draft => [draft.phase, ordered(draft)]))
  })
  return { s: facts.s, kinds }
}

function segmentsOf(
  { s, blocks, params, once, held }: Sharding,
  flights: readonly FlightDrafts[],
  boundaries: Boundaries,
): SegmentDraft[] {
  const ofParam = ({ segments: { begin, reduce, norm, update, deal, down, up } }: CompiledParam) =>
    [begin, reduce, norm, down, deal?.mean, update, up].filter(draft => draft !== undefined)
  const agreements = held.flatMap((_, pp) =>
    agreementsOf(
      s,
      params.filter(({ holders }) => holders.includes(pp)),
    ),
  )
  const rounds = held.flatMap((_, pp) => roundsOf(params.filter(({ holders }) => holders.includes(pp))))
  const all = [
    ...Object.values(blocks).flatMap(({ segments, codes }) => [
      ...(codes.instrs.length > 0 ? [codes] : []),
      ...Object.values(segments),
    ]),
    ...Object.values(boundaries).flatMap(carries => Object.values(carries).flatMap(({ out, back }) => [out, back])),
    ...params.flatMap(ofParam),
    ...rounds.map(({ draft }) => draft),
    ...agreements.map(({ draft }) => draft),
    ...flights.flatMap(({ segments }) => [...segments.values()].flatMap(draft => Object.values(draft))),
    ...ofOnce(once),
  ]
  return [...new Map(all.map(draft => [draft.name, draft])).values()]
}

const ofOnce = ({ clear, loads, count, sumCount, divisor, sumLoss, ...ends }: OnceDrafts): SegmentDraft[] => [
  ...Object.values(clear),
  ...Object.values(loads),
  count,
  ...sumCount,
  ...divisor,
  ...sumLoss,
  ...ends.sumTerms,
  ...ends.sumNorm,
  ...ends.weigh,
  ...ends.down,
  ...ends.take,
]

const byName = (segments: readonly Segment[]): Record<string, Segment> =>
  Object.fromEntries(segments.map(segment => [segment.name, segment]))

const inputsOf = (model: Model, s: ShardedMesh, told: readonly string[]): DataInput[] => [
  ...model.inputs.map(input => ({ ...input, layout: canonical(s, input.dims, 'input') })),
  ...told.map(name => ({ name, dtype: 'f32' as const, dims: [], layout: whole })),
]

/** A program without losses of single blocks does not speak of them. */
const resultsOf = (streams: readonly StreamScript[]): Results =>
  Object.fromEntries(
    resultNames.flatMap(name => {
      const places = streams.flatMap(({ results }, pp) => (name in results ? [[pp, results[name]]] : []))
      return name === 'terms' && places.length === 0 ? [] : [[name, Object.fromEntries(places)]]
    }),
  ) as Results // a record of every name

const scalarsOf = (training: TrainedBy, streams: readonly StreamScript[]): Scalars<Scalar> =>
  Object.fromEntries(
    scalarEntries(scalarStarts(training)).map(([name, start]) => {
      const places = streams.map(({ frameOf }, pp) => [pp, frameOf(frameNames.scalar(name))])
      return [name, { start, frames: Object.fromEntries(places) }]
    }),
  )

function programParam(param: CompiledParam, plan: Plan, streams: readonly StreamScript[]): Param {
  const { spec, dtype, gradientDtype, holders, segments } = param
  const usual = param.hasMaster ? param.stateDtype : dtype
  const { space } = stateSpace(plan, spec)
  const { name, dims, init, frozen } = spec
  const framesAt = ({ frameOf }: StreamScript) => ({
    param: frameOf(frameNames.param(name), segments.space),
    ...(segments.gradient && { grad: frameOf(frameNames.grad(name)) }),
    states: mapStates(segments.states, (_, state) => frameOf(frameNames.state(state, name), space)),
  })
  const apart = apartFrom({ dtype: usual, dims, layout: segments.state }, segments.states)
  return {
    name,
    dtype,
    ...(segments.gradient && gradientDtype !== usual && { gradient: gradientDtype }),
    dims,
    init,
    ...(frozen && { frozen }),
    frames: Object.fromEntries(holders.map(pp => [pp, framesAt(streams[pp])])),
    kept: segments.kept.layout,
    ...(segments.kept.inside && { keptInside: true }),
    state: segments.state,
    ...(Object.keys(apart).length > 0 && { apart }),
  }
}

/** Of states those that are not as `state` says, which is what meets the gradient. */
const apartFrom = (usual: StateTensor, states: States<StateTensor>): States<StateTensor> =>
  Object.fromEntries(
    stateEntries(states).filter(
      ([, { dtype, dims, layout }]) =>
        dtype !== usual.dtype || !sameDims(dims, usual.dims) || !sameLayout(layout, usual.layout),
    ),
  )
