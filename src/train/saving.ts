/**
 * The checkpoints a run writes. A folder of them belongs to one line of runs: it is locked while one of them writes, and
 * a run that begins before the last checkpoint there would mix its own with those of another run, so it is refused.
 */
import { error, type Files, type Problem, ProblemsError, save, within, writing } from '../base/index.js'
import { NotFinite, printCheckpoint, type Snapshot } from '../checkpoint/index.js'
import { cursorAt } from '../data/index.js'
import { type Lock, lockProblems, takeLock } from './lock.js'
import { checkpointsIn, isUsable } from './newest.js'
import type { Session } from './session.js'

export interface SavingOptions {
  readonly files: Files
  /** A UUID: what tells this run from every other. */
  readonly run: string
  /** The job as it is kept with them, such that the files it names can be found from elsewhere; without it the session's. */
  readonly job?: Snapshot['job']
  /** The tokenizer.json that text was encoded with. */
  readonly tokenizer?: string | undefined
}

/** The folder a session writes its checkpoints to: locked until it is closed. */
export interface CheckpointFolder {
  /** A word about a run that ended without releasing the folder. */
  readonly note?: string
  /** Writes what the session is now: all of it, under its name; or, if that fails, nothing. Returns where it is. */
  save(): string
  close(): void
}

/** What keeps a run with so many steps behind it from saving into a folder. */
export const savingProblems = (folder: string, behind: number, files: Files): Problem[] =>
  files.exists(folder) ? [...lockProblems(folder, files), ...laterProblems(folder, behind, files)] : []

/** Locks the folder; throws all that is wrong with it. */
export function openCheckpoints(folder: string, session: Session, options: SavingOptions): CheckpointFolder {
  const { files, run, job = session.job, tokenizer } = options
  const { behind } = session
  const problems = savingProblems(folder, behind, files)
  if (problems.length > 0) throw new ProblemsError(problems)
  writing(folder, () => files.makeFolder(folder)) // before hours are spent
  const lock = takeLock(folder, run, files)
  // Another run may have written here until the lock was ours.
  const later = laterProblems(folder, behind, files)
  if (later.length > 0) {
    lock.release()
    throw new ProblemsError(later)
  }
  const notes = [...(lock.note === undefined ? [] : [lock.note]), ...setAside(folder, { behind, run, files })]
  return {
    ...(notes.length > 0 && { note: notes.join('\n') }),
    save: () => saveCheckpoint({ folder, lock, files, snapshot: { run, job, tokenizer } }, session),
    close: () => lock.release(),
  }
}

function laterProblems(folder: string, behind: number, files: Files): Problem[] {
  const steps = laterSteps(folder, behind, files).filter(
    step => behind === 0 || isUsable(within(folder, nameOf(step)), files),
  )
  if (steps.length === 0) return []
  const last = nameOf(Math.max(...steps))
  const [resume, other] = [`resume with --resume ${within(folder, last)}`, 'name another folder with --save']
  return [
    behind === 0
      ? error(
          'checkpoint/exists',
          '',
          `${folder} holds checkpoints of another run, the last of them ${last}; this run would start at step 1`,
          `${resume}, or ${other}`,
        )
      : error(
          'checkpoint/exists',
          '',
          `${folder} holds ${last} of another run, which is later than step ${behind} that this run resumes from`,
          `${resume}, or ${other}`,
        ),
  ]
}

/** Steps of the checkpoints in a folder that a run with so many steps behind it has not reached. */
const laterSteps = (folder: string, behind: number, files: Files): number[] =>
  checkpointsIn(folder, files)
    .filter(({ step }) => step > behind && files.exists(within(folder, nameOf(step))))
    .map(({ step }) => step)

/** Later ones that nobody can go on from give up their names to those of this run; nothing of them is lost. Returns what to say. */
function setAside(folder: string, { behind, run, files }: { behind: number; run: string; files: Files }): string[] {
  return laterSteps(folder, behind, files).map(step => {
    const [path, aside] = [within(folder, nameOf(step)), within(folder, `${nameOf(step)}.${run}.damaged`)]
    writing(aside, () => files.rename(path, aside))
    return `${path}, which is damaged, is now called ${aside}`
  })
}

const nameOf = (step: number): string => `step-${String(step).padStart(8, '0')}`

interface SavingFolder {
  readonly folder: string
  readonly lock: Lock
  readonly files: Files
  readonly snapshot: Pick<Snapshot, 'run' | 'job' | 'tokenizer'>
}

function saveCheckpoint({ folder, lock, files, snapshot }: SavingFolder, session: Session): string {
  const { program, trainer, dataset, behind: step } = session
  const { training } = session.job
  const path = within(folder, nameOf(step))
  const partial = `${path}.${snapshot.run}.partial`
  const data = cursorAt(dataset.train, training, { step, fingerprint: dataset.fingerprint })
  try {
    lock.require()
    writing(partial, () => files.makeFolder(partial))
    const contents = printCheckpoint(
      program,
      { step, seed: training.seed, data, scalars: trainer.scalars(), ...snapshot },
      shard => trainer.held(shard),
    )
    for (const [name, content] of printed(contents, path)) save(within(partial, name), content, files)
    lock.require()
    writing(path, () => files.rename(partial, path))
    return path
  } catch (e) {
    files.remove(partial)
    throw e
  }
}

/** Values that are not finite are a problem of the run. */
function* printed<T>(items: Iterable<T>, path: string): Generator<T> {
  try {
    yield* items
  } catch (e) {
    if (!(e instanceof NotFinite)) throw e
    const message = `${path} is not written: ${e.message}`
    throw new ProblemsError([
      error('checkpoint/values', 'training', message, 'resume an earlier one with a smaller lr, or with clip'),
    ])
  }
}
