/**
 * Files as the library sees them. It opens none itself: whoever calls it passes these, and decides what a path means. On
 * Node they are the machine's own; a page or a test keeps its own. Every method throws an Error whose message is fit to
 * print.
 */
import { type ProblemPhrases, phrasing } from './phrasing.js'
import { ProblemsError } from './problem.js'

/**
 * The file system that functions of this package are given: `nodeFiles()` of `lockstep/node`, or `memoryFiles()` in a
 * page.
 */
export interface Files {
  /** The text of a file. */
  read(path: string): string
  /** The bytes of a file: all of them, or those from `begin` to `end` that exist. */
  readBytes(path: string, begin?: number, end?: number): Uint8Array
  /** Paths of the files below a folder, in order; hidden ones and installed packages are left out. undefined: no folder. */
  list(path: string): readonly string[] | undefined
  exists(path: string): boolean
  /** Writes the file atomically. */
  write(path: string, content: string | Uint8Array): void
  append(path: string, content: string | Uint8Array): void
  /** Makes a new file with its content; false where the name is taken. */
  create(path: string, content: string): boolean
  /** Renames a file or folder; the new name must be free. */
  rename(from: string, to: string): void
  /** Removes a file or a folder with everything below it, if it exists. */
  remove(path: string): void
  /** Makes a folder, and those above it that are missing. */
  makeFolder(path: string): void
  /** The process that uses these files. */
  readonly process: ProcessName
  /** Whether a process of this host has ended. */
  hasEnded(process: ProcessName): boolean
}

/** A process, told from every other one. */
export interface ProcessName {
  readonly host: string
  readonly pid: number
  /** When it began, as the system counts; a number that is used again then means another process. */
  readonly born?: string
}

export const writingPhrases = {
  'run/write': ['cannot write {path}: {why}'],
} as const satisfies ProblemPhrases

const { refused } = phrasing(writingPhrases)

/** A full or forbidden disk is not a bug of ours: it becomes a problem that names the path. */
export function writing<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (e) {
    throw new ProblemsError([refused('', 'run/write', { path, why: e instanceof Error ? e.message : String(e) })])
  }
}

/** What is said of a disk that is full. */
export const noRoom = 'no space left on the disk'

export const isNoRoom = (e: unknown): boolean =>
  e instanceof ProblemsError && e.problems.some(({ message }) => message.includes(noRoom))

export const save = (path: string, content: string | Uint8Array, files: Pick<Files, 'write'>): void =>
  writing(path, () => files.write(path, content))

/** The path of a file in a folder. */
export const within = (folder: string, file: string): string => `${folder.replace(/[/\\]+$/, '')}/${file}`

/** What the file system answers, in words: whoever knows more of what the file is for says that. */
export class FileError extends Error {
  readonly path: string

  constructor(path: string, reason: string) {
    super(reason)
    this.path = path
  }
}
