/** LoRA: which matrices of a model have adapters, and what of it is not there. */
import { type Adapters, type AdapterTarget, adapterTargets, type ModelConfig } from '../model/index.js'
import { refused } from './phrases.js'
import type { Rule } from './rule.js'
import type { Job } from './schema.js'

/** The matrices of a model that can have adapters: all that it has but routers. */
const targetsOf = ({ family }: ModelConfig): readonly AdapterTarget[] =>
  adapterTargets.filter(
    target => family === 'llama' || (family === 'gpt' ? target !== 'gate' : target === 'up' || target === 'down'),
  )

type Adapted = Pick<Job, 'model'> & { readonly training: Pick<Job['training'], 'lora'> }

/** As a model needs them: every matrix by its name. */
export function adaptersOf({ model, training: { lora } }: Adapted): Adapters | undefined {
  if (!lora) return undefined
  const asked = lora.targets === 'all-linear' ? targetsOf(model) : lora.targets
  return { ...lora, targets: adapterTargets.filter(target => asked.includes(target)) }
}

export const lora: Rule = function* ({ model, training }) {
  if (!training.lora) return
  const { targets, dropout } = training.lora
  const can = targetsOf(model)
  const asked = targets === 'all-linear' ? can : targets
  const missing = asked.filter(target => !can.includes(target))
  const words = (matrices: readonly AdapterTarget[]) => ({ joint: 'and', of: matrices }) as const
  if (missing.length > 0)
    yield refused('training.lora.targets', 'training/lora/none', {
      ...{ matrices: words(missing), can: can.join(', '), family: model.family },
    })
  const routed = model.family === 'llama' && model.moe ? asked.filter(target => ofExperts.includes(target)) : []
  const others = can.filter(target => !ofExperts.includes(target)).join(', ')
  if (dropout > 0 && routed.length > 0)
    yield refused('training.lora.dropout', 'training/lora/rows', { matrices: words(routed), can: others })
}

const ofExperts: readonly AdapterTarget[] = ['gate', 'up', 'down']
