/** What gradients are summed in: what makes no sense, and what loses digits. */
import { either, error, gradientIn, gradientsFor, planPrecisionFacts, warning } from '../base/index.js'
import type { Rule } from './rule.js'

/** bf16 has 8 binary digits: of so many addends alike the last is half of the sum's last digit, and is lost. */
const mostAddends = 256

export const gradients: Rule = function* ({ plan }) {
  const { precision, gradients: asked, microbatches } = plan
  const can = gradientsFor(precision)
  if (asked !== undefined && !can.includes(asked)) {
    const { token } = planPrecisionFacts[precision]
    const message = `gradients are made from ${token}: in ${asked} they would ${token === 'f16' ? 'keep their range, and lose digits that f16 has' : 'lose digits and save nothing else'}`
    yield error('plan/precision', 'plan.gradients', message, `set it to ${either(can)}, or precision to bf16`)
  }
  if (asked !== undefined && gradientIn(plan) === 'bf16' && microbatches >= mostAddends / 2)
    yield warning(
      'plan/unwise',
      'plan.gradients',
      `${microbatches} microbatches are added up in bf16, in which a sum of ${mostAddends} numbers that are alike grows no further`,
      'try f32',
    )
}
