/** What a job says of experts: who chooses whom, what room there is, and which ranks share them. */
import { defaultOrder, divisorsNear, either, error, type Problem, roundUp } from '../base/index.js'
import { type LlamaConfig, type MoeConfig, roomOf, routedLayers } from '../model/index.js'
import { commonFactors, expertGrid } from './folding.js'
import { contextOf, headSplit, type Rule } from './rule.js'
import type { Plan } from './schema.js'

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
  else if (experts % groups === 0 && (experts / groups) * chosenGroups < chosen)
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

/** Which ranks hold which experts: the grid of experts, beside that of the other layers. */
export const ranksOfExperts: Rule = function* ({ model, plan }) {
  const moe = expertsOf(model)
  const { dp, cp, tp, ep, etp } = plan
  const say = (field: string, equation: string, suggestion: string) =>
    error('plan/experts', `plan.${field}`, equation, suggestion)
  if (ep * etp === 1) return
  if (!moe) {
    yield say(ep > 1 ? 'ep' : 'etp', `ep ${ep} x etp ${etp} split experts, the model has none`, 'leave both at 1')
    return
  }
  const { kvHeads } = model as LlamaConfig // the only family with experts
  const ranks = dp * cp * tp
  const equation = `dp ${dp} x cp ${cp} x tp ${tp} = ${ranks}`
  if (ranks % (ep * etp) !== 0)
    yield say(
      'ep',
      `${equation} % (ep ${ep} x etp ${etp} = ${ep * etp}) = ${ranks % (ep * etp)}, must be 0`,
      `try ep ${either(divisorsNear(Math.max(1, Math.floor(ranks / etp)), ep))}`,
    )
  else if (!commonFactors(denseGrid(plan, kvHeads), expertGrid(plan)))
    yield say(
      'etp',
      `the grids tp ${tp} x cp ${cp} x dp ${dp} and etp ${etp} x ep ${ep} x ${ranks / (ep * etp)} have no common factors: ` +
        `of ${endsIn(plan, kvHeads).join(', ')} each must divide the next`,
      `try etp ${either(divisorsNear(tp, etp))}, or ep ${either(divisorsNear(ranks / etp, ep))}`,
    )
  if (plan.order !== defaultOrder)
    yield say('order', `experts are split in the order ${defaultOrder} only, not ${plan.order}`, 'leave order out')
  if (moe.experts % ep !== 0)
    yield say(
      'ep',
      `experts ${moe.experts} % ep ${ep} = ${moe.experts % ep}, must be 0`,
      `try ep ${either(divisorsNear(moe.experts, ep))}`,
    )
  if (moe.ffn % etp !== 0)
    yield say(
      'etp',
      `ffn ${moe.ffn} of an expert % etp ${etp} = ${moe.ffn % etp}, must be 0`,
      `try etp ${either(divisorsNear(moe.ffn, etp))}`,
    )
}

/** As the mesh has it: tp and cp in the factors in which they split heads, and what is left of cp. */
function denseGrid(plan: Plan, kvHeads: number) {
  const { outer, ulysses } = contextOf(plan)
  // An attention that does not fit cp is told elsewhere.
  const heads = headSplit(plan.tp, outer * ulysses === plan.cp ? ulysses : plan.cp / outer, kvHeads)
  return [
    { name: 'tp', size: heads.tp.group },
    { name: 'tp', size: heads.tp.kvHeads },
    { name: 'exchanged', size: heads.ulysses.kvHeads },
    { name: 'exchanged', size: heads.ulysses.group },
    { name: 'cp', size: outer },
    { name: 'dp', size: plan.dp },
  ] as const
}

/** Ranks below the end of each axis of either grid. */
function endsIn(plan: Plan, kvHeads: number): number[] {
  const ends = (grid: readonly { readonly size: number }[]) =>
    grid.map((_, i) => grid.slice(0, i + 1).reduce((ranks, { size }) => ranks * size, 1))
  const all = [...ends(denseGrid(plan, kvHeads).slice(0, -1)), ...ends(expertGrid(plan).slice(0, -1))]
  return [...new Set(all)].filter(end => end > 1).sort((a, b) => a - b)
}

/** Tokens become rows on all ranks but those that split each expert: those of tp take a part of the sequence each. */
export const rowsOfExperts: Rule = function* ({ model, training: { seq }, plan }) {
  const moe = expertsOf(model)
  const { tp, cp, etp } = plan
  if (!moe || seq % cp !== 0) return
  const ways = cp * Math.max(1, tp / etp)
  if (Number.isInteger(ways) && seq % ways !== 0)
    yield error(
      'plan/experts',
      'plan.tp',
      `seq ${seq} % (cp ${cp} x tp ${tp}${etp > 1 ? ` / etp ${etp}` : ''} = ${ways}) = ${seq % ways}, must be 0: every rank sends its own tokens to experts`,
      `try seq ${roundUp(seq, ways)}`,
    )
}
