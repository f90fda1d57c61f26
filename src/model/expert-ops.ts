/**
 * The rules of ops that route tokens to experts. What has rows (`rowsOf`, `dispatch`, `combine`, the products of experts) is no
 * formula over indices: rows are as ragged as the choices, and how they are split is for the compiler to say, not for `Sharding`.
 */
import type { OpKind } from '../base/index.js'
import { gradientsOfScaledExperts } from './codes.js'
import { like, none, one, type Rule, scalar, wanted } from './rule.js'

type RoutingOp =
  | 'sigmoid'
  | 'sigmoidGrad'
  | 'scores'
  | 'scoresGrad'
  | 'topK'
  | 'chosen'
  | 'chosenGrad'
  | 'assign'
  | 'rowsOf'
  | 'dispatch'
  | 'combine'
  | 'expertContract'
  | 'expertWeightGrad'
  | 'scaledExpertContract'
  | 'scaledExpertWeightGrad'
  | 'weightedSwiglu'
  | 'weightedSwigluGrad'
  | 'countChoices'
  | 'countTop'
  | 'balanceLoss'
  | 'balanceLossGrad'
  | 'zLoss'
  | 'zLossGrad'
  | 'balance'

/** A token is compared with all candidates, or chooses among all of them. */
const perToken = () => ['candidate', 'choice']

export const expertRules: { readonly [K in RoutingOp & OpKind]: Rule<K> } = {
  sigmoid: {
    shape: like,
    vjp: b => [[b.ins[0], b.douts[0] && one(b, { kind: 'sigmoidGrad' }, [b.douts[0], b.outs[0]], b.ins[0])]],
  },
  sigmoidGrad: { shape: like },
  scores: {
    shape: like,
    fixed: perToken,
    vjp: (b, op) => [
      [b.ins[0], b.douts[0] && one(b, { ...op, kind: 'scoresGrad' }, [b.douts[0], b.outs[0]], b.ins[0])],
    ],
  },
  scoresGrad: { shape: like, fixed: perToken },
  topK: { shape: wanted, fixed: perToken, vjp: none },
  chosen: {
    shape: ins => [ins[1]],
    fixed: perToken,
    vjp: (b, op) => {
      const [[scores, choice], [dweight]] = [b.ins, b.douts]
      return [[scores, dweight && one(b, { ...op, kind: 'chosenGrad' }, [dweight, scores, choice], scores)]]
    },
  },
  chosenGrad: { shape: ins => [ins[1]], fixed: perToken },
  assign: { shape: ins => [ins[1]], fixed: () => ['candidate', 'choice', 'seq', 'slot'], vjp: none },
  rowsOf: { shape: wanted, vjp: none },
  dispatch: {
    shape: wanted,
    vjp: b => {
      const [[x, ...routes], [drows]] = [b.ins, b.douts]
      return [[x, drows && one(b, { kind: 'combine' }, [drows, ...routes], x)]]
    },
  },
  combine: {
    shape: wanted,
    vjp: b => {
      const [[rows, ...routes], [dout]] = [b.ins, b.douts]
      return [[rows, dout && one(b, { kind: 'dispatch' }, [dout, ...routes], rows)]]
    },
  },
  expertContract: {
    shape: wanted,
    vjp: b => {
      const [[rows, counts, w], [dout]] = [b.ins, b.douts]
      if (!dout) return []
      return [
        [rows, one(b, { kind: 'expertContract' }, [dout, counts, w], rows)],
        [w, one(b, { kind: 'expertWeightGrad' }, [rows, dout, counts], w)],
      ]
    },
  },
  expertWeightGrad: { shape: wanted },
  scaledExpertContract: { shape: wanted, vjp: gradientsOfScaledExperts },
  scaledExpertWeightGrad: { shape: wanted },
  weightedSwiglu: {
    shape: like,
    vjp: b => {
      const [[gate, up, weight], [dy]] = [b.ins, b.douts]
      if (!dy) return []
      const [dgate, dup, dweight] = b.build.emit(
        { kind: 'weightedSwigluGrad' },
        [dy, gate, up, weight],
        `d.${gate.name}`,
        [gate.dims, up.dims, weight.dims],
      )
      return [
        [gate, dgate],
        [up, dup],
        [weight, dweight],
      ]
    },
  },
  weightedSwigluGrad: { shape: wanted },
  countChoices: { shape: wanted, fixed: perToken, vjp: none },
  countTop: { shape: wanted, fixed: perToken, vjp: none },
  balanceLoss: {
    shape: scalar,
    fixed: perToken,
    vjp: (b, op) => [[b.ins[0], one(b, { ...op, kind: 'balanceLossGrad' }, [...b.ins, ...b.scale()], b.ins[0])]],
  },
  balanceLossGrad: { shape: like, fixed: perToken },
  zLoss: {
    shape: scalar,
    fixed: perToken,
    vjp: (b, op) => [[b.ins[0], one(b, { ...op, kind: 'zLossGrad' }, [...b.ins, ...b.scale()], b.ins[0])]],
  },
  zLossGrad: { shape: like, fixed: perToken },
  balance: { shape: wanted },
}
