/** Where programs keep what they can make anew, on this kind of system. Imports nothing of the package: scripts load it alone. */
import { homedir } from 'node:os'
import { join } from 'node:path'

type Environment = Readonly<Record<string, string | undefined>>

/** undefined: the environment names no home. */
export function cacheFolderOf(env: Environment): string | undefined {
  const folder = process.platform === 'darwin' ? 'Library/Caches' : '.cache'
  return env.XDG_CACHE_HOME || (env.HOME && join(env.HOME, folder))
}

/** Ours among those of this user. */
export const userCache = (): string => join(cacheFolderOf({ ...process.env, HOME: homedir() }) ?? '.', 'lockstep')
