/** *lower*: what is done to parameters once a step. All of it element by element, so parts need not know that they are parts. */
import {
  type Clip,
  type Guard,
  hashName,
  type OptimizerKind,
  partStart,
  type Rate,
  type Rounding,
  scalerKinds,
  shapeOfMatrix,
  squaredLimit,
} from '../../../base/index.js'
import { firstIndex, partsOf, wholeDims } from '../../../geometry/index.js'
import type { Ref, Rules } from '../../../ir/index.js'
import { adafactor, adafactorSquares, factorSquares } from './adafactor.js'
import { blend } from './codes.js'
import { orthogonal, stack, unstack } from './orthogonal.js'
import { counterOf, refuse } from './shapes.js'
import { alike, dims, type Site, size } from './site.js'

/** What all optimizers are told. */
const updating = ({
  weightDecay,
  clip,
  rate = 1,
  limit = Number.POSITIVE_INFINITY,
}: { readonly weightDecay: number } & Clip & Guard & Rate) => ({
  ...{ weightDecay, clip, rate },
  limit: squaredLimit({ limit }),
})

/** Draws by name, step and the index of an element in the whole parameter, whatever part of it a rank updates. */
function dither(s: Site, param: Ref, { stochastic = false }: Rounding): void {
  if (!stochastic) return
  const { mesh, place } = s
  const { dims, layout, dtype } = s.buffer(param)
  if (dtype !== 'bf16') refuse(`${dtype} does not support stochastic rounding`)
  const { flat, ...block } = layout
  const [whole, parts] = [wholeDims(mesh, dims, block), partsOf(mesh, dims, block, place)]
  const { n0: _, ...counter } = counterOf(dims, whole, parts)
  const first = flat ? partStart(mesh, dims, layout, place) : 0
  const keys = { seed: s.seed >>> 0, name: hashName(s.param) }
  s.list.writeTimed('dither', { ...keys, first, ...counter, base: firstIndex(dims, parts, whole) })
}

/** Of a scaler that has no such number. */
const noNumbers = { backoff: 0, min: 0, hysteresis: 0, consecutive: 0 }

type Updates =
  | OptimizerKind
  | (
      | 'unscale'
      | 'weigh'
      | 'take'
      | 'lambSquares'
      | 'muonMean'
      | 'newtonSchulz'
      | 'stack'
      | 'unstack'
      | 'factorSquares'
      | 'adafactorSquares'
      | 'average'
      | 'deduct'
      | 'blend'
      | 'become'
      | 'gramSchmidt'
    )

