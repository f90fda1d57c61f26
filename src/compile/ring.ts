/**
 * *ring*: attention whose keys go round. Every rank keeps its queries and sees the keys and values of one rank after the
 * other, along one axis or several read as one: at turn n those of the rank n before it. What it makes at a turn is a share; shares of outputs are merged by their
 * lse, those of gradients added up, after those of keys and values have gone home. All of it is ordinary instructions: the
 * next keys are sent for before the present ones are used, so that they travel meanwhile.
 */
import {
  type Axis,
  coordinatesAlong,
  type DimPart,
  type Layout,
  type Mesh,
  type Op,
  type OpOf,
  partAlong,
  sizeOfAll,
} from '../base/index.js'
import type { Compute, Ref } from '../ir/index.js'
import type { Value } from '../model/index.js'
import type { ElectedLayouts } from './elect.js'
import type { ShardedMesh } from './layouts.js'
import type { SegmentWriter, Tensor } from './segment.js'

/** An op of attention, its operands and results, and how they would lie if keys were gathered. */
export interface Attended {
  readonly s: ShardedMesh
  readonly writer: SegmentWriter
  readonly op: AttentionOp
  readonly ins: readonly Value[]
  readonly outs: readonly Value[]
  readonly elected: ElectedLayouts
}

type AttentionOp = OpOf<'attention' | 'attentionGrad'>

export const isAttention = (op: Op): op is AttentionOp => op.kind === 'attention' || op.kind === 'attentionGrad'

/** The operand that keys are; values follow. */
const firstKey: Readonly<Record<AttentionOp['kind'], number>> = { attention: 1, attentionGrad: 2 }

/** Writes the op, turn by turn. */
export const writeRing = (attended: Attended, axes: readonly Axis[]): void =>
  attended.op.kind === 'attention' ? new Ring(attended, axes).forward() : new Ring(attended, axes).backward()

class Ring {
  readonly #of: Attended
  readonly #axes: readonly Axis[]
  readonly #turns: readonly number[]
  readonly #keys: readonly Value[]

  constructor(of: Attended, axes: readonly Axis[]) {
    this.#of = of
    this.#axes = axes
    const first = firstKey[of.op.kind]
    this.#keys = of.ins.slice(first, first + 2)
    const seq = this.#keys[0].dims.find(({ name }) => name === 'seq')?.size ?? 1
    this.#turns = turnsSeen(of.s.mesh, axes, seq, of.op.window)
  }

