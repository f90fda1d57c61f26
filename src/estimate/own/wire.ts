/** What flights of our own program send in fewer bits: the bytes, and the passes over memory that pack and unpack them. */
import { activationBytes, isSparing, wireBytes } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import type { Held } from '../counts.js'
import { expertShards, hasCopies } from '../experts.js'
import { fetchesEach, reducesEach } from '../schedules/stages.js'
import { type Placed, type Setup, shardRanks } from '../setup.js'

/** Bytes of a number of a flight where it is computed with, and on its way. */
export interface Travel {
  readonly stored: number
  readonly sent: number
}

export function travelOf(
  { split, software, precision }: Pick<Placed, 'split' | 'software' | 'precision'>,
  kind: 'gather' | 'reduce',
): Travel {
  const stored = kind === 'reduce' ? software.gradientBytes : activationBytes(precision)
  const format = split.wire?.[kind]
  const sent = format === undefined || isSparing(format) ? stored : wireBytes[format]
  return sent < stored ? { stored, sent } : { stored, sent: stored }
}

/** Gradients are sent in codes, which are added up by the ranks that own the sums. */
export const isCoded = ({ wire }: Pick<Placed['split'], 'wire'>): boolean => wire?.reduce === 'int8'

/** Seconds to pack and unpack, once, what a flight of these parameters sends, in so many passes. */
export function packing(setup: Setup, kind: 'gather' | 'reduce', { all, experts }: Held, pieces = 0): number {
  const { stored, sent } = travelOf(setup, kind)
  if (sent === stored) return 0
  const { split, cluster } = setup
  const parts = (all - experts) / shardRanks(split) + experts / expertShards(split)
  const pass = (read: number, written: number): number => {
    const kernel: Kernel = { kind: 'memory', read, written }
    return Math.max(priceInStep(kernel, cluster.device), pieces * cluster.device.curves.floor)
  }
  const packed = (elements: number, to = elements) =>
    pass(stored * elements, sent * elements) + pass(sent * to, stored * to)
  if (kind === 'gather') return packed(parts, all)
  if (!isCoded(split)) return packed(all, split.zero === 0 ? all : parts)
  // Of every rank the codes of a part are read; where all need the sum, they are made and read once more.
  const addends = pass(stored * all, sent * all) + pass(sent * all, stored * parts)
  return split.zero === 0 ? addends + packed(parts, all) : addends
}

/** Of flights of the whole step. */
export function packingOnce(setup: Setup, held: Held): number {
  const { split, software } = setup
  if (!software.own || !split.wire || !hasCopies(split)) return 0
  const gathers = split.zero > 0 && !fetchesEach(split) ? packing(setup, 'gather', held) : 0
  return gathers + (reducesEach(split) ? 0 : packing(setup, 'reduce', held))
}
