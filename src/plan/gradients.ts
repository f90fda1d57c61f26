/** What gradients are summed in, and how parameters are rounded: what makes no sense, and what loses digits. */
import { either, error, gradientIn, gradientsFor, hasMaster, planPrecisionFacts, warning } from '../base/index.js'
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

/** Only what has no master loses what rounding cuts off. */
export const rounding: Rule = function* ({ training: { optimizer }, plan: { precision, rounding: how } }) {
  const { token } = planPrecisionFacts[precision]
  if (how === 'stochastic' && optimizer.kind === 'adafactor')
    yield error(
      'plan/unsupported',
      'plan.rounding',
      'adafactor rounds to the nearest alone',
      'choose another optimizer',
    )
  if (how === 'nearest' || (token === 'bf16' && !hasMaster(precision))) return
  const reason = token === 'f32' ? 'parameters are f32' : `masters in f32 keep what a parameter in ${token} cannot`
  yield error(
    'plan/precision',
    'plan.rounding',
    `${reason}: there is nothing that chance could save`,
    'set precision to bf16-no-masters or pure-bf16, or leave rounding out',
  )
}
