/** What 16-bit gradients need, so that they are not lost. */
import { error, planPrecisionFacts } from '../base/index.js'
import type { Rule } from './rule.js'

export const lossScale: Rule = function* ({ plan: { precision } }) {
  if (planPrecisionFacts[precision].token !== 'f16') return
  const message = 'f16 has nothing between 0 and 2^-24: gradients below it are lost unless the loss is scaled'
  yield error('plan/precision', 'plan.precision', message, 'loss scaling is not supported yet; try bf16')
}
