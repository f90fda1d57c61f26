/**
 * PowerSGD (Vogels et al. 2019): of a matrix M, a gradient with the error of the step before, two factors of few columns travel. P = M Q, with
 * the Q that the last step found, is summed over the ranks and made orthonormal; Q = M' P is summed; P Q' is the gradient of all. Each rank
 * keeps of its addend of M what its addend of Q does not bring, so that errors are addends too. Every step is linear in M where ranks
 * meet, so one rank computes the same.
 */
import { type Axis, type Combine, type Dim, factorsOf, type Layout, type States, splitOf } from '../base/index.js'
import type { StateTensor } from '../ir/index.js'
import type { ParamSpec } from '../model/index.js'
import type { SegmentWriter, Slot, Tensor, Version } from './segment.js'

const factorDim = (size: number): Dim => ({ name: 'factor', size })

/** What is kept of a parameter whose gradient travels as factors: the error as addends, lying as the gradient does. */
export const factorStates = (spec: ParamSpec, columns: number, produced: Layout): States<StateTensor> => ({
  error: { dtype: 'f32', dims: spec.dims, layout: produced },
  basis: { dtype: 'f32', dims: dimsOf(spec, columns).right, layout: wholeMatrices(spec, produced) },
})

const dimsOf = ({ dims, inputs }: ParamSpec, columns: number) => {
  const { rows, columns: across, mean } = factorsOf(dims, inputs)
  return { left: [...rows, factorDim(columns)], right: [...across, factorDim(columns)], each: mean }
}

/** Experts may lie on several ranks; each of their factors is whole. */
const wholeMatrices = ({ dims }: ParamSpec, { splits }: Layout): Layout => ({
  splits: dims.some(({ name }) => name === 'expert') && splits.expert ? { expert: splits.expert } : {},
  partial: {},
})

export interface Factoring {
  readonly w: SegmentWriter
  readonly spec: ParamSpec
  readonly columns: number
  /** The layout of the gradient's addends. */
  readonly produced: Layout
  /** The gradient of this rank; where that of all goes; where a state lies, and what it becomes. */
  readonly gradient: Version
  readonly sum: Slot
  readonly stateSlot: (state: 'error' | 'basis', is: 'state' | 'next') => Slot
}

/** Writes what brings a gradient to its sum, as far as factors do; returns the sum, and leaves what the states become. */
export function sendFactors({ w, spec, columns, produced, gradient, sum, stateSlot }: Factoring): Version {
  const { left, right } = dimsOf(spec, columns)
  const [ofLeft, ofRight] = [along(produced, left), along(produced, right)]
  const gathered = wholeMatrices(spec, produced)
  const tensor = (name: string, dims: readonly Dim[] = spec.dims): Tensor => ({ name, dtype: 'f32', dims })
  const orthonormal = (from: string, name: string, draws: boolean, dims: readonly Dim[], cut: Layout) => {
    const x = w.demand(from, gathered)
    const out = w.make(name, tensor(name, dims), gathered, 'workspace')
    const inputs = dims.length - 1 - (dims[0].name === 'expert' ? 1 : 0)
    w.emit({ kind: 'gramSchmidt', inputs, draws, ins: [x.ref], outs: [out.ref] })
    return w.demand(name, cut)
  }
  const error = w.given('error', tensor('error'), produced, stateSlot('error', 'state'))
  const rest = w.given('rest', tensor('rest'), produced, stateSlot('error', 'next'))
  w.emit({ kind: 'add', ins: [gradient.ref, error.ref], outs: [rest.ref] })
  w.given('basis', tensor('basis', right), gathered, stateSlot('basis', 'state'))
  const from = orthonormal('basis', 'start', true, right, ofRight)
  const seen = w.make('seen', tensor('seen', left), summedBeside(produced, ofLeft), 'workspace')
  w.emit({ kind: 'contract', ins: [rest.ref, from.ref], outs: [seen.ref] })
  const p = orthonormal('seen', 'p', false, left, ofLeft)
  const found = w.make('q', tensor('q', right), summedBeside(produced, ofRight), 'workspace')
  w.emit({ kind: 'contract', ins: [rest.ref, p.ref], outs: [found.ref] })
  const own = w.demand('q', { ...ofRight, partial: produced.partial })
  const all = w.demand('q', ofRight)
  w.settle(w.demand('q', gathered).ref, stateSlot('basis', 'next'))
  const made = w.given('sum', tensor('sum'), { ...produced, partial: {} }, sum)
  w.emit({ kind: 'contract', ins: [p.ref, all.ref], outs: [made.ref] })
  const sent = own === all ? made : w.make('sent', tensor('sent'), produced, 'workspace')
  if (own !== all) w.emit({ kind: 'contract', ins: [p.ref, own.ref], outs: [sent.ref] })
  w.emit({ kind: 'deduct', ins: [sent.ref], outs: [rest.ref] })
  return made
}

/** The splits of those dims that a factor has. */
const along = ({ splits }: Layout, dims: readonly Dim[]): Layout => ({
  splits: Object.fromEntries(Object.entries(splits).filter(([name]) => dims.some(dim => dim.name === name))),
  partial: {},
})

/** A product with a matrix, as it is made: a sum also over the axes that split what it is summed over. */
function summedBeside({ splits, partial }: Layout, kept: Layout): Layout {
  const lost = Object.keys(splits).filter(name => splitOf(kept, name).length === 0)
  const axes = lost.flatMap((name): readonly Axis[] => splits[name] ?? [])
  return { ...kept, partial: { ...partial, ...Object.fromEntries(axes.map(axis => [axis, 'sum' as Combine])) } }
}
