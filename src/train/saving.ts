/**
 * The checkpoints a run writes. A folder of them belongs to one line of runs: it is locked while one of them writes, and
 * a run that begins before the last checkpoint there would mix its own with those of another run, so it is refused.
 *
 * Where there is a thread to write them, the run stands still only while its numbers are copied. One is written at a time;
 * what became of it is known some steps later, and a disk that is full ends no run.
 */
import { type FaultBook, type Files, type Problem, ProblemsError, within, writing } from '../base/index.js'
import { captureParts, type Heading, type Snapshot, type Texts, writtenParts } from '../checkpoint/index.js'
import { cursorAt } from '../data/index.js'
import { textsWith } from './checkpoints.js'
import { lockProblems, takeLock } from './lock.js'
import { checkpointsIn, isUsable } from './newest.js'
import { runRefused } from './phrases.js'
import type { Session } from './session.js'
import { type Keep, nameOf, type Order, removeFrom, removeRemains, write } from './writing.js'

/** A thread that writes, one checkpoint at a time. */
export interface Writer {
  /** Waits until everything is written, for at most this many milliseconds; whether it is. */
  isFree(patience: number): Promise<boolean>
  /** Fails with a ProblemsError. */
  write(order: Order): Promise<void>
  stop(): Promise<void>
}

export interface SavingOptions {
  readonly files: Files
  /** A UUID: what tells this run from every other. */
  readonly run: string
  /** The job as it is kept with them, such that the files it names can be found from elsewhere; without it the session's. */
  readonly job?: Snapshot['job']
  /** The tokenizer.json that text was encoded with. */
  readonly tokenizer?: string | undefined
  /** Without it all are kept. */
  readonly keep?: Keep | undefined
  /** Without it the run pauses while a checkpoint is written. */
  readonly writer?: Writer | undefined
  /** Faults to inject; pass the same to a restarted run. */
  readonly faults?: FaultBook | undefined
}

/** What became of a checkpoint. */
export interface Saved {
  readonly step: number
  readonly path: string
  /** Why it is not there; none: it is. */
  readonly problems: readonly Problem[]
  /** It was not begun: the one before it was still being written. */
  readonly dropped?: true
  /** How long the run stood still for it. */
  readonly stood: number
  /** From then on, until it was written. */
  readonly seconds: number
}

/** The checkpoint folder of a session, locked until it is closed. */
export interface CheckpointFolder {
  /** A word about a run that ended without releasing the folder, or about what it left. */
  readonly note?: string
  /** Writes a checkpoint of the session atomically, and returns its path. */
  save(): string
  /**
   * Begins to. Returns where it will be when what the session is was copied, or, where nothing writes beside it, written.
   * The last one of a run waits for the one before it however long that takes.
   */
  start(isLast?: boolean): Promise<string>
  /**
   * The outcome of checkpoints that were started, since the last call. Throws if later ones could not be written
   * either.
   */
  ended(): readonly Saved[]
  /** Removes checkpoints of this run from a step on, when the run goes back before it. */
  takeBack(step: number): Promise<void>
  /** The same when the last one has ended. */
  finish(): Promise<readonly Saved[]>
  close(): void
}

/** What keeps a run with so many steps behind it from saving into a folder. */
export const savingProblems = (folder: string, behind: number, files: Files): Problem[] =>
  files.exists(folder) ? [...lockProblems(folder, files), ...laterProblems(folder, behind, files)] : []

/** Opens and locks a checkpoint folder for a session. Throws all that is wrong with it. */
export function openCheckpoints(folder: string, session: Session, options: SavingOptions): CheckpointFolder {
  const { files, run, writer } = options
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
  removeRemains(folder, files)
  return {
    ...(notes.length > 0 && { note: notes.join('\n') }),
    ...savingOf(folder, session, options),
    close() {
      void writer?.stop()
      lock.release()
    },
  }
}

/** The runs that a session goes on from, the last first; enough of them to tell what lies in a folder. */
const lineOf = ({ beginning }: Session): readonly string[] =>
  beginning?.share === 'everything' ? [beginning.checkpoint.run, ...beginning.checkpoint.line].slice(0, 100) : []

interface Carrying extends SavingOptions {
  readonly texts: Texts
}

