/** A folder as one tar archive (ustar), piece by piece: what a checkpoint is downloaded as, from a disk or from a page's memory. */
import type { Files } from '../base/index.js'

const block = 512
/** Bytes of a file that are read at once. */
const most = 2 ** 22

/** A checkpoint folder as one tar file, in pieces. */
export function* archiveOf(
  folder: string,
  files: Pick<Files, 'list' | 'readBytes'>,
): Generator<Uint8Array<ArrayBuffer>> {
  for (const path of files.list(folder) ?? []) {
    const parts = [...sizesOf(path, files)]
    const size = parts.reduce((sum, part) => sum + part, 0)
    yield headerOf(path.slice(folder.length + 1), size)
    let at = 0
    for (const part of parts) {
      yield new Uint8Array(files.readBytes(path, at, at + part))
      at += part
    }
    yield new Uint8Array((block - (size % block)) % block)
  }
  yield new Uint8Array(2 * block)
}

/** Files do not say how long they are: they are read until nothing comes. */
function* sizesOf(path: string, files: Pick<Files, 'readBytes'>): Generator<number> {
  for (let at = 0; ; at += most) {
    const { length } = files.readBytes(path, at, at + most)
    if (length > 0) yield length
    if (length < most) return
  }
}

function headerOf(name: string, size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(block)
  const field = (at: number, text: string) => bytes.set(new TextEncoder().encode(text), at)
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
