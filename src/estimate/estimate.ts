/**
 * The price of a step in closed form, nothing compiled. A microbatch costs a pipeline rank the sum of its layers, with
 * the communication its software leaves exposed; the schedule turns ranks and microbatches into time; what happens
 * once a step comes on top. Layers are priced once for each cut (`prices.ts`), so a plan costs a few dozen additions.
 */
import { type Seconds, seconds } from '../base/index.js'
import { tableOf } from './book.js'
import { flopsOfStep } from './flops.js'
import { footprint } from './memory.js'
import { layerCost } from './others/layer-cost.js'
import { ranksOf } from './rank-cost.js'
import { bubbleOf } from './schedules/pipeline.js'
import type { Estimate, Footprint, Parts, Setup } from './setup.js'
import { dataCost, handingCost, optimizerCost } from './step-cost.js'

export const estimate = (setup: Setup): Estimate => withMemory(timesOf(setup), footprint(setup))

/** Written out: spreading takes longer than the sums do. */
export const withMemory = ({ step, parts, flops }: Omit<Estimate, 'memory'>, memory: Footprint): Estimate => ({
  step,
  parts,
  memory,
  flops,
})

/** Without the memory, which takes longer to find than the time: a search seldom needs both. */
export function timesOf(setup: Setup): Omit<Estimate, 'memory'> {
  const { split, cluster, software } = setup
  const { pp, chunks, microbatches } = split
  const table = tableOf(setup)
  const prices = table.of(split)
  const layer = layerCost(setup, table, prices)
  const ranks = ranksOf(setup, table, prices, layer)
  const { busiest } = ranks
  const bubble = bubbleOf(split.schedule, { ranks: pp, chunks, microbatches, busiest, sum: ranks.sum })
  const pipeline = handingCost(setup, table, prices, ranks)
  const data = dataCost(setup, table, prices, ranks)
  const optimizer = optimizerCost(setup, ranks.parameters)
  const whole = microbatches * (busiest.forward + busiest.input + busiest.weight) + bubble + pipeline + data + optimizer
  const late = whole * software.jitter * Math.max(0, Math.log2(cluster.devices / 64))
  const layers = microbatches * ranks.layers
  return {
    step: seconds(whole + late),
    parts: {
      compute: seconds(layers * layer.compute + microbatches * ranks.ends),
      recompute: seconds(layers * layer.recompute),
      bubble: seconds(bubble),
      tp: seconds(layers * layer.tp + microbatches * ranks.tpEnds),
      dp: seconds(data + layers * layer.gather + microbatches * ranks.flights.each),
      pp: seconds(pipeline),
      cp: seconds(layers * layer.cp),
      ep: seconds(layers * layer.ep),
      optimizer: seconds(optimizer),
      other: seconds(late + layers * layer.launch + microbatches * software.launch.batch),
    },
    flops: flopsOfStep(setup),
  }
}

/**
 * The estimate scaled to a step that was measured: one number for what a catalog cannot know of a cluster (its network,
 * its power cap, the age of its software). Every part is scaled alike.
 */
export function calibrated<E extends Omit<Estimate, 'memory'>>(estimate: E, measured: Seconds): E {
  const scale = measured / estimate.step
  const parts = Object.fromEntries(Object.entries(estimate.parts).map(([name, part]) => [name, seconds(part * scale)]))
  return { ...estimate, step: measured, parts: parts as unknown as Parts } // the same names as before
}
