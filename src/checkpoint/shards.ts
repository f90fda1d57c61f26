/** Everything a step leaves to the next, rank by rank: which part of which whole tensor lies in which frame. */
import {
  type Coordinates,
  coordinatesOf,
  type Dim,
  type Layout,
  localDims,
  type Mesh,
  originOf,
  type Rank,
  type StateName,
  splitOf,
  stateEntries,
  stateFacts,
  stateNames,
} from '../base/index.js'
import { type DType, dtypeOfState, masterFrame, type Param, type Program } from '../ir/index.js'
import type { Box } from './box.js'

export interface Shard extends Box {
  /** 'param.NAME', or the name of a state and the parameter's: 'm.NAME'. */
  readonly tensor: string
  readonly rank: Rank
  /** Index into the frames of the rank's stream. */
  readonly frame: number
  readonly dtype: DType
  /** Of the whole. */
  readonly dims: readonly Dim[]
  /** Of all ranks that hold the same part the first writes it; what is rounded from a master nobody does. */
  readonly written: boolean
}

export function shardsOf(program: Program, rank: Rank): Shard[] {
  const at = coordinatesOf(program.mesh, rank)
  return program.params.flatMap(param => shardsOfParam(program.mesh, param, rank, at))
}

function shardsOfParam(mesh: Mesh, param: Param, rank: Rank, at: Coordinates): Shard[] {
  const { name, dims, dtype, kept, state } = param
  const frames = param.frames[at.pp ?? 0]
  if (!frames) return []
  const first = Math.min(...Object.keys(param.frames).map(Number)) === (at.pp ?? 0)
  const shard = (tensor: string, frame: number, layout: Layout, of: Pick<Shard, 'dtype' | 'written'>): Shard => {
    const local = localDims(mesh, dims, layout)
    const start = local.map(dim => originOf(mesh, layout, dim, at))
    return { tensor, rank, frame, dims, start, shape: local.map(({ size }) => size), ...of }
  }
  const writes = (layout: Layout) => first && leads(at, dims, layout)
  const ofState = { dtype: dtypeOfState(param), written: writes(state) }
  return [
    shard(`param.${name}`, frames.param, kept, { dtype, written: masterFrame(frames) === undefined && writes(kept) }),
    ...stateEntries(frames.states).map(([of, frame]) => shard(`${tensorOf(of)}.${name}`, frame, state, ofState)),
  ]
}

/** A master is the parameter, with more digits: whoever loads it may keep fewer. */
const tensorOf = (state: StateName): string => (stateFacts[state].startsFrom === 'parameter' ? 'param' : state)

/** The states that a checkpoint holds as tensors of their own. */
export const ownStates: readonly StateName[] = stateNames.filter(state => tensorOf(state) === state)

/** At place 0 of every axis the tensor is whole on. */
function leads(at: Coordinates, dims: readonly Dim[], layout: Layout): boolean {
  const split = new Set<string>(dims.flatMap(({ name }) => splitOf(layout, name)))
  return Object.entries(at).every(([axis, place]) => axis === 'pp' || split.has(axis) || place === 0)
}
