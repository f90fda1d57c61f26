/** Cases of 1-bit Adam: a rank's addend of the mean, its signs, and the update of which v stands still. */
import { squaredLimit } from '../src/base/index.js'
import { type Make, reference } from './kernel-draw.js'
import { guards, norms, scalar } from './kernel-scaler.js'

export const blend: Make = ({ size, tensor, pick }) => {
  const n = size(5000)
  const [m, grad, how] = [tensor({ n }), tensor({ n }), { beta1: 0.9, ranks: pick([1, 2, 8]) }]
  const [expected] = reference({ kind: 'blend', ...how }, [m], grad)
  return {
    ...{ command: 'blend', initial: { grad: grad.values }, ins: { m: m.values } },
    words: { n, share: how.beta1 / how.ranks, rest: 1 - how.beta1 },
    ...{ expected: { grad: expected }, magnitude: 1, bound: 2e-7 },
  }
}

export const frozenAdam: Make = ({ size, tensor, pick }) => {
  const n = size(500)
  const op = { eps: 1e-8, weightDecay: 0.1, clip: pick([0, 1, 100]), ...pick(guards), rate: pick([1, 0.5]) }
  const [grad, param, m, v] = Array.from({ length: 4 }, () => tensor({ n }))
  // Some never had a gradient.
  for (let i = 0; i < n; i++) v.values[i] = i % 5 === 0 ? 0 : v.values[i] ** 2 + 1e-3
  const [normSquared, lr] = [scalar(pick(norms)), scalar(0.01)]
  const told = { kind: 'adamw', beta1: 0.9, beta2: 0.95, uncorrected: true, frozen: true, ...op } as const
  const [moved, mean] = reference(told, [grad, normSquared, lr], param, m, v)
  return {
    ...{ command: 'frozenAdam', initial: { param: param.values, m: m.values } },
    ins: { grad: grad.values, normSquared: normSquared.values, lr: lr.values, v: v.values },
    words: { n, ...op, limit: squaredLimit(op) },
    ...{ expected: { param: moved, m: mean }, magnitude: { param: 0.3, m: 1 }, bound: 4e-7 },
  }
}
