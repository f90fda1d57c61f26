/**
 * What the optimizer takes once a step: passes over gradients, parameters and states, on the device or on the host; and where the
 * step of a whole parameter depends on all its parts, ranks that meet for each.
 */
import {
  activationBytes,
  dataRanks,
  fullStates,
  type Optimizer,
  optimizerFacts,
  type Precision,
} from '../base/index.js'
import { diskOf } from '../cluster/index.js'
import { scheduleFacts } from '../plan/index.js'
import { expertCopies } from './experts.js'
import { factorCost, sendsFactors } from './factor-cost.js'
import { muonCost } from './muon-cost.js'
import type { Software } from './others/software.js'
import { codingOfWeights } from './own/coding.js'
import type { Prices, PriceTable } from './prices.js'
import type { Placed, Setup } from './setup.js'
import type { HeldParameters } from './step-cost.js'

/** What prices of other people's software, and of ours unless it is said, are for. */
export const usualOptimizer: Optimizer = { kind: 'adamw', beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0 }

/** Counted once: a search asks for them with every plan. */
const usualStates = { beside: fullStates(usualOptimizer, true).length, alone: fullStates(usualOptimizer, false).length }

/** All states of one parameter, its average too. */
export function stateBytes({ precision, software, averages }: Placed, optimizer: Optimizer = usualOptimizer): number {
  return software.stateBytes * statesOf(optimizer, hasMaster(precision, software)) + (averages ? 4 : 0)
}

/** A parameter as it is multiplied, its gradient, its states, and what of it was not sent, wherever they lie. */
export function bytesOfParameter(placed: Placed): number {
  const { precision, software, optimizer, split } = placed
  const unsent = sendsFactors(split) ? software.stateBytes : 0
  return activationBytes(precision) + software.gradientBytes + stateBytes(placed, optimizer) + unsent
}

function statesOf(optimizer: Optimizer, master: boolean): number {
  if (optimizer !== usualOptimizer) return fullStates(optimizer, master).length
  return master ? usualStates.beside : usualStates.alone
}

const hasMaster = (precision: Precision, { stateBytes: wide, withoutMasters }: Software): boolean =>
  activationBytes(precision) < wide && !withoutMasters

/** Where losses are scaled, gradients are read and written once more. */
const unscaledBytes = ({ scaled, software }: Setup): number => (scaled ? 2 * software.gradientBytes : 0)

/** An average is read, and so is what it follows, and it is written. */
const averageBytes = 12

/** Bytes of one parameter through memory: a pass for the norm, one for the update, and what some optimizers must know before it. */
function bytesEach(setup: Setup): number {
  const { software, optimizer = usualOptimizer } = setup
  const { gradientBytes, stateBytes: wide } = software
  const optimizerBytes = software.optimizerBytes + unscaledBytes(setup)
  if (!software.own || (optimizer === usualOptimizer && !setup.averages)) return optimizerBytes
  // States are read and written.
  const average = setup.averages ? averageBytes : 0
  const updated = optimizerBytes + 2 * (stateBytes(setup, optimizer) - stateBytes(setup)) + average
  if (optimizer.kind === 'lamb') return updated + gradientBytes + 3 * wide
  if (optimizer.kind === 'adafactor') return updated + 2 * gradientBytes + wide
  return updated
}

const ownedBy = ({ split }: Setup, { all, experts }: HeldParameters): number =>
  split.zero === 0 ? all : (all - experts) / dataRanks(split) + experts / expertCopies(split)

export function optimizerCost(setup: Setup, table: PriceTable, prices: Prices, held: HeldParameters): number {
  const { split, cluster, software } = setup
  const { bandwidth, curves } = cluster.device
  const owned = ownedBy(setup, held)
  const [bytes, memory] = [bytesEach(setup), bandwidth * curves.memory.efficiency]
  const factors = software.own ? factorCost(setup, table, prices, held, layersOf(setup, prices, held)) : 0
  const meetings = software.own ? meetingsCost(setup, table, prices, held) : 0
  if (!split.offload && !split.lifted) return (owned * bytes) / memory + meetings + factors
  const { norm, ...places } = placesOf(setup, bytes)
  const largest = prices.headParameters / (split.zero === 0 ? 1 : dataRanks(split))
  const disk = diskCost(setup, prices, held)
  const slowest = owned * Math.max(disk.read, disk.write) + disk.latencies
  const moved = Math.max(movedCost(setup, places, owned, largest), slowest) + largest * disk.read
  return (owned * norm) / memory + moved + meetings + factors
}

