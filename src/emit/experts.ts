/** Ops of experts in PyTorch: none of them has a line yet. */
import { error, ProblemsError } from '../base/index.js'
import type { Compute, Program } from '../ir/index.js'
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

/** Experts cannot be written yet, and are refused before anything is. */
export function requireWritten({ segments }: Program): void {
  const kinds = new Set(Object.values(segments).flatMap(({ instrs }) => instrs.map(({ kind }) => kind)))
  const missing = Object.keys(expertRules).filter(kind => kinds.has(kind as Compute['kind'])) // its own keys
  if (missing.length === 0) return
  const message = `not supported yet: experts in PyTorch (${missing.join(', ')})`
  throw new ProblemsError([error('emit/unsupported', 'model.moe', message, 'train it with `lockstep train`')])
}
