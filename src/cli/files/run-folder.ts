/** The folder of a run: the job as it was run, its metrics line by line, and what else it made. */
import { join } from 'node:path'
import { error, isNoRoom, noRoom, ProblemsError, save, writing } from '../../base/index.js'
import type { RunInfo } from '../../health/index.js'
import type { Job } from '../../plan/index.js'
import type { Io } from '../io.js'
import { folderProblems } from './folder-record.js'
import { markLatest } from './latest-run.js'

export interface RunFolder {
  readonly path: string
  save(name: string, text: string): void
  /** One line of metrics.jsonl. */
  log(record: object): void
  /** Takes back what a run that does not begin has written: the folder is free again. */
  abandon(): void
}

/** What a run writes into its folder. */
const names = [
  'job.json',
  'about.json',
  'tokenizer.json',
  'metrics.jsonl',
  'measured.json',
  'report.html',
  'flight.txt',
]

/** The folder of another run is refused, and so is one in which a file, or a link, has a name that a run needs. */
export function requireUnused(path: string, io: Io): void {
  if (io.exists(join(path, 'metrics.jsonl'))) throw new FolderTaken(path)
  const problems = folderProblems(path, names, {}, io)
  if (problems.length > 0) throw new ProblemsError(problems)
}

/** The folder is that of another run. */
export class FolderTaken extends ProblemsError {
  constructor(path: string) {
    super([error('run/exists', '', `${path} holds the metrics of another run`, 'name another folder with --out')])
  }
}

export function openRunFolder(path: string, job: Job, info: RunInfo, io: Io): RunFolder {
  requireUnused(path, io)
  writing(path, () => io.makeFolder(path))
  const written = new Set(['metrics.jsonl'])
  const saveHere = (name: string, text: string) => {
    written.add(name)
    save(join(path, name), text, io)
  }
  const metrics = join(path, 'metrics.jsonl')
  // Of runs that begin at once one makes this file, and the folder is its own.
  if (!writing(metrics, () => io.create(metrics, ''))) throw new FolderTaken(path)
  saveHere('job.json', `${JSON.stringify(job, null, 2)}\n`)
  saveHere('about.json', `${JSON.stringify(info, null, 2)}\n`)
  markLatest(path, io)
  return {
    path,
    save: saveHere,
    log: lineWriter(metrics, io),
    abandon: () => {
      for (const name of written) io.remove(join(path, name))
    },
  }
}

/** Letters of lines that wait for room on a full disk; of more the oldest are dropped. */
const mostWaiting = 2 ** 20

/** Appends a record a line. A full disk ends no run: that is said once, and the lines are written when there is room again. */
function lineWriter(path: string, io: Io): RunFolder['log'] {
  let [waiting, isFull] = ['', false]
  return record => {
    waiting = `${waiting}${JSON.stringify(record)}\n`
    try {
      // A line may have been cut where the room ended.
      writing(path, () => io.append(path, isFull ? `\n${waiting}` : waiting))
      if (isFull) io.err(`${path}: there is room again, and lines are written\n`)
      ;[waiting, isFull] = ['', false]
    } catch (e) {
      if (!isNoRoom(e)) throw e
      if (!isFull)
        io.err(`warning: cannot write ${path}: ${noRoom}; the run continues and writes it when there is room\n`)
      isFull = true
      if (waiting.length > mostWaiting) waiting = waiting.slice(waiting.indexOf('\n', waiting.length - mostWaiting) + 1)
    }
  }
}
