/** A job within a link: JSON, deflated, in letters that a link may hold; or as it is, where a page had no time to wait for that. */
import type { Problem } from 'lockstep'
import { refused } from './phrases.js'

type Fields = Readonly<Record<string, unknown>>

/** No job is larger; what unpacks to more was made to be. */
const most = 200_000

export async function pack(value: Fields): Promise<string> {
  const stream = new Blob([JSON.stringify(value)]).stream().pipeThrough(new CompressionStream('deflate-raw'))
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer())
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}

export interface Unpacked {
  readonly value: Fields
  readonly problems: readonly Problem[]
}

export async function unpack(text: string | undefined): Promise<Unpacked> {
  if (text === undefined) return { value: {}, problems: [] }
  try {
    const value: unknown = JSON.parse(text.startsWith('{') ? text : await inflated(bytesOf(text)))
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { value: value as Fields, problems: [] } // just looked
  } catch {
    // Whatever was wrong with it, the reader can only get the whole link again.
  }
  return { value: {}, problems: [damaged] }
}

const damaged = refused('j', 'schema/value/link')

const bytesOf = (text: string) =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), letter => letter.charCodeAt(0))

async function inflated(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader()
  const parts: BlobPart[] = []
  let size = 0
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    size += read.value.length
    if (size > most) throw new Error('too large')
    parts.push(read.value)
  }
  return new Blob(parts).text()
}
