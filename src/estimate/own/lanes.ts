/**
 * Links of different kinds do not wait for each other. The collectives of a layer use two kinds at the most: those of the
 * first of tp, cp and ep that has any are lane 0, the others lane 1.
 */
import { expertTensor } from '../experts.js'
import type { PriceTable } from '../prices.js'
import type { Split } from '../setup.js'

export type Lane = 0 | 1

type LinkKind = ReturnType<PriceTable['linkOf']>

export interface Lanes {
  readonly of: (size: number, stride: number) => Lane
  /** Whether the links of such a group are those of a lane that layers use. */
  readonly shares: (lane: Lane, size: number, stride: number) => boolean
  /** Whether two groups use links of one kind. */
  readonly alike: (one: Members, other: Members) => boolean
}

type Members = readonly [size: number, stride: number]

export type LaneSplit = Pick<Split, 'tp' | 'cp' | 'ep' | 'etp' | 'ulysses'>

export function lanesOf(split: LaneSplit, table: PriceTable): Lanes {
  const { tp, cp, ep } = split
  const linkOf = (size: number, stride: number) => table.linkOf(size, stride)
  const groups: readonly Members[] = [
    [tp, 1],
    [split.ulysses ?? 1, tp],
    [cp, tp],
    [ep, expertTensor(split)],
  ]
  const kinds = groups.flatMap(([size, stride]): LinkKind[] => (size > 1 ? [linkOf(size, stride)] : []))
  const [first] = kinds
  const second = kinds.find(kind => kind !== first)
  return {
    of: (size, stride) => (size > 1 && second !== undefined && linkOf(size, stride) !== first ? 1 : 0),
    shares: (lane, size, stride) => {
      const kind = lane === 0 ? first : second
      return kind !== undefined && linkOf(size, stride) === kind
    },
    alike: (one, other) => linkOf(...one) === linkOf(...other),
  }
}
