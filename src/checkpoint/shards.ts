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
  splitOf,
} from '../base/index.js'
import { type DType, dtypeOfState, type Param, type Program } from '../ir/index.js'
import type { Box } from './box.js'

export interface Shard extends Box {
  /** 'param.NAME', 'm.NAME' or 'v.NAME'. */
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

export const moments = ['m', 'v'] as const

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
  const { master } = frames
  return [
    shard(`param.${name}`, frames.param, kept, { dtype, written: master === undefined && writes(kept) }),
    ...(master === undefined
      ? []
      : [shard(`param.${name}`, master, state, { dtype: 'f32' as const, written: writes(state) })]),
    ...frames.moments.map((frame, i) =>
      shard(`${moments[i]}.${name}`, frame, state, { dtype: dtypeOfState(param), written: writes(state) }),
    ),
  ]
}

/** At place 0 of every axis the tensor is whole on. */
function leads(at: Coordinates, dims: readonly Dim[], layout: Layout): boolean {
  const split = new Set<string>(dims.flatMap(({ name }) => splitOf(layout, name)))
  return Object.entries(at).every(([axis, place]) => axis === 'pp' || split.has(axis) || place === 0)
}
