/** The world as commands see it. Tests pass their own; nothing else in the project touches files, streams or the environment. */
import { closeSync, fstatSync, openSync, readSync, writeFileSync } from 'node:fs'
import { showBytes } from '../base/index.js'

export interface Io {
  /** Text for standard output and standard error, line breaks included. */
  out(text: string): void
  err(text: string): void
  /** The text of a file; '-' is standard input. Throws an Error whose message is fit to print. */
  read(path: string): string
  /** Throws an Error whose message is fit to print. */
  write(path: string, text: string): void
  readonly colors: boolean
  readonly env: Readonly<Record<string, string | undefined>>
}

const mostBytes = 2 ** 28

export function processIo(): Io {
  // The reader of a pipe may leave before the end (`| head`): that is its right and no failure of ours.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (e: NodeJS.ErrnoException) => {
      if (e.code !== 'EPIPE') throw e
    })
  }
  return {
    out: text => void process.stdout.write(text),
    err: text => void process.stderr.write(text),
    read: readText,
    write: (path, text) => plainly(() => writeFileSync(path, text)),
    colors: process.stdout.isTTY === true && !process.env.NO_COLOR,
    env: process.env,
  }
}

/** Reads no more than a bound: a path may name a device that never ends. */
function readText(path: string): string {
  return plainly(() => {
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

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'is a directory',
  ENOTDIR: 'no such file',
  ENAMETOOLONG: 'no such file: the name is too long',
  ELOOP: 'no such file: links go in a circle',
  ENOSPC: 'no space left on the disk',
  EROFS: 'the disk is read-only',
}

/** 'ENOENT: no such file or directory, open ...' -> 'no such file' */
function plainly<T>(work: () => T): T {
  try {
    return work()
  } catch (e) {
    const code = (e as NodeJS.ErrnoException).code // errors of the system carry one
    if (code === undefined) throw e
    throw new Error(reasons[code] ?? `cannot be opened (${code})`)
  }
}
