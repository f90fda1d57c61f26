/**
 * Whether a plan fits. A price of memory is an estimate: published peaks lie around it, by so much that profiles know
 * (`spread`). So near the edge the answer is a chance, and what it depends on. Of a compiled program it is certain.
 */
import { showBytes } from '../base/index.js'
import type { Device } from '../cluster/index.js'
import { capacityOf } from './memory.js'
import { type MemoryProfile, memoryProfileOf } from './others/memory-profile.js'
import type { Software } from './others/software.js'

export interface Fit {
  readonly verdict: 'fits' | 'fits if' | 'does not fit'
  /** From 0 to 1. */
  readonly chance: number
  /** What a plan that fits if ... fits if. */
  readonly condition?: string
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

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

function conditionOf(bytes: number, room: number, device: Device): string {
  if (bytes <= room) return `it takes less than ${percent(room / bytes - 1)} more than estimated`
  const { memory, reserve } = device
  const reserved = room === capacityOf(device)
  const fragments = 1 - (bytes + reserve.bytes) / memory
  if (reserved && fragments >= 0)
    return `fragmentation stays below ${percent(fragments)} of the memory (${percent(reserve.fraction)} is reserved)`
  if (reserved && bytes < empty * memory)
    return `context and fragmentation stay below ${showBytes(memory - bytes)} (${showBytes(memory - room)} is reserved)`
  return `it takes at least ${percent(1 - room / bytes)} less than estimated`
}

/** The normal distribution: the share below z. Abramowitz and Stegun 7.1.26, right to 1e-7. */
function normal(z: number): number {
  const x = Math.abs(z) / Math.SQRT2
  const t = 1 / (1 + 0.3275911 * x)
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
  const tail = 0.5 * series * Math.exp(-x * x)
  return z < 0 ? tail : 1 - tail
}
