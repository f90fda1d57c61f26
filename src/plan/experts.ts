/** What a job says of experts: who chooses whom, what room there is, and which ranks share them. */
import { divisorsNear, either, error, type Problem, ranksOf } from '../base/index.js'
import { type LlamaConfig, type MoeConfig, roomOf, routedLayers } from '../model/index.js'
import type { Rule } from './rule.js'

const refuse = (field: string, equation: string, suggestion: string): Problem =>
  error('model/experts', `model.moe.${field}`, equation, suggestion)

/** The experts of a model, if it has any. */
export const expertsOf = (model: { readonly family: string }): MoeConfig | undefined =>
  model.family === 'llama' ? (model as LlamaConfig).moe : undefined // the family says so

export const choices: Rule = function* ({ model }) {
  const moe = expertsOf(model)
  if (!moe) return
  const { experts, chosen, groups, chosenGroups } = moe
  if (chosen > experts) yield refuse('chosen', `chosen ${chosen} > experts ${experts}`, `try ${experts} or less`)
  if ((groups === undefined) !== (chosenGroups === undefined))
    yield refuse('groups', 'groups and chosenGroups come together', 'give both, or neither')
  if (groups === undefined || chosenGroups === undefined) return
  if (experts % groups !== 0)
    yield refuse(
      'groups',
      `experts ${experts} % groups ${groups} = ${experts % groups}, must be 0`,
      `try ${either(divisorsNear(experts, groups))}`,
    )
  if (chosenGroups > groups)
    yield refuse('chosenGroups', `chosenGroups ${chosenGroups} > groups ${groups}`, `try ${groups} or less`)
  else if (chosen % chosenGroups !== 0)
    yield refuse(
      'chosenGroups',
      `chosen ${chosen} % chosenGroups ${chosenGroups} = ${chosen % chosenGroups}, must be 0`,
      `try ${either(divisorsNear(chosen, chosenGroups))}`,
    )
  else if ((experts / groups) * chosenGroups < chosen)
    yield refuse(
      'chosen',
      `chosen ${chosen} > experts ${experts} / groups ${groups} x chosenGroups ${chosenGroups}`,
      'choose fewer, or from more groups',
    )
}

export const layersOfExperts: Rule = function* ({ model, training: { seq } }) {
  const moe = expertsOf(model)
  if (!moe || model.family !== 'llama') return
  if (routedLayers(model).length === 0)
    yield refuse('dense', `of ${model.layers} layers none is routed`, 'lower dense or every')
  if (moe.sharedGate && moe.shared === undefined)
    yield refuse('sharedGate', 'there is no shared expert', 'give shared, its width')
  const group = moe.capacity?.group
  if (typeof group === 'number' && seq % group !== 0)
    yield refuse(
      'capacity.group',
      `seq ${seq} % group ${group} = ${seq % group}, must be 0`,
      `try ${either(divisorsNear(seq, group))}, or sequence`,
    )
  if (moe.capacity && roomOf(moe, seq).room === 0)
    yield refuse('capacity.least', 'experts have no room at all', 'give least, or a greater factor')
}

export const ranksOfExperts: Rule = function* ({ model, plan }) {
  if (expertsOf(model) && ranksOf(plan) > 1)
    yield error('plan/unsupported', 'plan', `not supported yet: experts on ${ranksOf(plan)} ranks`, 'use one rank')
}
