/** LoRA: which matrices of a model have adapters, and what of it is not there. */
import type { Problem } from '../base/index.js'
import { type Adapters, type AdapterTarget, adapterTargets, type ModelConfig } from '../model/index.js'
import { refused } from './phrases.js'
import type { Rule } from './rule.js'
import type { Job } from './schema.js'

const attention: readonly AdapterTarget[] = ['q', 'k', 'v', 'out']

/** The matrices of a model that can have adapters. */
function targetsOf(model: ModelConfig): readonly AdapterTarget[] {
  if (model.family === 'mlp') return ['up', 'down']
  if (model.family === 'gpt') return adapterTargets.filter(target => target !== 'gate')
  return model.moe ? attention : [...attention, 'gate', 'up', 'down']
}

/** As a model needs them: every matrix by its name. */
export function adaptersOf({ model, training: { lora } }: Pick<Job, 'model' | 'training'>): Adapters | undefined {
  if (!lora) return undefined
  const asked = lora.targets === 'all-linear' ? targetsOf(model) : lora.targets
  return { ...lora, targets: adapterTargets.filter(target => asked.includes(target)) }
}

export const lora: Rule = function* ({ model, training }) {
  if (!training.lora) return
  const { targets } = training.lora
  const can = targetsOf(model)
  const asked = targets === 'all-linear' ? adapterTargets.filter(target => hasMatrix(model, target)) : targets
  const missing = asked.filter(target => !can.includes(target))
  if (missing.length > 0) yield withoutAdapters(model, missing, can)
}

/** Whether a model has such matrices at all. */
const hasMatrix = ({ family }: ModelConfig, target: AdapterTarget): boolean =>
  family === 'llama' || (family === 'gpt' ? target !== 'gate' : target === 'up' || target === 'down')

function withoutAdapters(
  model: ModelConfig,
  missing: readonly AdapterTarget[],
  can: readonly AdapterTarget[],
): Problem {
  const words = { matrices: { joint: 'and', of: missing }, can: can.join(', ') } as const
  return model.family !== 'llama' || !hasMatrix(model, missing[0])
    ? refused('training.lora.targets', 'training/lora/none', { ...words, family: model.family })
    : refused('training.lora.targets', 'training/lora/experts', words)
}
