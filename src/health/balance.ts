/** Work that is not shared evenly: by the stages of the pipeline, and by experts. */
import { coordinatesOf } from '../base/index.js'
import { layersPerStage } from '../plan/index.js'
import type { HealthEvent } from './event.js'
import { median } from './median.js'
import { clause, found, percentOf } from './phrases.js'
import type { StepLine } from './run-reader.js'
import { mostly, type RunFacts, shareOf, tells, type Watch, watchWindow } from './watch.js'

/** Of the time of the busiest stage, what the best move must save. */
const leastGain = 0.08

export const watchStages = (facts: RunFacts): Watch => watchWindow(lines => stagesIn(lines, facts))

export interface Moved {
  readonly from: number
  readonly to: number
  readonly layers: readonly number[]
  /** Of the time of the busiest stage. */
  readonly gain: number
}

function stagesIn(lines: readonly StepLine[], { mesh, job, path, ...facts }: RunFacts): HealthEvent[] {
  if (!mesh || !job || job.plan.pp === 1 || job.plan.chunks > 1 || !tells(lines, { path, ...facts })) return []
  const busyOf = ({ ranks }: StepLine): number[] =>
    Array.from({ length: job.plan.pp }, (_, pp) =>
      median(ranks!.busy.filter((_, rank) => (coordinatesOf(mesh, rank).pp ?? 0) === pp)),
    )
  const layers = layersPerStage(job.plan, job.model.layers)
  const moved = bestMove(middle(lines.map(busyOf)), layers)
  if (!moved || moved.gain < leastGain) return []
  const alike = shareOf(lines, line => {
    const busy = busyOf(line)
    return busy[moved.from] >= Math.max(...busy) - 1e-12
  })
  if (!mostly(alike)) return []
  const busy = middle(lines.map(busyOf))
  const mean = busy.reduce((a, b) => a + b, 0) / busy.length
  const { from, to, gain } = moved
  return [
    found(
      'imbalance/stage',
      {
        ...{ step: lines[lines.length - 1].step, severity: 'warning', where: clause('.at-stage', { stage: from }) },
        numbers: { from, to, gain, busiest: busy[from], mean },
        command: `lockstep check ${path}/job.json`,
      },
      { from, to, times: (busy[from] / mean).toFixed(2), gain: percentOf(gain), layers: moved.layers.join(', ') },
    ),
  ]
}

const middle = (rows: readonly (readonly number[])[]): number[] =>
  rows[0].map((_, i) => median(rows.map(row => row[i])))

/** The move of one layer that shortens the busiest stage most, by what a layer takes in these very stages. */
export function bestMove(busy: readonly number[], layers: readonly number[]): Moved | undefined {
  const cost = layerSeconds(busy, layers)
  const most = Math.max(...busy)
  const from = busy.indexOf(most)
  const moves = busy.flatMap((own, to): Moved[] => {
    if (to === from || layers[from] < 2) return []
    const after = busy.map((time, stage) => (stage === from ? most - cost : stage === to ? own + cost : time))
    const shared = layers.map((n, stage) => n + (stage === to ? 1 : stage === from ? -1 : 0))
    return [{ from, to, layers: shared, gain: Number((1 - Math.max(...after) / most).toFixed(3)) }]
  })
  return moves.length === 0 ? undefined : moves.reduce((a, b) => (b.gain > a.gain ? b : a))
}

/** What one layer takes: from stages that differ in how many they hold, beside embedding and head; else an equal share. */
function layerSeconds(busy: readonly number[], layers: readonly number[]): number {
  const pairs = busy.flatMap((time, i) =>
    layers.flatMap((n, j) => (n < layers[i] ? [(time - busy[j]) / (layers[i] - n)] : [])),
  )
  const total = (all: readonly number[]) => all.reduce((a, b) => a + b, 0)
  const share = total(busy) / total(layers)
  const found = median(pairs)
  return found > 0 ? Math.min(found, share) : share
}

export const watchExperts = (facts: RunFacts): Watch => watchWindow(lines => expertsIn(lines, facts))

function expertsIn(lines: readonly StepLine[], { job }: RunFacts): HealthEvent[] {
  const loads = lines.flatMap(({ experts }) => experts ?? [])
  const moe = job?.model.family === 'llama' ? job.model.moe : undefined
  if (loads.length < lines.length || !moe) return []
  const tokens = (median(lines.map(({ counted = 0 }) => counted)) * moe.topK) / moe.experts
  // The busiest of many is above the mean by chance alone.
  const limit = Math.max(2.5, 1.5 * (1 + 3 / Math.sqrt(tokens)))
  if (!mostly(shareOf(loads, ({ busiest }) => busiest > limit))) return []
  const [busiest, idle] = [median(loads.map(one => one.busiest)), median(loads.map(one => one.idle))]
  const { layer, busiestRank } = loads[loads.length - 1]
  const nobody = idle >= 1 ? clause('.idle', { idle: Math.round(idle), experts: moe.experts }) : ''
  const rank = busiestRank === undefined ? '' : clause('.busiest', { times: busiestRank })
  return [
    found(
      'imbalance/experts',
      {
        ...{ step: lines[lines.length - 1].step, severity: 'warning', where: clause('.at-experts', { layer }) },
        numbers: { busiest, idle, ...(busiestRank !== undefined && { busiestRank, gain: 1 - 1 / busiestRank }) },
      },
      { times: busiest.toFixed(1), idle: nobody, rank },
    ),
  ]
}
