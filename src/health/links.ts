/**
 * Links that are slower than others like them. Groups along one axis do the same at the same time; the members of one with a
 * slow link all take longer, so of each group the member that took least is compared: it waited for nobody.
 */
import { coordinatesOf, type Mesh, worldOf } from '../base/index.js'
import type { Along } from '../trace/index.js'
import type { HealthEvent } from './event.js'
import { median } from './median.js'
import { clause, found } from './phrases.js'
import type { StepLine } from './run-reader.js'
import { mostly, type RunFacts, shareOf, tells, type Watch, watchWindow } from './watch.js'

/** Times as long as the other groups of the axis, or as predicted. */
const limit = 1.6
/** Of the step: less is not worth a word. */
const leastShare = 0.03

export const watchLinks = (facts: RunFacts): Watch =>
  watchWindow(lines => {
    const { mesh } = facts
    if (!mesh || !tells(lines, facts)) return []
    const axes = Object.keys(lines[0].ranks!.network) as Along[] // its keys
    return axes.filter(along => along !== 'mesh').flatMap(along => slowAlong(along, lines, { ...facts, mesh }))
  })

type Placed = RunFacts & { readonly mesh: Mesh }

function slowAlong(along: Along, lines: readonly StepLine[], facts: Placed): HealthEvent[] {
  const groups = groupsAlong(along, facts.mesh)
  const times = lines.map(({ ranks }) =>
    groups.map(group => Math.min(...group.map(rank => ranks!.network[along]?.[rank] ?? 0))),
  )
  const step = median(lines.map(({ seconds }) => seconds))
  const middles = groups.map((_, i) => median(times.map(row => row[i])))
  const worst = middles.indexOf(Math.max(...middles))
  const others = (row: readonly number[]) => median(row.filter((_, i) => i !== worst))
  const share = groups.length < 2 ? 0 : shareOf(times, row => row[worst] > limit * others(row))
  const base = { step: lines[lines.length - 1].step, severity: 'warning' } as const
  const factor = middles[worst] / others(middles)
  if (mostly(share) && factor > limit && middles[worst] - others(middles) > leastShare * step) {
    const ranks = groups[worst].join(', ')
    const gain = (middles[worst] - others(middles)) / step
    return [
      found(
        'slowLink/group',
        {
          ...{ ...base, where: clause('.at-ranks', { axis: along, ranks }) },
          numbers: { factor: Number(factor.toFixed(2)), seconds: middles[worst], others: others(middles), gain },
        },
        { axis: along, times: factor.toFixed(1), ranks },
      ),
    ]
  }
  return slowEverywhere(along, { middles, step, base }, facts)
}

function slowEverywhere(
  along: Along,
  { middles, step, base }: { middles: readonly number[]; step: number; base: Pick<HealthEvent, 'step' | 'severity'> },
  { prediction }: RunFacts,
): HealthEvent[] {
  const predicted = prediction?.network?.[along]
  const measured = median(middles)
  if (!prediction || predicted === undefined || measured < limit * predicted) return []
  if (measured - predicted < leastShare * step) return []
  const factor = measured / predicted
  const facts = {
    ...{ ...base, where: clause('.at-all-ranks', { axis: along }) },
    numbers: { seconds: measured, predicted, gain: (measured - predicted) / step },
  }
  const words = { axis: along, cluster: prediction.cluster }
  return [
    predicted > 0.001 * step
      ? found('slowLink/everywhere', facts, { ...words, times: factor.toFixed(1) })
      : found('slowLink/much', facts, words),
  ]
}

/** Ranks that differ on the axis alone. */
function groupsAlong(along: Along, mesh: Mesh): number[][] {
  const groups = new Map<string, number[]>()
  const world = worldOf(mesh)
  for (let rank = 0; rank < world; rank++) {
    const others = Object.entries(coordinatesOf(mesh, rank)).filter(([axis]) => axis.split('.')[0] !== along)
    const name = others.map(([axis, at]) => `${axis}${at}`).join(' ')
    groups.set(name, [...(groups.get(name) ?? []), rank])
  }
  return [...groups.values()].filter(group => group.length > 1)
}
