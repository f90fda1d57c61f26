/**
 * What crosses the wire where a sum over the data axes is made (reduce) and where parameters are gathered: a *wire format* is
 * narrower than what is computed with, and nothing is computed in it.
 */
import { bytesPer, type DType } from './dtype.js'

/** 16 bits are a number with fewer digits. */
export const wireFormats = ['bf16', 'f16'] as const satisfies readonly DType[]
export type WireFormat = (typeof wireFormats)[number]

/** Bytes of a number on its way. */
export const wireBytes: Readonly<Record<WireFormat, number>> = { bf16: bytesPer.bf16, f16: bytesPer.f16 }

/** What of a step is sent in which format; absent: as it is stored. */
export interface Wire {
  readonly reduce?: WireFormat | undefined
  readonly gather?: WireFormat | undefined
}

/** What numbers of a dtype travel in, where that is fewer bytes. */
export const wireOf = (dtype: DType, format: WireFormat | undefined): WireFormat | undefined =>
  format !== undefined && wireBytes[format] < bytesPer[dtype] ? format : undefined
