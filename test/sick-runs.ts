/**
 * Run folders of runs that are ill, and of healthy ones. What a step of a cluster looks like comes from the simulation of the
 * very program on a cluster with that illness; what an illness of learning or of data looks like is written down as a run
 * would have it.
 */

import { coordinatesOf, worldOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import type { Patient } from '../src/doctor/index.js'
import type { StepLine } from '../src/health/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'

export interface Illness {
  readonly model?: object
  readonly plan?: object
  readonly training?: object
  /** What every step has beside its usual numbers; steps count from 1. */
  readonly lines?: (step: number, line: StepLine) => Partial<StepLine>
  /** Times as long as others take. */
  readonly slowRank?: readonly [rank: number, factor: number]
  /** The same of collectives along dp, of the group of this rank. */
  readonly slowLink?: readonly [rank: number, factor: number]
  readonly steps?: number
}

const healthy = {
  model: { family: 'llama', layers: 16, embed: 4096, heads: 32, kvHeads: 8, ffn: 14336, vocab: 128256 },
  training: { seq: 4096, globalBatch: 64, optimizer: { kind: 'adamw', lr: 3e-4 } },
  plan: { dp: 2, tp: 4, precision: 'bf16', zero: 1, microbatches: 16, sequenceParallel: true },
}

/** A little noise, the same each time. */
const noise = (step: number, rank = 0): number => 1 + 0.01 * Math.sin(12.9898 * step + 78.233 * rank)

export function runOf(illness: Illness): Patient {
  const job = Job.parse({
    model: { ...healthy.model, ...illness.model },
    training: { ...healthy.training, ...illness.training },
    plan: { ...healthy.plan, ...illness.plan },
  } as JobInput)
  const program = compileJob(job)
  const world = worldOf(program.mesh)
  const cluster = clusterOf('h100', world)
  const { step: seconds, stages, parts } = simulate(program, clusterPrices(program, cluster), { watch: [] })
  const { slowRank = [-1, 1], slowLink = [-1, 1] } = illness
  const at = (rank: number) => coordinatesOf(program.mesh, rank)
  const alike = (a: number, b: number) =>
    b >= 0 && JSON.stringify({ ...at(a), dp: 0 }) === JSON.stringify({ ...at(b), dp: 0 })
  const all = Array.from({ length: world }, (_, rank) => rank)
  const lineOf = (step: number): StepLine => {
    const busy = all.map(rank => {
      const { compute, recompute, optimizer, other } = stages[at(rank).pp ?? 0]
      return (compute + recompute + optimizer + other) * noise(step, rank) * (rank === slowRank[0] ? slowRank[1] : 1)
    })
    const dp = all.map(
      rank => Math.max(parts.dp, 0.02 * seconds) * noise(step, rank) * (alike(rank, slowLink[0]) ? slowLink[1] : 1),
    )
    const most = Math.max(...busy)
    const late = busy.map(own => (own === most ? busy.reduce((sum, other) => sum + most - other, 0) : 0))
    const took = (seconds + most - busy[0] + Math.max(...dp) - Math.min(...dp)) * noise(step)
    const ranks = { seconds: took, compute: busy, busy, network: { dp }, waiting: busy.map(own => most - own), late }
    const line = {
      step,
      loss: 4 * step ** -0.1 + 0.01 * Math.sin(step * step),
      gradientNorm: noise(step, 5),
      lr: 3e-4,
      seconds: took,
      counted: 262144,
      ranks,
    }
    return { ...line, ...illness.lines?.(step, line) }
  }
  const steps = Array.from({ length: illness.steps ?? 40 }, (_, i) => lineOf(i + 1))
  return { run: { path: 'run', info: undefined, job, steps, events: [], flight: undefined }, job, program, cluster }
}
