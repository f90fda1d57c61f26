/** Files that a command writes in the end are looked at in the beginning: nobody should wait for what cannot be kept. */
import { dirname } from 'node:path'
import { error, ProblemsError } from '../../base/index.js'
import type { Io } from '../io.js'

/** Refuses paths at which no file can be written, all of them at once. */
export function requireOutputs(io: Io, ...paths: readonly (string | undefined)[]): void {
  const problems = paths.flatMap(path => {
    const reason = path === undefined ? undefined : reasonAgainst(path, io)
    return reason === undefined ? [] : [error('run/write', '', `cannot write ${path}: ${reason}`)]
  })
  if (problems.length > 0) throw new ProblemsError(problems)
}

function reasonAgainst(path: string, io: Io): string | undefined {
  if (io.kindOf(path) === 'folder') return 'is a directory'
  const folder = dirname(path)
  return folder === '.' || io.exists(folder) ? undefined : `there is no folder ${folder}`
}
