/**
 * Every op in one place: the dims of its results, its gradient, and how it may be split.
 *
 * *Sharding.* An op is a formula over indices; an index is a dim's name unless `indices` says otherwise (the keys of
 * attention run over their own `keys`, not over the queries' `seq`). An index missing from a result is summed there
 * (`max` for maxOver). `fixed` indices cannot be split. `linear` lists sets of operands in which the op is linear: if a
 * whole set holds partial sums over an axis and nobody else is split there, the result is a partial sum too.
 * Ops that are linear in a gradient but also feed a weight's gradient (the norms) are left out of `linear` on purpose:
 * resolving the partial sum once serves both.
 *
 * *Gradient.* `vjp` is given the gradients of the results (undefined: nobody asked) and returns pairs (value, gradient).
 */
import { blockDims, type Op, type OpKind, ropeDims } from '../base/index.js'
import { gradientsOfScaled } from './codes.js'
import { expertRules } from './expert-ops.js'
import type { Value } from './graph.js'
import {
  type Backward,
  type Dims,
  type Gradients,
  like,
  names,
  none,
  one,
  type Rule,
  type Sharding,
  scalar,
  wanted,
} from './rule.js'

export type { Backward, Dims, Sharding }

/** The operand with most dims, which must hold all the others' dims. */
function broadcast(ins: readonly Dims[]): Dims[] {
  const widest = ins.reduce((a, b) => (b.length > a.length ? b : a))
  for (const dims of ins) for (const dim of dims) mustHave(widest, dim)
  return [widest]
}

function mustHave(dims: Dims, dim: Dims[number]): void {
  const found = dims.find(({ name }) => name === dim.name)
  if (found?.size !== dim.size)
    throw new Error(
      `dim ${dim.name} of size ${dim.size} does not fit [${dims.map(d => `${d.name}:${d.size}`).join(' ')}]`,
    )
}

/**
 * Every dim of the result is some operand's, of the same size; shared dims agree. A dim of one operand alone stays:
 * summed away, its gradient would have to be broadcast back, which contract cannot do.
 */
function contracted(ins: readonly Dims[], want: readonly Dims[]): readonly Dims[] {
  for (const { name } of ins.flat())
    if (!want[0].some(dim => dim.name === name) && !ins.every(dims => dims.some(dim => dim.name === name)))
      throw new Error(`contract sums over dims that both operands have; the result must keep ${name}`)
  for (const dim of ins[0]) if (ins[1].some(({ name }) => name === dim.name)) mustHave(ins[1], dim)
  for (const dim of want[0]) mustHave([...ins[0], ...ins[1]], dim)
  return want
}

/** The dims of a join by which it is no plain map: each operand's own, and the result's. */
function partsJoined(parts: readonly Dims[], whole: Dims): string[] {
  const own = parts.map(part => names(part).filter(name => !names(whole).includes(name)))
  const made = names(whole).filter(name => !parts.some(part => names(part).includes(name)))
  return [...own.flat(), ...made]
}

function joined(ins: readonly Dims[], want: readonly Dims[]): readonly Dims[] {
  const parts = partsJoined(ins, want[0])
  const sizes = [...ins, want[0]].map(dims => dims.find(dim => parts.includes(dim.name))?.size ?? 0)
  if (parts.length !== 3 || sizes[0] + sizes[1] !== sizes[2])
    throw new Error(`join wants one dim of each operand side by side in a dim of its own, not [${parts.join(' ')}]`)
  for (const dims of ins) for (const dim of dims) if (!parts.includes(dim.name)) mustHave(want[0], dim)
  return want
}

/** The positions of keys are another index than those of queries. */
const inKeys = { seq: 'keys' }

/** Dims by which tables are looked up: tokens, and places in a document. */
const lookedUp = ['vocab', 'position']

/** How wide queries and keys are, and values where that differs. */
const depths = ['headDim', 'vHeadDim']

/** The gradient of a broadcast operand is the sum over what it was broadcast along. */
const summedTo = (b: Backward, gradient: Value, of: Value): Value =>
  gradient.dims.length === of.dims.length ? gradient : one(b, { kind: 'sumTo' }, [gradient], of)

