/**
 * Whether we would have chosen well. Where a study measured many plans of one model on the same devices with the same
 * batch, the plan predicted to be fastest is looked up: how much slower was it than the fastest that was measured?
 */
import type { Timed } from './times.js'

export interface Ranking {
  readonly study: string
  readonly model: string
  readonly devices: number
  readonly batch: number
  /** Different plans that were measured. */
  readonly plans: number
  /** Measured seconds of the plan we choose, and of the best one. */
  readonly chosen: number
  readonly best: number
  /** chosen / best - 1 */
  readonly regret: number
}

/** Fewer plans than this are no choice. */
const fewest = 3

export function rankings(timed: readonly Timed[]): Ranking[] {
  const groups = groupBy(timed, ({ study, row, setup: { shape, cluster } }) =>
    JSON.stringify([study, shape, cluster.device.name, cluster.devices, row.global_batch_seqs, row.precision]),
  )
  return groups.flatMap(group => {
    // The same plan measured twice is one plan, with the mean of its times.
    const plans = groupBy(group, ({ setup: { split, software } }) => JSON.stringify([split, software])).map(meanOf)
    return plans.length < fewest ? [] : [rankingOf(group[0], plans)]
  })
}

const meanOf = (runs: readonly Timed[]) => ({
  measured: runs.reduce((sum, { measured }) => sum + measured, 0) / runs.length,
  predicted: runs[0].predicted,
})

function rankingOf({ study, row, setup }: Timed, plans: readonly ReturnType<typeof meanOf>[]): Ranking {
  const chosen = plans.reduce((a, b) => (b.predicted < a.predicted ? b : a)).measured
  const best = Math.min(...plans.map(({ measured }) => measured))
  return {
    study,
    model: row.model,
    devices: setup.cluster.devices,
    batch: row.global_batch_seqs ?? 0,
    plans: plans.length,
    chosen,
    best,
    regret: chosen / best - 1,
  }
}

export const meanRegret = (all: readonly Ranking[]): number =>
  all.reduce((sum, { regret }) => sum + regret, 0) / all.length

export function medianRegret(all: readonly Ranking[]): number {
  const sorted = all.map(({ regret }) => regret).sort((a, b) => a - b)
  const middle = sorted.length / 2
  return (sorted[Math.ceil(middle) - 1] + sorted[Math.floor(middle)]) / 2
}

function groupBy<T>(items: readonly T[], key: (item: T) => string): T[][] {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const name = key(item)
    const group = groups.get(name)
    if (group) group.push(item)
    else groups.set(name, [item])
  }
  return [...groups.values()]
}
