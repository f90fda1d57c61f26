/** Rooflines and failures: what kernels of a rank do with a device, and what is left of a run that fails now and then. */
import {
  clusterOf,
  clusterPrices,
  flopDefinitions,
  type Goodput,
  goodputOf,
  type KernelLoad,
  kernelLoads,
  ratesOf,
  ridgeOf,
  shapeOf,
  simulate,
  workOfJob,
  worldOf,
} from 'lockstep'
import { type JobText, jobOf, programOf } from './jobs.js'

export interface RooflineAnswer {
  readonly kernels: readonly KernelLoad[]
  /** FLOP a byte at which a device has as much to do as to fetch. */
  readonly ridge: number
  readonly peak: number
  readonly bandwidth: number
}

/** The kernels that take longest; the rest is a few per cent. */
const most = 12

export function roofline({ job, device: name }: { readonly job: JobText; readonly device: string }): RooflineAnswer {
  const program = programOf(job)
  const cluster = clusterOf(name, worldOf(program.mesh))
  const kernels = kernelLoads(program, clusterPrices(program, cluster), 0).slice(0, most)
  const { device } = cluster
  const ridge = ridgeOf(device, 'bf16')
  return { kernels, ridge, peak: ridge * device.bandwidth, bandwidth: device.bandwidth }
}

/** Counts of a step's FLOPs that are in print; the last is PaLM's with recomputation, the basis of HFU. */
export const counts = ['palm', 'sc21', 'korthikanti', 'llama3', 'hardware'] as const
export type Count = (typeof counts)[number]

export interface Utilised {
  readonly count: Count
  readonly flops: number
  /** Of what the devices could do in the step. */
  readonly share: number
}

export interface UtilisationAnswer {
  readonly rows: readonly Utilised[]
  readonly step: number
  /** As `lockstep simulate` says it, of FLOPs by PaLM's rule. */
  readonly mfu: number
  readonly hfu: number
}

/** One simulated step, by every definition of its utilisation. */
export function utilisation({
  job: text,
  device,
}: {
  readonly job: JobText
  readonly device: string
}): UtilisationAnswer {
  const [job, program] = [jobOf(text), programOf(text)]
  const cluster = clusterOf(device, worldOf(program.mesh))
  const simulation = simulate(program, clusterPrices(program, cluster), { watch: [] })
  const { step } = simulation
  const work = workOfJob({ job, program, cluster, simulation })
  const { mfu, hfu } = ratesOf(step, work)
  const shape = shapeOf(job.model, job.training.seq)!
  const possible = work.peak * work.devices * step
  const counted = (count: Count): number =>
    count === 'hardware'
      ? work.modelFlops + (work.recomputedFlops ?? 0)
      : job.training.globalBatch * flopDefinitions[count](shape)
  const rows = counts.map(count => ({ count, flops: counted(count), share: counted(count) / possible }))
  return { rows, step, mfu, hfu }
}

export interface FaultsInput {
  readonly devices: number
  /** Of one device, in seconds. */
  readonly mtbf: number
  readonly checkpoint: number
  readonly restart: number
}

export interface FaultsAnswer {
  readonly best: Goodput
  /** The useful share at intervals around the best one. */
  readonly curve: readonly { readonly interval: number; readonly share: number }[]
}

export function faults(input: FaultsInput): FaultsAnswer {
  const best = goodputOf(input)
  const factors = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16]
  return {
    best,
    curve: factors.map(factor => ({
      interval: best.interval * factor,
      share: goodputOf(input, best.interval * factor).share,
    })),
  }
}
