/**
 * Adafactor keeps of a matrix the means of squares of its rows, of its columns and of all of it, in f32: they lie as rows and columns do,
 * whole on every rank that holds a part of a line. What is a vector has a mean of squares for each element.
 */
import { elementsOf, factorsOf, type Layout, roleFacts, type States, shapeOfMatrix } from '../base/index.js'
import type { Ref, StateTensor } from '../ir/index.js'
import type { ParamSpec } from '../model/index.js'
import type { Optimizer } from '../plan/index.js'
import { scalar } from './segment.js'
import { type Directed, summed, summedOver, type UpdateSite } from './summed.js'

type Settings = Extract<Optimizer, { kind: 'adafactor' }>

/** What an optimizer is told of the parameter that it moves. */
export const settled = (optimizer: Optimizer, spec: ParamSpec): Optimizer & { readonly inputs?: number } =>
  optimizer.kind === 'adafactor' && isMatrix(spec) ? { ...optimizer, inputs: spec.inputs } : optimizer

/** Biases of several dims are vectors all the same. */
function isMatrix({ dims, inputs, role }: ParamSpec): boolean {
  const { rows, columns, mean } = factorsOf(dims, inputs)
  return roleFacts[role].decays && rows.length > mean.length && columns.length > mean.length
}

/** The states that are not as their parameter is. */
export function ownTensors(optimizer: Optimizer, spec: ParamSpec, layout: Layout): States<StateTensor> {
  if (optimizer.kind !== 'adafactor') return {}
  const { dims, inputs } = spec
  if (!isMatrix(spec)) return { v: { dtype: 'f32', dims, layout } }
  const tensors = Object.entries(factorsOf(dims, inputs)).map(([state, own]) => {
    const splits = Object.entries(layout.splits).filter(([name]) => own.some(dim => dim.name === name))
    return [state, { dtype: 'f32', dims: own, layout: { splits: Object.fromEntries(splits), partial: {} } }]
  })
  return Object.fromEntries(tensors)
}

export function adafactor(optimizer: Settings, site: UpdateSite): Directed {
  const { param, gradient, outs, scalars, clip } = site
  const { spec } = param
  const { lr: _, ...settings } = optimizer
  const { beta2Decay, eps1 } = settings
  const ofMatrix = isMatrix(spec) ? { inputs: spec.inputs } : {}
  const means = isMatrix(spec) ? meansOf(site) : []
  const ins = [gradient, scalars.normSquared, scalars.taken, ...outs, ...means]
  const lengths = ['paramSquared', 'stepSquared'].map(name => ({ tensor: scalar(name), layout: summedOver(site, []) }))
  const squares = summed(site, lengths, outs => ({
    ...{ kind: 'adafactorSquares', beta2Decay, eps1, ...ofMatrix, clip, ins, outs },
  }))
  return { settings: { ...settings, ...ofMatrix, elements: elementsOf(spec.dims) }, given: [...squares, ...means] }
}

/** Of the squares of the gradient, over all ranks that hold parts of it. */
function meansOf(site: UpdateSite): readonly Ref[] {
  const { param, gradient, scalars, clip } = site
  const { dims, inputs } = param.spec
  const names = { rows: 'rowMeans', columns: 'columnMeans', mean: 'meanSquare' } as const
  const factors = factorsOf(dims, inputs)
  const means = (['rows', 'columns', 'mean'] as const).map(of => ({
    tensor: { name: names[of], dtype: 'f32' as const, dims: factors[of] },
    layout: summedOver(site, factors[of]),
  }))
  const { rows, columns } = shapeOfMatrix(dims, inputs)
  const ins = [gradient, scalars.normSquared]
  return summed(site, means, outs => ({ kind: 'factorSquares', inputs, rows, columns, clip, ins, outs }))
}
