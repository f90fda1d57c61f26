/** This machine, as its operating system describes it. */
import { availableParallelism, cpus, totalmem } from 'node:os'
import type { Host } from '../calibrate/index.js'

/** This machine: its cores, kernels and clock, for `calibration`. */
export const thisHost = (): Host => ({
  cpu: cpus()[0]?.model.trim() || process.arch,
  cores: availableParallelism(),
  // 0: nobody set a limit.
  memory: Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY),
})
