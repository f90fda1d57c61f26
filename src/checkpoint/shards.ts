/** Everything a step leaves to the next, rank by rank: which part of which whole tensor lies in which frame. */
import {
  addendsIn,
  type Coordinates,
  coordinatesOf,
  type Dim,
  elementsOf,
  flatAxes,
  groupOf,
  heldElements,
  isMaster,
  type Layout,
  localDims,
  type Mesh,
  partAlong,
  partialAxes,
  partStart,
  type Rank,
  type StateName,
  splitOf,
  stateEntries,
  stateFacts,
  stateNames,
  summedDims,
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
  /** The dims of the whole. */
  readonly dims: readonly Dim[]
  /** Whether this rank writes it: the first of all ranks that hold the same part does; nobody writes what is rounded from a master. */
  readonly written: boolean
  /** Where ranks hold addends: all that do, the first of whom writes the sum and is given it. */
  readonly addends?: readonly Rank[]
  /** Where one rank has several addends side by side: how many, whose sum is written and given to the first. */
  readonly side?: number
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
  const shard = (tensor: string, frame: number, { layout, dims: all, dtype }: StateTensor, isKept = true): Shard => {
    const [dims, side] = [summedDims(all), addendsIn(all)]
    const box = boxOf(mesh, dims, layout, at)
    const written = isKept && leads && isFirst(at, layout) && elementsIn(box) > 0
    const axes = partialAxes(layout)
    const addends = axes.length > 0 && { addends: groupOf(mesh, rank, axes) }
    return { tensor, rank, frame, first: 0, dims, dtype, ...box, written, ...addends, ...(side > 1 && { side }) }
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

/** The same of each addend that lies beside it. */
export const besides = ({ side = 1, ...shard }: Shard): Shard[] =>
  Array.from({ length: side }, (_, i) => ({ ...shard, first: shard.first + i * elementsIn(shard) }))

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

/** At place 0 of every axis the tensor is whole on. */
function isFirst(at: Coordinates, layout: Layout): boolean {
  const split = new Set<string>([...Object.values(layout.splits).flat(), ...flatAxes(layout)])
  return Object.entries(at).every(([axis, place]) => axis === 'pp' || split.has(axis) || place === 0)
}
