/**
 * The user's cache folder, and which of its files may be loaded as code. Imports nothing of the package: scripts load it alone.
 */
import { createHash } from 'node:crypto'
import { readFileSync, type Stats, statSync } from 'node:fs'
import { homedir, userInfo } from 'node:os'
import { isAbsolute, join } from 'node:path'

type Environment = Readonly<Record<string, string | undefined>>

/** undefined: the environment names no home. A relative name would be below whatever folder a command was started in. */
export function cacheFolderOf({ XDG_CACHE_HOME: cache, HOME: home }: Environment): string | undefined {
  if (cache && isAbsolute(cache)) return cache
  if (!home || !isAbsolute(home)) return undefined
  return join(home, process.platform === 'darwin' ? 'Library/Caches' : '.cache')
}

/** Ours among those of this user; undefined: the user has none. */
export function userCache(): string | undefined {
  const cache = cacheFolderOf({ XDG_CACHE_HOME: process.env.XDG_CACHE_HOME, HOME: homeOfUser() })
  return cache && join(cache, 'lockstep')
}

/** HOME, or, where that is empty or relative, the home that the system has for this user. */
function homeOfUser(): string | undefined {
  try {
    return [homedir(), userInfo().homedir].find(isAbsolute)
  } catch {
    return undefined // a user that the system does not know, as in some containers
  }
}

/** Why code is not loaded from a folder: others could have put it there. undefined: it may be, or the folder is not there yet. */
export function distrustOf(folder: string): string | undefined {
  const user = process.getuid?.()
  if (user === undefined) return undefined
  let stats: Stats | undefined
  try {
    stats = statSync(folder, { throwIfNoEntry: false })
  } catch (e) {
    return `${folder} cannot be examined (${(e as NodeJS.ErrnoException).code})` // a file in its way, a folder that is closed
  }
  if (!stats) return undefined
  if (stats.uid !== user) return `${folder} belongs to another user`
  return (stats.mode & 0o022) === 0 ? undefined : `others can write to ${folder}; try chmod go-w ${folder}`
}

/** The checksum that is kept beside native kernels; undefined: they are not there. */
export function sumOf(file: string): string | undefined {
  try {
    return createHash('sha256').update(readFileSync(file)).digest('hex')
  } catch {
    return undefined
  }
}

/** Native kernels that were built, or why there are none. */
export interface Found {
  readonly path?: string
  readonly reason?: string
  /** They were built, and must not be loaded. */
  readonly damaged?: boolean
}

/** Those of a checkout. A file that was cut off would end the process with SIGBUS when it is loaded. */
export function builtKernels(folder: string): Found | undefined {
  const [path, record] = [join(folder, 'lockstep.node'), join(folder, 'native.json')]
  const said = recordIn(record)
  if (!said) return undefined
  const { built, sum, reason } = said
  if (!built) return reason === undefined ? {} : { reason }
  const now = sumOf(path)
  if (now === undefined) return {}
  return now === sum ? { path } : { reason: `${path} is not what was built (try npm run setup)`, damaged: true }
}

/** What build-kernels.mjs wrote down. */
function recordIn(
  file: string,
): { readonly built: boolean; readonly sum?: string; readonly reason?: string } | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}
