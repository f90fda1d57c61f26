/** The parameters of a model: which are alike, how each is laid out, who holds it, and the segments of its own. */
import { type Axis, baseOf, keptShare, type Layout, sizeOf, sizeOfAll, splitOf, type Wire } from '../base/index.js'
import { isFollower, type Model, type ParamSpec } from '../model/index.js'
import type { Plan } from '../plan/index.js'
import { type CompiledParam, type Dealt, type Facts, holdersOf, type ParamLayouts } from './compiled.js'
import { canonical, copyAxes, type ShardedMesh, storageOf } from './layouts.js'
import { shardedMeshOf } from './mesh.js'
import { paramDtypes } from './precision.js'
import { draftParam, type ParamDrafts } from './tail.js'

/** Parameters of one class (the same parameter of blocks of one kind) share layouts and segments. */
export function classesOf(model: Model): Map<string, string> {
  const classes = new Map<string, string>()
  for (const { kind, params } of model.blocks)
    for (const [local, name] of Object.entries(params)) if (!classes.has(name)) classes.set(name, `${kind}.${local}`)
  return classes
}

export function layoutsOfParams(model: Model, s: ShardedMesh, plan: Plan): Map<string, ParamLayouts> {
  const played = playedBy(model, plan)
  const classes = classesOf(model)
  const layouts = new Map(model.params.map(spec => [classes.get(spec.name)!, layoutsOfParam(spec, s)]))
  const inParts = [...layouts.values()].some(({ storage }) => storage.flat !== undefined)
  const { virtual } = plan.compress ?? {}
  const scatters = (virtual?.zero ?? plan.zero) >= 2 && plan.reduce === 'microbatch'
  return new Map(
    model.params.map(spec => {
      const { name } = spec
      const part = played.get(name) ?? {}
      const fresh = scatters && !isFollower(spec) && !spec.frozen && (inParts || part.dealt !== undefined)
      const own = { ...layouts.get(classes.get(name)!)!, fresh, ...(spec.track && { tracks: true as const }) }
      return [name, { ...own, ...part }]
    }),
  )
}

type Played = Pick<ParamLayouts, 'played' | 'dealt' | 'ranks'>

/**
 * Where one rank plays those of another plan: how these cut each parameter, and where they send codes of its gradient, or a part of it, how many
 * addends there are. Microbatches are dealt in turn.
 */
function playedBy({ params, dims: sizes }: Model, plan: Plan): Map<string, Played> {
  const wire: Wire = plan.compress ?? {}
  const ranks = plan.compress?.virtual
  if (!ranks) return new Map()
  const virtual = { ...plan, ...ranks }
  const s = shardedMeshOf(virtual, sizes)
  const ways = (axes: readonly Axis[]) => sizeOfAll(s.mesh, axes)
  const pieces = Math.max(1, Math.floor(plan.microbatches / ranks.microbatches))
  const playedOf = (spec: ParamSpec): Played => {
    const { storage } = layoutsOfParam(spec, s)
    const blocks = spec.dims.map(({ name }) => ways(splitOf(storage, name)))
    const isExact = isFollower(spec) || ranks.exact.includes(spec.name)
    const remembers = !isExact && (keptShare(wire, spec) !== undefined || wire.reduce === 'onebit')
    const dealt = dealtTo(s, spec, pieces)
    const { addends } = dealt
    const codes = !isExact && wire.reduce === 'int8' && storage.flat !== undefined
    return {
      ...(storage.flat && { played: { parts: ways(storage.flat), blocks } }),
      ...(remembers && { ranks: { addends, blocks } }),
      ...((codes || (remembers && !wire.waiting)) && { dealt }),
    }
  }
  return new Map(params.map(spec => [spec.name, playedOf(spec)]))
}

/** Ranks of dp that share experts add up what they make before it is sent: the axes along which they differ count for nothing. */
function dealtTo(s: ShardedMesh, { dims }: ParamSpec, pieces: number): Dealt {
  const axes = s.axes.filter(axis => baseOf(axis) === 'dp')
  const copies = copyAxes(s, dims)
  let [turns, addends] = [[0], 1]
  for (const axis of axes) {
    const [size, counts] = [sizeOf(s.mesh, axis), copies.includes(axis)]
    const places = Array.from({ length: size }, (_, i) => i)
    turns = turns.flatMap(turn => places.map(place => (counts ? turn * size + place : turn)))
    if (counts) addends *= size
  }
  return turns.length === pieces ? { addends, turns } : { addends: 1, turns: [0] }
}

/** What is counted for, and has no gradient, is small: every rank keeps it whole. */
function layoutsOfParam(spec: ParamSpec, s: ShardedMesh): Omit<ParamLayouts, 'fresh'> {
  const compute = canonical(s, spec.dims, 'param')
  return { compute, storage: isFollower(spec) ? compute : storageOf(s, spec.dims, compute) }
}

/** `gradients`: by class, the layouts they are accumulated in. */
export function draftParams(facts: Facts, gradients: ReadonlyMap<string, Layout>): CompiledParam[] {
  const { model, plan, layouts } = facts
  const classes = classesOf(model)
  const holders = holdersOfParams(facts)
  const made = new Map<string, ParamDrafts>()
  return model.params.map(spec => {
    const [of, on] = [classes.get(spec.name)!, holders.get(spec.name)!]
    const name = on.length > 1 ? `${of}@${on.join('.')}` : of
    const produced = gradients.has(of) ? { produced: gradients.get(of)! } : {}
    const own = { spec, ...paramDtypes(plan, spec), layouts: layouts.get(spec.name)!, holders: on }
    const segments = made.get(name) ?? draftParam({ name, ...own, ...produced }, facts)
    made.set(name, segments)
    return { ...own, of, segments }
  })
}

function holdersOfParams(facts: Facts): Map<string, number[]> {
  const stages = stagesOfParams(facts)
  const known = new Map<string, number[]>()
  const holdersAt = (at: readonly number[]) => {
    const holders = known.get(at.join()) ?? holdersOf(facts, at)
    known.set(at.join(), holders)
    return holders
  }
  return new Map([...stages].map(([name, at]) => [name, holdersAt(at)]))
}

function stagesOfParams({ model, stageOf }: Facts): Map<string, number[]> {
  const stages = new Map<string, number[]>()
  for (const [i, { params }] of model.blocks.entries())
    for (const name of Object.values(params)) stages.set(name, [...(stages.get(name) ?? []), stageOf[i]])
  return stages
}
