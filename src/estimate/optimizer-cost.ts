/**
 * What the optimizer takes once a step: passes over gradients, parameters and states, on the device or on the host; and where the
 * step of a whole parameter depends on all its parts, ranks that meet for each.
 */
import { activationBytes, fullStates, type Optimizer, optimizerFacts, type Precision } from '../base/index.js'
import { diskOf } from '../cluster/index.js'
import { type Held, tensorCounts } from './counts.js'
import { expertShards } from './experts.js'
import { factorCost, sendsFactors } from './factor-cost.js'
import { type MovedUpdate, playMoved, type Tensors, tensorsOf } from './moved-cost.js'
import { muonCost } from './muon-cost.js'
import type { Software } from './others/software.js'
import type { Prices, PriceTable } from './prices.js'
import { type Placed, type Setup, shardRanks } from './setup.js'
import type { MostHeld } from './step-cost.js'

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

/** An average is read and written; what it follows was just made. */
const averageBytes = 8

/** Bytes of one parameter through memory: a pass for the norm, one for the update, and what some optimizers must know before it. */
function bytesEach(setup: Setup): number {
  const { precision, software, optimizer = usualOptimizer } = setup
  const { gradientBytes, stateBytes: wide } = software
  const optimizerBytes = software.optimizerBytes + unscaledBytes(setup)
  if (!software.own || (optimizer === usualOptimizer && !setup.averages)) return optimizerBytes
  // States are read and written.
  const average = setup.averages ? averageBytes : 0
  const updated = optimizerBytes + 2 * (stateBytes(setup, optimizer) - stateBytes(setup)) + average
  const parameter = hasMaster(precision, software) ? wide : activationBytes(precision)
  if (optimizer.kind === 'lamb') return updated + gradientBytes + parameter + 2 * wide
  if (optimizer.kind === 'adafactor') return updated + 2 * gradientBytes + parameter
  return updated
}

const ownedBy = ({ split }: Setup, { all, experts }: Held): number =>
  split.zero === 0 ? all : (all - experts) / shardRanks(split) + experts / expertShards(split)

export function optimizerCost(setup: Setup, table: PriceTable, prices: Prices, held: MostHeld): number {
  const { split, cluster, software } = setup
  const { bandwidth, curves } = cluster.device
  const owned = ownedBy(setup, held)
  const [bytes, memory] = [bytesEach(setup), bandwidth * curves.memory.efficiency]
  if (!software.own) return (owned * bytes) / memory
  const factors = factorCost(setup, table, prices, held)
  const meetings = meetingsCost(setup, table, held.mostLayers)
  if (!split.offload && !split.lifted) return (owned * bytes) / memory + meetings + factors
  const places = placesOf(setup, bytes)
  // Muon leaves all but matrices to AdamW.
  const rest: Setup = { ...setup, optimizer: usualOptimizer }
  const others = setup.optimizer?.kind === 'muon' ? placesOf(rest, bytesEach(rest)) : places
  const tensors = tensorsOf(setup, prices, held)
  const matrices = tensors.reduce((sum, { count, isMatrix }) => sum + (isMatrix ? count : 0), 0)
  const moved = playMoved(tensors, one =>
    one.isMatrix ? movedUpdate(setup, places, one, meetings / matrices) : movedUpdate(setup, others, one, 0),
  )
  return (owned * places.norm) / memory + moved + factors
}

/** Bytes of one parameter that go one way, and in how many tensors: over the host's link, and to or from a disk. */
interface Way {
  readonly link: number
  readonly onLink: number
  readonly disk: number
  readonly onDisk: number
}

/** Bytes of one parameter: of its norm, of its update where that happens, and of what goes each way for it. */
interface UpdatePlaces {
  readonly norm: number
  readonly onHost: boolean
  readonly update: number
  readonly before: Way
  readonly after: Way
}

function placesOf(setup: Setup, bytes: number): UpdatePlaces {
  const { split, precision, software, averages, optimizer = usualOptimizer } = setup
  const [gradient, element, master] = [
    software.gradientBytes,
    activationBytes(precision),
    hasMaster(precision, software),
  ]
  const norm = gradient + unscaledBytes(setup)
  const onHost = split.offload !== undefined && optimizerFacts[optimizer.kind].given === undefined
  const [states, many] = [stateBytes(setup, optimizer), fullStates(optimizer, master).length + (averages ? 1 : 0)]
  const [onLink, onDisk] = [split.offload === 'host' && !onHost, split.offload === 'disk']
  const besideOnLink = onLink ? { bytes: states, many } : { bytes: 0, many: 0 }
  // The parameter goes where it is updated, and back, unless it lives there: over the host's link, or from a file and to it.
  const file = split.lifted === 'disk' ? element : 0
  const own = file > 0 || onHost === (split.lifted === 'host') ? 0 : element
  const way = (gradients: number, goes: boolean): Way => ({
    link: gradients + (goes ? own : 0) + besideOnLink.bytes,
    onLink: (gradients > 0 ? 1 : 0) + (goes && own > 0 ? 1 : 0) + besideOnLink.many,
    disk: (onDisk ? states : 0) + (goes ? file : 0),
    onDisk: (onDisk ? many : 0) + (goes && file > 0 ? 1 : 0),
  })
  return {
    ...{ norm, onHost, update: bytes - norm },
    before: way(onHost ? gradient : 0, !master),
    after: way(0, true),
  }
}

/** What visits the device from a disk goes by way of the host. */
function movedUpdate(setup: Setup, places: UpdatePlaces, { elements }: Tensors, beside: number): MovedUpdate {
  const { host, device } = setup.cluster
  const { onHost, update, before, after } = places
  const memory = device.bandwidth * device.curves.memory.efficiency
  const disk = diskOf(setup.cluster)
  const link = host?.link ?? { bandwidth: memory, efficiency: 1, latency: 0, half: 0 }
  const rate = link.bandwidth * link.efficiency
  const onLink = (way: Way) => way.onLink * (link.latency + link.half / rate) + (way.link * elements) / rate
  const onDisk = (way: Way, speed: number) =>
    way.onDisk * (disk.latency + (onHost ? 0 : link.latency)) +
    (way.disk * elements) / (onHost ? speed : Math.min(speed, rate))
  const work = onHost && host ? (update * elements) / (host.bandwidth ?? link.bandwidth) : (update * elements) / memory
  return {
    before: [onLink(before), onDisk(before, disk.read)],
    work: Math.max(work, onHost ? 0 : device.curves.floor) + beside,
    after: [onLink(after), onDisk(after, disk.write)],
  }
}

/** LAMB sums two lengths of each parameter; Adafactor means of rows and columns of matrices, then a length; Muon gathers matrices. */
function meetingsCost(setup: Setup, table: PriceTable, layers: number): number {
  const { split, optimizer = usualOptimizer } = setup
  if (optimizer.kind === 'muon') return muonCost(setup, table, optimizer, layers)
  if (optimizer.kind !== 'lamb' && optimizer.kind !== 'adafactor') return 0
  const { matrices, split: vectors, whole } = tensorCounts(setup.shape)
  const data = split.zero === 0 ? 1 : shardRanks(split)
  const met = (size: number, stride: number) => (size > 1 ? table.collective('all-reduce', 8, size, stride) : 0)
  const parts = (optimizer.kind === 'lamb' ? 1 : 2) * matrices + vectors
  return layers * (parts * met(data * split.tp, 1) + whole * met(data, split.tp))
}
