/** The layer that is to move from a busy stage, tried out: which stage it should go to, and what a step takes then. */

import { simulateOn } from '../calibrate/index.js'
import type { Cluster } from '../cluster/index.js'
import { compileJob } from '../compile/index.js'
import type { HealthEvent } from '../health/index.js'
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
  const busy = `stage ${from} is busy ${(busiest / mean).toFixed(2)} times as long as a mean stage`
  const { advice: _, command: __, ...told } = finding
  if (!best || best.seconds >= before)
    return {
      ...told,
      message: `${busy}; no layer moved elsewhere makes a step shorter`,
      numbers: { from, busiest, mean },
    }
  const gain = Number((1 - best.seconds / before).toFixed(3))
  return {
    ...finding,
    message: `${busy}: move one layer from stage ${from} to ${best.to}: -${(100 * gain).toFixed(0)} % of a step, by simulation on ${cluster.name}`,
    numbers: { from, to: best.to, gain, busiest, mean, before, after: best.seconds },
    advice: `plan.layers: [${best.layers.join(', ')}]`,
  }
}

const secondsOf = (job: Job, layers: readonly number[], cluster: Cluster): number =>
  simulateOn(compileJob({ ...job, plan: { ...job.plan, layers: [...layers] } }), cluster).step
