/** Processes of this host, told apart from others that had their number before. */
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import type { ProcessName } from '../base/index.js'

export function processName(): ProcessName {
  const born = statOf(process.pid)?.born
  return { host: hostname(), pid: process.pid, ...(born === undefined ? {} : { born }) }
}

export function hasEnded({ pid, born }: ProcessName): boolean {
  if (!isThere(pid)) return true
  const now = statOf(pid)
  if (now === undefined) return false
  // A process that was killed is listed until its parent has asked for its exit code.
  return now.state === 'Z' || (born !== undefined && born !== now.born)
}

function isThere(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return true // nothing is known of it
  try {
    process.kill(pid, 0)
    return true
  } catch (e) {
    return (e as NodeJS.ErrnoException).code !== 'ESRCH' // a process that is not ours to signal is there
  }
}

/** Linux: the state of a process, and the clock ticks from boot to its start. Its name, in brackets, may hold blanks. */
function statOf(pid: number): { readonly state: string; readonly born: string } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0], born: fields[19] }
  } catch {
    return undefined
  }
}
