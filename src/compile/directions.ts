/**
 * What some optimizers must know of a whole parameter before its parts can be moved: LAMB how long it and its step are, Muon
 * its direction as an orthogonal matrix. Sums over parts and whole matrices are collectives that follow from layouts.
 */
import { type Layout, type Lines, type OptimizerOf, orthogonalRoom, shapeOfMatrix, whole } from '../base/index.js'
import type { Ref } from '../ir/index.js'
import type { Optimizer } from '../plan/index.js'
import { adafactor } from './adafactor.js'
import { type SegmentWriter, scalar } from './segment.js'
import { type Directed, summed, summedOver, type UpdateSite } from './summed.js'
import type { ParamClass } from './tail.js'

/** `isDealt`: others have made it orthogonal. */
export function directions(optimizer: Optimizer, weightDecay: number, site: UpdateSite, isDealt = false): Directed {
  const { lr: _, ...settings } = optimizer
  if (optimizer.kind === 'adafactor') return adafactor(optimizer, site)
  if (settings.kind === 'lamb') return { settings, given: lengths(settings, weightDecay, site) }
  if (settings.kind !== 'muon' || optimizer.kind !== 'muon') return { settings, given: [] }
  const { kind, momentum, adjust } = settings
  const stretch = stretchOf(site.param, adjust)
  return {
    settings: { kind, momentum, weightDecay: 0, ...(stretch !== 1 && { stretch }) },
    given: [isDealt ? directionBack(site) : orthogonal(optimizer, site)],
  }
}

/** The squared norms of the parameter and of its step, over all ranks that hold parts of it. */
function lengths({ beta1, beta2, eps }: OptimizerOf<'lamb'>, weightDecay: number, site: UpdateSite): readonly Ref[] {
  const { gradient, outs, scalars, clip } = site
  const ins = [gradient, scalars.normSquared, scalars.taken, ...outs]
  const settings = { beta1, beta2, eps, weightDecay, clip }
  const layout = summedOver(site, [])
  const named = (name: string) => ({ tensor: scalar(name), layout })
  const made = ['paramSquared', 'stepSquared'].map(named)
  return summed(site, made, outs => ({ kind: 'lambSquares', ...settings, ins, outs }))
}

export type Muon = Extract<Optimizer, { kind: 'muon' }>

/** Matrices of one rank, or whose state lives elsewhere, are made orthogonal whole by every rank that holds a part of them. */
function orthogonal(optimizer: Muon, site: UpdateSite): Ref {
  const { w, param, state, outs } = site
  const { spec } = param
  meanOf(optimizer, site, outs[1])
  const complete = wholeMatrices(state, spec.dims)
  const x = w.demand('mean', complete).ref
  const made = w.make('direction', directionTensor(param, 'direction'), complete, 'workspace').ref
  newtonSchulz(w, param, optimizer, [x, made])
  return w.demand('direction', state).ref
}

/** The mean of gradients that is about to be kept, as the state lies. */
export function meanOf(
  { momentum, nesterov }: Muon,
  { w, param, state, gradient, scalars, clip }: Omit<UpdateSite, 'outs'>,
  m: Ref,
): Ref {
  const mean = w.make('mean', directionTensor(param, 'mean'), state, 'workspace').ref
  w.emit({ kind: 'muonMean', momentum, nesterov, clip, ins: [gradient, scalars.normSquared, m], outs: [mean] })
  return mean
}

export const directionTensor = ({ spec }: ParamClass, name: string) => ({ ...spec, name, dtype: 'f32' as const })

/** `lines`: of a stack. */
export function newtonSchulz(
  w: SegmentWriter,
  { spec, dtype }: ParamClass,
  { steps }: Muon,
  [x, out]: readonly Ref[],
  lines?: Lines,
): void {
  const { inputs } = spec
  const size = orthogonalRoom(shapeOfMatrix(lines?.dims ?? spec.dims, inputs), lines)
  const room = w.make('room', { name: 'room', dtype: 'f32', dims: [{ name: 'room', size }] }, whole, 'workspace')
  const products = dtype === 'f32' ? 'f32' : 'bf16'
  w.emit({ kind: 'newtonSchulz', inputs, steps, products, ...(lines && { lines }), ins: [x], outs: [out, room.ref] })
}

/** As it came back from the rank that made it. */
function directionBack({ w, param, state }: UpdateSite): Ref {
  const slot = { role: { is: 'direction' }, kind: 'workspace', offset: 0 } as const
  w.given('direction', directionTensor(param, 'direction'), param.layouts.storage, slot)
  return w.demand('direction', state).ref
}

/** Experts may lie on several ranks; each of their matrices is whole. */
const wholeMatrices = ({ splits }: Layout, dims: ParamClass['spec']['dims']): Layout => ({
  splits: dims.some(({ name }) => name === 'expert') && splits.expert ? { expert: splits.expert } : {},
  partial: {},
})

function stretchOf({ spec }: ParamClass, adjust: 'shape' | 'rms'): number {
  const { rows: inputs, columns: outputs } = shapeOfMatrix(spec.dims, spec.inputs)
  return adjust === 'shape' ? Math.sqrt(Math.max(1, outputs / inputs)) : 0.2 * Math.sqrt(Math.max(outputs, inputs))
}
