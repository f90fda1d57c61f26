/** Files of a page: they live as long as its worker does. */
import type { Files } from 'lockstep'

export function pageFiles(texts: Readonly<Record<string, string>>): Files {
  const bytes = (content: string | Uint8Array) =>
    typeof content === 'string' ? new TextEncoder().encode(content) : content.slice()
  const files = new Map(Object.entries(texts).map(([name, text]) => [name, bytes(text)]))
  const below = (path: string) => [...files.keys()].filter(file => file === path || file.startsWith(`${path}/`)).sort()
  const readBytes: Files['readBytes'] = (path, begin, end) => {
    const content = files.get(path)
    if (!content) throw new Error('this page has no such file')
    return content.subarray(begin, end)
  }
  const read = (path: string) => new TextDecoder().decode(readBytes(path))
  return {
    ...{ readBytes, read },
    list: path => (files.has(path) ? undefined : below(path)),
    exists: path => below(path).length > 0,
    write: (path, content) => void files.set(path, bytes(content)),
    append: (path, text) => void files.set(path, bytes((files.has(path) ? read(path) : '') + text)),
    create: (path, content) => !files.has(path) && files.set(path, bytes(content)) !== undefined,
    rename(from, to) {
      for (const file of below(from)) {
        files.set(to + file.slice(from.length), files.get(file)!)
        files.delete(file)
      }
    },
    remove: path => below(path).forEach(file => void files.delete(file)),
    makeFolder() {},
    process: { host: 'page', pid: 1 },
    hasEnded: () => false,
  }
}
