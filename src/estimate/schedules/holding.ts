/**
 * What a pipeline rank holds: its layers, and the moments when most lies there. That depends on the pipeline and the
 * number of microbatches alone, which plans share by the thousand: it is found once for all of them.
 */
import { scheduleFacts } from '../../plan/index.js'
import type { Split } from '../setup.js'
import { exceedsAll, grown, type Moments, momentsOf, momentWidth } from './moments.js'
import type { PlayedOrders } from './order.js'
import type { Pipeline, RankLayers } from './stages.js'

export interface Holding extends RankLayers {
  /** Layers in flight at the most, whatever their state. */
  readonly held: number
  /** Of these, between forward and input gradient, at the most. */
  readonly open: number
  readonly moments: Moments
}

export interface Holdings {
  readonly all: readonly Holding[]
  /** Ranks of which one is the heaviest: earlier ranks first. */
  readonly undominated: readonly Holding[]
}

export function holdingsOf(split: Split, { stages, ranks }: Pipeline, { order }: PlayedOrders): Holdings {
  const more = split.microbatches / order.microbatches
  const moments = momentsOf(order, stages)
  const grows = more > 1 && scheduleFacts[split.schedule].forwardsFirst
  const all = ranks.map(({ layers, first, last }, rank): Holding => {
    const own = grows ? grown(moments[rank], more) : moments[rank]
    let [held, open] = [0, 0]
    for (let at = 0; at < own.length; at += momentWidth) {
      held = Math.max(held, own[at + 1] + own[at + 2])
      open = Math.max(open, own[at + 1])
    }
    return { layers, first, last, held, open, moments: own }
  })
  return { all, undominated: undominated(all) }
}

/** Memory grows with each number: who has no more of anything than another is not the heaviest. */
function undominated(all: readonly Holding[]): Holding[] {
  const kept: Holding[] = []
  for (const one of all) if (!kept.some(other => covers(other, one))) kept.push(one)
  return kept.filter((one, i) => !kept.some((other, j) => j !== i && covers(other, one)))
}

const covers = (a: Holding, b: Holding): boolean =>
  a.layers >= b.layers &&
  a.held >= b.held &&
  (a.first || !b.first) &&
  (a.last || !b.last) &&
  exceedsAll(a.moments, b.moments)
