/**
 * Prices simple enough to be read, with the trade-offs of real ones: tp costs meetings, pp a bubble, dp a reduction,
 * recomputation time; each of them saves memory. The search must work with any prices that keep their bounds.
 */
import { seconds } from '../src/base/index.js'
import type { Cluster } from '../src/cluster/index.js'
import type { Estimate, Setup, Split } from '../src/estimate/index.js'
import type { Prices } from '../src/search/index.js'

export const toyCluster = (devices: number, memory = 64): Cluster => ({
  name: 'toy',
  devices,
  device: {
    ...{ name: 'toy', title: 'A toy', peak: { bf16: 1e6 }, bandwidth: 1e6, memory, pricePerHour: 2, sources: ['toy'] },
    reserve: { bytes: 0, fraction: 0 },
    curves: {
      matmul: { efficiency: { bf16: 1 }, tile: [1, 1], units: 1, halfK: 0, measured: [] },
      attention: { forward: 1, backward: 1 },
      memory: { efficiency: 1, half: 0 },
      floor: 0,
    },
  },
  topology: {
    kind: 'tree',
    levels: [
      { name: 'node', size: 4, ports: 1, oversubscription: 1, link: link('nvlink', 8) },
      { name: 'cluster', size: devices, ports: 4, oversubscription: 1, link: link('infiniband', 1) },
    ],
  },
  sources: ['toy'],
})

const link = (kind: 'nvlink' | 'infiniband', bandwidth: number) => ({
  ...{ kind, bandwidth, efficiency: 1, latency: 0, half: 0 },
})

/** Of one microbatch through all layers, the head as heavy as one of them. */
const layerTime = ({ tp, microbatch }: Split): number => (microbatch + 0.2) / tp + 0.01

function stagesOf({ shape: { layers }, split: { pp, chunks, layers: given } }: Setup): number[] {
  const stages = pp * chunks
  const own = given ?? Array.from({ length: stages }, (_, i) => Math.floor((layers + stages - 1 - i) / stages))
  const held = Array.from({ length: pp }, (_, rank) => own.reduce((n, l, i) => (i % pp === rank ? n + l : n), 0))
  held[(stages - 1) % pp]++
  return held
}

const bandwidthOf = ({ cluster: { topology } }: Setup, ranks: number): number =>
  topology.kind === 'torus'
    ? topology.link.bandwidth
    : topology.levels[ranks <= topology.levels[0].size ? 0 : 1].link.bandwidth

function estimate(setup: Setup): Estimate {
  const { split, shape } = setup
  const { tp, pp, dp, zero, chunks, microbatches, microbatch, recompute, sequenceParallel } = split
  const busiest = Math.max(...stagesOf(setup))
  const compute = 3 * busiest * layerTime(split) * microbatches
  const again =
    { none: 0, selective: 0.3, full: 1, 'per-op': 0.5 }[recompute] * busiest * layerTime(split) * microbatches
  const meetings = tp === 1 ? 0 : (busiest * microbatches * microbatch) / bandwidthOf(setup, tp)
  const bubble = ((pp - 1) * (compute + again + meetings)) / (microbatches * chunks)
  const reduction = dp === 1 ? 0 : ((shape.layers / (tp * pp)) * (zero === 3 ? 1.5 : 1)) / bandwidthOf(setup, tp * dp)
  const share = (stage: number) => (zero >= stage ? dp : 1)
  const parameters = (4 * busiest) / tp
  const kept = { none: 1, selective: 0.6, full: 0.1, 'per-op': 0.4 }[recompute]
  const inFlight = Math.min(microbatches, pp) / pp
  const activations = (shape.layers * microbatch * kept * inFlight) / (sequenceParallel ? tp : (tp + 1) / 2)
  const parts = {
    ...{ compute: seconds(compute), recompute: seconds(again), bubble: seconds(bubble), tp: seconds(meetings) },
    ...{ dp: seconds(reduction), pp: seconds(0), cp: seconds(0), ep: seconds(0) },
    ...{ optimizer: seconds(0), other: seconds(0) },
  }
  return {
    step: seconds(compute + again + meetings + bubble + reduction),
    parts,
    memory: {
      parameters: parameters / share(3),
      gradients: parameters / share(2),
      optimizer: (2 * parameters) / share(1),
      ...{ activations, workspace: 0, framework: 0 },
    },
    flops: { model: 1, hardware: 1 },
  }
}

export const toyPrices: Prices = {
  estimate,
  leastBytes: ({ shape, split: { tp, pp, dp } }) => (16 * shape.layers) / (tp * pp * dp),
  capacity: ({ cluster }) => cluster.device.memory,
}
