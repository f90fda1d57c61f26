/**
 * Files as the library sees them. It opens none itself: whoever calls it passes these, and decides what a path means. On
 * Node they are the machine's own; a page or a test keeps its own. Every method throws an Error whose message is fit to
 * print.
 */
import { error, ProblemsError } from './problem.js'

export interface Files {
  /** The text of a file. */
  read(path: string): string
  /** The bytes of a file: all of them, or those from `begin` to `end` that exist. */
  readBytes(path: string, begin?: number, end?: number): Uint8Array
  /** Paths of the files below a folder, in order; hidden ones and installed packages are left out. undefined: no folder. */
  list(path: string): readonly string[] | undefined
  exists(path: string): boolean
  /** Writes all of it or, if that fails, nothing. */
  write(path: string, content: string | Uint8Array): void
  append(path: string, text: string): void
  /** A file or a folder gets another name, in place of what has it. */
  rename(from: string, to: string): void
  /** Removes a file or a folder with everything below it, if it exists. */
  remove(path: string): void
  /** Makes a folder, and those above it that are missing. */
  makeFolder(path: string): void
}

/** A full or forbidden disk is not a bug of ours: it becomes a problem that names the path. */
export function writing(path: string, work: () => void): void {
  try {
    work()
  } catch (e) {
    throw new ProblemsError([
      error('run/write', '', `cannot write ${path}: ${e instanceof Error ? e.message : String(e)}`),
    ])
  }
}

export const save = (path: string, content: string | Uint8Array, files: Pick<Files, 'write'>): void =>
  writing(path, () => files.write(path, content))

/** The path of a file in a folder. */
export const within = (folder: string, file: string): string => `${folder.replace(/[/\\]+$/, '')}/${file}`
