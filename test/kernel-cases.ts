/**
 * Random cases of every compute command, with what `engine/reference` says of them in f64. Sizes are odd, 1, just
 * around the widths of vectors, tiles and blocks, or 0. A result may differ by `bound` times its own size plus
 * `magnitude`: what the terms that were summed for it weigh.
 */
import { squaredLimit } from '../src/base/index.js'
import type { CommandName } from '../src/engine/native/index.js'
import { attention, attentionGrad, attentionMerge } from './kernel-attention.js'
import { draw, type KernelCase, type Make, reference } from './kernel-draw.js'
import { expertCases } from './kernel-experts.js'
import { adafactor, adafactorSquares, average, factorSquares } from './kernel-factors.js'
import {
  broadcast,
  dropout,
  embed,
  embedGrad,
  gelu,
  geluGrad,
  joinPart,
  matmul,
  matmulWith,
  norm,
  normInputGrad,
  normWeightGrad,
  rope,
  scale,
  sums,
  swiglu,
  swigluGrad,
} from './kernel-layers.js'
import { become, deduct, gramSchmidt } from './kernel-power.js'
import { guards, norms, rescale, scalar, take, unscale, weigh } from './kernel-scaler.js'
import { blend, frozenAdam } from './kernel-signs.js'
import { greatest, scatter } from './kernel-sparse.js'
import type { Tensor } from './tiny.js'

export type { KernelCase } from './kernel-draw.js'

const maxColumns: Make = ({ size, tensor }) => {
  const [r, c] = [size(), Math.max(1, size(257))]
  const x = tensor({ r, c })
  const [out] = reference({ kind: 'maxOver' }, [x], { r })
  return { command: 'maxColumns', ins: { x: x.values }, words: { rows: r, columns: c }, expected: { out }, bound: 0 }
}

/** Logits with their maxima and sums, as f32, and labels of which some are ignored or another rank's. */
function scored({ size, tensor, integers, pick }: ReturnType<typeof draw>) {
  const [n, vocab, origin] = [size(), Math.max(1, size(257, 1000)), pick([0, 30])]
  const logits = { ...tensor({ n, vocab }, 4), origin: { vocab: origin } }
  const rounded = (values: Float64Array): Tensor => ({
    dims: [{ name: 'n', size: n }],
    values: Float32Array.from(values),
  })
  const max = rounded(reference({ kind: 'maxOver' }, [logits], { n })[0])
  const sumExp = rounded(reference({ kind: 'sumExp' }, [logits, max], { n })[0])
  const labels = integers({ n }, 0, vocab + 40)
  const ignoring = Int32Array.from(labels.values, (label, i) => (i % 7 === 3 ? -100 : label))
  const words = { rows: n, columns: vocab, origin }
  return { n, vocab, logits, max, sumExp, labels: { ...labels, values: ignoring }, words }
}

const sumExp: Make = d => {
  const { n, vocab, logits, max } = scored(d)
  const [out] = reference({ kind: 'sumExp' }, [logits, max], { n })
  const ins = { x: logits.values, max: max.values }
  return { command: 'sumExp', ins, words: { rows: n, columns: vocab }, expected: { out }, bound: 1e-6 }
}

const pick: Make = d => {
  const { n, logits, labels, words } = scored(d)
  const [out] = reference({ kind: 'pick' }, [logits, labels], { n })
  return {
    command: 'pick',
    ins: { x: logits.values },
    ids: { labels: labels.values },
    words,
    expected: { out },
    bound: 0,
  }
}

const tokenLoss: Make = d => {
  const { n, max, sumExp, labels } = scored(d)
  const picked = d.tensor({ n })
  const [loss] = reference({ kind: 'tokenLoss' }, [max, sumExp, picked, labels], {})
  const ins = { max: max.values, sumExp: sumExp.values, picked: picked.values }
  return {
    command: 'tokenLoss',
    ins,
    ids: { labels: labels.values },
    words: { n },
    expected: { loss: n > 0 ? loss : [0] },
    bound: 1e-7,
  }
}

const tokenLossGrad: Make = d => {
  const { n, vocab, logits, max, sumExp, labels, words } = scored(d)
  const count: Tensor = { dims: [], values: [37] }
  const [dx] = reference({ kind: 'tokenLossGrad' }, [logits, max, sumExp, labels, count], { n, vocab })
  const ins = { x: logits.values, max: max.values, sumExp: sumExp.values, count: count.values }
  const ids = { labels: labels.values }
  return { command: 'tokenLossGrad', ins, ids, words, expected: { dx }, magnitude: 1e-20, bound: 3e-6 } // logits - max is rounded
}

