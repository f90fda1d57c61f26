/** A file is there whole, or as it was: an interrupt or a full disk leaves no half of it under its name. */
import { realpathSync, renameSync, rmSync, type Stats, statSync, writeFileSync } from 'node:fs'

export function writeWhole(path: string, content: string | Uint8Array): void {
  const before = statSync(path, { throwIfNoEntry: false })
  // What is no file (a pipe, a terminal, /dev/null) cannot be replaced by one.
  if (before && !before.isFile()) writeFileSync(path, content)
  else replace(before ? realpathSync(path) : path, content, before)
}

function replace(path: string, content: string | Uint8Array, before: Stats | undefined): void {
  const part = `${path}.${process.pid}.part`
  try {
    // On the disk before it has its name: a machine that stops may otherwise leave an empty file under it.
    writeFileSync(part, content, { flush: true, ...(before ? { mode: before.mode } : {}) })
    renameSync(part, path)
  } catch (e) {
    rmSync(part, { force: true })
    throw e
  }
}
