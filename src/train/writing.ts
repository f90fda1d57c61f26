/**
 * The writing of a checkpoint, on whatever thread: files into a folder of another name, which gets its own when all of it
 * is on the disk. What it replaces is removed after that, and only when it was read back whole.
 */
import { type Files, isNoRoom, ProblemsError, saidBy, save, within, writing } from '../base/index.js'
import { type Heading, NotFinite, type PartsOfRank, printParts, readCheckpoint } from '../checkpoint/index.js'
import type { ReplicaState } from './bit-checks.js'
import { type DiskFault, damageFiles, filesWith } from './disk-faults.js'
import { requireLock } from './lock.js'
import { checkpointsIn, type NamedCheckpoint, problemsOf, readWhole } from './newest.js'
import { runRefused } from './phrases.js'

/** What is to be written, and where. A plain value: a thread can be given it. */
export interface Order {
  /** The folder of checkpoints, which the run has locked. */
  readonly folder: string
  readonly heading: Heading
  /** May be asked for a second time. */
  readonly parts: Iterable<PartsOfRank>
  readonly keep?: Keep
  /** Where replicas are compared: which steps are verified. */
  readonly replicas?: ReplicaState
  /** What is to go wrong with it. */
  readonly faults?: readonly DiskFault[]
}

/**
 * Which checkpoints of its own line a run leaves in the folder. Where replicas are compared, the newest verified one is left as well,
 * and all that are older than the first mismatch.
 */
export interface Keep {
  /** So many of the last. */
  readonly last: number
  /** And those of every so many steps. */
  readonly every?: number
}

export const nameOf = (step: number): string => `step-${String(step).padStart(8, '0')}`

/** Writes all of it under its name or, if that fails, nothing. Returns where it is. */
export function write(order: Order, files: Files): string {
  const { faults = [], keep } = order
  const path = within(order.folder, nameOf(order.heading.step))
  const disk = filesWith(faults, files)
  try {
    writeParts(path, order, { files, disk })
  } catch (e) {
    if (!keep || !isNoRoom(e) || !makeRoom(keep, order, files)) throw e
    writeParts(path, order, { files, disk })
  }
  damageFiles(faults, path, files)
  if (keep) prune(path, keep, order, files)
  return path
}

/** `disk`: where the files of the checkpoint go. */
function writeParts(
  path: string,
  { folder, heading, parts }: Order,
  { files, disk }: Readonly<Record<'files' | 'disk', Files>>,
): void {
  const { run } = heading
  const partial = `${path}.${run}.partial`
  try {
    requireLock(folder, run, files)
    writing(partial, () => files.makeFolder(partial))
    for (const [name, content] of printed(printParts(heading, parts), path)) save(within(partial, name), content, disk)
    requireLock(folder, run, files)
    writing(path, () => files.rename(partial, path))
  } catch (e) {
    quietly(() => files.remove(partial))
    throw e
  }
}

/** Values that are not finite are a problem of the run. */
function* printed<T>(items: Iterable<T>, path: string): Generator<T> {
  try {
    yield* items
  } catch (e) {
    if (!(e instanceof NotFinite)) throw e
    throw new ProblemsError([runRefused('training', 'checkpoint/values', { path, what: saidBy(e) })])
  }
}

/** Removes what need not be kept: of this line of runs alone, and only when the newest was read back whole. */
function prune(newest: string, keep: Keep, order: Order, files: Files): void {
  const { run, step } = order.heading
  const old = spareIn(ownIn(order.folder, order.heading, files), keep.last, keep, order.replicas)
  if (old.length === 0) return
  const { damages } = readWhole(newest, files, 'everything')
  if (damages) throw new ProblemsError(problemsOf({ path: newest, step, damages }))
  for (const { path } of old) remove(path, run, files)
}

/**
 * Removes before a checkpoint is written what it would make superfluous; the newest is left, and must be whole. Whether there
 * was something to remove.
 */
function makeRoom(keep: Keep, order: Order, files: Files): boolean {
  const own = ownIn(order.folder, order.heading, files)
  const spare = spareIn(own, Math.max(1, keep.last - 1), keep, order.replicas)
  if (spare.length === 0 || readWhole(own[0].path, files, 'everything').damages) return false
  for (const { path } of spare) remove(path, order.heading.run, files)
  return true
}

/** Removes what a run wrote from a step on: of a state that it has given up. */
export function removeFrom(folder: string, step: number, run: string, files: Files): void {
  for (const one of ownIn(folder, { run }, files)) if (one.step >= step) remove(one.path, run, files)
}

/** Checkpoints of this line of runs, the newest first. */
function ownIn(folder: string, { run, line = [] }: Pick<Heading, 'run' | 'line'>, files: Files) {
  const ours = new Set([run, ...line])
  return checkpointsIn(folder, files).filter(
    ({ path, step }) => files.exists(within(folder, nameOf(step))) && ours.has(runOf(path, files) ?? ''),
  )
}

/** Of checkpoints, the newest first, those after so many that need not be kept. */
function spareIn(own: readonly NamedCheckpoint[], last: number, { every }: Keep, replicas?: ReplicaState) {
  const verified = replicas && own.find(({ step }) => step <= replicas.equal)
  return own
    .slice(last)
    .filter(({ step }) => every === undefined || step % every > 0)
    .filter(one => one !== verified && one.step >= (replicas?.differ ?? 0))
}

/** Half of a checkpoint must not have the name of one. */
function remove(path: string, run: string, files: Files): void {
  const going = `${path}.${run}.removed`
  writing(path, () => files.rename(path, going))
  writing(going, () => files.remove(going))
}

function runOf(path: string, files: Files): string | undefined {
  try {
    return readCheckpoint((file, begin, end) => files.readBytes(within(path, file), begin, end)).run
  } catch {
    return undefined
  }
}

/** What runs were writing or removing when they were killed: whoever has the lock is the only one that writes. */
export function removeRemains(folder: string, files: Files): void {
  const remains = new Set<string>()
  for (const file of files.list(folder) ?? []) {
    const [, path] = /^(.*[/\\]step-\d+\.[\w-]+\.(?:partial|removed))[/\\]/.exec(file) ?? []
    if (path !== undefined) remains.add(path)
  }
  for (const path of remains) quietly(() => files.remove(path))
}

function quietly(work: () => void): void {
  try {
    work()
  } catch {}
}
