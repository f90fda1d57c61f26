/** Files that another file names are relative to it. */
import { dirname, isAbsolute, join } from 'node:path'
import type { Io } from '../io.js'

export const besides = (file: string, path: string): string =>
  isAbsolute(path) || file === '-' ? path : join(dirname(file), path)

/** The text of a file that another names; undefined: there is none. */
export const readBeside =
  (file: string, io: Io) =>
  (name: string): string | undefined => {
    const path = besides(file, name)
    return io.kindOf(path) === 'file' ? io.read(path) : undefined
  }
