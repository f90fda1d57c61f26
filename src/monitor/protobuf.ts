/** The few forms of protobuf fields that an event file needs. */
const encoder = new TextEncoder()

/** Bytes one after the other. */
export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

function varint(value: number): Uint8Array {
  const bytes: number[] = []
  let rest = BigInt(value)
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  bytes.push(Number(rest))
  return Uint8Array.from(bytes)
}

const tagged = (field: number, wire: number, bytes: Uint8Array): Uint8Array => joined([varint(field * 8 + wire), bytes])

function fixed(size: 4 | 8, value: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(size))
  if (size === 4) view.setFloat32(0, value, true)
  else view.setFloat64(0, value, true)
  return new Uint8Array(view.buffer)
}

export const integerField = (field: number, value: number): Uint8Array => tagged(field, 0, varint(value))
export const doubleField = (field: number, value: number): Uint8Array => tagged(field, 1, fixed(8, value))
export const floatField = (field: number, value: number): Uint8Array => tagged(field, 5, fixed(4, value))

/** Bytes, a string, or a message made of other fields. */
export function bytesField(field: number, ...content: readonly (Uint8Array | string)[]): Uint8Array {
  const bytes = joined(content.map(part => (typeof part === 'string' ? encoder.encode(part) : part)))
  return tagged(field, 2, joined([varint(bytes.length), bytes]))
}
