/** The layer that is to move from a busy stage, tried out: which stage it should go to, and what a step takes then. */

import { simulateOn } from '../calibrate/index.js'
import type { Cluster } from '../cluster/index.js'
import { compileJob } from '../compile/index.js'
import { found, type HealthEvent, percentOf } from '../health/index.js'
import { type Job, layersPerStage } from '../plan/index.js'

interface Tried {
  readonly to: number
  readonly layers: readonly number[]
  readonly seconds: number
}

/** The finding with the move that a simulation prefers, and without a move where none helps. */
export function simulatedMove(finding: HealthEvent, job: Job, cluster: Cluster): HealthEvent {
  const { from, busiest, mean } = finding.numbers
  if (finding.event !== 'imbalance' || typeof from !== 'number' || !busiest || !mean) return finding
  const held = layersPerStage(job.plan, job.model.layers)
  const before = secondsOf(job, held, cluster)
  const tried = held.flatMap((_, to): Tried[] => {
    const layers = held.map((n, stage) => n + Number(stage === to) - Number(stage === from))
    return to === from || layers[from] < 1 ? [] : [{ to, layers, seconds: secondsOf(job, layers, cluster) }]
  })
  const best = tried.toSorted((a, b) => a.seconds - b.seconds).at(0)
  const times = (busiest / mean).toFixed(2)
  const { advice: _, command, ...told } = finding
  if (!best || best.seconds >= before)
    return found('imbalance/no-move', { ...told, numbers: { from, busiest, mean } }, { from, times })
  const [gain, to] = [Number((1 - best.seconds / before).toFixed(3)), best.to]
  return found(
    'imbalance/simulated',
    { ...told, ...(command && { command }), numbers: { from, to, gain, busiest, mean, before, after: best.seconds } },
    { from, to, times, gain: percentOf(gain), cluster: cluster.name, layers: best.layers.join(', ') },
  )
}

const secondsOf = (job: Job, layers: readonly number[], cluster: Cluster): number =>
  simulateOn(compileJob({ ...job, plan: { ...job.plan, layers: [...layers] } }), cluster).step
