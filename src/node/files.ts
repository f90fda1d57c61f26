/** The files of this machine, for whatever of the library reads or writes any. */
import {
  appendFileSync,
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { FileError, type Files, noRoom, showBytes } from '../base/index.js'
import { hasEnded, processName } from './processes.js'
import { writeWhole } from './write-whole.js'

const mostBytes = 2 ** 28

/** The file system of Node. '-' is standard input. */
export const nodeFiles = (): Files => ({
  read: readText,
  readBytes,
  list: path => plainly(path, () => (statSync(path).isDirectory() ? filesBelow(path) : undefined)),
  exists: existsSync,
  write: (path, content) => plainly(path, () => writeWhole(path, content)),
  create: (path, content) => plainly(path, () => create(path, content)),
  rename: (from, to) => plainly(from, () => rename(from, to)),
  remove: path => plainly(path, () => rmSync(path, { recursive: true, force: true })),
  append: (path, content) => plainly(path, () => appendFileSync(path, content)),
  makeFolder: path => plainly(path, () => makeFolder(resolve(path)), noFolder),
  process: processName(),
  hasEnded,
})

/** What a path names: a file, a folder, a device, or a link, wherever it leads; undefined if there is nothing. */
export function kindOf(path: string): 'file' | 'folder' | 'link' | 'device' | undefined {
  const stats = plainly(path, () => lookAt(path))
  if (stats === undefined) return undefined
  if (stats.isSymbolicLink()) return 'link'
  return stats.isFile() ? 'file' : stats.isDirectory() ? 'folder' : 'device'
}

function lookAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch (e) {
    // Nothing lies below a file, or has a name that is too long; Node makes errors of both.
    if (['ENOTDIR', 'ENAMETOOLONG'].includes((e as NodeJS.ErrnoException).code ?? '')) return undefined // errors of the system carry a code
    throw e
  }
}

/** One folder after the other: asked for all of them at once, Node never comes back from a place that takes none (/proc). */
function makeFolder(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
  const above = dirname(path)
  if (above !== path) makeFolder(above)
  mkdirSync(path)
  syncFolder(above)
}

/** Reads no more than a bound: a path may name a device that never ends. */
function readText(path: string): string {
  return plainly(path, () => {
    const file = path === '-' ? 0 : openSync(path, 'r')
    try {
      if (fstatSync(file).isDirectory()) throw new Error('is a directory')
      const parts: Buffer[] = []
      for (let total = 0; ; ) {
        const part = Buffer.alloc(2 ** 16)
        const size = readSync(file, part)
        if (size === 0) return Buffer.concat(parts).toString('utf8')
        parts.push(part.subarray(0, size))
        total += size
        if (total > mostBytes) throw new Error(`is bigger than ${showBytes(mostBytes)}`)
      }
    } finally {
      if (file !== 0) closeSync(file)
    }
  })
}

function readBytes(path: string, begin = 0, end?: number): Uint8Array {
  return plainly(path, () => {
    const stats = statSync(path)
    if (!stats.isFile()) throw new Error('is not a file')
    return end === undefined ? new Uint8Array(readFileSync(path)) : readPart(path, begin, Math.min(end, stats.size))
  })
}

function readPart(path: string, begin: number, end: number): Uint8Array {
  const bytes = new Uint8Array(Math.max(0, end - begin))
  const file = openSync(path, 'r')
  try {
    for (let at = 0; at < bytes.length; ) {
      const size = readSync(file, bytes, at, Math.min(bytes.length - at, mostBytes), begin + at)
      if (size === 0) return bytes.subarray(0, at)
      at += size
    }
    return bytes
  } finally {
    closeSync(file)
  }
}

function create(path: string, content: string): boolean {
  const file = openNew(path)
  if (file === undefined) return false
  try {
    writeFileSync(file, content, { flush: true })
    return true
  } catch (e) {
    // A disk that is full takes the name and not the content: an empty lock would be held for ever.
    rmSync(path, { force: true })
    throw e
  } finally {
    closeSync(file)
  }
}

function openNew(path: string): number | undefined {
  try {
    return openSync(path, 'wx')
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code === 'EEXIST') return undefined // errors of the system carry a code
    throw e
  }
}

function rename(from: string, to: string): void {
  if (existsSync(to)) throw new Error('the name is taken')
  // What is in a folder is on the disk before the folder has its name, and the name before anybody depends on it.
  if (statSync(from).isDirectory()) syncFolder(from)
  renameSync(from, to)
  for (const folder of new Set([dirname(resolve(from)), dirname(resolve(to))])) syncFolder(folder)
}

/** Names are on the disk; some systems cannot be asked for that. */
function syncFolder(path: string): void {
  const unknown = ['EACCES', 'EINVAL', 'EISDIR', 'ENOTSUP', 'EPERM']
  let folder: number | undefined
  try {
    folder = openSync(path, 'r')
    fsyncSync(folder)
  } catch (e) {
    if (!unknown.includes((e as NodeJS.ErrnoException).code ?? '')) throw e // errors of the system carry a code
  } finally {
    if (folder !== undefined) closeSync(folder)
  }
}

function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => !name.startsWith('.') && name !== 'node_modules')
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  return entries.flatMap(entry => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? filesBelow(path) : entry.isFile() ? [path] : []
  })
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'is a directory',
  EEXIST: 'is a file',
  ENOTDIR: 'no such file',
  ENAMETOOLONG: 'no such file: the name is too long',
  ELOOP: 'no such file: links go in a circle',
  ERR_FS_FILE_TOO_LARGE: 'is bigger than 2 GiB',
  ENOSPC: noRoom,
  EDQUOT: noRoom,
  EFBIG: 'is larger than files may be here',
  EROFS: 'the disk is read-only',
}

const noFolder = { ENOENT: 'no folder can be made there', ENOTDIR: 'no folder can be made there' }

/**
 * Runs a file operation, with its errors in plain words: 'ENOENT: no such file or directory, open ...' becomes 'no
 * such file'.
 */
export function plainly<T>(path: string, work: () => T, own: typeof reasons = {}): T {
  try {
    return work()
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code === undefined) throw e // errors of the system carry one
    throw new FileError(path, reasonOf(e as NodeJS.ErrnoException, own))
  }
}

/** Why a file operation failed, in plain words. */
export const reasonOf = ({ code = 'nothing' }: NodeJS.ErrnoException, own: typeof reasons = {}): string =>
  own[code] ?? reasons[code] ?? `the system says ${code}`
