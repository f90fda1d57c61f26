/**
 * How kernels are tuned to a machine: which variant of the register tile multiplies, and in which blocks. Blocks follow
 * from the caches. Of all this only the length of a pass over k, which the first cache says, is part of what a sum rounds
 * to: what is measured (probe.ts) changes how long a product takes, and no bit of it.
 */
import type { Caches } from '../../../platform/index.js'
import { tuningWords } from '../lower/commands.js'
import type { Kernels } from './target.js'

/** A register tile: the rows and columns of a result that are summed in registers (kernels/variants.mjs). */
export interface Variant {
  readonly name: string
  readonly rows: number
  readonly columns: number
}

/** The tuning parameters of the kernels: the register tile and the block sizes. */
export interface Tuning {
  /** By name. */
  readonly variant: string
  /** The most of k, of rows of a and of columns of b that are packed at once. */
  readonly blockK: number
  readonly blockRows: number
  readonly blockColumns: number
  /** Up to this many columns, rows of a are read in place instead of packed. */
  readonly unpacked: number
  /** Collectives: what one rank takes of a tensor at once. */
  readonly pieceBytes: number
  /** Up to this many elements, cache lines of a result are prefetched, and how many elements ahead. */
  readonly fetched: number
  readonly fetchedAhead: number
  /** Results of at least this many bytes bypass the caches (non-temporal stores). */
  readonly streamedBytes: number
  /** The same of results that are made of codes. */
  readonly codedBytes: number
}

/** What fetches: all results; only those that the caches of two cores hold; none. */
const always = { fetched: 2 ** 30, fetchedAhead: 512 }
const small = { fetched: 32768, fetchedAhead: 128 }
const never = 2 ** 31 - 1
const moving = { pieceBytes: 65536, ...always, streamedBytes: 4 << 20, codedBytes: never }

/** What is packed of both operands, in elements: VECTORS_BYTES of kernels/kernels.h. */
const mostPacked = 2 ** 20

/** Of a core of a server, where the machine does not say. */
const usual: Caches = { first: 32768, second: 2 ** 20, last: 2 ** 24 }

/** With wide vectors few columns are soon done, and packing rows of a for them costs more than it saves: of so few always. */
const unpacked: Readonly<Record<Kernels['kind'], number>> = { native: 768, vectors: 768, wasm: 0 }
const fewColumns = 256

const between = (least: number, value: number, most: number): number => Math.max(least, Math.min(most, value))
const wholeTiles = (value: number, tile: number): number => Math.max(1, Math.floor(value / tile)) * tile

/**
 * Block sizes of matmul from the cache sizes of a CPU. A panel of a fits the first cache with what is streamed of b,
 * the block of a takes 0.3 of the second, the block of b half of the last. WebAssembly has the same blocks everywhere,
 * and so the same bits.
 */
export function tuningFor(kind: Kernels['kind'], variant: Variant, caches: Caches = usual): Tuning {
  const { first, second, last } = kind === 'wasm' ? usual : caches
  const blockK = first >= 65536 ? 512 : first >= 32768 ? 384 : 256
  const blockRows = wholeTiles(between(48, (0.3 * second) / (4 * blockK), 384), variant.rows)
  const room = mostPacked / blockK - blockRows
  const blockColumns = wholeTiles(Math.min(room, between(512, last / (8 * blockK), 2048)), variant.columns)
  return { variant: variant.name, blockK, blockRows, blockColumns, unpacked: unpacked[kind], ...moving }
}

/** The same variant with one thing changed that changes no bit. */
export function neighbours(tuning: Tuning, { rows, columns }: Variant): Tuning[] {
  return [
    { ...tuning, unpacked: fewColumns },
    { ...tuning, blockRows: wholeTiles(tuning.blockRows / 2, rows) },
    { ...tuning, blockColumns: wholeTiles(tuning.blockColumns / 2, columns) },
  ]
}

/** The columns of the tile that was chosen. */
export const columnsOf = ({ variant }: Tuning, variants: readonly Variant[]): number =>
  variants.find(({ name }) => name === variant)?.columns ?? 0

/** The same with collectives that move their bytes otherwise. */
export const movements = (tuning: Tuning): Tuning[] => [
  { ...tuning, ...small },
  { ...tuning, ...small, pieceBytes: 4 * tuning.pieceBytes },
  { ...tuning, pieceBytes: 4 * tuning.pieceBytes },
]

/** The same with large results of codes past the caches. */
export const streamed = (tuning: Tuning): Tuning => ({ ...tuning, codedBytes: tuning.streamedBytes })

/** As exec is told. */
export function wordsOf(tuning: Tuning, variants: readonly Variant[], tiles: boolean): Int32Array {
  const variant = variants.findIndex(({ name }) => name === tuning.variant)
  if (variant < 0) throw new Error(`internal: there is no variant ${tuning.variant}`)
  const words = { ...tuning, variant, tiles: Number(tiles) }
  return Int32Array.from(tuningWords, word => words[word])
}
