/**
 * What crosses the wire where a sum over the data axes is made (reduce) and where parameters are gathered: a *wire format* is
 * narrower than what is computed with, and nothing is computed in it.
 */
import { bytesPer, type DType } from './dtype.js'
import type { Dim } from './layout.js'
import { type ParamRole, roleFacts, shapeOfMatrix } from './optimizer.js'

/**
 * 16 bits are a number with fewer digits. int8: codes, runs of which share a *unit*: the greatest absolute value of a run, divided by
 * 128. A number is code times unit, and the codes are no numbers (law T7).
 */
export const wireFormats = ['bf16', 'f16', 'int8'] as const
export type WireFormat = (typeof wireFormats)[number]

/**
 * Less is sent of a gradient than there is of it, and the rest is kept as its `error`, for the next step. powersgd: a matrix as two
 * factors of few columns, its projection on what it was before (Vogels et al. 2019). topk: of every rank's addend the few numbers that are
 * greatest, and their places (Aji and Heafield 2017). onebit: the signs of Adam's mean of gradients, as each rank would have it, and one number
 * for all of them (Tang et al. 2021).
 */
export const sparings = ['powersgd', 'topk', 'onebit'] as const
export type Sparing = (typeof sparings)[number]

export const isSparing = (format: WireFormat | Sparing): format is Sparing => sparings.some(name => name === format)

/** What arrives depends on which rank adds what: one rank computes the same only if it plays them all. */
export const dependsOnAddends = (format: WireFormat | Sparing | undefined): boolean =>
  format === 'int8' || format === 'topk' || format === 'onebit'

/** Numbers that share a unit, where a plan does not say. */
export const usualRun = 256

/** Bytes of a number on its way. */
export const wireBytes: Readonly<Record<WireFormat, number>> = {
  bf16: bytesPer.bf16,
  f16: bytesPer.f16,
  int8: bytesPer.i8 + bytesPer.f32 / usualRun,
}

/** What of a step is sent in which format; absent: as it is stored. */
export interface Wire {
  readonly reduce?: WireFormat | Sparing | undefined
  readonly gather?: WireFormat | undefined
  /** Not yet: gradients are sent as they are. */
  readonly waiting?: boolean | undefined
  /** powersgd: columns of a factor. */
  readonly rank?: number | undefined
  /** powersgd: so many times fewer numbers must factors be than their matrix. */
  readonly rate?: number | undefined
  /** topk: the share of numbers that is sent. */
  readonly ratio?: number | undefined
}

/** What numbers of a dtype travel in, where that is fewer bytes. */
export const wireOf = (dtype: DType, format: WireFormat | Sparing | undefined): WireFormat | undefined =>
  format !== undefined && !isSparing(format) && wireBytes[format] < bytesPer[dtype] ? format : undefined

/** The columns of the factors that a gradient is sent as; nothing, where it is sent as it is: vectors, and matrices that factors are hardly smaller than. */
export function factorColumns(
  { reduce, rank = 1, rate = 1 }: Wire,
  { dims, inputs, role }: { readonly dims: readonly Dim[]; readonly inputs: number; readonly role: ParamRole },
): number | undefined {
  if (reduce !== 'powersgd' || !roleFacts[role].decays) return undefined
  const { rows, columns } = shapeOfMatrix(dims, inputs)
  const factor = Math.min(rank, rows, columns)
  return (rows + columns) * factor * rate < rows * columns ? factor : undefined
}

/** Whether the signs of Adam's mean are sent: of every parameter that it moves. */
export const sendsSigns = ({ reduce, waiting = false }: Wire): boolean => reduce === 'onebit' && !waiting

/** Of what share of its numbers a gradient is sent; nothing, where it is sent as it is: vectors. */
export const keptShare = ({ reduce, ratio = 1 }: Wire, { role }: { readonly role: ParamRole }): number | undefined =>
  reduce === 'topk' && roleFacts[role].decays ? ratio : undefined

/** Which numbers are kept of many: a share of every line. */
export interface Kept {
  readonly ratio: number
  /** One rank that does what several would: into how many blocks each dim is cut, one line each. */
  readonly blocks?: readonly number[] | undefined
}

/** How many of a line, and how many lines there are. */
export function keptSizes(elements: number, { ratio, blocks = [] }: Kept) {
  const lines = blocks.reduce((product, ways) => product * ways, 1)
  const line = elements / lines
  return { lines, line, kept: Math.max(1, Math.floor(ratio * line)) }
}

/**
 * How numbers lie as codes. The block of a rank is one line, cut into equal `parts` (the last may be padded with zeros); runs of
 * `run` numbers begin with each part.
 */
export interface Coding {
  readonly run: number
  readonly parts: number
  /**
   * A code is one bit, eight of them a byte, the first the lowest: set where a number is negative. A run is a part, and its unit the root of the mean square
   * of the part, or of the whole line: then every part has the same. Padding counts nowhere.
   */
  readonly signs?: 'line' | 'part' | undefined
  /** One rank that does what several would: into how many blocks each dim is cut, one line each. */
  readonly blocks?: readonly number[] | undefined
}

/** The sizes of codes: numbers of a part, the bytes and the units of one, and how many lines there are. */
export function codedSizes(elements: number, { run, parts, signs, blocks = [] }: Coding) {
  const lines = blocks.reduce((product, ways) => product * ways, 1)
  const part = Math.ceil(elements / lines / parts)
  const units = signs ? 1 : Math.ceil(part / run)
  const bytes = signs ? Math.ceil(part / 8) : part
  return { lines, part, bytes, units, codes: lines * parts * bytes, allUnits: lines * parts * units }
}