function laterProblems(folder: string, behind: number, files: Files): Problem[] {
  const steps = laterSteps(folder, behind, files).filter(
    step => behind === 0 || isUsable(within(folder, nameOf(step)), files),
  )
  if (steps.length === 0) return []
  const last = nameOf(Math.max(...steps))
  const said = { folder, last, newest: within(folder, last) }
  return [
    behind === 0
      ? runRefused('', 'checkpoint/exists', said)
      : runRefused('', 'checkpoint/exists/later', { ...said, behind }),
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
    return `${path}, which is corrupt, was renamed to ${aside}`
  })
}

/** A checkpoint that is due while the one before it is being written waits so long for it, and is dropped then. */
const patienceMs = 60_000

/** Later checkpoints would meet the same. */
const lasting: readonly string[] = ['checkpoint/values', 'checkpoint/locked']

type SavingWays = Pick<CheckpointFolder, 'save' | 'start' | 'ended' | 'takeBack' | 'finish'>

function savingOf(folder: string, session: Session, options: SavingOptions): SavingWays {
  const { files, writer } = options
  let saved: Saved[] = []
  let flying: Promise<void> | undefined
  let room: SharedArrayBuffer | undefined
  const carrying = { ...options, texts: textsWith(session.beginning, options.tokenizer) }
  const order = (parts: Order['parts']) => orderOf(folder, session, carrying, parts)
  const held = { [Symbol.iterator]: () => writtenParts(session.program, shard => session.trainer.held(shard)) }
  const save = () => write(order(held), files)
  const tell = (step: number, problems: readonly Problem[], times: Pick<Saved, 'stood' | 'seconds' | 'dropped'>) => {
    saved.push({ step, path: within(folder, nameOf(step)), problems, ...times })
  }
  const ended = () => {
    const told = saved
    saved = []
    const problems = told.flatMap(({ problems }) => problems.filter(({ code }) => lasting.includes(code)))
    if (problems.length > 0) throw new ProblemsError(problems)
    return told
  }
  return {
    save,
    ended,
    async start(isLast = false) {
      const { behind: step, program, trainer } = session
      const [path, begun] = [within(folder, nameOf(step)), performance.now()]
      const stood = () => (performance.now() - begun) / 1000
      if (!writer || isOnDisk(session)) {
        const problems = await problemsIn(async () => void save())
        tell(step, problems, { stood: stood(), seconds: 0 })
        return path
      }
      if (!(await writer.isFree(isLast ? Number.POSITIVE_INFINITY : patienceMs))) {
        tell(step, [], { dropped: true, stood: stood(), seconds: 0 })
        return path
      }
      await flying // what became of it is told before the next is begun
      const copy = captureParts(program, shard => trainer.held(shard), room)
      room = copy.room
      const captured = order(copy.parts)
      const times = { stood: stood() }
      flying = problemsIn(() => writer.write(captured)).then(problems => {
        flying = undefined
        tell(step, problems, { ...times, seconds: stood() - times.stood })
      })
      return path
    },
    async takeBack(step) {
      await flying
      removeFrom(folder, step, options.run, files)
    },
    async finish() {
      await flying
      return ended()
    },
  }
}

function orderOf(folder: string, session: Session, options: Carrying, parts: Order['parts']): Order {
  const { keep, faults: book } = options
  const heading = headingOf(session, options)
  const faults = book?.take(heading.step, 'full-disk', 'damage') ?? []
  const { replicas } = session
  return {
    ...{ folder, heading, parts, ...(keep && { keep }), ...(replicas && { replicas }) },
    ...(faults.length > 0 && { faults }),
  }
}

/** What the plan keeps on a disk is more than memory holds: it is written as it is read. */
const isOnDisk = ({ program }: Session): boolean => program.streams.some(({ elsewhere }) => elsewhere?.disk)

function headingOf(session: Session, options: Carrying): Heading {
  const { program, trainer, dataset, behind: step, norms } = session
  const { training } = session.job
  const { run, job = session.job, tokenizer, texts } = options
  const data = cursorAt(dataset.train, training, { step, fingerprint: dataset.fingerprint })
  const position = { step, seed: training.seed, data, scalars: trainer.scalars(), ...(norms && { norms }) }
  return { ...{ run, line: lineOf(session), job, tokenizer, texts, name: program.name }, ...position }
}

async function problemsIn(work: () => Promise<void>): Promise<readonly Problem[]> {
  try {
    await work()
    return []
  } catch (e) {
    if (!(e instanceof ProblemsError)) throw e
    return e.problems
  }
}
