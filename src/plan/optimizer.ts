/** What a job's optimizer does to a parameter: which one moves it, and what it is told. */
import { multipliersOf, type ParamRole } from '../base/index.js'
import type { Optimizer } from './optimizer-schema.js'
import type { Training } from './schema.js'

/** Muon moves the matrices of blocks; all else is left to AdamW. */
export const optimizerFor = (optimizer: Optimizer, role: ParamRole): Optimizer => {
  if (optimizer.kind !== 'muon' || role === 'matrix') return optimizer
  return { kind: 'adamw', ...optimizer.adamw, lr: optimizer.adamw.lr ?? optimizer.lr }
}

export interface Told {
  readonly optimizer: Optimizer
  readonly weightDecay: number
  /** What the learning rate of the step is multiplied by. */
  readonly rate: number
}

export function toldFor(
  { optimizer, paramGroups }: Pick<Training, 'optimizer' | 'paramGroups'>,
  role: ParamRole,
): Told {
  const own = optimizerFor(optimizer, role)
  const by = multipliersOf(role, paramGroups)
  return { optimizer: own, weightDecay: own.weightDecay * by.weightDecay, rate: (by.lr * own.lr) / optimizer.lr }
}
