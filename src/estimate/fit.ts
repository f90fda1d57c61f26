/**
 * Whether a plan fits. A price of memory is an estimate: published peaks lie around it, by so much that profiles know
 * (`spread`). So near the edge the answer is a chance, and what it depends on. Of a compiled program it is certain.
 */
import { type Said, showBytes, showPercent, type Wording } from '../base/index.js'
import type { Device } from '../cluster/index.js'
import { capacityOf } from './memory.js'
import { type MemoryProfile, memoryProfileOf } from './others/memory-profile.js'
import type { Software } from './others/software.js'

export interface Fit {
  readonly verdict: 'fits' | 'fits if' | 'does not fit'
  /** From 0 to 1. */
  readonly chance: number
  /** What a plan that fits if ... fits if. */
  readonly condition?: Condition
}

/** Shares are of the memory as sold, or of the estimate. */
export interface ConditionValues {
  'fits-if/little-more': { readonly share: number }
  'fits-if/little-fragmentation': { readonly share: number; readonly reserved: number }
  'fits-if/small-context': { readonly bytes: number; readonly reserved: number }
  'fits-if/less': { readonly share: number }
}

export type Condition = Said<ConditionValues>

export const conditionWords: Wording<ConditionValues> = {
  'fits-if/little-more': ({ share }) => `actual use is less than ${showPercent(share)} above the estimate`,
  'fits-if/little-fragmentation': ({ share, reserved }) =>
    `fragmentation stays below ${showPercent(share)} of the memory (${showPercent(reserved)} is reserved)`,
  'fits-if/small-context': ({ bytes, reserved }) =>
    `context and fragmentation stay below ${showBytes(bytes)} (${showBytes(reserved)} is reserved)`,
  'fits-if/less': ({ share }) => `actual use is at least ${showPercent(share)} below the estimate`,
}

/** The chance from which a plan surely fits; with as little of the opposite it surely does not. */
const sure = 0.95
/** Standard deviations from the middle to there. */
const deviations = 1.645

/** Of the memory as sold, what an empty device has. */
const empty = 79.3 / 80

/** What a device has for what the profile of a framework counts: those that count the context need no reserve for it. */
export const roomOf = (device: Device, software: Software): number =>
  memoryProfileOf(software).context > 0 ? empty * device.memory : capacityOf(device)

/** Bytes up to which a plan surely fits, and from which it surely does not. */
export const edgesOf = (room: number, { spread }: MemoryProfile): readonly [surely: number, possibly: number] => [
  room * Math.exp(-deviations * spread),
  room * Math.exp(deviations * spread),
]

/** Of a price of so many bytes. The error of a price is as likely to be a factor above 1 as to be one below. */
export const chanceOf = (bytes: number, room: number, { spread }: MemoryProfile): number =>
  normal(Math.log(room / bytes) / spread)

/** `room` may be less than the device has: what a user allows. */
export function fitOf(bytes: number, room: number, device: Device, software: Software): Fit {
  const chance = chanceOf(bytes, room, memoryProfileOf(software))
  if (chance >= sure) return { verdict: 'fits', chance }
  if (chance <= 1 - sure) return { verdict: 'does not fit', chance }
  return { verdict: 'fits if', chance, condition: conditionOf(bytes, room, device) }
}

/** A program's memory is known to the byte. */
export const certainly = (fits: boolean): Fit =>
  fits ? { verdict: 'fits', chance: 1 } : { verdict: 'does not fit', chance: 0 }

function conditionOf(bytes: number, room: number, device: Device): Condition {
  if (bytes <= room) return { code: 'fits-if/little-more', values: { share: room / bytes - 1 } }
  const { memory, reserve } = device
  const reserved = room === capacityOf(device)
  const fragments = 1 - (bytes + reserve.bytes) / memory
  if (reserved && fragments >= 0)
    return { code: 'fits-if/little-fragmentation', values: { share: fragments, reserved: reserve.fraction } }
  if (reserved && bytes < empty * memory)
    return { code: 'fits-if/small-context', values: { bytes: memory - bytes, reserved: memory - room } }
  return { code: 'fits-if/less', values: { share: 1 - room / bytes } }
}

/** The normal distribution: the share below z. Abramowitz and Stegun 7.1.26, right to 1e-7. */
function normal(z: number): number {
  const x = Math.abs(z) / Math.SQRT2
  const t = 1 / (1 + 0.3275911 * x)
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
  const tail = 0.5 * series * Math.exp(-x * x)
  return z < 0 ? tail : 1 - tail
}