const rules: { readonly [K in OpKind]: Rule<K> } = {
  contract: {
    shape: contracted,
    linear: [[0], [1]],
    vjp: b => {
      const [[x, w], [dy]] = [b.ins, b.douts]
      if (!dy) return []
      return [
        [x, one(b, { kind: 'contract' }, [dy, w], x)],
        [w, one(b, { kind: 'contract' }, [x, dy], w)],
      ]
    },
  },
  absMax: { shape: ([x], _, { blocks = {} }) => [blockDims(x, blocks)], combine: 'max', vjp: none },
  quantize: { shape: like, vjp: none },
  scaledContract: { shape: ([a, b], want) => contracted([a, b], want), vjp: gradientsOfScaled },
  add: {
    shape: broadcast,
    linear: 'all',
    vjp: b => b.ins.map(x => [x, b.douts[0] && summedTo(b, b.douts[0], x)] as const),
  },
  mul: {
    shape: broadcast,
    linear: [[0], [1]],
    vjp: b => {
      const [[x, y], [dy]] = [b.ins, b.douts]
      if (!dy) return []
      const [dx] = b.build.emit({ kind: 'mul' }, [dy, y], `d.${x.name}`)
      const [dz] = b.build.emit({ kind: 'mul' }, [dy, x], `d.${y.name}`)
      return [
        [x, summedTo(b, dx, x)],
        [y, summedTo(b, dz, y)],
      ]
    },
  },
  scale: { shape: like, linear: [[0]], vjp: (b, op) => [[b.ins[0], b.douts[0] && one(b, op, [b.douts[0]], b.ins[0])]] },
  sumTo: { shape: wanted, linear: [[0]] }, // made by gradients only
  gelu: {
    shape: like,
    vjp: (b, op) => [[b.ins[0], b.douts[0] && one(b, { ...op, kind: 'geluGrad' }, [b.douts[0], b.ins[0]], b.ins[0])]],
  },
  geluGrad: { shape: like },
  swiglu: {
    shape: like,
    vjp: b => {
      const [[gate, up], [dy]] = [b.ins, b.douts]
      if (!dy) return []
      const [dgate, dup] = b.build.emit({ kind: 'swigluGrad' }, [dy, gate, up], `d.${gate.name}`, [gate.dims, up.dims])
      return [
        [gate, dgate],
        [up, dup],
      ]
    },
  },
  swigluGrad: { shape: wanted },
  layerNorm: {
    shape: like,
    fixed: ins => names(ins[1]),
    vjp: (b, op) => {
      const [[x, gain, bias], [dy]] = [b.ins, b.douts]
      if (!dy) return []
      const dx = one(b, { kind: 'layerNormInputGrad', eps: op.eps }, [dy, x, gain], x)
      const [dgain, dbias] = b.build.emit({ kind: 'layerNormWeightGrad', eps: op.eps }, [dy, x], `d.${gain.name}`, [
        gain.dims,
        bias.dims,
      ])
      return [
        [x, dx],
        [gain, dgain],
        [bias, dbias],
      ]
    },
  },
  layerNormInputGrad: { shape: like, fixed: ins => names(ins[2]) },
  layerNormWeightGrad: { shape: wanted, fixed: (_, outs) => names(outs[0]) },
  rmsNorm: {
    shape: like,
    fixed: ins => names(ins[1]),
    vjp: (b, op) => {
      const [[x, gain], [dy]] = [b.ins, b.douts]
      if (!dy) return []
      const dx = one(b, { kind: 'rmsNormInputGrad', eps: op.eps }, [dy, x, gain], x)
      return [
        [x, dx],
        [gain, one(b, { kind: 'rmsNormWeightGrad', eps: op.eps }, [dy, x], gain)],
      ]
    },
  },
  rmsNormInputGrad: { shape: like, fixed: ins => names(ins[2]) },
  rmsNormWeightGrad: { shape: wanted, fixed: (_, outs) => names(outs[0]) },
  join: {
    shape: joined,
    fixed: (ins, outs) => partsJoined(ins, outs[0]),
    vjp: b => {
      const [[x, y], [dout]] = [b.ins, b.douts]
      if (!dout) return []
      const [dx, dy] = b.build.emit({ kind: 'joinGrad' }, [dout], `d.${x.name}`, [x.dims, y.dims])
      return [
        [x, dx],
        [y, dy],
      ]
    },
  },
  // Linear, but left out of `linear`: resolving what arrives once serves both results.
  joinGrad: { shape: wanted, fixed: (ins, outs) => partsJoined(outs, ins[0]) },
  rope: {
    shape: like,
    fixed: () => ropeDims,
    linear: [[0]],
    vjp: (b, op) => {
      const [[x, ...positions], [dy]] = [b.ins, b.douts]
      return [[x, dy && one(b, { ...op, inverse: !op.inverse }, [dy, ...positions], x)]]
    },
  },
  attention: {
    shape: ([q, , v]) => {
      const rows = q.filter(dim => dim.name !== 'headDim')
      return [[...rows, ...v.filter(dim => depths.includes(dim.name))], rows]
    },
    fixed: () => ['keys', 'slot', ...depths],
    byHeads: true,
    renames: { ins: { 1: inKeys, 2: inKeys } },
    vjp: (b, op) => {
      const [[q, k, v, ...placed], [out, lse], [dout]] = [b.ins, b.outs, b.douts]
      if (!dout) return []
      const operands = [dout, q, k, v, out, lse, ...placed]
      const [dq, dk, dv] = b.build.emit({ ...op, kind: 'attentionGrad' }, operands, `d.${q.name}`, [
        q.dims,
        k.dims,
        v.dims,
      ])
      return [
        [q, dq],
        [k, dk],
        [v, dv],
      ]
    },
  },
  attentionGrad: {
    shape: wanted,
    fixed: () => ['keys', 'slot', ...depths],
    byHeads: true,
    renames: { ins: { 2: inKeys, 3: inKeys }, outs: { 1: inKeys, 2: inKeys } },
  },
  attentionMerge: { shape: ([out, lse]) => [out, lse] }, // made where keys go round only
  dropout: {
    shape: like,
    fixed: () => ['slot'],
    vjp: (b, op) => {
      const [[x, ...order], [dy]] = [b.ins, b.douts]
      return [[x, dy && one(b, op, [dy, ...order], x)]]
    },
  },
  embed: {
    shape: ([ids, rows]) => [[...ids, ...rows.filter(dim => !lookedUp.includes(dim.name))]],
    linear: [[1]],
    vjp: b => [[b.ins[1], b.douts[0] && one(b, { kind: 'embedGrad' }, [b.ins[0], b.douts[0]], b.ins[1])]],
  },
  embedGrad: { shape: wanted, linear: [[1]] },
  maxOver: { shape: wanted, combine: 'max', vjp: none },
  sumExp: { shape: ins => [ins[1]], vjp: none },
  pick: { shape: ins => [ins[1]], vjp: none },
  tokenLoss: {
    shape: scalar,
    // Its gradient goes straight to the logits: through max, sumExp and pick one by one it would make three tensors of their size.
    vjp: b => {
      const [max, sum, picked, labels] = b.ins
      const logits = b.build.values[b.build.producer(picked).ins[0]]
      return [[logits, one(b, { kind: 'tokenLossGrad' }, [logits, max, sum, labels, b.count()], logits)]]
    },
  },
  tokenLossGrad: { shape: like },
  countLabels: { shape: scalar },
  squaredError: {
    shape: scalar,
    vjp: b => [[b.ins[0], one(b, { kind: 'squaredErrorGrad' }, [b.ins[0], b.ins[1], b.count()], b.ins[0])]],
  },
  squaredErrorGrad: { shape: like },
  countElements: { shape: scalar },
  ...expertRules,
  zero: { shape: wanted },
  accumulate: { shape: wanted },
  track: { shape: wanted },
  deduct: { shape: wanted },
  blend: { shape: wanted },
  gramSchmidt: { shape: like },
  become: { shape: like },
  beside: { shape: wanted },
  greatest: { shape: wanted },
  scatter: { shape: wanted },
  unscale: { shape: wanted },
  sumSquares: { shape: wanted },
  lambSquares: { shape: wanted },
  muonMean: { shape: wanted },
  newtonSchulz: { shape: wanted },
  stack: { shape: wanted },
  unstack: { shape: wanted },
  pack: { shape: wanted },
  unpack: { shape: wanted },
  factorSquares: { shape: wanted },
  average: { shape: like },
  adafactorSquares: { shape: wanted },
  weigh: { shape: wanted },
  take: { shape: wanted },
  adamw: { shape: wanted },
  sgd: { shape: wanted },
  lion: { shape: wanted },
  lamb: { shape: wanted },
  muon: { shape: wanted },
  adafactor: { shape: wanted },
}

const ruleOf = (op: Op): Rule<OpKind> => rules[op.kind] as Rule<OpKind> // the table is total, so the rule fits its kind

export const shapeOf = (op: Op, ins: readonly Dims[], want: readonly Dims[]): readonly Dims[] =>
  ruleOf(op).shape(ins, want, op)

export function gradientsOf(b: Backward): Gradients {
  const { vjp } = ruleOf(b.node.op)
  if (!vjp) throw new Error(`internal: no gradient rule for ${b.node.op.kind}`)
  return vjp(b, b.node.op)
}

export function shardingOf(op: Op, ins: readonly Dims[], outs: readonly Dims[]): Sharding {
  const rule = ruleOf(op)
  const indices = (side: 'ins' | 'outs') => (dims: Dims, at: number) =>
    names(dims).map(name => rule.renames?.[side]?.[at]?.[name] ?? name)
  return {
    ins: ins.map(indices('ins')),
    outs: outs.map(indices('outs')),
    fixed: rule.fixed?.(ins, outs) ?? [],
    linear: rule.linear === 'all' ? [ins.map((_, i) => i)] : (rule.linear ?? []),
    combine: rule.combine ?? 'sum',
    byHeads: rule.byHeads ?? false,
  }
}
