/** Products on 8 bits: what they need of the rest of a job. */
import { batchRanks, error, planPrecisionFacts, roundUp, warning } from '../base/index.js'
import type { Rule } from './rule.js'

/** What GPUs want along every side of a product of codes. */
const side = 16

export const fp8: Rule = function* ({ model, training, plan }) {
  if (!plan.fp8) return
  const { token } = planPrecisionFacts[plan.precision]
  if (token !== 'bf16')
    yield error(
      'plan/precision',
      'plan.fp8',
      `products read codes of what is kept in bf16; precision ${plan.precision} keeps ${token}`,
      'set plan.precision to bf16 or pure-bf16',
    )
  const tokens = (training.globalBatch * training.seq) / (plan.microbatches * batchRanks(plan) * plan.cp)
  const sides = [
    ['tokens of a rank', tokens],
    ['embed', model.embed],
    [`ffn ${model.ffn} / tp ${plan.tp}`, model.ffn / plan.tp],
  ] as const
  for (const [name, size] of sides)
    if (Number.isInteger(size) && size % side !== 0)
      yield warning(
        'plan/precision',
        'plan.fp8',
        `${name} = ${size} is no multiple of ${side}: a GPU multiplies what codes stand for, and gains nothing`,
        `try ${roundUp(size, side)}`,
      )
}
