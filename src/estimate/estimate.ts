/**
 * The price of a step, nothing compiled. A microbatch costs a stage the sum of its layers, with the communication its
 * software leaves exposed; the schedule is played on the costs of its stages; what happens once a step comes on top.
 * Layers are priced once for each cut (`prices.ts`).
 */
import { type Seconds, seconds } from '../base/index.js'
import { scheduleFacts } from '../plan/index.js'
import { type KnownPipeline, pipelineIn, tableOf } from './book.js'
import { flopsOfStep } from './flops.js'
import { footprint } from './memory.js'
import { type LayerCost, layerCost } from './others/layer-cost.js'
import { pipelineFlights } from './own/data.js'
import { type Ends, ownEnds } from './own/ends.js'
import { flyingBlocks, trafficOf } from './own/flying.js'
import type { BlockTime, OwnLayerCost } from './own/layer.js'
import { holderSums } from './own/sums.js'
import type { Prices, PriceTable } from './prices.js'
import { busiestOf, layerTimes, meanTimes, type StageParts, stageTimes, usualEnds } from './rank-cost.js'
import { type PipelineCosts, playPipeline, taskCosts } from './schedules/play.js'
import type { Estimate, Footprint, Parts, Setup } from './setup.js'
import { dataCost, messageCost, optimizerCost } from './step-cost.js'

export const estimate = (setup: Setup): Estimate => withMemory(timesOf(setup), footprint(setup))

/** Written out: spreading takes longer than the sums do. */
export const withMemory = ({ step, parts, flops }: Omit<Estimate, 'memory'>, memory: Footprint): Estimate => ({
  step,
  parts,
  memory,
  flops,
})

/** What a microbatch costs, whatever its pipeline. */
interface Costs {
  readonly known: KnownPipeline
  readonly table: PriceTable
  readonly prices: Prices
  readonly layer: LayerCost
  readonly parts: StageParts
  /** Of our own program, what its flights go by. */
  readonly own?: { readonly layer: BlockTime; readonly ends: Ends<BlockTime> }
}

function costsOf(setup: Setup): Costs {
  const known = pipelineIn(setup)
  const table = tableOf(setup)
  const prices = table.of(setup.split)
  const layer = layerCost(setup, table, prices)
  const { backward } = scheduleFacts[setup.split.schedule]
  const times = layerTimes(layer)
  if (!prices.own || !('block' in layer))
    return { known, table, prices, layer, parts: { layer: times, ends: usualEnds(prices), backward } }
  const ends = ownEnds(setup, table, prices, prices.own.work)
  const own = { layer: (layer as OwnLayerCost).block, ends }
  const parts = { layer: times, ends: { first: ends.first.seconds, last: ends.last.seconds }, backward }
  return { known, table, prices, layer, parts, own }
}

/** Without the memory, which takes longer to find than the time: a search seldom needs both. */
export function timesOf(setup: Setup): Omit<Estimate, 'memory'> {
  const { split, software } = setup
  const { pp, chunks, microbatches } = split
  const costs = costsOf(setup)
  const { known, layer, parts, prices, table } = costs
  const busiest = busiestOf(known.pipeline, prices, parts)
  const { end, pipelined, data } = playedTimes(setup, costs, busiest)
  const message = messageCost(setup, table, prices, 1)
  const optimizer = optimizerCost(setup, busiest.parameters)
  // What the busiest rank sends and waits for on the way, and all else it waits for.
  const exposed = 2 * software.exposed.pp * message * chunks * microbatches
  const waited = Math.max(0, pipelined - busiest.busy - data.within - exposed)
  const handing = exposed + Math.min(waited, 2 * message * (pp - 1))
  const late = (end + optimizer) * latenessOf(setup)
  const layers = busiest.rank.layerTurns
  return {
    step: seconds(end + optimizer + late),
    parts: {
      compute: seconds(layers * layer.compute + busiest.endsBusy),
      recompute: seconds(layers * layer.recompute),
      bubble: seconds(end - data.after - busiest.busy - data.within - handing),
      tp: seconds(layers * layer.tp + busiest.endsTp),
      dp: seconds(data.within + data.after + layers * layer.gather),
      pp: seconds(handing),
      cp: seconds(layers * layer.cp),
      ep: seconds(layers * layer.ep),
      optimizer: seconds(optimizer),
      other: seconds(late + layers * layer.launch),
    },
    flops: flopsOfStep(setup),
  }
}

/** Of stragglers, as a share of the step. */
const latenessOf = ({ software, cluster }: Setup): number =>
  software.jitter * Math.max(0, Math.log2(cluster.devices / 64))

interface PlayedTimes {
  /** When the last task is done, and when gradients are sums everywhere. */
  readonly pipelined: number
  readonly end: number
  /** Of the busiest rank: what its flights add to its tasks, and what comes after the last of them. */
  readonly data: { readonly within: number; readonly after: number }
}

function playedTimes(setup: Setup, costs: Costs, busiest: ReturnType<typeof busiestOf>): PlayedTimes {
  const { split, software } = setup
  const { known, table, prices, parts } = costs
  const { pipeline, orders } = known
  const [near, far] = [1, split.pp - 1].map(ranks => messageCost(setup, table, prices, ranks))
  const tasks = taskCosts(stageTimes(pipeline, parts, software.exposed.pp * near))
  const flights = costs.own && flightsOf(setup, costs)
  const played = playPipeline(orders, split.microbatches, { tasks, near, far, ...(flights && { flights }) })
  const pipelined = Math.max(busiest.busy, ...played.finish)
  if (!costs.own) {
    const after = dataCost(setup, table, prices, busiest.parameters, meanTimes(busiest.rank, parts, split.microbatches))
    return { pipelined, end: pipelined + after, data: { within: 0, after } }
  }
  const end = Math.max(...holderSums(setup, table, prices, pipeline, played.finish), pipelined)
  const at = pipeline.ranks.indexOf(busiest.rank)
  const within = Math.max(0, played.finish[at] - played.idle[at] - busiest.busy)
  return { pipelined, end, data: { within, after: end - pipelined } }
}

function flightsOf(setup: Setup, { known, table, prices, own }: Costs): PipelineCosts['flights'] {
  const { pipeline, orders } = known
  const traffic = trafficOf(setup, table)
  const blocks = flyingBlocks(setup, prices, traffic, own!.layer, own!.ends)
  return pipelineFlights(setup, traffic, blocks, pipeline, orders.order)
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