const countLabels: Make = ({ size, integers }) => {
  const labels = integers({ n: size(500) }, -2, 3)
  const [count] = reference({ kind: 'countLabels' }, [labels], {})
  const words = { n: labels.values.length }
  return { command: 'countLabels', ins: {}, ids: { labels: labels.values }, words, expected: { count }, bound: 0 }
}

const squaredError: Make = ({ size, tensor }) => {
  const n = size(500)
  const [x, target] = [tensor({ n }), tensor({ n })]
  const [loss] = reference({ kind: 'squaredError' }, [x, target], {})
  const ins = { x: x.values, target: target.values }
  return { command: 'squaredError', ins, words: { n }, expected: { loss: n > 0 ? loss : [0] }, bound: 1e-7 }
}

const squaredErrorGrad: Make = ({ size, tensor }) => {
  const n = size(500)
  const [x, target, count] = [tensor({ n }), tensor({ n }), { dims: [], values: [29] }]
  const [dx] = reference({ kind: 'squaredErrorGrad' }, [x, target, count], { n })
  const ins = { x: x.values, target: target.values, count: count.values }
  return { command: 'squaredErrorGrad', ins, words: { n }, expected: { dx }, bound: 3e-7 }
}

const fill: Make = ({ size }) => {
  const n = size(500)
  return {
    command: 'fill',
    ins: {},
    words: { n, value: 2.5 },
    expected: { out: new Float64Array(n).fill(2.5) },
    bound: 0,
  }
}

const accumulate: Make = ({ size, tensor }) => {
  const n = size(500)
  const [x, out] = [tensor({ n }), tensor({ n })]
  const [sum] = reference({ kind: 'accumulate' }, [x], out)
  const initial = { out: out.values }
  return { command: 'accumulate', ins: { x: x.values }, initial, words: { n }, expected: { out: sum }, bound: 1e-7 }
}

const sumSquares: Make = ({ size, tensor }) => {
  const n = size(5000)
  const [x, out] = [tensor({ n }), { dims: [], values: [3] }]
  const [sum] = reference({ kind: 'sumSquares', once: [] }, [x], out)
  const given = { ins: { x: x.values }, initial: { out: out.values }, words: { n, times: 1 } }
  return { command: 'sumSquares', ...given, expected: { out: sum }, bound: 1e-7 }
}

const adamw: Make = ({ size, tensor, pick, chance }) => {
  const n = size(500)
  const [coupled, amsgrad, uncorrected, rate] = [chance(0.3), chance(0.3), chance(0.3), pick([1, 0.5])]
  const op = { beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1, clip: pick([0, 1, 100]), ...pick(guards), rate }
  const [grad, param, m, v, top] = Array.from({ length: 5 }, () => tensor({ n }))
  for (const { values } of [v, top]) for (let i = 0; i < n; i++) values[i] **= 2
  const [normSquared, lr, taken] = [scalar(pick(norms)), scalar(0.01), scalar(pick([0, 1, 1000]))]
  const held = amsgrad ? [param, m, v, top] : [param, m, v]
  const scalars = uncorrected ? [normSquared, lr] : [normSquared, lr, taken]
  const results = reference({ kind: 'adamw', ...op, coupled, amsgrad, uncorrected }, [grad, ...scalars], ...held)
  return {
    command: 'adamw',
    ins: {
      ...{ grad: grad.values, normSquared: normSquared.values, lr: lr.values },
      ...(!uncorrected && { taken: taken.values }),
    },
    initial: { param: param.values, m: m.values, v: v.values, ...(amsgrad && { top: top.values }) },
    words: {
      n,
      ...op,
      coupled: Number(coupled),
      limit: squaredLimit(op),
      ...(!amsgrad && { top: 0 }),
      ...(uncorrected && { taken: 0 }),
    },
    expected: { param: results[0], m: results[1], v: results[2], ...(amsgrad && { top: results[3] }) },
    magnitude: { param: 0.1, m: 1, v: 0, top: 0 },
    bound: 4e-7,
  }
}

