/**
 * Which layout a tensor should have, from the names of its dims alone. Every kind of parallelism is this mapping:
 * batch goes over the data axes, seq over cp (and over tp where nothing else of the tensor claims it, under sequence
 * parallelism), heads, ffn and vocab over tp. Nothing else in the compiler knows what an axis is for.
 */
import {
  type Axis,
  type Dim,
  gcd,
  type Layout,
  type Mesh,
  type MeshAxis,
  sizeOf,
  sizeOfAll,
  splitOf,
} from '../base/index.js'

export interface Sharded {
  readonly mesh: Mesh
  /** Axes (or their factors) of more than one rank, pp aside, major first: the order in which they split one dim. */
  readonly axes: readonly Axis[]
  readonly sequenceParallel: boolean
}

export const baseOf = (axis: Axis): MeshAxis => axis.split('.')[0] as MeshAxis // the part before the dot is the axis by construction

const major: readonly MeshAxis[] = ['dp', 'ep', 'cp', 'tp']

export const shardedOn = (mesh: Mesh, sequenceParallel: boolean): Sharded => {
  const axes = mesh.axes.filter(({ name, size }) => size > 1 && name !== 'pp').map(({ name }) => name)
  const place = (axis: Axis) => major.indexOf(baseOf(axis))
  // Factors: tp.0 is major, so names in order.
  return { mesh, axes: axes.sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1)), sequenceParallel }
}

/** For each axis the indices that may claim it, best first. `seq` comes last: a weight's dim is worth more than a token's. */
const claims: Readonly<Record<MeshAxis, readonly string[]>> = {
  pp: [],
  dp: ['batch'],
  ep: ['batch', 'expert'],
  cp: ['seq'],
  tp: ['kvHeads', 'group', 'ffn', 'vocab', 'seq'],
}

/** Lower is better; indices nobody named come after those that were. */
export function priority(axis: Axis, index: string): number {
  const place = claims[baseOf(axis)].indexOf(index)
  return place < 0 ? 100 : index === 'seq' && baseOf(axis) === 'tp' ? 200 : place
}

const tensorAxes = (s: Sharded): Axis[] => s.axes.filter(axis => baseOf(axis) === 'tp')

/** The axes a dim of this name would like to be split over. tp factored: tp.0 belongs to key-value heads, tp.1 to their groups. */
function liking(s: Sharded, dim: string): Axis[] {
  const tp = tensorAxes(s)
  const factored = tp.some(axis => axis.includes('.')) || (tp.length === 1 && tp[0] !== 'tp')
  if (dim === 'batch') return s.axes.filter(axis => baseOf(axis) === 'dp' || baseOf(axis) === 'ep')
  if (dim === 'ffn' || dim === 'vocab') return tp
  if (dim === 'kvHeads') return factored ? tp.filter(axis => axis === 'tp.0') : tp
  if (dim === 'group') return factored ? tp.filter(axis => axis === 'tp.1') : []
  return []
}

export type Purpose = 'value' | 'param' | 'input'

/** Parameters ignore batch and seq; data inputs ignore tp: every rank that shares a batch reads the same tokens. */
export function canonical(s: Sharded, dims: readonly Dim[], purpose: Purpose): Layout {
  const splits: Record<string, Axis[]> = {}
  const take = (dim: Dim, axes: readonly Axis[]) => {
    if (axes.length > 0 && dim.size % sizeOfAll(s.mesh, axes) === 0) splits[dim.name] = [...axes]
  }
  for (const dim of dims) {
    const axes = liking(s, dim.name)
    if (dim.name === 'batch' ? purpose !== 'param' : purpose !== 'input') take(dim, axes)
  }
  const claimed = Object.values(splits).some(axes => axes.some(axis => baseOf(axis) === 'tp'))
  const seq = dims.find(dim => dim.name === 'seq')
  if (seq && purpose !== 'param') {
    const cp = s.axes.filter(axis => baseOf(axis) === 'cp')
    take(seq, s.sequenceParallel && !claimed && purpose === 'value' ? [...cp, ...tensorAxes(s)] : cp)
  }
  return { splits, partial: {} }
}

/** The ZeRO layout: the data axes appended as minor axes to the first dim that divides, else the compute layout itself. */
export function storageOf(s: Sharded, dims: readonly Dim[], compute: Layout): Layout {
  const data = s.axes.filter(axis => baseOf(axis) !== 'tp')
  const ranks = sizeOfAll(s.mesh, data)
  const dim = dims.find(
    ({ name, size }) => ranks > 1 && size % (sizeOfAll(s.mesh, splitOf(compute, name)) * ranks) === 0,
  )
  return dim
    ? { ...compute, splits: { ...compute.splits, [dim.name]: [...splitOf(compute, dim.name), ...data] } }
    : compute
}

/** tp = tp.0 x tp.1 where key-value heads are too few for tp: tp.0 = gcd(tp, kvHeads). */
export function factorsOf(tp: number, kvHeads: number | undefined): { name: Axis; size: number }[] {
  const common = kvHeads === undefined ? tp : gcd(tp, kvHeads)
  if (common === tp) return [{ name: 'tp', size: tp }]
  return [
    { name: 'tp.1', size: tp / common }, // fastest first
    { name: 'tp.0', size: common },
  ]
}

export const wholeAxes = (s: Sharded, layout: Layout): Axis[] => {
  const used = new Set([...Object.values(layout.splits).flat(), ...Object.keys(layout.partial)])
  return s.axes.filter(axis => !used.has(axis) && sizeOf(s.mesh, axis) > 1)
}
