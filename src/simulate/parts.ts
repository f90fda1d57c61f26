/** Which category of step time the arithmetic of a phase belongs to. */
import type { Phase } from '../ir/index.js'
import type { Part } from '../metrics/index.js'

export const partOfPhase: Readonly<Record<Phase, Part>> = {
  F: 'compute',
  I: 'compute',
  W: 'compute',
  B: 'compute',
  C: 'other',
  begin: 'other',
  load: 'other',
  count: 'other',
  gather: 'other',
  reduce: 'other',
  add: 'other',
  move: 'offload',
  norm: 'optimizer',
  update: 'optimizer',
}
