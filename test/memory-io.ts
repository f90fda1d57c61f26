/** A world in memory: files are a record, and what a command printed can be read. */
import type { Io } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
  readonly written: Readonly<Record<string, string>>
}

export type Files = Readonly<Record<string, string | Uint8Array>>

export interface MemoryIo {
  readonly io: Io
  readonly said: { out: string; err: string }
  readonly written: Record<string, string>
  /** What an interrupt would call. */
  readonly interrupts: Set<(code: number) => void>
}

export function memoryIo(files: Files, changes: Partial<Io> = {}): MemoryIo {
  const said = { out: '', err: '' }
  const written: Record<string, string> = {}
  const interrupts = new Set<(code: number) => void>()
  const read = (path: string): string | Uint8Array => {
    const found = [written, files].find(record => Object.hasOwn(record, path))
    if (found === undefined) throw new Error('no such file')
    return found[path]
  }
  const io: Io = {
    out: text => {
      said.out += text
    },
    err: text => {
      said.err += text
    },
    control: (stream, sequence) => {
      said[stream] += sequence
    },
    read: path => {
      const content = read(path)
      return typeof content === 'string' ? content : new TextDecoder().decode(content)
    },
    readBytes: (path, begin, end) => {
      const content = read(path)
      return (typeof content === 'string' ? new TextEncoder().encode(content) : content).subarray(begin, end)
    },
    list: path => {
      const below = Object.keys(files).filter(file => file.startsWith(`${path}/`))
      if (below.length === 0) read(path)
      return below.length > 0 ? below.sort() : undefined
    },
    exists: path => [...Object.keys(files), ...Object.keys(written)].some(p => p === path || p.startsWith(`${path}/`)),
    kindOf: path =>
      Object.hasOwn(files, path) || Object.hasOwn(written, path) ? 'file' : io.exists(path) ? 'folder' : undefined,
    write: (path, content) => {
      written[path] = typeof content === 'string' ? content : Buffer.from(content).toString('latin1')
    },
    async *lines() {
      for (const line of (Object.hasOwn(files, '-') ? io.read('-') : '').split('\n')) if (line !== '') yield line
    },
    now: () => new Date(2026, 0, 2, 12),
    link: () => {},
    page: () => false,
    copy: (from, to) => io.write(to, io.readBytes(from)),
    create: (path, content) => {
      if (io.exists(path)) return false
      written[path] = content
      return true
    },
    rename: (from, to) => {
      for (const path of Object.keys(written).filter(path => path.startsWith(`${from}/`))) {
        written[to + path.slice(from.length)] = written[path]
        delete written[path]
      }
    },
    remove: path => {
      for (const file of Object.keys(written)) if (file === path || file.startsWith(`${path}/`)) delete written[file]
    },
    append: (path, content) => {
      const text = typeof content === 'string' ? content : Buffer.from(content).toString('latin1')
      written[path] = (written[path] ?? '') + text
    },
    makeFolder: () => {},
    modified: path => (io.exists(path) ? Date.now() / 1000 : undefined),
    process: { host: 'here', pid: 1 },
    hasEnded: () => false,
    ask: async () => undefined,
    terminal: () => undefined,
    isRead: () => true,
    progressColumns: () => undefined,
    onInterrupt: stop => {
      interrupts.add(stop)
      return () => void interrupts.delete(stop)
    },
    colors: false,
    env: {},
    ...changes,
  }
  return { io, said, written, interrupts }
}

export async function lockstep(argv: readonly string[], files: Files = {}, changes: Partial<Io> = {}): Promise<Ran> {
  const { io, said, written } = memoryIo(files, changes)
  const code = await run(argv, io)
  return { code, ...said, written }
}
