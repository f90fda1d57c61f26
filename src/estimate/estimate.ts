/**
 * The price of a step in closed form, nothing compiled. A microbatch costs a pipeline rank the sum of its layers, with
 * the communication its software leaves exposed; the schedule turns ranks and microbatches into time; what happens
 * once a step comes on top. Layers are priced once for each cut (`prices.ts`), so a plan costs a few dozen additions.
 */
import { seconds } from '../base/index.js'
import { flopsOfStep } from './flops.js'
import { bubbleOf, type RankTime } from './pipeline.js'
import { type Prices, type PriceTable, tableOf } from './prices.js'
import type { Estimate, Footprint, Setup } from './setup.js'

export function estimate(setup: Setup): Estimate {
  const { split, cluster, software } = setup
  const table = tableOf(setup)
  const prices = table.of(split)
  const layer = layerCost(setup, table, prices)
  const stages = stagesOf(setup, prices, layer)
  const { pp, microbatches: m } = split
  const busiest = stages.busiest
  const bubble = bubbleOf(split.schedule, { ranks: pp, chunks: split.chunks, microbatches: m, ...stages })
  const handing = handingCost(setup, table, prices)
  const data = dataCost(setup, table, prices, stages)
  const optimizer = optimizerCost(setup, stages.parameters)
  const whole = m * (busiest.forward + busiest.input + busiest.weight) + bubble + handing + data + optimizer
  const late = whole * software.jitter * Math.max(0, Math.log2(cluster.devices / 64))
  const n = m * stages.layers
  return {
    step: seconds(whole + late),
    parts: {
      compute: seconds(m * stages.compute),
      recompute: seconds(n * layer.recompute),
      bubble: seconds(bubble),
      tp: seconds(n * layer.tp + m * stages.ends.tp),
      dp: seconds(data + n * layer.gather),
      pp: seconds(handing),
      cp: seconds(n * layer.cp),
      ep: seconds(0),
      optimizer: seconds(optimizer),
      other: seconds(late + n * layer.launch),
    },
    memory: nothing,
    flops: flopsOfStep(setup),
  }
}

const nothing: Footprint = { parameters: 0, gradients: 0, optimizer: 0, activations: 0, workspace: 0, framework: 0 }

/** One layer and one microbatch: its time in three, and what it is made of. */
interface LayerCost extends RankTime {
  readonly recompute: number
  readonly tp: number
  readonly cp: number
  /** Waiting for parameters, or for room to send gradients (ZeRO-3). */
  readonly gather: number
  /** Waiting for the host. */
  readonly launch: number
}

function layerCost({ split, software }: Setup, table: PriceTable, prices: Prices): LayerCost {
  const { layer, tp, cp } = prices
  const { exposed, launch } = software
  const again = repeated[split.recompute]
  const recompute = again.forward * layer.forward + again.core * layer.core
  const tpForward = exposed.tp * tp.forward
  const tpBackward = exposed.tpBackward * tp.backward + (again.forward === 1 ? tpForward : 0)
  const cpForward = exposed.cp * cp.forward
  const cpBackward = exposed.cp * (cp.backward + again.forward * cp.forward)
  const forward = layer.forward + tpForward + cpForward
  const backward = layer.input + layer.weight + recompute + tpBackward + cpBackward
  const waits = split.zero === 3 ? shardCost(split, software, table, prices, forward, backward) : none
  const hosted = {
    forward: Math.max(0, launch.forward - forward - waits.forward),
    backward: Math.max(0, launch.backward + again.forward * launch.forward - backward - waits.backward),
  }
  return {
    forward: forward + waits.forward + hosted.forward,
    input: layer.input + recompute + tpBackward + cpBackward + waits.backward + hosted.backward,
    weight: layer.weight,
    recompute,
    tp: tpForward + tpBackward,
    cp: cpForward + cpBackward,
    gather: waits.forward + waits.backward,
    launch: hosted.forward + hosted.backward,
  }
}

const none = { forward: 0, backward: 0 }

/** Of the forward pass, how much is computed again: all of it, the attention core, or what costs little to make. */
const repeated: Readonly<Record<Setup['split']['recompute'], { forward: number; core: number }>> = {
  none: { forward: 0, core: 0 },
  selective: { forward: 0, core: 1 },
  full: { forward: 1, core: 0 },
  'per-op': { forward: 0.42, core: 0 },
}

/** ZeRO-3: the next layer's parameters arrive, and the last one's gradients leave, while this one computes. */
function shardCost(
  { tp, cp, dp }: Setup['split'],
  software: Setup['software'],
  table: PriceTable,
  { layerParameters }: Prices,
  forward: number,
  backward: number,
) {
  const gather = table.meeting('all-gather', 2 * layerParameters, dp * cp, tp)
  const scatter = table.meeting('reduce-scatter', software.reduceBytes * layerParameters, dp * cp, tp)
  const wait = (compute: number, traffic: number) =>
    Math.max(0, software.contention * Math.min(compute, traffic), traffic - compute) // hidden: slower; not hidden: longer
  return { forward: wait(forward, gather), backward: wait(backward, gather + scatter) }
}

interface Stages {
  readonly busiest: RankTime
  readonly sum: RankTime
  /** Of the busiest rank: layers, seconds of plain compute a microbatch, and what its ends add. */
  readonly layers: number
  readonly compute: number
  readonly ends: { readonly tp: number }
  /** Parameters of the rank that holds most. */
  readonly parameters: number
}

