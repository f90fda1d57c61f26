/** What a plan sends in fewer bits: what cannot be, what changes nothing, and what is unwise. */
import { dataRanks, error, gradientIn, planPrecisionFacts, ranksOf, warning, wireOf } from '../base/index.js'
import type { Rule } from './rule.js'

export const compression: Rule = function* ({ plan, training: { lossScale } }) {
  const { compress, zero, precision } = plan
  if (!compress) return
  const { token } = planPrecisionFacts[precision]
  const summed = gradientIn(plan)
  const { reduce, gather } = compress
  if (dataRanks(plan) === 1 && !compress.virtual)
    yield warning(
      'plan/no-effect',
      'plan.compress',
      'has no effect where dp and cp are 1: nothing crosses the data axes',
    )
  if (gather && zero !== 3 && !compress.virtual)
    yield error(
      'plan/compress',
      'plan.compress.gather',
      `zero ${zero} keeps the only exact copy of a parameter where the whole is gathered: gather ${gather} would round it`,
      'set zero to 3, or leave gather out',
    )
  if (gather === 'int8' && zero === 3 && dataRanks(plan) > 1)
    yield warning(
      'plan/compress',
      'plan.compress.gather',
      `int8: results depend on how ranks cut parameters, so they change with dp, cp and tp (now ${plan.dp}, ${plan.cp} and ${plan.tp})`,
      'bf16 loses digits alone, whatever the plan',
    )
  if (compress.virtual && ranksOf(plan) > 1)
    yield error(
      'plan/compress',
      'plan.compress.virtual',
      `${ranksOf(plan)} ranks, but only one rank can do what others would`,
      'leave virtual out',
    )
  if (gather && wireOf(token, gather) === undefined)
    yield warning('plan/no-effect', 'plan.compress.gather', `${gather}: parameters are ${token} already`)
  if (reduce && wireOf(summed, reduce) === undefined)
    yield warning('plan/no-effect', 'plan.compress.reduce', `${reduce}: gradients are ${summed} already`)
  if (reduce === 'f16' && lossScale === undefined)
    yield warning(
      'plan/unwise',
      'plan.compress.reduce',
      'f16 has nothing between 0 and 2^-24: gradients below it are lost unless they are scaled',
      'set training.lossScale, or try bf16',
    )
}