export const optimizerRules: Pick<Rules<void, Site>, Updates> = {
  unscale: ({ ins: [scale], outs: [x] }, s) =>
    void s.list.write('unscale', { x: s.at(x), scale: s.at(scale), n: size(s, x) }),
  weigh: ({ ins: [normSquared, limit], outs: [weighed] }, s) =>
    void s.list.write('weigh', { weighed: s.at(weighed), normSquared: s.at(normSquared), limit: s.at(limit) }),
  take({ ins: [norm], outs: [taken, ...scalars], scaler, ...guard }, s) {
    const normSquared = s.at(norm)
    s.list.write('take', { taken: s.at(taken), normSquared, limit: squaredLimit(guard) })
    if (!scaler || scaler.kind === 'static') return
    const [scale, grown, hysteresis = 0] = scalars.map(ref => s.at(ref))
    const { growth, interval, backoff, min, hysteresis: full, consecutive } = { ...noNumbers, ...scaler }
    const kept = scaler.kind === 'megatron' ? Math.fround : Number
    const settings = { factor: kept(growth), backoff: kept(backoff), interval, min, full, consecutive }
    s.list.write('rescale', {
      ...{ scale, growth: grown, hysteresis, normSquared, scaler: scalerKinds.indexOf(scaler.kind), ...settings },
    })
  },
  adamw({ ins, outs: [param, m, v, top], beta1, beta2, eps, coupled = false, frozen = false, ...how }, s) {
    const [grad, normSquared, lr, taken = 0] = ins.map(ref => s.at(ref))
    dither(s, param, how)
    if (frozen) {
      const at = { param: s.at(param), m: s.at(m), v: s.at(v), grad, normSquared, lr }
      return void s.list.write('frozenAdam', { ...at, n: alike(s, [param, m, v, ins[0]]), eps, ...updating(how) })
    }
    s.list.write('adamw', {
      ...{ param: s.at(param), m: s.at(m), v: s.at(v), top: top === undefined ? 0 : s.at(top) },
      ...{ grad, normSquared, lr, taken, n: alike(s, [param, m, v, ins[0], ...(top ? [top] : [])]) },
      ...{ beta1, beta2, eps, coupled: Number(coupled), ...updating(how) },
    })
  },
  sgd({ ins, outs: [param, m], momentum, nesterov = false, dampening = 0, ...how }, s) {
    const [grad, normSquared, lr, taken = 0] = ins.map(ref => s.at(ref))
    dither(s, param, how)
    s.list.write('sgd', {
      ...{ param: s.at(param), m: m === undefined ? 0 : s.at(m), grad, normSquared, lr, taken },
      n: alike(s, [param, ins[0], ...(m ? [m] : [])]),
      ...{ momentum, nesterov: Number(nesterov), dampening, ...updating(how) },
    })
  },
  lambSquares({ ins, outs: [paramSquared, stepSquared], beta1, beta2, eps, weightDecay, clip }, s) {
    const [grad, normSquared, taken, param, m, v] = ins.map(ref => s.at(ref))
    s.list.write('lambSquares', {
      ...{ paramSquared: s.at(paramSquared), stepSquared: s.at(stepSquared), grad, normSquared, taken },
      ...{ param, m, v, n: alike(s, [ins[0], ...ins.slice(3)]), beta1, beta2, eps, weightDecay, clip },
    })
  },
  lamb({ ins, outs: [param, m, v], beta1, beta2, eps, always = false, ...how }, s) {
    const [grad, normSquared, lr, taken, paramSquared, stepSquared] = ins.map(ref => s.at(ref))
    dither(s, param, how)
    s.list.write('lamb', {
      ...{ param: s.at(param), m: s.at(m), v: s.at(v), grad, normSquared, lr, taken, paramSquared, stepSquared },
      ...{ n: alike(s, [param, m, v, ins[0]]), beta1, beta2, eps, always: Number(always), ...updating(how) },
    })
  },
  muonMean({ ins, outs: [direction], momentum, nesterov, clip }, s) {
    const [grad, normSquared, m] = ins.map(ref => s.at(ref))
    const at = { direction: s.at(direction), grad, normSquared, m, n: alike(s, [direction, ins[0], ins[2]]) }
    s.list.write('muonMean', { ...at, momentum, nesterov: Number(nesterov), clip })
  },
  newtonSchulz: orthogonal,
  stack,
  unstack,
  average({ ins, outs: [ema], decay, ...guard }, s) {
    const [value, normSquared, taken] = ins.map(ref => s.at(ref))
    const n = alike(s, [ema, ins[0]])
    s.list.write('average', { ema: s.at(ema), value, normSquared, taken, n, decay, limit: squaredLimit(guard) })
  },
  deduct: ({ ins: [x], outs: [out] }, s) =>
    void s.list.write('deduct', { out: s.at(out), x: s.at(x), n: alike(s, [out, x]) }),
  blend,
  become({ ins, outs: [state], ...guard }, s) {
    const [next, normSquared] = ins.map(ref => s.at(ref))
    const n = alike(s, [state, ins[0]])
    s.list.write('become', { state: s.at(state), next, normSquared, n, limit: squaredLimit(guard) })
  },
  gramSchmidt({ ins: [x], outs: [out], inputs, draws }, s) {
    const shape = shapeOfMatrix(dims(s, x), inputs)
    // Of the dims only that of experts may be cut.
    const first = s.parts(x)[0].origin * shape.rows * shape.columns
    const keys = { draws: Number(draws), seed: s.seed >>> 0, name: hashName(`basis.${s.param}`), first }
    s.list.write('gramSchmidt', { out: s.at(out), x: s.at(x), ...shape, ...keys })
  },
  factorSquares,
  adafactorSquares,
  adafactor: (instr, s) => adafactor(instr, updating(instr), s),
  muon({ ins, outs: [param, m], momentum, stretch = 1, ...how }, s) {
    const [grad, normSquared, lr, direction] = ins.map(ref => s.at(ref))
    const at = { param: s.at(param), m: s.at(m), grad, normSquared, lr, direction }
    dither(s, param, how)
    s.list.write('muon', { ...at, n: alike(s, [param, m, ins[0], ins[3]]), momentum, stretch, ...updating(how) })
  },
  lion({ ins, outs: [param, m], beta1, beta2, ...how }, s) {
    const [grad, normSquared, lr] = ins.map(ref => s.at(ref))
    const at = { param: s.at(param), m: s.at(m), grad, normSquared, lr, n: alike(s, [param, m, ins[0]]) }
    dither(s, param, how)
    s.list.write('lion', { ...at, beta1, beta2, ...updating(how) })
  },
}