/** Layers on the first, the last and the fullest other rank. */
function layersOf({ shape, split }: Setup): { first: number; middle: number; last: number } {
  const { pp, layers } = split
  if (pp === 1) return { first: shape.layers, middle: 0, last: shape.layers }
  if (layers === undefined) {
    const even = shape.layers / pp
    return { first: Math.ceil(even), middle: Math.ceil(even), last: Math.floor(even) }
  }
  let middle = 0
  const of = (rank: number) => {
    let sum = 0
    for (let stage = rank; stage < layers.length; stage += pp) sum += layers[stage]
    return sum
  }
  for (let rank = 1; rank < pp - 1; rank++) middle = Math.max(middle, of(rank))
  return { first: of(0), middle, last: of(pp - 1) }
}

function stagesOf(setup: Setup, prices: Prices, layer: LayerCost): Stages {
  const { pp } = setup.split
  const { embedding, head, tpEmbedding } = prices
  const { first, middle, last } = layersOf(setup)
  const tp = setup.split.tp > 1 ? tpEmbedding : 0
  const firstTime = time(first, layer, embedding, tp)
  const lastTime = time(last, layer, head, 0)
  const one = pp === 1 ? plus(firstTime, time(0, layer, head, 0)) : undefined
  const middleTime = time(middle, layer, undefined, 0)
  const busiest = one ?? longest(longest(middleTime, firstTime), lastTime)
  const layers = busiest === firstTime || one ? first : busiest === lastTime ? last : middle
  const end = busiest === firstTime ? tp : one ? tp : 0
  const plain =
    layers *
    (layer.forward + layer.input + layer.weight - layer.recompute - layer.tp - layer.cp - layer.gather - layer.launch)
  const ends = busiest.forward + busiest.input + busiest.weight - layers * (layer.forward + layer.input + layer.weight)
  return {
    busiest,
    sum: one ?? plus(plus(firstTime, lastTime), times(pp - 2, middleTime)),
    layers,
    compute: plain + ends - end,
    ends: { tp: end },
    parameters: Math.max(first, middle, last) * prices.layerParameters + prices.tableParameters,
  }
}

const time = (layers: number, layer: RankTime, end: RankTime | undefined, extra: number): RankTime => ({
  forward: layers * layer.forward + (end?.forward ?? 0) + extra,
  input: layers * layer.input + (end?.input ?? 0),
  weight: layers * layer.weight + (end?.weight ?? 0),
})
const plus = (a: RankTime, b: RankTime): RankTime => ({
  forward: a.forward + b.forward,
  input: a.input + b.input,
  weight: a.weight + b.weight,
})
const times = (n: number, a: RankTime): RankTime => ({
  forward: n * a.forward,
  input: n * a.input,
  weight: n * a.weight,
})
const longest = (a: RankTime, b: RankTime): RankTime =>
  a.forward + a.input + a.weight >= b.forward + b.input + b.weight ? a : b

/** Messages between stages: a pass there and back through all of them, and what is exposed of every other message. */
function handingCost({ split, software }: Setup, table: PriceTable, { handed, regather }: Prices): number {
  const { pp, tp, cp, dp, chunks, microbatches } = split
  if (pp === 1) return 0
  const one = 2 * (table.meeting('send', handed, pp, tp * cp * dp) + regather)
  return one * (pp - 1 + software.exposed.pp * chunks * microbatches)
}

/** Gradients to their sum and parameters back, once a step; what backward and the next forward hide is not seen. */
function dataCost({ shape, split, software }: Setup, table: PriceTable, prices: Prices, stages: Stages): number {
  const { tp, cp, dp, pp, zero } = split
  const size = dp * cp
  const ends =
    shape.tied && pp > 1
      ? table.meeting('all-reduce', software.reduceBytes * prices.tableParameters, 2, (pp - 1) * size * tp)
      : 0
  if (zero === 3) return ends + firstGather(split, software, table, prices)
  const gradients = software.reduceBytes * stages.parameters
  const traffic =
    zero === 0
      ? table.meeting('all-reduce', gradients, size, tp)
      : table.meeting('reduce-scatter', gradients, size, tp) +
        table.meeting('all-gather', 2 * stages.parameters, size, tp)
  const { forward, input, weight } = stages.busiest
  const hidden = Math.min(traffic * (1 - software.exposed.dp), forward + input + weight)
  return ends + traffic - hidden + software.contention * hidden
}

/** What no compute can hide under ZeRO-3: the first gather, and the tables at both ends, every microbatch. */
function firstGather(
  { tp, cp, dp, microbatches }: Setup['split'],
  software: Setup['software'],
  table: PriceTable,
  prices: Prices,
): number {
  const { tableParameters, layerParameters } = prices
  const gather = table.meeting('all-gather', 2 * (tableParameters + layerParameters), dp * cp, tp)
  const scatter = table.meeting('reduce-scatter', software.reduceBytes * tableParameters, dp * cp, tp)
  return microbatches * (gather + scatter)
}

function optimizerCost({ split, cluster, software }: Setup, parameters: number): number {
  const { bandwidth, curves } = cluster.device
  const owned = split.zero === 0 ? parameters : parameters / (split.dp * split.cp)
  return (owned * software.optimizerBytes) / (bandwidth * curves.memory.efficiency)
}