const sgd: Make = ({ size, tensor, pick, chance }) => {
  const n = size(500)
  const kept = chance(0.6)
  const [nesterov, dampening, rate] = [kept && chance(0.5), pick([0, 0.5]), pick([1, 2])]
  const op = { momentum: kept ? 0.9 : 0, dampening, weightDecay: 0.1, clip: pick([0, 1]), ...pick(guards), rate }
  const [grad, param, m] = [tensor({ n }), tensor({ n }), tensor({ n })]
  const [normSquared, lr, taken] = [scalar(pick(norms)), scalar(0.1), scalar(pick([0, 3]))]
  const given = dampening > 0 ? [grad, normSquared, lr, taken] : [grad, normSquared, lr]
  const results = reference({ kind: 'sgd', ...op, nesterov }, given, ...(kept ? [param, m] : [param]))
  return {
    command: 'sgd',
    ins: { grad: grad.values, normSquared: normSquared.values, lr: lr.values, taken: taken.values },
    initial: { param: param.values, ...(kept && { m: m.values }) },
    words: { n, ...op, nesterov: Number(nesterov), limit: squaredLimit(op), ...(!kept && { m: 0 }) },
    expected: { param: results[0], ...(kept && { m: results[1] }) },
    magnitude: 1,
    bound: 4e-7,
  }
}

const lion: Make = ({ size, tensor, pick }) => {
  const n = size(500)
  const op = { beta1: 0.9, beta2: 0.99, weightDecay: 0.1, clip: pick([0, 1]), ...pick(guards), rate: pick([1, 2]) }
  const [grad, param, m] = [tensor({ n }), tensor({ n }), tensor({ n })]
  if (n > 0) [grad.values[0], m.values[0]] = [0, 0] // no sign at all
  const [normSquared, lr] = [scalar(pick(norms)), scalar(0.1)]
  const [moved, mean] = reference({ kind: 'lion', ...op }, [grad, normSquared, lr], param, m)
  return {
    command: 'lion',
    ins: { grad: grad.values, normSquared: normSquared.values, lr: lr.values },
    initial: { param: param.values, m: m.values },
    words: { n, ...op, limit: squaredLimit(op) },
    expected: { param: moved, m: mean },
    magnitude: 1,
    bound: 4e-7,
  }
}

const lambSettings = { beta1: 0.9, beta2: 0.999, eps: 1e-6, weightDecay: 0.1 }

const lambSquares: Make = ({ size, tensor, pick }) => {
  const n = size(500)
  const [grad, param, m, v] = Array.from({ length: 4 }, () => tensor({ n }))
  for (let i = 0; i < n; i++) v.values[i] **= 2
  const op = { ...lambSettings, clip: pick([0, 1]) }
  const [normSquared, taken] = [scalar(4), scalar(pick([0, 100]))]
  const ins = { grad, normSquared, taken, param, m, v }
  const results = reference({ kind: 'lambSquares', ...op }, Object.values(ins), {}, {})
  return {
    command: 'lambSquares',
    ins: Object.fromEntries(Object.entries(ins).map(([name, { values }]) => [name, values])),
    words: { n, ...op },
    expected: { paramSquared: results[0], stepSquared: results[1] },
    bound: 4e-6,
  }
}

const lamb: Make = ({ size, tensor, pick, chance }) => {
  const n = size(500)
  const [grad, param, m, v] = Array.from({ length: 4 }, () => tensor({ n }))
  for (let i = 0; i < n; i++) v.values[i] **= 2
  const always = chance(0.5)
  const op = { ...lambSettings, weightDecay: pick([0, 0.1]), clip: pick([0, 1]), ...pick(guards), rate: pick([1, 2]) }
  const numbers = {
    normSquared: pick(norms),
    lr: 0.01,
    taken: pick([0, 100]),
    paramSquared: pick([0, 9]),
    stepSquared: 4,
  }
  const scalars = Object.entries(numbers).map(([name, value]) => [name, scalar(value)] as const)
  const given = [grad, ...scalars.map(([, value]) => value)]
  const results = reference({ kind: 'lamb', ...op, always }, given, param, m, v)
  return {
    command: 'lamb',
    ins: { grad: grad.values, ...Object.fromEntries(scalars.map(([name, { values }]) => [name, values])) },
    initial: { param: param.values, m: m.values, v: v.values },
    words: { n, ...op, always: Number(always), limit: squaredLimit(op) },
    expected: { param: results[0], m: results[1], v: results[2] },
    magnitude: { param: 0.3, m: 1, v: 0 },
    bound: 4e-7,
  }
}

