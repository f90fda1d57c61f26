/**
 * A value with typed arrays in it, as bytes: the length of a head in 4 bytes (little-endian), the head in JSON, then the arrays. Where an
 * array was, the head has `{ "array": "f64", "at": 16, "length": 3 }`; `at` counts from the end of the head, which is a multiple of 8.
 */

type Column = Float64Array | Int32Array | Uint8Array

const typeOf = (column: Column) =>
  column instanceof Float64Array ? 'f64' : column instanceof Int32Array ? 'i32' : 'u8'

const isColumn = (value: unknown): value is Column =>
  value instanceof Float64Array || value instanceof Int32Array || value instanceof Uint8Array

const padded = (bytes: number) => Math.ceil(bytes / 8) * 8

export function binaryOf(value: unknown): Uint8Array {
  const columns: Column[] = []
  let end = 0
  const head = JSON.stringify(value, (_, part: unknown) => {
    if (!isColumn(part)) return part
    columns.push(part)
    const at = end
    end += padded(part.byteLength)
    return { array: typeOf(part), at, length: part.length }
  })
  const text = Buffer.from(head)
  const length = padded(4 + text.length) - 4
  const body = Buffer.alloc(4 + length + end, ' ')
  body.writeUInt32LE(length)
  text.copy(body, 4)
  let at = 4 + length
  for (const { buffer, byteOffset, byteLength } of columns) {
    body.set(new Uint8Array(buffer, byteOffset, byteLength), at)
    at += padded(byteLength)
  }
  return body
}
