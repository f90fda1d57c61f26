/** Every op in the plainest code that can say it. This table is the definition of the vocabulary in `base/op.ts`. */
import { type Op, type OpKind, opFacts } from '../../base/index.js'
import { agree, type Shape } from '../../geometry/index.js'
import { adafactor, adafactorSquares, factorSquares } from './adafactor.js'
import { attention, attentionGrad, attentionMerge, rope } from './attention.js'
import * as codes from './codes.js'
import { contract, countElements, countLabels, maxOver, sumSquares, sumTo } from './contract.js'
import * as elementwise from './elementwise.js'
import * as experts from './experts.js'
import { become, deduct, gramSchmidt } from './factors.js'
import { join, joinGrad } from './join.js'
import type { Kernel, Prepare } from './kernel.js'
import * as loss from './loss.js'
import * as norm from './norm.js'
import { adamw, average, lamb, lambSquares, lion, muon, muonMean, sgd } from './optimizer.js'
import { newtonSchulz, stack, unstack } from './orthogonal.js'
import { pack, unpack } from './packing.js'
import * as routing from './routing.js'
import { take, unscale, weigh } from './scaler.js'
import { blend } from './signs.js'
import { beside, greatest, scatter } from './sparse.js'

export const kernels: { readonly [K in OpKind]: Prepare<K> } = {
  contract,
  absMax: codes.absMax,
  quantize: codes.quantize,
  scaledContract: codes.scaledContract,
  scaledExpertContract: codes.scaledExpertContract,
  scaledExpertWeightGrad: codes.scaledExpertWeightGrad,
  add: elementwise.add,
  mul: elementwise.mul,
  scale: elementwise.scale,
  sumTo,
  gelu: elementwise.gelu,
  geluGrad: elementwise.geluGrad,
  swiglu: elementwise.swiglu,
  swigluGrad: elementwise.swigluGrad,
  layerNorm: norm.layerNorm,
  layerNormInputGrad: norm.layerNormInputGrad,
  layerNormWeightGrad: norm.layerNormWeightGrad,
  rmsNorm: norm.rmsNorm,
  rmsNormInputGrad: norm.rmsNormInputGrad,
  rmsNormWeightGrad: norm.rmsNormWeightGrad,
  join,
  joinGrad,
  rope,
  attention,
  attentionGrad,
  attentionMerge,
  dropout: elementwise.dropout,
  embed: loss.embed,
  embedGrad: loss.embedGrad,
  maxOver,
  sumExp: loss.sumExp,
  pick: loss.pick,
  tokenLoss: loss.tokenLoss,
  tokenLossGrad: loss.tokenLossGrad,
  countLabels,
  squaredError: loss.squaredError,
  squaredErrorGrad: elementwise.squaredErrorGrad,
  countElements,
  sigmoid: routing.sigmoid,
  sigmoidGrad: routing.sigmoidGrad,
  scores: routing.scores,
  scoresGrad: routing.scoresGrad,
  topK: routing.topK,
  chosen: routing.chosen,
  chosenGrad: routing.chosenGrad,
  assign: routing.assign,
  rowsOf: experts.rowsOf,
  dispatch: experts.dispatch,
  combine: experts.combine,
  expertContract: experts.expertContract,
  expertWeightGrad: experts.expertWeightGrad,
  weightedSwiglu: experts.weightedSwiglu,
  weightedSwigluGrad: experts.weightedSwigluGrad,
  countChoices: routing.countChoices,
  countTop: routing.countTop,
  balanceLoss: routing.balanceLoss,
  balanceLossGrad: routing.balanceLossGrad,
  zLoss: routing.zLoss,
  zLossGrad: routing.zLossGrad,
  balance: routing.balance,
  zero: elementwise.zero,
  accumulate: elementwise.accumulate,
  track: codes.track,
  deduct,
  gramSchmidt,
  become,
  beside,
  greatest,
  scatter,
  sumSquares,
  take,
  unscale,
  weigh,
  adamw,
  sgd,
  lion,
  lambSquares,
  lamb,
  muonMean,
  newtonSchulz,
  stack,
  unstack,
  pack,
  unpack,
  blend,
  factorSquares,
  average,
  adafactorSquares,
  adafactor,
  muon,
}

export function prepare(op: Op, ins: readonly Shape[], outs: readonly Shape[]): Kernel {
  const { unlike = [], counts = [], ins: names, outs: results } = opFacts[op.kind]
  const ofElements = (named: readonly string[]) => (_: Shape, i: number) => !counts.includes(named[i])
  agree([...ins.filter(ofElements(names)), ...outs.filter(ofElements(results))], unlike)
  const make = kernels[op.kind] as (op: Op, ins: readonly Shape[], outs: readonly Shape[]) => Kernel // the table is total
  return make(op, ins, outs)
}
