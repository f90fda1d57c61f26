/** The lines of a file that somebody else writes, as they come: whole ones only, wherever the file is. */
import type { Files } from '../base/index.js'

export interface TailRead {
  readonly lines: readonly string[]
  /** The file is another than before, or was cut: these lines are its first. */
  readonly anew: boolean
}

/** Bytes of one read, and bytes before the place reached that tell one file from another. */
const [part, remembered] = [2 ** 22, 64]
const lineBreak = 10

/** Every call returns what was written since the one before. A file that is not there (yet) has no lines. */
export function tailOf(path: string, files: Pick<Files, 'readBytes'>): () => TailRead {
  let at = 0
  let before = new Uint8Array(0)
  const decoder = new TextDecoder()
  const bytesFrom = (begin: number): Uint8Array => {
    try {
      return files.readBytes(path, begin, begin + part)
    } catch {
      return new Uint8Array(0) // a shared folder comes and goes
    }
  }
  return () => {
    let read = bytesFrom(at - before.length)
    if (read.length === 0 && bytesFrom(0).length === 0) return { lines: [], anew: false }
    const anew = !startsWith(read, before)
    if (anew) [at, before, read] = [0, new Uint8Array(0), bytesFrom(0)]
    const fresh = read.subarray(before.length)
    const end = fresh.lastIndexOf(lineBreak) + 1
    const text = decoder.decode(fresh.subarray(0, end))
    at += end
    const kept = read.subarray(0, before.length + end)
    before = kept.slice(Math.max(0, kept.length - remembered))
    return { lines: end === 0 ? [] : text.slice(0, -1).split('\n'), anew }
  }
}

const startsWith = (bytes: Uint8Array, start: Uint8Array): boolean =>
  bytes.length >= start.length && start.every((byte, i) => byte === bytes[i])
