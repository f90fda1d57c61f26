/** Files as one tar archive (ustar), as they are read: what a folder is downloaded as. */
import { createReadStream, statSync } from 'node:fs'

export interface TarEntry {
  readonly name: string
  readonly path: string
}

const block = 512

export async function* tarOf(entries: readonly TarEntry[]): AsyncGenerator<Uint8Array> {
  for (const { name, path } of entries) {
    const { size } = statSync(path)
    yield header(name, size)
    if (size > 0) yield* createReadStream(path, { end: size - 1 })
    yield Buffer.alloc((block - (size % block)) % block)
  }
  yield Buffer.alloc(2 * block)
}

function header(name: string, size: number): Buffer {
  const bytes = Buffer.alloc(block)
  const field = (at: number, text: string) => void bytes.write(text, at, 'latin1')
  const octal = (value: number, width: number) => value.toString(8).padStart(width - 1, '0')
  field(0, name)
  field(100, octal(0o644, 8))
  field(108, octal(0, 8))
  field(116, octal(0, 8))
  field(124, octal(size, 12))
  field(136, octal(0, 12))
  field(156, '0')
  field(257, 'ustar\u000000')
  field(148, ' '.repeat(8)) // stands there while the sum is taken
  const sum = bytes.reduce((total, byte) => total + byte, 0)
  field(148, `${octal(sum, 7)}\0 `)
  return bytes
}
