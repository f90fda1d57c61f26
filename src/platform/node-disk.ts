/** Node: files without names, that bypass the system's cache where the disk can do that. */
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readSync,
  statfsSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { getSystemErrorMap } from 'node:util'
import type { Disk, RoomFile } from './platform.js'

const pieceBytes = 2 ** 20

/** Only the memory of WebAssembly is sure to begin on a page, which files that bypass the cache ask for. */
interface Api {
  readonly Memory: new (limits: {
    initial: number
    maximum: number
    shared: true
  }) => { readonly buffer: SharedArrayBuffer }
}
const zeros = (): Uint8Array => {
  const { Memory } = (globalThis as unknown as { WebAssembly: Api }).WebAssembly // Node has it; its types do not say so
  return new Uint8Array(new Memory({ initial: pieceBytes / 65536, maximum: pieceBytes / 65536, shared: true }).buffer)
}

function nearest(folder: string): string {
  const path = resolve(folder)
  return existsSync(path) || path === dirname(path) ? path : nearest(dirname(path))
}

function transfer(file: number, writes: boolean, bytes: Uint8Array, position: number): number {
  try {
    for (let done = 0; done < bytes.length; ) {
      const rest = bytes.subarray(done)
      const moved = writes
        ? writeSync(file, rest, 0, rest.length, position + done)
        : readSync(file, rest, 0, rest.length, position + done)
      if (moved === 0) return endsTooSoon
      done += moved
    }
    return 0
  } catch (error) {
    return -((error as NodeJS.ErrnoException).errno ?? -endsTooSoon)
  }
}

const endsTooSoon = 5 // EIO

/** Opened once more, past the cache; undefined: the disk, or the system, does not do that. */
function openDirect(path: string, page: Uint8Array): number | undefined {
  if (!constants.O_DIRECT) return undefined
  try {
    const file = openSync(path, constants.O_RDWR | constants.O_DIRECT)
    if (transfer(file, true, page, 0) === 0) return file
    closeSync(file)
    return undefined
  } catch {
    return undefined
  }
}

function fill(file: number, bytes: number, piece: Uint8Array): void {
  for (let at = 0; at < bytes; at += pieceBytes) {
    const code = transfer(file, true, piece.subarray(0, Math.min(pieceBytes, bytes - at)), at)
    if (code !== 0) throw new Error(`${meaning(code)} after ${at} of ${bytes} bytes`)
  }
}

/** Its name is taken away at once, so that whatever ends the process, nothing is left behind. */
function open(folder: string, bytes: number): RoomFile {
  mkdirSync(folder, { recursive: true })
  const path = join(folder, `.lockstep-${randomUUID()}`)
  const edited = openSync(path, 'wx+')
  let direct: number | undefined
  try {
    const piece = zeros()
    direct = openDirect(path, piece.subarray(0, 4096))
    fill(direct ?? edited, bytes, piece)
  } catch (error) {
    closeSync(edited)
    if (direct !== undefined) closeSync(direct)
    throw error
  } finally {
    unlinkSync(path)
  }
  return { moved: direct ?? edited, direct: direct !== undefined, edited }
}

function meaning(code: number): string {
  const known = getSystemErrorMap().get(-code)
  return known ? `${known[1]} (${known[0]})` : `error ${code} of the system`
}

export const nodeDisk: Disk = {
  folder: tmpdir(),
  free(folder) {
    const { bavail, bsize } = statfsSync(nearest(folder))
    return bavail * bsize
  },
  open,
  close({ moved, edited }) {
    closeSync(edited)
    if (moved !== edited) closeSync(moved)
  },
  transfer,
  meaning,
}
