/** A simulated step in the figures people compare: rates, memory against the device, and what a whole run takes. */
import { worldOf } from '../base/index.js'
import type { Cluster, Precision } from '../cluster/index.js'
import { multipliesIn, peakOf } from '../cost/index.js'
import { capacityOf } from '../estimate/index.js'
import type { Program } from '../ir/index.js'
import { flopsDefinitionOf, flopsOfToken, windowOf } from '../model/index.js'
import { adaptersOf, type Job } from '../plan/index.js'
import { goodputOf, rankLoadOf, ratesOf, runOf, type Simulation } from '../simulate/index.js'

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
  const tokens = job.training.globalBatch * job.training.seq
  const precision = multipliesIn(program, asked.multiply)
  const peak = peakOf(cluster.device, precision)
  const { products, attention } = flopsOfToken(job.model, job.training.seq, adaptersOf(job))
  const perToken = products + attention
  // Half of the attention is masked: Llama 3's figures leave it out, PaLM's do not.
  const causal = products + attention / 2
  const rates = ratesOf(simulation, { devices, tokens, peak, modelFlops: perToken * tokens })
  const failures =
    asked.mtbf === undefined
      ? undefined
      : goodputOf(
          { mtbf: asked.mtbf, devices, checkpoint: asked.checkpoint, restart: asked.restart },
          asked.checkpointEvery,
        )
  const price = asked.price ?? cluster.device.pricePerHour
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
    load: rankLoadOf(program, cluster, busiest, asked.multiply),
    ...(asked.measuredStep === undefined ? {} : { measuredStep: asked.measuredStep }),
    precision,
    tokensPerSecond: rates.tokensPerSecond,
    flopsPerDevice: rates.flopsPerDevice,
    mfu: { palm: rates.mfu, causal: (rates.mfu * causal) / perToken },
    hfu: rates.hfu,
    flops,
    memory: {
      ...memory,
      usable: capacityOf(cluster.device),
      ...(cluster.host && { usableHost: cluster.host.memory }),
      ...(cluster.disk?.memory && { usableDisk: cluster.disk.memory }),
    },
    ...(failures && { failures }),
    ...(asked.tokens === undefined
      ? {}
      : { run: { tokens: asked.tokens, ...runOf(step, { devices, tokens, peak, modelFlops: 0 }, budget) } }),
  }
}
