/** Values with typed arrays in them, as the server sends them: the length of a head, the head in JSON, then the arrays. */

const arrays = { f64: Float64Array, i32: Int32Array, u8: Uint8Array } as const

interface Place {
  readonly array: keyof typeof arrays
  readonly at: number
  readonly length: number
}

const isPlace = (value: unknown): value is Place =>
  typeof value === 'object' && value !== null && 'array' in value && 'at' in value

export function unpacked(buffer: ArrayBuffer): unknown {
  const length = new DataView(buffer).getUint32(0, true)
  const head = new TextDecoder().decode(new Uint8Array(buffer, 4, length))
  return JSON.parse(head, (_, value: unknown) =>
    isPlace(value) ? new arrays[value.array](buffer, 4 + length + value.at, value.length) : value,
  )
}
