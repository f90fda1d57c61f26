/**
 * Folders that are written as a whole, and maybe again. A record in the folder says which files were written and what was
 * in them: those alone are replaced. Whatever else lies there, was changed since, or is a link that may lead elsewhere,
 * is left alone, and the folder is refused before anything is written.
 */
import { dirname, join } from 'node:path'
import { error, type Problem, ProblemsError, printable, writing } from '../../base/index.js'
import { crc32 } from '../../checkpoint/index.js'
import type { Io } from '../io.js'

const recordFile = 'emitted.json'
const format = 'lockstep emitted 1'

/** What to write: content, a copy of a file, or content that is made when its turn comes. */
export type Content = string | Uint8Array | { readonly copyOf: string } | { readonly made: () => string | Uint8Array }

/** Path below the folder -> the CRC-32 of what was written there; null where that was not known beforehand. While files are being written: of both. */
type FolderRecord = Readonly<Record<string, readonly (number | null)[]>>

interface WriteOptions {
  readonly io: Io
  /** Files of before that are not written now stay. */
  readonly keeps?: boolean
  /** Names that will be written to later on: they must not be links. */
  readonly later?: readonly string[]
}

/** Throws a problem that names all files in the way. */
export function writeFolder(
  folder: string,
  contents: Readonly<Record<string, Content>>,
  { io, keeps = false, later = [] }: WriteOptions,
): void {
  const before = recordOf(folder, io)
  const links = later.filter(name => !['file', undefined].includes(io.kindOf(join(folder, name))))
  const problems = folderProblems(folder, [...Object.keys(contents), recordFile, ...links], before, io)
  if (problems.length > 0) throw new ProblemsError(problems)
  const sums = Object.fromEntries(Object.entries(contents).map(([name, content]) => [name, [sumOf(content)]]))
  const left = Object.keys(before).filter(name => !Object.hasOwn(sums, name))
  const save = (name: string, content: Content) => {
    const file = join(folder, name)
    writing(file, () => {
      io.makeFolder(dirname(file))
      if (typeof content === 'object' && 'copyOf' in content) io.copy(content.copyOf, file)
      else io.write(file, typeof content === 'object' && 'made' in content ? content.made() : content)
    })
  }
  const record = (files: FolderRecord) => save(recordFile, `${JSON.stringify({ format, files }, null, 1)}\n`)
  // An interrupt between here and the end leaves files of both: the next time either is known.
  record({ ...before, ...mapped(sums, (name, sum) => [...(before[name] ?? []), ...sum]) })
  for (const [name, content] of Object.entries(contents)) save(name, content)
  if (!keeps) for (const name of left) if (isOurs(folder, name, before, io)) io.remove(join(folder, name))
  record(keeps ? { ...before, ...sums } : sums)
}

const mapped = <A, B>(values: Readonly<Record<string, A>>, to: (name: string, value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, to(name, value)]))

const sumOf = (content: Content): number | null => {
  if (typeof content === 'string') return crc32(new TextEncoder().encode(content))
  return content instanceof Uint8Array ? crc32(content) : null
}

function recordOf(folder: string, io: Io): FolderRecord {
  if (io.kindOf(join(folder, recordFile)) !== 'file') return {}
  try {
    const value = JSON.parse(io.read(join(folder, recordFile)))
    return value?.format === format ? value.files : {}
  } catch {
    return {}
  }
}

/** All that keeps these files from being written into a folder. */
export function folderProblems(folder: string, names: readonly string[], before: FolderRecord, io: Io): Problem[] {
  const inTheWay = names.flatMap(name => {
    const [link] = foldersAbove(name).filter(above => !['folder', undefined].includes(io.kindOf(join(folder, above))))
    if (link !== undefined) return [link]
    if (io.kindOf(join(folder, name)) === undefined) return []
    return name === recordFile ? recordInTheWay(folder, io) : isOurs(folder, name, before, io) ? [] : [name]
  })
  if (inTheWay.length === 0) return []
  const named = [...new Set(inTheWay)].map(name => `${printable(name)}${described(folder, name, before, io)}`)
  const more = named.length > mostNamed ? ` and ${named.length - mostNamed} more` : ''
  const message = `${folder} holds files that would be overwritten: ${named.slice(0, mostNamed).join(', ')}${more}`
  return [error('run/foreign', '', message, 'name another folder with --out')]
}

const mostNamed = 8

/** 'a/b/c' -> 'a', 'a/b' */
const foldersAbove = (name: string): string[] =>
  name.split('/').flatMap((_, i, parts) => (i === 0 ? [] : [parts.slice(0, i).join('/')]))

const recordInTheWay = (folder: string, io: Io): string[] => {
  if (io.kindOf(join(folder, recordFile)) !== 'file') return [recordFile]
  try {
    return JSON.parse(io.read(join(folder, recordFile)))?.format === format ? [] : [recordFile]
  } catch {
    return [recordFile]
  }
}

/** Written by us, and as we left it. */
function isOurs(folder: string, name: string, before: FolderRecord, io: Io): boolean {
  const path = join(folder, name)
  if (!Object.hasOwn(before, name) || io.kindOf(path) !== 'file') return false
  return before[name].includes(null) || before[name].includes(crc32(io.readBytes(path)))
}

function described(folder: string, name: string, before: FolderRecord, io: Io): string {
  const kind = io.kindOf(join(folder, name))
  if (kind !== 'file') return ` (a ${kind})`
  return Object.hasOwn(before, name) ? ' (changed since it was written)' : ''
}