const muonMean: Make = ({ size, tensor, pick, chance }) => {
  const n = size(500)
  const [grad, m, normSquared] = [tensor({ n }), tensor({ n }), scalar(4)]
  const op = { momentum: 0.95, nesterov: chance(0.5), clip: pick([0, 1]) }
  const [direction] = reference({ kind: 'muonMean', ...op }, [grad, normSquared, m], { n })
  return {
    command: 'muonMean',
    ins: { grad: grad.values, normSquared: normSquared.values, m: m.values },
    words: { n, ...op, nesterov: Number(op.nesterov) },
    expected: { direction },
    magnitude: 1,
    bound: 4e-7,
  }
}

const normalise: Make = ({ size, values }) => {
  const n = size(500)
  const x = values(n)
  const norm = Math.max(Math.hypot(...x), 1e-7)
  return { command: 'normalise', ins: { x }, words: { n }, expected: { out: x.map(v => v / norm) }, bound: 4e-7 }
}

const muon: Make = ({ size, tensor, pick }) => {
  const n = size(500)
  const [grad, param, m, direction] = Array.from({ length: 4 }, () => tensor({ n }))
  const op = { momentum: 0.95, stretch: pick([1, 2]), weightDecay: 0.1, clip: pick([0, 1]), ...pick(guards), rate: 0.5 }
  const [normSquared, lr] = [scalar(pick(norms)), scalar(0.1)]
  const [moved, mean] = reference({ kind: 'muon', ...op }, [grad, normSquared, lr, direction], param, m)
  return {
    command: 'muon',
    ins: { grad: grad.values, normSquared: normSquared.values, lr: lr.values, direction: direction.values },
    initial: { param: param.values, m: m.values },
    words: { n, ...op, limit: squaredLimit(op) },
    expected: { param: moved, m: mean },
    magnitude: 1,
    bound: 4e-7,
  }
}

const copy: Make = ({ size, values, int }) => {
  const [rows, columns] = [size(), size()]
  const [strideOut, strideX] = [columns + int(2) * 3, columns + int(2) * 5]
  const [x, out] = [values(rows * strideX), values(rows * strideOut)]
  const result = Float64Array.from(out, (old, i) => {
    const [r, c] = [Math.floor(i / strideOut), i % strideOut]
    return c < columns ? x[r * strideX + c] : old
  })
  const words = { rows, columns, strideOut, strideX }
  return { command: 'copy', ins: { x }, initial: { out }, words, expected: { out: result }, bound: 0 }
}

const makers = {
  matmul,
  matmulWith,
  add: broadcast('add'),
  mul: broadcast('mul'),
  scale,
  sumRows: sums('sumRows'),
  sumColumns: sums('sumColumns'),
  gelu,
  geluGrad,
  swiglu,
  swigluGrad,
  layerNorm: norm('layerNorm'),
  layerNormInputGrad: normInputGrad('layerNormInputGrad'),
  layerNormWeightGrad: normWeightGrad('layerNormWeightGrad'),
  rmsNorm: norm('rmsNorm'),
  rmsNormInputGrad: normInputGrad('rmsNormInputGrad'),
  rmsNormWeightGrad: normWeightGrad('rmsNormWeightGrad'),
  joinPart: joinPart('joinPart'),
  joinGradPart: joinPart('joinGradPart'),
  rope,
  attention,
  attentionMerge,
  attentionGrad,
  dropout,
  embed,
  embedGrad,
  maxColumns,
  sumExp,
  pick,
  tokenLoss,
  tokenLossGrad,
  countLabels,
  squaredError,
  squaredErrorGrad,
  fill,
  accumulate,
  sumSquares,
  unscale,
  weigh,
  take,
  rescale,
  adamw,
  sgd,
  lion,
  lambSquares,
  lamb,
  average,
  deduct,
  become,
  blend,
  frozenAdam,
  gramSchmidt,
  greatest,
  scatter,
  factorSquares,
  adafactorSquares,
  adafactor,
  muonMean,
  normalise,
  muon,
  copy,
  ...expertCases,
} satisfies Partial<Record<CommandName, Make>>

export type ComputeCommand = keyof typeof makers
export const computeCommands = Object.keys(makers) as ComputeCommand[]

const made = new Map<string, KernelCase>()

/** The case of a command and a seed; made once, for all kernels that are held to it. */
export function kernelCase(command: ComputeCommand, seed: number): KernelCase {
  const key = `${command} ${seed}`
  const known = made.get(key) ?? makers[command](draw(seed, command))
  made.set(key, known)
  return known
}
