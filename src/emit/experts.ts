/** Ops of experts in PyTorch: none of them has a line yet. */
import type { Compute } from '../ir/index.js'
import { Unwritten } from './expressions.js'

const unwritten = ({ kind }: Compute): string[] => {
  throw new Unwritten(`${kind} has no line of PyTorch yet`)
}

export const expertRules = {
  sigmoid: unwritten,
  sigmoidGrad: unwritten,
  scores: unwritten,
  scoresGrad: unwritten,
  topK: unwritten,
  chosen: unwritten,
  chosenGrad: unwritten,
  assign: unwritten,
  rowsOf: unwritten,
  dispatch: unwritten,
  combine: unwritten,
  expertContract: unwritten,
  expertWeightGrad: unwritten,
  weightedSwiglu: unwritten,
  weightedSwigluGrad: unwritten,
  countChoices: unwritten,
  countTop: unwritten,
  balanceLoss: unwritten,
  balanceLossGrad: unwritten,
  zLoss: unwritten,
  zLossGrad: unwritten,
  balance: unwritten,
}