/** Bytes of one parameter: of its norm, of its update where that happens, and of what goes each way for it. */
interface UpdatePlaces {
  readonly norm: number
  readonly onHost: boolean
  readonly update: number
  readonly down: number
  readonly up: number
}

function placesOf(setup: Setup, bytes: number): UpdatePlaces {
  const { split, precision, software, optimizer = usualOptimizer } = setup
  const [gradient, element, master] = [
    software.gradientBytes,
    activationBytes(precision),
    hasMaster(precision, software),
  ]
  const norm = gradient + unscaledBytes(setup)
  const onHost = split.offload !== undefined && optimizerFacts[optimizer.kind].given === undefined
  const states = split.offload && !onHost ? stateBytes(setup, optimizer) : 0
  // The parameter goes where it is updated, and back, unless it lives there.
  const own = onHost === (split.lifted === true) ? 0 : element
  const [before, after] = [(onHost ? gradient : 0) + (master ? 0 : own) + states, own + states]
  const [down, up] = onHost ? [before, after] : [after, before]
  return { norm, onHost, update: bytes - norm, down, up }
}

/** Updates go on while what the next parameters need comes and those before go; the first and the last have nobody to hide behind. */
function movedCost(
  { cluster: { host, device } }: Setup,
  { onHost, update, down, up }: Omit<UpdatePlaces, 'norm'>,
  owned: number,
  largest: number,
): number {
  const memory = device.bandwidth * device.curves.memory.efficiency
  const rate = onHost && host ? (host.bandwidth ?? host.link.bandwidth) : memory
  const link = host ? host.link.bandwidth * host.link.efficiency : memory
  return owned * Math.max(update / rate, down / link, up / link) + (largest * (down + up)) / link
}

/** Seconds in which the states of one parameter come from a disk and go there, and what reads, or writes, of all tensors wait for it. */
function diskCost(setup: Setup, prices: Prices, held: HeldParameters) {
  const { split, cluster, precision, software, optimizer = usualOptimizer, averages } = setup
  if (split.offload !== 'disk') return { read: 0, write: 0, latencies: 0 }
  const { read, write, latency } = diskOf(cluster)
  const bytes = stateBytes(setup, optimizer)
  const { matrices, split: vectors, whole } = countsOf(setup)
  const states = fullStates(optimizer, hasMaster(precision, software)).length + (averages ? 1 : 0)
  const tensors = layersOf(setup, prices, held) * (matrices + vectors + whole)
  return { read: bytes / read, write: bytes / write, latencies: latency * states * tensors }
}

/** Parameters of a layer: matrices and vectors that tp splits, and those that it does not. */
function countsOf({ shape: { gated, biases, norm } }: Setup) {
  const norms = norm === 'layer' ? 4 : 2
  return { matrices: gated ? 7 : 6, split: biases ? 4 : 0, whole: norms + (biases ? 2 : 0) }
}

/** LAMB sums two lengths of each parameter; Adafactor means of rows and columns of matrices, then a length; Muon gathers matrices. */
function meetingsCost(setup: Setup, table: PriceTable, prices: Prices, held: HeldParameters): number {
  const { split, optimizer = usualOptimizer } = setup
  const layers = layersOf(setup, prices, held)
  if (optimizer.kind === 'muon') return muonCost(setup, table, optimizer, layers)
  if (optimizer.kind !== 'lamb' && optimizer.kind !== 'adafactor') return 0
  const { matrices, split: vectors, whole } = countsOf(setup)
  const data = split.zero === 0 ? 1 : dataRanks(split)
  const met = (size: number, stride: number) => (size > 1 ? table.collective('all-reduce', 8, size, stride) : 0)
  const parts = (optimizer.kind === 'lamb' ? 1 : 2) * matrices + vectors
  return layers * (parts * met(data * split.tp, 1) + whole * met(data, split.tp))
}

/** Seconds in which the weights of layers become codes. */
export const codingCost = (setup: Setup, prices: Prices, held: HeldParameters): number =>
  codingOfWeights(setup, layersOf(setup, prices, held) * (prices.layerParameters - prices.expertParameters))

/** How many layers a rank holds. */
function layersOf({ shape, split }: Setup, prices: Prices, { all }: HeldParameters): number {
  const copies = scheduleFacts[split.schedule].placement === 'both ends' ? 2 : 1
  return Math.min(all / prices.layerParameters, copies * Math.ceil(shape.layers / split.pp))
}
