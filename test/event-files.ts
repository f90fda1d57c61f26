/** Event files as a reader finds them: records whose checksums are right, up to one that is cut. */
import { maskedCrc } from '../src/monitor/crc32c.js'

export interface EventRecord {
  /** Hex. */
  readonly crcLength: string
  readonly crcData: string
  readonly payload: Uint8Array
  /** With length and checksums. */
  readonly whole: Uint8Array
}

export function eventRecords(bytes: Uint8Array): EventRecord[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const records: EventRecord[] = []
  for (let at = 0; at + 12 <= bytes.length; ) {
    const length = Number(view.getBigUint64(at, true))
    const end = at + 16 + length
    if (end > bytes.length) break
    const payload = bytes.subarray(at + 12, end - 4)
    const [crcLength, crcData] = [view.getUint32(at + 8, true), view.getUint32(end - 4, true)]
    if (maskedCrc(bytes.subarray(at, at + 8)) !== crcLength || maskedCrc(payload) !== crcData)
      throw new Error('damaged')
    records.push({ crcLength: hex(crcLength), crcData: hex(crcData), payload, whole: bytes.subarray(at, end) })
    at = end
  }
  return records
}

const hex = (word: number): string => word.toString(16).padStart(8, '0')

/** The tags in the scalars and texts of a file, with the step of each; `restart` where a session begins. */
export function tagsIn(bytes: Uint8Array): [step: number, tag: string][] {
  return eventRecords(bytes).flatMap(({ payload }) => {
    const event = fieldsOf(payload)
    const step = Number(event.find(([field]) => field === 2)?.[1] ?? 0)
    const values = event.flatMap(([field, value]) => (field === 5 ? fieldsOf(value as Uint8Array) : []))
    const tags = values.map(([, value]) => new TextDecoder().decode(fieldsOf(value as Uint8Array)[0][1] as Uint8Array))
    const restarts = event.some(([field]) => field === 7) ? ['restart'] : []
    return [...restarts, ...tags].map((tag): [number, string] => [step, tag])
  })
}

type Field = readonly [field: number, value: bigint | Uint8Array]

function fieldsOf(bytes: Uint8Array): Field[] {
  const fields: Field[] = []
  let at = 0
  const varint = (): bigint => {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const take = (length: number): Uint8Array => {
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const key = Number(varint())
    const wire = key & 7
    fields.push([key >> 3, wire === 0 ? varint() : take(wire === 1 ? 8 : wire === 5 ? 4 : Number(varint()))])
  }
  return fields
}
