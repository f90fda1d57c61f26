/** What the commands of an instruction depend on besides itself. */
import {
  type Axis,
  type Coordinates,
  type Dim,
  type DimPart,
  elementsOf,
  hashName,
  type Mesh,
  maskName,
  type Space,
} from '../../../base/index.js'
import type { Shape } from '../../../geometry/index.js'
import { type Buffer, bytesPer, type Collective, type DType, type InstrOf, type Ref } from '../../../ir/index.js'
import type { FusedResult, NormInputGrad, NormWeightGrad, Summing } from './fuse.js'
import type { LandingTensor } from './landing.js'
import type { ListWriter } from './list.js'
import type { InputPlace } from './map.js'
import type { PanelProduct } from './panels.js'
import type { RankCollective } from './rendezvous.js'
import { dense, type Run, refuse } from './shapes.js'

/** A file as commands name it: its number, and whether it bypasses the system's cache. */
export interface DiskFile {
  readonly number: number
  readonly direct: boolean
}

/** One instruction's surroundings: a rank, a call, and where the call's buffers lie. */
export interface Site {
  readonly list: ListWriter
  /** The rank's file on the disk, where it has one. */
  readonly file: DiskFile | undefined
  /** Where the buffer lies, and whether it is the whole of its frame. */
  lying(ref: Ref): { readonly space: Space; readonly isWhole: boolean }
  /** What the rank's copier does, where it has one: moves, from when they are started. */
  readonly copier: ListWriter | undefined
  readonly seed: number
  readonly mesh: Mesh
  /** The name of the block the segment is called for. */
  readonly block: string
  /** The name of the parameter it is called for. */
  readonly param: string
  /** The rank's place on the mesh. */
  readonly place: Coordinates
  /** Byte offset of a buffer, and what its numbers are in (`markOf`). */
  at(ref: Ref): number
  /** The same without what its numbers are in, and without being touched. */
  lies(ref: Ref): number
  /** The buffer is to be 0, which is written only once somebody touches it. */
  clear(ref: Ref): void
  /** Whether it is 0 and nothing was written: the caller must write all of it instead of adding to it. */
  fresh(ref: Ref): boolean
  shape(ref: Ref): Shape
  buffer(ref: Ref): Buffer
  /** The part of the whole tensor that the buffer is, per dim of the buffer. */
  parts(ref: Ref): readonly DimPart[]
  /** The rank's part of a dim, of this local size, that is cut along mesh axes. */
  part(axes: readonly Axis[], dim: Dim): DimPart
  /** The rank's index along mesh axes, and how many there are. */
  index(axes: readonly Axis[]): number
  ranksAlong(axes: readonly Axis[]): number
  /** Whether a cut of the dim along these axes is not in order. */
  isZigzag(axes: readonly Axis[], dim: string | undefined): boolean
  /** The axes behind those of the zigzag. */
  behindZigzag(axes: readonly Axis[]): readonly Axis[]
  /** Whether the rank is the first along these axes. */
  isFirst(axes: readonly string[]): boolean
  input(name: string): (InputPlace & { readonly dims: readonly Dim[] }) | undefined
  /** Where the learning rate of the step lies. */
  readonly rate: number
  /** One collective for all pairs or, where `meetsOnce` says no, one for each. */
  join(collective: Collective): readonly RankCollective[]
  /** What a collective brings that is unpacked as it ends, straight from where other ranks have it. */
  landing(collective: Collective): readonly LandingTensor[] | undefined
  /** What an instruction writes, where it sums more than its own. */
  fused(instr: Summing): FusedResult | undefined
  /** The gradients of a norm's weights that the gradient of its input makes as well. */
  normWeights(instr: NormInputGrad): NormWeightGrad | undefined
  /** What sums of the columns of a contraction's right operand are accumulated in, which it does as well. */
  columns(instr: InstrOf<'contract'>): Ref | undefined
  /** How to say that a product has this right operand, where products may share what is packed of it. */
  panels(ref: Ref): ((product: Omit<PanelProduct, 'frame' | 'at'>) => void) | undefined
  /** The merge that an attention does as well. */
  merged(instr: InstrOf<'attention'>): InstrOf<'attentionMerge'> | undefined
  /** Makes what depends on shapes alone once for all ranks and calls. */
  once<T>(instr: object, make: () => T): T
  /** Collectives started and not yet waited for, by the first buffer they write. */
  readonly open: Map<Ref, OpenCollective>
}

/** A collective that has been started, and what its rank joined for it. */
export interface OpenCollective {
  readonly instr: Collective
  readonly joined: readonly RankCollective[]
}

export const dims = (s: Site, ref: Ref): readonly Dim[] => s.shape(ref).dims
export const size = (s: Site, ref: Ref): number => elementsOf(dims(s, ref))

/** The rank's part of a dim of a buffer; without such a dim there is one element. */
export const along = (s: Site, ref: Ref, name: string): DimPart =>
  s.parts(ref)[dims(s, ref).findIndex(dim => dim.name === name)] ?? { origin: 0, until: 1, gap: 0 }

export const originAlong = (s: Site, ref: Ref, name: string): number => along(s, ref, name).origin

/** All operands must lie as the first does. */
export const alike = (s: Site, refs: readonly Ref[]): number =>
  refs.map(ref => dense(dims(s, ref), dims(s, refs[0]), ref))[0]

/** What only moves is stored as it was. */
export function storedAlike(s: Site, refs: readonly Ref[]): void {
  const [dtype, ...others] = refs.map(ref => s.buffer(ref).dtype)
  const other = others.find(one => one !== dtype)
  if (other) refuse(`it moves ${dtype} and ${other}, and does not convert`)
}

/** The keys of a mask by counter. */
export const mask = (s: Site, key: string) => ({ seed: s.seed >>> 0, name: hashName(maskName(s.block, key)) })

/** Bytes of so many elements of a buffer. */
export const bytesOf = (s: Site, ref: Ref, elements: number): number => elements * bytesPer[s.buffer(ref).dtype]

/** Where runs are copied from and to; both are of one dtype. */
interface CopyPlaces {
  readonly dtype: DType
  readonly x: number
  readonly out: number
}

export function copyRuns(s: Site, runs: readonly Run[], { dtype, x, out }: CopyPlaces): void {
  for (const { from, to, rows, columns, strideFrom, strideTo } of runs)
    s.list.write('copy', {
      x: x + from * bytesPer[dtype],
      out: out + to * bytesPer[dtype],
      rows,
      columns,
      strideX: strideFrom,
      strideOut: strideTo,
    })
}
