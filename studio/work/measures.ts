/** Rooflines and failures: what kernels of a rank do with a device, and what is left of a run that fails now and then. */
import {
  clusterOf,
  clusterPrices,
  type Goodput,
  goodputOf,
  type KernelLoad,
  kernelLoads,
  ridgeOf,
  worldOf,
} from 'lockstep'
import { type JobText, programOf } from './jobs.js'

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
