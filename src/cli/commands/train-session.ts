/** The session of `lockstep train`: as the options ask for it, and, where they do, one that goes on after failures. */
import { dirname, join, resolve } from 'node:path'
import { counted, type FaultBook, showBytes, showPercent, showTime } from '../../base/index.js'
import type { HealthEvent } from '../../health/index.js'
import {
  type Beginning,
  beginningOf,
  beginningWarnings,
  type KeptSession,
  keepGoing,
  newestGood,
  openData,
  type Session,
  startSession,
} from '../../train/index.js'
import { besides } from '../files/beside.js'
import { withItsTokenizer } from '../files/load.js'
import type { Loaded } from '../files/program.js'
import type { Io } from '../io.js'
import { savePlanOf } from '../text/checkpoint-options.js'
import type { Display } from '../text/display.js'
import { showProblems } from '../text/problems.js'
import { withProgress } from '../text/progress.js'
import type { TrainOptions } from './train.js'

export interface Rehearsed {
  readonly faults: FaultBook | undefined
}

/** Whoever shows a run says here what is to be done with what happens to it. */
export interface Hearing {
  hear(event: HealthEvent): void
}

/** Whoever runs a job from within: it shows the run in its own way, and may interfere. */
export interface Guest {
  display(session: Session): Display
  /** Is asked between two steps. */
  between(session: Session): Promise<void>
}

export interface Started {
  readonly session: Session
  readonly tokenizer: string | undefined
  readonly hearing: Hearing
}

/** `place`: the run folder. */
export async function startedSession(
  { path, place }: { readonly path: string; readonly place: string },
  { job: asks, schedule, program, faults }: Loaded & Rehearsed,
  options: TrainOptions,
  io: Io,
): Promise<Started> {
  const hearing: Hearing = { hear() {} }
  return withProgress(io, async watcher => {
    const beginning = beginningOf(options, io, asks)
    const job = withItsTokenizer(asks, beginning, io)
    if (beginning) io.err(showProblems(beginningWarnings(beginning, job), io, path))
    const { dataset, tokenizer } = await openData(job, io, { locate: name => besides(path, name), watcher })
    const asked = {
      ...{ program, schedule, beginning, kernels: options.kernels, faults, watcher },
      ...{ timeout: options.timeout, hashEvery: options.hashEvery, replayEvery: options.replayEvery },
      ...(options.trace !== undefined && { measure: true }),
      ...(options.recordRouting !== undefined && { choices: true }),
      offloadFolder: options.offloadDir ?? dirname(resolve(options.out ?? 'runs')),
    }
    const session = options.keepGoing
      ? await keepGoing(job, dataset, {
          ...{ ...asked, snapshotEvery: options.snapshotEvery ?? 1, shrink: options.shrink ?? false },
          flightRecords: failure => join(place, `flight-${failure}.txt`),
          onDisk: upTo => newestOf(savePlanOf(options, place)?.folder, io, upTo),
          heard: event => hearing.hear(event),
        })
      : await startSession(job, dataset, { ...asked, flightRecord: join(place, 'flight.txt') })
    return { session, tokenizer, hearing }
  })
}

/** What a run that failed may go on from, of the checkpoints it has written. */
function newestOf(folder: string | undefined, io: Io, upTo?: number): Beginning | undefined {
  if (folder === undefined || !io.exists(folder)) return undefined
  const { good, damaged } = newestGood(folder, io, { ...(upTo !== undefined && { upTo }) })
  return good && { ...good, share: 'everything', damaged }
}

const isKept = (session: Session): session is KeptSession => 'copying' in session

/** What going on after failures has cost, where it was asked for; `spent`: seconds of all steps. */
export function keptLines(session: Session, spent: number): string[] {
  if (!isKept(session)) return []
  const { failures, copying } = session
  const { copies, seconds, bytes, sentBytes } = copying
  const each = `${showTime(seconds / copies)} each, ${showPercent(seconds / (spent + seconds), 1)} of the time`
  return [
    ...(failures > 0 ? [`recovered from ${counted(failures, 'failure')}`] : []),
    ...(copies > 0
      ? [
          `copies in the ranks’ memory: ${copies} of ${showBytes(bytes)}, ${showBytes(sentBytes)} of it to other ranks; ${each}`,
        ]
      : []),
  ]
}
