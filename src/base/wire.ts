/**
 * What crosses the wire where a sum over the data axes is made (reduce) and where parameters are gathered: a *wire format* is
 * narrower than what is computed with, and nothing is computed in it.
 */
import { bytesPer, type DType } from './dtype.js'

/**
 * 16 bits are a number with fewer digits. int8: codes, runs of which share a *unit*: the greatest absolute value of a run, divided by
 * 128. A number is code times unit, and the codes are no numbers (law T7).
 */
export const wireFormats = ['bf16', 'f16', 'int8'] as const
export type WireFormat = (typeof wireFormats)[number]

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
  readonly reduce?: WireFormat | undefined
  readonly gather?: WireFormat | undefined
}

/** What numbers of a dtype travel in, where that is fewer bytes. */
export const wireOf = (dtype: DType, format: WireFormat | undefined): WireFormat | undefined =>
  format !== undefined && wireBytes[format] < bytesPer[dtype] ? format : undefined

/**
 * How numbers lie as codes. The block of a rank is one line, cut into equal `parts` (the last may be padded with zeros); runs of
 * `run` numbers begin with each part.
 */
export interface Coding {
  readonly run: number
  readonly parts: number
  /** One rank that does what several would: into how many blocks each dim is cut, one line each. */
  readonly blocks?: readonly number[] | undefined
}

/** The sizes of codes: numbers of a part and the units of one, and how many lines there are. */
export function codedSizes(elements: number, { run, parts, blocks = [] }: Coding) {
  const lines = blocks.reduce((product, ways) => product * ways, 1)
  const part = Math.ceil(elements / lines / parts)
  const units = Math.ceil(part / run)
  return { lines, part, units, codes: lines * parts * part, allUnits: lines * parts * units }
}
