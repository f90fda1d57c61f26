/**
 * The lock of a folder of checkpoints: a file that names the run that writes there, so that no two runs save into one
 * folder. The lock of a process that has ended on this host is taken over. Emitted programs keep the same file
 * (src/emit/runtime/lock.py).
 */
import {
  english,
  type Files,
  type Problem,
  ProblemsError,
  type ProcessName,
  type Spoken,
  speak,
  within,
  writing,
} from '../base/index.js'
import { runClause, runPhrases, runRefused } from './phrases.js'

export const lockFile = 'run.lock'

export interface Holder extends ProcessName {
  readonly run: string
  /** When it took the folder. */
  readonly since: string
}

export interface Lock {
  /** A word about a run that ended without releasing the folder. */
  readonly note?: string
  release(): void
}

/** Who holds the lock of a folder, if anybody who may still be running. */
export function lockProblems(folder: string, files: Files): Problem[] {
  const held = holderOf(within(folder, lockFile), files)
  return held === undefined || hasEnded(held, files) ? [] : [heldProblem(folder, held, files)]
}

/** Throws a problem that names the holder. The folder must exist. */
export function takeLock(folder: string, run: string, files: Files): Lock {
  const path = within(folder, lockFile)
  const holder: Holder = { run, ...files.process, since: new Date().toISOString() }
  const before = takenOver(folder, holder, files)
  return {
    ...(before && { note: `${path} was locked by ${told(before)}, which has ended: taken over` }),
    release() {
      if (holderOf(path, files)?.run === run) files.remove(path)
    },
  }
}

/** Throws where another run has taken the folder since. */
export function requireLock(folder: string, run: string, files: Files): void {
  const path = within(folder, lockFile)
  const holder = holderOf(path, files)
  if (holder?.run === run) return
  throw new ProblemsError([
    holder ? heldProblem(folder, holder, files) : runRefused('', 'checkpoint/locked/removed', { path }),
  ])
}

/** Writes the lock. Returns the holder that had ended without removing its own. */
function takenOver(folder: string, holder: Holder, files: Files): Holder | undefined {
  const path = within(folder, lockFile)
  const create = () => writing(path, () => files.create(path, `${JSON.stringify(holder)}\n`))
  if (create()) return undefined
  const before = holderOf(path, files)
  if (before && !hasEnded(before, files)) throw new ProblemsError([heldProblem(folder, before, files)])
  // Whoever else takes it over at this moment renames it too: only one of them finds the lock they both have seen.
  const aside = `${path}.${holder.run}`
  if (before) {
    files.rename(path, aside)
    const renamed = holderOf(aside, files)
    if (renamed?.run !== before.run) {
      if (!files.exists(path)) files.rename(aside, path)
      throw new ProblemsError([heldProblem(folder, renamed ?? before, files)])
    }
    files.remove(aside)
  }
  if (create()) return before
  throw new ProblemsError(lockProblems(folder, files))
}

/** undefined: nobody. What is no lock of ours is held by nobody we know, and never by somebody who has ended. */
function holderOf(path: string, files: Files): Holder | undefined {
  let text: string
  try {
    text = files.read(path)
  } catch {
    return undefined
  }
  try {
    const { run, host, pid, born, since } = JSON.parse(text)
    return { run: String(run), host: String(host), pid: Number(pid), since: String(since), ...(born && { born }) }
  } catch {
    return { run: 'unknown', host: 'unknown', pid: Number.NaN, since: 'unknown' }
  }
}

const hasEnded = (holder: Holder, files: Files): boolean => holder.host === files.process.host && files.hasEnded(holder)

const toldOf = ({ run, pid, host, since }: Holder): Spoken =>
  runClause('.holder', { run, pid: String(pid), host, since })
const told = (holder: Holder): string => speak(toldOf(holder), english(runPhrases))[0]

function heldProblem(folder: string, holder: Holder, { process }: Files): Problem {
  const said = { folder, holder: toldOf(holder) }
  return holder.host === process.host
    ? runRefused('', 'checkpoint/locked', said)
    : runRefused('', 'checkpoint/locked/elsewhere', { ...said, lock: within(folder, lockFile) })
}
