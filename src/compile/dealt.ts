/**
 * Muon's matrices are dealt out: alike ones of all layers of a stage are stacked, an exchange gives every rank whole ones of them, it makes them
 * orthogonal, and another exchange brings parts back to those who hold them. So each is made once, not by every rank that holds a part. The stack is
 * [matrix line]: the line of a tensor is what its ranks hold of it, one after the other.
 */
import {
  type Axis,
  flatAxes,
  heldElements,
  type Layout,
  type Lines,
  localDims,
  sizeOfAll,
  splitOf,
} from '../base/index.js'
import { directionTensor, type Muon, newtonSchulz } from './directions.js'
import type { ShardedMesh } from './layouts.js'
import { type SegmentDraft, SegmentWriter } from './segment.js'
import type { ParamClass } from './tail.js'

/** Who holds parts of a matrix, in the order of its line: those whose experts are others, those who split it, those who have copies. */
interface Cutting {
  readonly experts: readonly Axis[]
  readonly splits: readonly Axis[]
  readonly copies: readonly Axis[]
}

function cuttingOf({ dims }: ParamClass['spec'], storage: Layout): Cutting {
  const axesOf = (keep: (dim: string) => boolean) =>
    dims.flatMap(({ name }) => (keep(name) ? [...splitOf(storage, name)] : []))
  return {
    experts: axesOf(name => name === 'expert'),
    splits: axesOf(name => name !== 'expert'),
    copies: flatAxes(storage),
  }
}

/** Whether several ranks hold parts of a matrix. */
export function isShared({ spec, layouts }: ParamClass, { mesh }: ShardedMesh): boolean {
  const { splits, copies } = cuttingOf(spec, layouts.storage)
  return sizeOfAll(mesh, [...splits, ...copies]) > 1
}

/**
 * Over whom so many alike matrices are dealt: where there are more of them than copies, also over those who split them. Else these gather what
 * their copy was dealt: they would have nothing else to do.
 */
export function dealtOver({ spec, layouts }: ParamClass, { mesh }: ShardedMesh, matrices: number): readonly Axis[] {
  const { splits, copies } = cuttingOf(spec, layouts.storage)
  return matrices <= sizeOfAll(mesh, copies) ? copies : [...splits, ...copies]
}

/** One round: so many matrices, at most one for each rank. */
export function draftDeal(
  param: ParamClass,
  optimizer: Muon,
  s: ShardedMesh,
  count: number,
  over: readonly Axis[],
): SegmentDraft {
  const w = new SegmentWriter(s)
  const { spec, layouts } = param
  const { storage } = layouts
  const { experts, splits, copies } = cuttingOf(spec, storage)
  const at = (is: 'dealt' | 'direction', i: number) =>
    w.given(`${is} ${i}`, directionTensor(param, is), storage, {
      ...{ role: { is, of: String(i) }, kind: 'workspace', offset: 0 },
    }).ref
  const places = Array.from({ length: count }, (_, i) => i)
  const cut = [...experts, ...splits, ...copies]
  const line = heldElements(s.mesh, localDims(s.mesh, spec.dims, storage), storage) * sizeOfAll(s.mesh, cut)
  const inParts = layoutOf({ line: cut })
  const whole = layoutOf({ matrix: over, line: experts })
  const tensor = (name: string) => ({
    ...{ name, dtype: 'f32' as const },
    dims: [
      { name: 'matrix', size: sizeOfAll(s.mesh, over) },
      { name: 'line', size: line },
    ],
  })
  const stack = w.make('stack', tensor('stack'), inParts, 'workspace').ref
  w.emit({ kind: 'stack', ins: places.map(i => at('dealt', i)), outs: [stack] })
  const x = w.demand('stack', whole).ref
  const made = w.make('made', tensor('made'), whole, 'workspace').ref
  newtonSchulz(w, param, optimizer, [x, made], linesOf(param, s, experts))
  const back = w.demand('made', inParts).ref
  w.emit({ kind: 'unstack', ins: [back], outs: places.map(i => at('direction', i)) })
  return w.draft(dealName(param, count, over), 'update')
}

export const dealName = ({ name }: { readonly name: string }, count: number, over: readonly Axis[]): string =>
  `deal ${count} ${name} over ${over.join('+')}`

/** A layout says nothing of dims that are whole. */
const layoutOf = (splits: Layout['splits']): Layout => ({
  splits: Object.fromEntries(Object.entries(splits).filter(([, axes]) => axes.length > 0)),
  partial: {},
})

/** What a rank finds in a line: all of a tensor but other ranks' experts, in the blocks of those who split it. */
function linesOf({ spec, layouts }: ParamClass, { mesh }: ShardedMesh, experts: readonly Axis[]): Lines {
  const ways = (name: string) => sizeOfAll(mesh, splitOf(layouts.storage, name))
  return {
    dims: spec.dims.map(({ name, size }) => ({
      name,
      size: name === 'expert' ? size / sizeOfAll(mesh, experts) : size,
    })),
    blocks: spec.dims.map(({ name }) => (name === 'expert' ? 1 : ways(name))),
  }
}
