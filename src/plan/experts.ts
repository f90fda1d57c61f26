/** What a job says of experts: who chooses whom, what room there is, and which ranks share them. */
import { defaultOrder, divisors, divisorsNear, type Problem, roundUp } from '../base/index.js'
import { type LlamaConfig, type MoeConfig, roomOf, routedLayers } from '../model/index.js'
import { commonFactors, denseGrid, expertGrid, usualRows } from './folding.js'
import { advised, refused } from './phrases.js'
import type { Rule } from './rule.js'
import type { Plan } from './schema.js'

/** The experts of a model, if it has any. */
export const expertsOf = (model: { readonly family: string }): MoeConfig | undefined =>
  model.family === 'llama' ? (model as LlamaConfig).moe : undefined // the family says so

export const choices: Rule = function* ({ model }) {
  const moe = expertsOf(model)
  if (!moe) return
  const { experts, topK, groups, topKGroups } = moe
  const path = (field: string) => `model.moe.${field}`
  if (topK > experts) yield refused(path('topK'), 'model/experts/chosen', { topK, experts })
  if ((groups === undefined) !== (topKGroups === undefined)) yield refused(path('groups'), 'model/experts/together')
  if (groups === undefined || topKGroups === undefined) return
  const rest = experts % groups
  if (rest !== 0)
    yield refused(path('groups'), 'model/experts/groups', {
      experts,
      groups,
      rest,
      near: divisorsNear(experts, groups),
    })
  if (topKGroups > groups) yield refused(path('topKGroups'), 'model/experts/chosen-groups', { topKGroups, groups })
  else if (topK % topKGroups !== 0)
    yield refused(path('topKGroups'), 'model/experts/of-groups', {
      ...{ topK, topKGroups, rest: topK % topKGroups, near: divisorsNear(topK, topKGroups) },
    })
  else if (rest === 0 && (experts / groups) * topKGroups < topK)
    yield refused(path('topK'), 'model/experts/too-many', { topK, experts, groups, topKGroups })
}

export const layersOfExperts: Rule = function* ({ model, training: { seq } }) {
  const moe = expertsOf(model)
  if (!moe || model.family !== 'llama') return
  if (routedLayers(model).length === 0) yield refused('model.moe.dense', 'model/experts/none', { layers: model.layers })
  if (moe.sharedGate && moe.shared === undefined) yield refused('model.moe.sharedGate', 'model/experts/shared')
  const group = moe.capacity?.group
  if (typeof group === 'number' && seq % group !== 0)
    yield refused('model.moe.capacity.group', 'model/experts/group', {
      ...{ seq, group, rest: seq % group, near: divisorsNear(seq, group) },
    })
  if (moe.capacity && roomOf(moe, seq).room === 0) yield refused('model.moe.capacity.least', 'model/experts/room')
}

/** Which ranks hold which experts: the grid of experts, beside that of the other layers. */
export const ranksOfExperts: Rule = function* ({ model, plan }) {
  const moe = expertsOf(model)
  const { dp, cp, tp, ep, etp } = plan
  if (!moe && plan.expertCapacity !== usualRows)
    yield advised('plan.expertCapacity', 'plan/no-effect/with', { why: 'a model without experts' })
  if (ep * etp === 1) return
  if (!moe) {
    yield refused(ep > 1 ? 'plan.ep' : 'plan.etp', 'plan/experts/none', { ep, etp })
    return
  }
  const { kvHeads } = model as LlamaConfig // the only family with experts
  const ranks = dp * cp * tp
  const ways = ep * etp
  const axes = { dp, cp, tp, ep, etp }
  const fitting = () => fittingNear(moe, plan, kvHeads)
  if (ranks % ways !== 0)
    yield refused('plan.ep', 'plan/experts/ranks', { ...axes, ranks, ways, rest: ranks % ways, fitting: fitting() })
  else if (!commonFactors(denseGrid(plan, kvHeads), expertGrid(plan)))
    yield refused('plan.etp', 'plan/experts/grids', {
      ...{ ...axes, copies: ranks / ways, ends: { joint: ',', of: endsIn(plan, kvHeads) }, fitting: fitting() },
    })
  if (plan.rankOrder !== defaultOrder)
    yield refused('plan.rankOrder', 'plan/experts/order', { usual: defaultOrder, order: plan.rankOrder })
  yield* sharesOfExperts(moe, plan, fitting)
}

/** The nearest ep and etp with which ranks and experts can be shared, one of the two as it is; else neither is split. */
function fittingNear({ experts, ffn }: MoeConfig, plan: Plan, kvHeads: number): string[] {
  const { dp, cp, tp, ep, etp } = plan
  const ranks = dp * cp * tp
  const fits = (now: { readonly ep: number; readonly etp: number }) =>
    [ranks % (now.ep * now.etp), experts % now.ep, ffn % now.etp].every(rest => rest === 0) &&
    commonFactors(denseGrid(plan, kvHeads), expertGrid({ dp, cp, tp, ...now })) !== undefined
  const near = (field: 'ep' | 'etp') => {
    const now = { ep, etp }
    const found = divisors(ranks).filter(n => n !== now[field] && fits({ ...now, [field]: n }))
    const nearest = [found.findLast(n => n < now[field]), found.find(n => n > now[field])]
    return nearest.filter(n => n !== undefined).map(n => `${field} ${n}`)
  }
  const found = [...near('ep'), ...near('etp')]
  return found.length > 0 ? found : ['ep 1, etp 1']
}

/** Every rank has as many experts as any other, and as much of each. */
function* sharesOfExperts({ experts, ffn }: MoeConfig, { ep, etp }: Plan, fitting: () => string[]): Iterable<Problem> {
  if (experts % ep !== 0)
    yield refused('plan.ep', 'plan/experts/each', { experts, ep, rest: experts % ep, fitting: fitting() })
  if (ffn % etp !== 0)
    yield refused('plan.etp', 'plan/experts/width', { ffn, etp, rest: ffn % etp, fitting: fitting() })
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
    yield refused('plan.tp', 'plan/experts/rows', {
      ...{ seq, divisor: `cp ${cp} x tp ${tp}${etp > 1 ? ` / etp ${etp}` : ''}`, ways },
      ...{ rest: seq % ways, next: roundUp(seq, ways) },
    })
}
