/** A simulated step in the figures people compare: rates, memory against the device, and what a whole run takes. */
import { worldOf } from '../base/index.js'
import type { Cluster, Precision } from '../cluster/index.js'
import { multipliesIn, peakOf } from '../cost/index.js'
import { capacityOf } from '../estimate/index.js'
import type { Program } from '../ir/index.js'
import { bubbleOf, exposedOf, headroomOf, linkUseOf, ratesOf, runOf, type StepWork } from '../metrics/index.js'
import { flopsDefinitionOf, flopsOfToken, windowOf } from '../model/index.js'
import { adaptersOf, type Job } from '../plan/index.js'
import { goodputOf, linkTraffic, rankLoadOf, type Simulation } from '../simulate/index.js'
import { recomputedOf } from './as-simulated.js'

export interface SimulatedJob {
  readonly job: Job
  readonly program: Program
  readonly cluster: Cluster
  readonly simulation: Simulation
  readonly scale: number
}

/** What to make of a simulated step. */
export interface ForecastOptions {
  readonly tokens?: number
  readonly price?: number
  readonly mtbf?: number
  readonly checkpoint: number
  readonly restart: number
  readonly checkpointEvery?: number
  readonly measuredStep?: number
  readonly multiply?: Precision
}

/** The figures that `lockstep simulate` prints, as data. */
export type Forecast = ReturnType<typeof forecastOf>

/** Collects the figures that `lockstep simulate` prints. `scale` is the calibration factor of the costs. */
export function forecastOf({ job, program, cluster, simulation, scale }: SimulatedJob, asked: ForecastOptions) {
  const busiest = simulation.memory.pp
  const { step, parts, stages, flops, memory, roles } = simulation
  const devices = worldOf(program.mesh)
  const usable = capacityOf(cluster.device)
  const tokens = job.training.globalBatch * job.training.seq
  const failures =
    asked.mtbf === undefined
      ? undefined
      : goodputOf(
          { mtbf: asked.mtbf, devices, checkpoint: asked.checkpoint, restart: asked.restart },
          asked.checkpointEvery,
        )
  const price = asked.price ?? cluster.device.pricePerHour
  const work = workOfJob({ job, program, cluster, simulation }, asked)
  const { mfu, hfu, ...rates } = ratesOf(step, work)
  const budget = {
    tokens: asked.tokens ?? 0,
    ...(price === undefined ? {} : { price }),
    ...(failures && { goodput: failures.share }),
  }
  return {
    name: job.name ?? program.name,
    flopsDefinition: flopsDefinitionOf({
      adapters: job.training.lora !== undefined,
      limited: (windowOf(job.model) ?? job.training.seq) < job.training.seq,
    }),
    cluster: { name: cluster.name, device: cluster.device.title, devices },
    step,
    tokens,
    ...{ parts, stages, roles: roles.length, scale },
    ...expertRowsOf(job),
    bubble: bubbleOf(stages, step),
    exposed: exposedOf(parts, step),
    load: rankLoadOf(program, cluster, busiest, asked.multiply),
    ...(asked.measuredStep === undefined ? {} : { measuredStep: asked.measuredStep }),
    links: linkUseOf(linkTraffic(program, cluster, busiest), step),
    precision: multipliesIn(program, asked.multiply),
    ...rates,
    mfu: { palm: mfu, causal: mfu * causalShare(job) },
    hfu,
    flops,
    memory: {
      ...memory,
      usable,
      headroom: headroomOf(memory.arena, usable),
      ...(cluster.host && { usableHost: cluster.host.memory }),
      ...(cluster.disk?.memory && { usableDisk: cluster.disk.memory }),
    },
    ...(failures && { failures }),
    ...(asked.tokens === undefined ? {} : { run: { tokens: asked.tokens, ...runOf(step, work, budget) } }),
  }
}

/** The work of a simulated step: model FLOPs by PaLM's definition, and those of recomputation counted alike. */
export function workOfJob(
  { job, program, cluster, simulation }: Omit<SimulatedJob, 'scale'>,
  { multiply, price = cluster.device.pricePerHour }: Pick<ForecastOptions, 'multiply' | 'price'> = {},
): StepWork {
  const tokens = job.training.globalBatch * job.training.seq
  const { products, attention } = flopsOfToken(job.model, job.training.seq, adaptersOf(job))
  return {
    ...{ devices: worldOf(program.mesh), tokens, peak: peakOf(cluster.device, multipliesIn(program, multiply)) },
    modelFlops: (products + attention) * tokens,
    recomputedFlops: recomputedOf(simulation),
    ...(price !== undefined && { price }),
  }
}

/** Rows that experts compute over those of a balanced load: buffers are multiplied whole, rows without a token too. */
function expertRowsOf({ model, plan: { ep, etp, expertCapacity: rows } }: Job): { expertRows?: number } {
  if (model.family !== 'llama' || !model.moe) return {}
  const worst = Math.min(ep * etp, model.moe.experts / model.moe.topK)
  return { expertRows: rows === 'worst' ? worst : Math.min(rows, worst) }
}

/** Model FLOPs by Llama 3's definition, which leaves out the masked half of attention, over PaLM's. */
function causalShare(job: Job): number {
  const { products, attention } = flopsOfToken(job.model, job.training.seq, adaptersOf(job))
  return (products + attention / 2) / (products + attention)
}
