/** What gradients are summed in, and how parameters are rounded: what makes no sense, and what loses digits. */
import { gradientIn, gradientsFor, hasMaster, planPrecisionFacts } from '../base/index.js'
import { advised, refused } from './phrases.js'
import type { Rule } from './rule.js'

/** bf16 has 8 binary digits: of so many addends alike the last is half of the sum's last digit, and is lost. */
const mostAddends = 256

export const gradients: Rule = function* ({ plan }) {
  const { precision, gradients: asked, microbatches } = plan
  const can = gradientsFor(precision)
  if (asked !== undefined && !can.includes(asked)) {
    const { token: dtype } = planPrecisionFacts[precision]
    yield dtype === 'f16'
      ? refused('plan.gradients', 'plan/precision/gradients-f16', { asked, can })
      : refused('plan.gradients', 'plan/precision/gradients', { dtype, asked, can })
  }
  if (asked !== undefined && gradientIn(plan) === 'bf16' && microbatches >= mostAddends / 2)
    yield advised('plan.gradients', 'plan/unwise/sums', { microbatches, most: mostAddends })
}

/** Only what has no master loses what rounding cuts off. */
export const rounding: Rule = function* ({ training: { optimizer }, plan: { precision, rounding: how } }) {
  const { token } = planPrecisionFacts[precision]
  if (how === 'stochastic' && optimizer.kind === 'adafactor')
    yield refused('plan.rounding', 'plan/unsupported/adafactor')
  if (how === 'nearest' || (token === 'bf16' && !hasMaster(precision))) return
  yield token === 'f32'
    ? refused('plan.rounding', 'plan/precision/rounding-f32')
    : refused('plan.rounding', 'plan/precision/rounding', { dtype: token })
}
