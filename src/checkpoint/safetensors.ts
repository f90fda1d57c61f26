/**
 * safetensors files: eight bytes of length, a header of JSON, then the tensors' bytes. Ours keep a CRC-32 of each
 * tensor in the metadata; files of others have none and are taken as they are.
 */
import { elementFacts } from '../base/index.js'
import { crc32 } from './crc32.js'

/** What is read. */
export type Float = 'f32' | 'f64' | 'bf16' | 'f16'

export interface SafeTensor {
  /** The dtype in the file; 16 bits are read as f32. */
  readonly dtype: Float
  readonly shape: readonly number[]
  readonly values: Float32Array | Float64Array
}

/** Values of a copy of the file's bytes. A bf16 number is the upper half of an f32. */
const decode: Readonly<Record<Float, (raw: Uint8Array) => Float32Array | Float64Array>> = {
  f32: ({ buffer }) => new Float32Array(buffer),
  f64: ({ buffer }) => new Float64Array(buffer),
  bf16: ({ buffer }) => new Float32Array(Uint32Array.from(new Uint16Array(buffer), half => half << 16).buffer),
  f16: ({ buffer }) => Float32Array.from(new Uint16Array(buffer), halfOf),
}

/** Ten bits of fraction, five of exponent. */
function halfOf(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023]
  const size =
    exponent === 31
      ? fraction === 0
        ? Number.POSITIVE_INFINITY
        : Number.NaN
      : exponent === 0
        ? fraction * 2 ** -24
        : (1024 + fraction) * 2 ** (exponent - 25)
  return bits & 0x8000 ? -size : size
}

const floats = Object.keys(decode) as readonly Float[] // its own keys

/** A file, opened. Every Error is fit to print, and names the tensor. */
export interface Safetensors {
  readonly metadata: Readonly<Record<string, string>>
  /** The CRC-32 of its length and its header, in eight digits. */
  readonly headSum: string
  /** The bytes it has, by its header. */
  readonly end: number
  /** All that it holds; dtypes are the names that such files have for them. */
  readonly tensors: ReadonlyMap<string, { readonly dtype: string; readonly shape: readonly number[] }>
  tensor(name: string): SafeTensor
  /** Of a tensor the bytes of its elements from `first` up to, not including, `last`, each of so many bytes: not checked against a sum. */
  bytes(name: string, first: number, last: number, each: number): Uint8Array
}

/** Numbers of a copy of the bytes. */
export const decodeNumbers = (dtype: Float, raw: Uint8Array): Float32Array | Float64Array => decode[dtype](raw)

/** As in Hugging Face's library. */
const mostHeader = 100_000_000

const refuse = (message: string): never => {
  throw new Error(message)
}

type Mapping = Readonly<Record<string, unknown>>
const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const parseSafetensors = (bytes: Uint8Array): Safetensors =>
  openSafetensors((begin, end) => bytes.subarray(begin, end))

/** `read` gives the bytes from `begin` to `end`, or as many of them as there are. */
export function openSafetensors(read: (begin: number, end: number) => Uint8Array): Safetensors {
  const length = read(0, 8)
  if (length.length < 8) refuse('is truncated: there is no header')
  const size = Number(new DataView(length.buffer, length.byteOffset, 8).getBigUint64(0, true))
  if (size > mostHeader) refuse(`has a header of ${size} bytes, more than ${mostHeader}`)
  const head = read(0, 8 + size)
  if (head.length < 8 + size) refuse('is truncated: the header is longer than the file')
  const header = headerOf(new TextDecoder().decode(head.subarray(8)))
  const metadata = metadataOf(header)
  const sums = metadata.crc32 === undefined ? undefined : headerOf(metadata.crc32)
  const end = 8 + size + lastOf(header)
  if (read(end, end + 1).length > 0) refuse(`is longer than the ${end} bytes that its header declares`)
  return {
    metadata,
    headSum: crc32(head).toString(16).padStart(8, '0'),
    end,
    tensors: tensorsIn(header),
    bytes(name, first, last, each) {
      const offsets = isMapping(header[name]) ? header[name].data_offsets : undefined
      const begin = isSizes(offsets) ? 8 + size + offsets[0] : refuse(`there is no tensor ${name}`)
      const raw = new Uint8Array(read(begin + first * each, begin + last * each))
      return raw.length === (last - first) * each ? raw : refuse(`tensor ${name} is truncated`)
    },
    tensor(name) {
      const { dtype, shape, begin, end } = entryOf(header, name)
      // A copy begins at a whole word, whatever the file's place in memory. (A Buffer's slice would be no copy.)
      const raw = new Uint8Array(read(8 + size + begin, 8 + size + end))
      if (raw.length < end - begin)
        refuse(`tensor ${name} is truncated: ${raw.length} of ${end - begin} bytes are there`)
      if (sums && sums[name] !== crc32(raw))
        refuse(`tensor ${name} is corrupt: its CRC-32 is not the one that was written`)
      return { dtype, shape, values: decode[dtype](raw) }
    },
  }
}

function headerOf(text: string): Mapping {
  let header: unknown
  try {
    header = JSON.parse(text)
  } catch {
    refuse('has a header that is not JSON')
  }
  const twice = repeatedKey(text)
  if (twice !== undefined) refuse(`has ${JSON.stringify(twice)} twice in its header`)
  return isMapping(header) ? header : refuse('has a header that is not a mapping')
}

