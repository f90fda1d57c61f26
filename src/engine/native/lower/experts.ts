/** From ops of experts to commands: none of them has one yet. */
import type { Compute } from '../../../ir/index.js'
import { refuse } from './shapes.js'

const unwritten = ({ kind }: Compute): void =>
  refuse(`there is no kernel of ${kind} yet; run experts with --kernels reference`)

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
