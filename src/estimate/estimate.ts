/**
 * The price of a step, nothing compiled. A microbatch costs a stage the sum of its layers, with the communication its
 * software leaves exposed; the schedule is played on the costs of its stages; what happens once a step comes on top.
 * Layers are priced once for each cut (`prices.ts`).
 */
import { type Seconds, seconds } from '../base/index.js'
import { footprint } from './memory.js'
import type { Estimate, Footprint, Parts, Setup } from './setup.js'
import { CutPrice } from './step-price.js'

/** Predicts step time and memory of a plan without compiling or simulating it. */
export const estimate = (setup: Setup): Estimate => withMemory(timesOf(setup), footprint(setup))

/** Written out: spreading takes longer than the sums do. */
export const withMemory = ({ step, parts, flops }: Omit<Estimate, 'memory'>, memory: Footprint): Estimate => ({
  step,
  parts,
  memory,
  flops,
})

/** Without the memory, which a search need not know of every plan. */
export const timesOf = (setup: Setup): Omit<Estimate, 'memory'> => new CutPrice(setup).withPipeline(setup).times()

/**
 * An estimate scaled to a measured step time. All categories are scaled alike: one factor for what a catalog cannot
 * know of a cluster.
 */
export function calibrated<E extends Omit<Estimate, 'memory'>>(estimate: E, measured: Seconds): E {
  const scale = measured / estimate.step
  const parts = Object.fromEntries(Object.entries(estimate.parts).map(([name, part]) => [name, seconds(part * scale)]))
  return { ...estimate, step: measured, parts: parts as unknown as Parts } // the same names as before
}