/** A key that stands twice in one mapping of a JSON text; JSON.parse takes the later one without a word. */
function repeatedKey(text: string): string | undefined {
  const open: Set<string>[] = []
  let last = ''
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}:]/g)) {
    if (token === '{') open.push(new Set())
    else if (token === '}') open.pop()
    else if (token === ':') {
      const [keys, key] = [open[open.length - 1], JSON.parse(last) as string] // what stands before a colon
      if (keys.has(key)) return key
      keys.add(key)
    } else last = token
  }
  return undefined
}

function metadataOf({ __metadata__: metadata }: Mapping): Readonly<Record<string, string>> {
  const entries = isMapping(metadata) ? Object.entries(metadata) : []
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'))
}

/** An entry that is no tensor has no shape; whoever asks for it is told. */
const tensorsIn = ({ __metadata__: _, ...entries }: Mapping): Safetensors['tensors'] =>
  new Map(
    Object.entries(entries).flatMap(([name, entry]) => {
      if (!isMapping(entry) || typeof entry.dtype !== 'string' || !isSizes(entry.shape)) return []
      return [[name, { dtype: entry.dtype, shape: entry.shape }] as const]
    }),
  )

/**
 * Where the last tensor ends, behind the header. As in Hugging Face's library, tensors follow each other without gaps, so that no byte
 * is read as two of them and none is hidden between them.
 */
function lastOf({ __metadata__: _, ...entries }: Mapping): number {
  const ranges = Object.entries(entries).flatMap(([name, entry]) => {
    const offsets = isMapping(entry) ? entry.data_offsets : undefined
    if (!isMapping(entry) || !isSizes(offsets) || offsets.length !== 2) return []
    requireBytes(name, entry, offsets[1] - offsets[0])
    return [{ name, begin: offsets[0], end: offsets[1] }]
  })
  ranges.sort((a, b) => a.begin - b.begin || a.end - b.end)
  let before = { name: 'the header', end: 0 }
  for (const { name, begin, end } of ranges) {
    if (begin !== before.end)
      refuse(`tensor ${name} begins at byte ${begin}, but ${before.name} before it ends at ${before.end}`)
    before = { name: `tensor ${name}`, end }
  }
  return before.end
}

/** Bits of an element are in the name of its dtype: F32, BF16, I64, F8_E4M3. */
const bitsOf = (dtype: unknown): number =>
  dtype === 'BOOL' ? 8 : Number(/^(?:BF|[FIU])(\d+)/.exec(String(dtype))?.[1])

function requireBytes(name: string, { dtype, shape }: Mapping, bytes: number): void {
  const expected = isSizes(shape) ? (bitsOf(dtype) / 8) * shape.reduce((n, size) => n * size, 1) : Number.NaN
  if (bytes < 0) refuse(`tensor ${name} ends before it begins`)
  if (!Number.isNaN(expected) && bytes !== expected)
    refuse(`tensor ${name} has ${bytes} bytes, but its shape needs ${expected}`)
}

function entryOf(header: Mapping, name: string) {
  const entry = Object.hasOwn(header, name) ? header[name] : refuse(`there is no tensor ${name}`)
  if (!isMapping(entry)) return refuse(`the entry of tensor ${name} is not a mapping`)
  const { dtype, shape, data_offsets: offsets } = entry
  const type = floats.find(float => elementFacts[float].safetensors === dtype)
  if (!type) {
    const known = floats.map(float => elementFacts[float].safetensors)
    return refuse(`tensor ${name} is ${String(dtype)}, not ${known.join(', ')}`)
  }
  if (!isSizes(shape) || !isSizes(offsets) || offsets.length !== 2) return refuse(`tensor ${name} has no sizes`)
  const [begin, end] = offsets
  return { dtype: type, shape, begin, end }
}

const isSizes = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every(size => Number.isSafeInteger(size) && size >= 0)

export function printSafetensors(
  tensors: Readonly<Record<string, SafeTensor & { readonly dtype: 'f32' | 'f64' }>>,
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const entries = Object.entries(tensors).map(([name, tensor]) => ({ name, ...tensor, raw: bytesOf(tensor) }))
  const sums = Object.fromEntries(entries.map(({ name, raw }) => [name, crc32(raw)]))
  const head = printHead(entries, { ...metadata, crc32: JSON.stringify(sums) })
  const file = new Uint8Array(entries.reduce((end, { raw }) => end + raw.length, head.length))
  file.set(head)
  let at = head.length
  for (const { raw } of entries) {
    file.set(raw, at)
    at += raw.length
  }
  return file
}

/** What stands before the bytes of these tensors, which follow in this order. */
export function printHead(
  tensors: Iterable<{ readonly name: string; readonly dtype: Float; readonly shape: readonly number[] }>,
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: metadata }
  let end = 0
  for (const { name, dtype, shape } of tensors) {
    const begin = end
    end += shape.reduce((n, size) => n * size, 1) * elementFacts[dtype].bytes
    header[name] = { dtype: elementFacts[dtype].safetensors, shape, data_offsets: [begin, end] }
  }
  const text = new TextEncoder().encode(JSON.stringify(header))
  const size = Math.ceil(text.length / 8) * 8
  const head = new Uint8Array(8 + size).fill(0x20)
  new DataView(head.buffer).setBigUint64(0, BigInt(size), true)
  head.set(text, 8)
  return head
}

const bytesOf = ({ values }: SafeTensor): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
