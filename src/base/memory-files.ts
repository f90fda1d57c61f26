/** Files in memory, for pages and tests: what is written can be read, for as long as somebody holds them. */
import type { Files } from './files.js'

type Content = string | Uint8Array

const bytesOf = (content: Content): Uint8Array =>
  typeof content === 'string' ? new TextEncoder().encode(content) : content.slice()

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.length + second.length)
  both.set(first)
  both.set(second, first.length)
  return both
}

/** A file system in memory, with these contents by path. */
export function memoryFiles(contents: Readonly<Record<string, Content>> = {}): Files {
  const files = new Map(Object.entries(contents).map(([path, content]) => [path, bytesOf(content)]))
  const below = (path: string) => [...files.keys()].filter(file => file === path || file.startsWith(`${path}/`)).sort()
  const readBytes: Files['readBytes'] = (path, begin, end) => {
    const content = files.get(path)
    if (!content) throw new Error('no such file')
    return content.subarray(begin, end)
  }
  return {
    readBytes,
    read: path => new TextDecoder().decode(readBytes(path)),
    list: path => (files.has(path) ? undefined : below(path)),
    exists: path => below(path).length > 0,
    write: (path, content) => void files.set(path, bytesOf(content)),
    append: (path, content) => void files.set(path, joined(files.get(path) ?? new Uint8Array(), bytesOf(content))),
    create: (path, content) => !files.has(path) && files.set(path, bytesOf(content)) !== undefined,
    rename(from, to) {
      for (const file of below(from)) {
        files.set(to + file.slice(from.length), files.get(file)!)
        files.delete(file)
      }
    },
    remove: path => below(path).forEach(file => void files.delete(file)),
    makeFolder() {},
    process: { host: 'memory', pid: 1 },
    hasEnded: () => false,
  }
}
