/**
 * Which layout a tensor should have, from the names of its dims alone. Every kind of parallelism is this mapping, and the
 * table of axes says which dims go over which axis: batch over the data axes, heads, ffn and vocab over tp, seq over cp
 * (and over tp where nothing else of the tensor claims it, under sequence parallelism).
 */
import {
  type Axis,
  baseOf,
  byMajor,
  claimOf,
  type Dim,
  factsOf,
  flatAxes,
  type Layout,
  type Mesh,
  sizeOf,
  sizeOfAll,
  splitsDim,
  tokenDims,
} from '../base/index.js'
import { contextOf, type Plan } from '../plan/index.js'

export interface ShardedMesh {
  readonly mesh: Mesh
  /** Axes (or their factors) of more than one rank, pp aside, major first: the order in which they split one dim. */
  readonly axes: readonly Axis[]
  readonly sequenceParallel: boolean
  /** Of these, those whose ranks are replicas of a sharded group (HSDP). */
  readonly replicas: readonly Axis[]
  /** How experts see these axes. */
  readonly experts: ExpertAxes
  /** The axes along which, read as one, keys and values go round in attention; major first. */
  readonly ring?: readonly Axis[]
}

/** Axes whose ranks hold different experts, and those whose ranks split each of them; on the others experts are whole. */
export interface ExpertAxes {
  readonly ep: readonly Axis[]
  readonly etp: readonly Axis[]
}

export const shardedOn = (
  mesh: Mesh,
  plan: Pick<Plan, 'sequenceParallel' | 'cp' | 'attention'>,
  experts: ExpertAxes = { ep: [], etp: [] },
  replicas: readonly Axis[] = [],
): ShardedMesh => {
  const axes = mesh.axes.filter(({ name, size }) => size > 1 && name !== 'pp').map(({ name }) => name)
  const { sequenceParallel } = plan
  const around = axes.filter(axis => baseOf(axis) === 'cp' && claimOf(axis) === undefined)
  const byOrder = (list: readonly Axis[]) => [...list].sort(byMajor)
  return {
    ...{ mesh, axes: byOrder(axes), replicas, sequenceParallel },
    experts: { ep: byOrder(experts.ep), etp: byOrder(experts.etp) },
    ...(contextOf(plan).ring && around.length > 0 && { ring: byOrder(around) }),
  }
}

/** An index that is split over the axis only where nothing else claims it: a weight's dim is worth more than a token's. */
export const isSpare = (axis: Axis, index: string): boolean => factsOf(axis).spare === index

/** Lower is better; indices nobody named come after those that were, and the spare one last. */
export function priority(axis: Axis, index: string): number {
  const place = factsOf(axis).dims.indexOf(index)
  return place >= 0 ? place : isSpare(axis, index) ? 200 : 100
}

export type Purpose = 'value' | 'param' | 'input'

/** Parameters ignore batch and seq; data inputs ignore tp: every rank that shares a batch reads the same tokens. */
export function canonical(s: ShardedMesh, dims: readonly Dim[], purpose: Purpose): Layout {
  const splits: Record<string, readonly Axis[]> = {}
  const claimed = () => Object.values(splits).flat()
  const take = (dim: Dim, axes: readonly Axis[]) => {
    const all = [...(splits[dim.name] ?? []), ...axes]
    if (axes.length > 0 && dim.size % sizeOfAll(s.mesh, all) === 0) splits[dim.name] = all
  }
  for (const dim of dims) {
    if (purpose === 'param' && tokenDims.includes(dim.name)) continue
    if (dim.name === 'expert') take(dim, s.experts.ep)
    if (dim.name === 'expertFfn') take(dim, s.experts.etp)
    const free = s.axes.filter(axis => !claimed().includes(axis) && (purpose !== 'input' || factsOf(axis).data))
    take(
      dim,
      free.filter(axis => splitsDim(axis, dim.name)),
    )
  }
  if (s.sequenceParallel && purpose === 'value') {
    const free = s.axes.filter(axis => !claimed().map(baseOf).includes(baseOf(axis)))
    for (const dim of dims)
      take(
        dim,
        free.filter(axis => isSpare(axis, dim.name)),
      )
  }
  return { splits, partial: {} }
}

/** A sum over tokens: every rank has that of its own. */
export function termLayout(s: ShardedMesh, sizes: Readonly<Record<string, number>>): Layout {
  const tokens = tokenDims.filter(name => name in sizes).map(name => ({ name, size: sizes[name] }))
  const axes = Object.values(canonical(s, tokens, 'value').splits).flat()
  return { splits: {}, partial: Object.fromEntries(axes.map(axis => [axis, 'sum'])) }
}

/** Axes whose ranks hold the same parameters and see other tokens. */
const dataAxes = (s: ShardedMesh): Axis[] => s.axes.filter(axis => factsOf(axis).data)

/** Those over which ranks compute with the same of a parameter, on different tokens: of experts whatever does not split them. */
export const copyAxes = (s: ShardedMesh, dims: readonly Dim[]): Axis[] => {
  const { ep, etp } = s.experts
  return dims.some(({ name }) => name === 'expert')
    ? s.axes.filter(axis => ![...ep, ...etp].includes(axis))
    : dataAxes(s)
}

/** The ZeRO layout: what a rank computes with, as one line in equal parts over the axes along which there are copies, replicas aside. */
export function storageOf(s: ShardedMesh, dims: readonly Dim[], compute: Layout): Layout {
  const flat = copyAxes(s, dims).filter(axis => !s.replicas.includes(axis))
  return flat.length > 0 ? { ...compute, flat } : compute
}

export const wholeAxes = (s: ShardedMesh, layout: Layout): Axis[] => {
  const used = new Set([...Object.values(layout.splits).flat(), ...flatAxes(layout), ...Object.keys(layout.partial)])
  return s.axes.filter(axis => !used.has(axis) && sizeOf(s.mesh, axis) > 1)
}
