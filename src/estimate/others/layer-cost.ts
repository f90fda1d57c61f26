/** One layer and one microbatch on one rank: its compute, and what its software leaves exposed of everything else. */
import { activationBytes, isCast, precisionFacts } from '../../base/index.js'
import { expertCopies, expertStride, routedShare } from '../experts.js'
import { scoreMatrices } from '../layer.js'
import { ownLayerCost } from '../own/layer.js'
import type { Prices, PriceTable } from '../prices.js'
import { fetchesWhole } from '../schedules/stages.js'
import { type Setup, type Split, shardRanks } from '../setup.js'
import { fusesSoftmax } from './traffic.js'

/** Seconds of one microbatch: forward, and backward in two, the gradient of the input and that of the weights. */
export interface PassTimes {
  readonly forward: number
  readonly input: number
  readonly weight: number
}

export interface LayerCost extends PassTimes {
  /** What the three times are made of. */
  readonly compute: number
  readonly recompute: number
  readonly tp: number
  readonly cp: number
  readonly ep: number
  /** Waiting for parameters, or for gradients to leave (ZeRO-3). */
  readonly gather: number
  /** Waiting for the host. */
  readonly launch: number
}

/** Of the forward pass, how much is computed again: all of it, the attention core, or what costs little to make. */
export const repeated: Readonly<Record<Split['recompute'], { readonly forward: number; readonly core: number }>> = {
  none: { forward: 0, core: 0 },
  cheap: { forward: 0, core: 0 },
  selective: { forward: 0, core: 1 },
  full: { forward: 1, core: 0 },
  'per-op': { forward: 0.42, core: 0 },
}

/** What is computed again ends before the last product of a layer. The result of experts is weighted, so backward needs it. */
export const leavesLast = ({ shape, split, software }: Setup): boolean =>
  software.stopsEarly === true && split.recompute === 'full' && !shape.experts

export function layerCost(setup: Setup, table: PriceTable, prices: Prices): LayerCost {
  const { split, software } = setup
  if (prices.own) return ownLayerCost(setup, table, prices.own)
  const { layer, tp, cp, ep } = prices.others! // not our own
  const { exposed, launch } = software
  const again = repeated[split.recompute]
  const isCut = leavesLast(setup)
  const recompute = again.forward * layer.forward + again.core * layer.core - (isCut ? layer.last : 0)
  const tpForward = exposed.tp * tp.forward
  const tpBackward = exposed.tpBackward * tp.backward + again.forward * tpForward - (isCut ? exposed.tp * tp.last : 0)
  const cpForward = exposed.cp * cp.forward
  const cpBackward = exposed.cp * cp.backward + again.forward * cpForward
  const epForward = exposed.ep * ep + (software.routing?.seconds ?? 0) * routedShare(setup.shape)
  const epBackward = (1 + again.forward) * epForward
  const forward = layer.forward + tpForward + cpForward + epForward
  const backward = layer.input + layer.weight + recompute + tpBackward + cpBackward + epBackward
  const gatherForward = split.zero === 3 ? shardWait(setup, table, prices, forward, false) : 0
  const gatherBackward = split.zero === 3 ? shardWait(setup, table, prices, backward, true) : 0
  const launches = 1 + (splitsSoftmax(setup) ? launch.softmax : 0)
  const hostForward = hostWait(setup, launches * launch.forward, forward + gatherForward)
  const relaunched = launches * (launch.backward + again.forward * launch.forward)
  const hostBackward = hostWait(setup, relaunched, backward + gatherBackward)
  return {
    forward: forward + gatherForward + hostForward,
    input: backward - layer.weight + gatherBackward + hostBackward,
    weight: layer.weight,
    compute: layer.forward + layer.input + layer.weight,
    recompute,
    tp: tpForward + tpBackward,
    cp: cpForward + cpBackward,
    ep: epForward + epBackward,
    gather: gatherForward + gatherBackward,
    launch: hostForward + hostBackward,
  }
}

/** A softmax that is one kernel elsewhere is several here. */
const splitsSoftmax = ({ shape, split, software }: Setup): boolean =>
  software.attention === 'unfused' &&
  shape.seq <= software.fusedSoftmax &&
  !fusesSoftmax(shape, scoreMatrices(shape, split), software)

/** How much later the slowest of the hosts that meet is, for each of them. */
const unequal = 0.05

/**
 * How sharply time turns from the host's to the device's, where ranks meet within a layer and where one is alone: 1 would be
 * their sum. Of 2, 3 and 6, and of 3, 4, 6, 8, 12 and a corner, those that are best on the marked rows of vTrain.
 */
const sharpness = { meeting: 3, alone: 8 }

/**
 * How much longer a layer takes because the host must launch it. A host that is far ahead costs nothing; but a layer has
 * stretches of small kernels, and where ranks meet within it, one that is nearly late on any of them is late for all.
 */
function hostWait({ split, software }: Setup, host: number, device: number): number {
  if (software.synchronous || host === 0) return host
  const slowest = host * (1 + unequal * (split.tp - 1))
  const power = split.tp > 1 ? sharpness.meeting : sharpness.alone
  return (slowest ** power + device ** power) ** (1 / power) - device
}

/**
 * ZeRO-3: the next layer's parameters arrive, and the last one's gradients leave, while this one computes. What is
 * hidden slows compute down, what is longer than compute is waited for.
 */
function shardWait(setup: Setup, table: PriceTable, prices: Prices, compute: number, backward: boolean): number {
  const { tp } = setup.split
  const size = shardRanks(setup.split)
  const { exposed, contention, reduceBytes } = setup.software
  const pieces = Math.max(1, setup.software.pieces)
  const moved = (kind: 'all-gather' | 'reduce-scatter', bytes: number): number =>
    pieces * table.collective(kind, (bytes * (prices.layerParameters - prices.expertParameters)) / pieces, size, tp) +
    table.collective(kind, bytes * prices.expertParameters, expertCopies(setup.split), expertStride(setup.split))
  const traffic = moved('all-gather', gatheredBytes(setup)) + (backward ? moved('reduce-scatter', reduceBytes) : 0)
  const hidden = Math.max(contention * Math.min(compute, traffic), traffic - compute)
  const share = fetchesWhole(setup.split) ? (exposed.wholeShards ?? exposed.shards) : exposed.shards
  return share * traffic + (1 - share) * hidden
}

/** Bytes of a parameter on its way to where it is multiplied. */
const gatheredBytes = ({ precision, software }: Setup): number =>
  isCast(precision) && software.narrowGathers ? precisionFacts[precision].bytes : activationBytes(precision)
