/**
 * The records of a TensorBoard event file: length, its masked CRC-32C, an Event as protobuf, its masked CRC-32C. A reader skips
 * a last record that is cut and reads it when it is whole; a wrong checksum ends the file for it.
 */
import { maskedCrc } from './crc32c.js'
import { bytesField, doubleField, floatField, integerField, joined } from './protobuf.js'

/** A point of a curve, or a text shown as Markdown. */
export type EventValue =
  | { readonly tag: string; readonly value: number }
  | { readonly tag: string; readonly text: string }

/** When, in seconds since 1970, and at which step. */
export interface Moment {
  readonly time: number
  readonly step: number
}

export function framed(payload: Uint8Array): Uint8Array {
  const length = new DataView(new ArrayBuffer(8))
  length.setBigUint64(0, BigInt(payload.length), true)
  const head = new Uint8Array(length.buffer)
  return joined([head, word(maskedCrc(head)), payload, word(maskedCrc(payload))])
}

function word(value: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(4))
  view.setUint32(0, value, true)
  return new Uint8Array(view.buffer)
}

/** The first record of every file. */
export const versionRecord = (time: number): Uint8Array =>
  framed(joined([doubleField(1, time), bytesField(3, 'brain.Event:2')]))

/** Points of this step and of later ones that were written before are of a run that was taken up again: readers drop them. */
export const restartRecord = (moment: Moment): Uint8Array =>
  framed(joined([...momentFields(moment), bytesField(7, integerField(1, 1))]))

export const valuesRecord = (moment: Moment, values: readonly EventValue[]): Uint8Array =>
  framed(joined([...momentFields(moment), bytesField(5, ...values.map(value => bytesField(1, ...valueFields(value))))]))

/** A step of 0 is the default of the format, and is left out. */
const momentFields = ({ time, step }: Moment): Uint8Array[] => [
  doubleField(1, time),
  ...(step === 0 ? [] : [integerField(2, step)]),
]

const stringType = 7

function valueFields(value: EventValue): Uint8Array[] {
  if ('value' in value) return [bytesField(1, value.tag), floatField(2, value.value)]
  const shape = bytesField(2, bytesField(2, integerField(1, 1)))
  return [
    bytesField(1, value.tag),
    bytesField(8, integerField(1, stringType), shape, bytesField(8, value.text)),
    bytesField(9, bytesField(1, bytesField(1, 'text'))),
  ]
}