  forward(): void {
    const { op, outs, elected } = this.#of
    const [q, ...positions] = this.#beside()
    let sum: readonly Ref[] | undefined
    for (const { turn, keys, last } of this.#around()) {
      const whole = last && sum === undefined
      const layouts = elected.outs.map(layout => this.#share(layout, [turn]))
      const share = outs.map((value, i) => this.#make(value, layouts[i], whole, `turn${turn}`))
      this.#emit(op, [q, ...keys, ...positions], share)
      sum = sum === undefined ? share : this.#merge(sum, share, turn)
    }
  }

  backward(): void {
    const { op, outs, elected } = this.#of
    const [dout, q, ...finished] = this.#beside()
    const [ofQueries, ...ofKeys] = elected.outs
    const homes = ofKeys.map(layout => this.#own(layout))
    let queries: Ref | undefined
    let own: readonly Ref[] | undefined
    let arriving: Arriving | undefined
    for (const { turn, keys, last } of this.#around()) {
      const whole = last && queries === undefined
      const dq = this.#make(outs[0], this.#share(ofQueries, [turn]), whole, `turn${turn}`)
      const turned = homes.map(layout => this.#share(this.#turned(layout, turn), [turn]))
      const dkv = outs.slice(1).map((value, i) => this.#make(value, turned[i], whole, `turn${turn}`))
      this.#emit(op, [dout, q, ...keys, ...finished], [dq, ...dkv])
      queries = queries === undefined ? dq : this.#add(outs[0], ofQueries, [queries, dq], turn)
      if (own && arriving) own = this.#addOwn(homes, own, arriving)
      arriving = own && { turn, refs: this.#shift(outs.slice(1), dkv, turned, -turn) }
      own ??= dkv
    }
    if (own && arriving) this.#addOwn(homes, own, arriving)
  }

  /** Keys and values turn by turn; the next are under way while these are used. */
  *#around(): Generator<{ turn: number; keys: readonly Ref[]; last: boolean }> {
    const { writer, ins, elected } = this.#of
    const layouts = this.#keys.map(value => this.#own(elected.ins[ins.indexOf(value)]))
    let keys: readonly Ref[] = this.#keys.map((value, i) => writer.demand(String(value.id), layouts[i]).ref)
    for (const [i, turn] of this.#turns.entries()) {
      const next = this.#turns.at(i + 1)
      const now = layouts.map(layout => this.#turned(layout, turn))
      const following = next === undefined ? keys : this.#shift(this.#keys, keys, now, next - turn)
      yield { turn, keys, last: next === undefined }
      keys = following
    }
  }

  /** The operands that do not go round. */
  #beside(): Ref[] {
    const { writer, ins, elected, op } = this.#of
    const first = firstKey[op.kind]
    return ins.flatMap(({ id }, i) =>
      i < first || i > first + 1 ? [writer.demand(String(id), elected.ins[i]).ref] : [],
    )
  }

  /** A layout in which keys are gathered, or partial where they are split, with those of one rank instead. */
  #own({ splits, partial }: Layout): Layout {
    const sums = Object.entries(partial).filter(([axis]) => !this.#axes.some(name => name === axis))
    return { splits: { ...splits, seq: this.#axes }, partial: Object.fromEntries(sums) }
  }

  #turned(layout: Layout, turn: number): Layout {
    const { turn: _, ...home } = layout
    return turn === 0 ? home : { ...home, turn: { axes: this.#axes, by: turn } }
  }

  #share(layout: Layout, held: readonly number[]): Layout {
    const needed = this.#turns
    return held.length === needed.length ? layout : { ...layout, shares: { axes: this.#axes, held, needed } }
  }

  /** Turns up to and with this one. */
  #until(turn: number): readonly number[] {
    return this.#turns.slice(0, this.#turns.indexOf(turn) + 1)
  }

  /** What is the value itself is known as such to whoever asks for it later. */
  #make(value: Value, layout: Layout, isValue: boolean, word: string): Ref {
    const tensor: Tensor = isValue ? value : { ...value, name: `${value.name}.${word}` }
    const key = isValue ? String(value.id) : `${value.id} ${word}`
    return this.#of.writer.make(key, tensor, layout, 'activations').ref
  }

  #emit(op: AttentionOp, ins: readonly Ref[], outs: readonly Ref[]): void {
    this.#of.writer.emit({ ...op, ins, outs })
  }

  #sum(value: Value, layout: Layout, turn: number): Ref {
    const held = this.#until(turn)
    return this.#make(value, this.#share(layout, held), held.length === this.#turns.length, `until${turn}`)
  }

  #merge(sum: readonly Ref[], share: readonly Ref[], turn: number): readonly Ref[] {
    const { outs, elected, writer } = this.#of
    const merged = outs.map((value, i) => this.#sum(value, elected.outs[i], turn))
    writer.emit({ kind: 'attentionMerge', ins: [...sum, ...share], outs: merged })
    return merged
  }

  #add(value: Value, layout: Layout, ins: readonly Ref[], turn: number): Ref {
    const out = this.#sum(value, layout, turn)
    const add: Compute = { kind: 'add', ins, outs: [out] }
    this.#of.writer.emit(add)
    return out
  }

  #addOwn(layouts: readonly Layout[], own: readonly Ref[], { turn, refs }: Arriving): readonly Ref[] {
    return this.#of.outs.slice(1).map((value, i) => this.#add(value, layouts[i], [own[i], refs[i]], turn))
  }

  #shift(values: readonly Value[], ins: readonly Ref[], layouts: readonly Layout[], by: number): readonly Ref[] {
    const { writer, s } = this.#of
    const size = sizeOfAll(s.mesh, this.#axes)
    const outs = values.map((value, i) => {
      const turn = ((layouts[i].turn?.by ?? 0) + by + size) % size
      return this.#make(value, this.#turned(layouts[i], turn), false, turn === 0 ? 'home' : `turn${turn}`)
    })
    writer.emit({ kind: 'shift', ins, outs, by, group: { axes: this.#axes } })
    writer.emit({ kind: 'wait', on: outs[0] })
    return outs
  }
}

/** Gradients of keys and values that are on their way home. */
interface Arriving {
  readonly turn: number
  readonly refs: readonly Ref[]
}

/** The turns at which some rank has a query that sees a key: of documents that are cut one by one and may be short, all. */
function turnsSeen(mesh: Mesh, axes: readonly Axis[], seq: number, window = Infinity): number[] {
  const ranks = sizeOfAll(mesh, axes)
  if (mesh.zigzag?.documents) return Array.from({ length: ranks }, (_, turn) => turn)
  const runs = Array.from({ length: ranks }, (_, rank) => runsOf(mesh, axes, seq / ranks, rank))
  const sees = (query: Run, key: Run) => key.first <= query.last && query.first - key.last < window
  const seen = (turn: number) =>
    runs.some((queries, rank) => {
      const keys = runs[(rank + ranks - turn) % ranks]
      return queries.some(query => keys.some(key => sees(query, key)))
    })
  return Array.from({ length: ranks }, (_, turn) => turn).filter(seen)
}

interface Run {
  readonly first: number
  readonly last: number
}

function runsOf(mesh: Mesh, axes: readonly Axis[], size: number, rank: number): Run[] {
  const at = coordinatesAlong(mesh, axes, rank)
  const { origin, until, gap }: DimPart = partAlong(mesh, axes, { name: 'seq', size }, at)
  const early = { first: origin, last: origin + until - 1 }
  return until < size ? [early, { first: origin + until + gap, last: origin + gap + size - 1 }] : [early]
}
