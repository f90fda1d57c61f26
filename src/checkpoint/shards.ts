/** Everything a step leaves to the next, rank by rank: which part of which whole tensor lies in which frame. */
import {
  type Coordinates,
  coordinatesOf,
  type Dim,
  elementsOf,
  flatAxes,
  heldElements,
  indexAlong,
  isMaster,
  type Layout,
  localDims,
  type Mesh,
  partAlong,
  partialAxes,
  partStart,
  type Rank,
  type StateName,
  sizeOfAll,
  splitOf,
  stateEntries,
  stateFacts,
  stateNames,
} from '../base/index.js'
import { type DType, masterFrame, type Param, type Program, type StateTensor, stateTensor } from '../ir/index.js'
import { type Box, elementsIn } from './box.js'

export interface Shard extends Box {
  /** 'param.NAME', or the name of a state and the parameter's: 'm.NAME'. */
  readonly tensor: string
  readonly rank: Rank
  /** Index into the frames of the rank's stream, and the elements of it before this part. */
  readonly frame: number
  readonly first: number
  readonly dtype: DType
  /** The dims of the whole tensor. A residual that each rank has its own of is stacked along `addend`, which comes first. */
  readonly dims: readonly Dim[]
  /** Whether this rank writes it: the first of all ranks that hold the same part does; no rank writes what is rounded from a master. */
  readonly written: boolean
  /** The tensor it is given where its own is not there, or not wanted. */
  readonly startsAs?: string
}

export function shardsOf(program: Program, rank: Rank): Shard[] {
  const at = coordinatesOf(program.mesh, rank)
  return program.params.flatMap(param => shardsOfParam(program.mesh, param, rank, at))
}

function shardsOfParam(mesh: Mesh, param: Param, rank: Rank, at: Coordinates): Shard[] {
  const { name, dtype, kept, keptInside } = param
  const frames = param.frames[at.pp ?? 0]
  if (!frames) return []
  const leads = Math.min(...Object.keys(param.frames).map(Number)) === (at.pp ?? 0)
  const shard = (tensor: string, frame: number, { layout, dims, dtype }: StateTensor, isKept = true): Shard => {
    const stacked = stackedBox(mesh, dims, layout, at)
    const written = isKept && leads && isFirst(at, layout) && elementsIn(stacked) > 0
    return { tensor, rank, frame, first: 0, dtype, ...stacked, written }
  }
  const tensor = { dtype, dims: param.dims, layout: kept }
  const own = shard(`param.${name}`, frames.param, tensor, masterFrame(frames) === undefined)
  return [
    keptInside ? { ...own, first: partStart(mesh, localDims(mesh, param.dims, kept), kept, at) } : own,
    ...stateEntries(frames.states).map(([state, frame]) => ({
      ...shard(`${tensorOf(state)}.${name}`, frame, stateTensor(param, state)),
      ...(stateFacts[state].startsFrom === 'parameter' && { startsAs: `param.${name}` }),
    })),
  ]
}

/** Of a partial tensor each rank along the partial axes holds an addend of its own: one entry of a stack of them. */
function stackedBox(
  mesh: Mesh,
  dims: readonly Dim[],
  layout: Layout,
  at: Coordinates,
): Box & { readonly dims: readonly Dim[] } {
  const [box, axes] = [boxOf(mesh, dims, layout, at), partialAxes(layout)]
  if (axes.length === 0) return { dims, ...box }
  const stack = { name: 'addend', size: sizeOfAll(mesh, axes) }
  return {
    ...box,
    dims: [stack, ...dims],
    start: [indexAlong(mesh, axes, at), ...box.start],
    shape: [1, ...box.shape],
  }
}

/** What the rank at `at` holds of a tensor. */
function boxOf(mesh: Mesh, dims: readonly Dim[], layout: Layout, at: Coordinates): Box {
  const local = localDims(mesh, dims, layout)
  const start = local.map(dim => partAlong(mesh, splitOf(layout, dim.name), dim, at).origin)
  const shape = local.map(({ size }) => size)
  if (!layout.flat) return { start, shape }
  const all = elementsOf(local)
  const begin = Math.min(all, partStart(mesh, local, layout, at))
  return { start, shape, line: [begin, Math.min(all, begin + heldElements(mesh, local, layout))] }
}

/** A master is the parameter, with more digits: whoever loads it may keep fewer. */
const tensorOf = (state: StateName): string => (isMaster(state) ? 'param' : state)

/** The states that a checkpoint holds as tensors of their own, and that start from nothing else. */
export const ownStates: readonly StateName[] = stateNames.filter(state => stateFacts[state].startsFrom === 'zeros')

/** At place 0 of every axis along which all ranks hold the same. */
function isFirst(at: Coordinates, layout: Layout): boolean {
  const split = new Set<string>([...Object.values(layout.splits).flat(), ...flatAxes(layout), ...partialAxes(layout)])
  return Object.entries(at).every(([axis, place]) => axis === 'pp' || split.has(axis) || place === 0)
}
