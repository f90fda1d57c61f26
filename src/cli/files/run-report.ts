/** What a run leaves in its folder when it ends: how long its instructions took, and a report of everything. */
import { join } from 'node:path'
import { isNoRoom, ProblemsError, save, worldOf } from '../../base/index.js'
import { workOfRun } from '../../calibrate/run-work.js'
import { type RunTimes, runTimesOf, type TimesObserver, timesObserver } from '../../calibrate/times.js'
import { readRun } from '../../health/index.js'
import { type Kind, kinds, type Program } from '../../ir/index.js'
import { type RunReport, reportHtml } from '../../monitor/index.js'
import { thisHost } from '../../node/index.js'
import type { Session } from '../../train/index.js'
import { paragraph } from '../commands/check.js'
import type { Io } from '../io.js'

/** After the first steps one of every few is enough to look at. */
const [firstSteps, everySteps] = [8, 8]
/** Steps between two writings of measured.json. */
const keptEvery = 50

export interface RunRecords {
  step(): void
  close(): void
}

/** measured.json while the run goes on, report.html when it ends. */
export function openRecords(folder: string, session: Session, io: Io): RunRecords {
  let { program } = session
  let seen: TimesObserver = timesObserver(program)
  let steps = 0
  const keepTimes = () => {
    const times = seen.times()
    const memory = Math.floor(thisHost().memory / worldOf(program.mesh))
    if (times) save(join(folder, 'measured.json'), timesText({ ...times, memory }), io)
  }
  return {
    step() {
      if (program !== session.program) [program, seen] = [session.program, timesObserver(session.program)]
      const { trainer } = session
      steps++
      if (trainer.concurrent && (steps <= firstSteps || steps % everySteps === 0)) seen.add(trainer.spans)
      if (steps % keptEvery === 0) unlessFull(keepTimes)
    },
    close() {
      keepTimes()
      if (io.readBytes(join(folder, 'metrics.jsonl'), 0, 1).length === 0) return // not one step was taken
      const most = heaviestPeak(session)
      saveReport(folder, { about: paragraph(session.job), program, ...(most && { memory: most }) }, io)
    },
  }
}

/** A line an instruction: there are hundreds. */
function timesText({ instructions, messages, ...times }: RunTimes): string {
  const rows = (all: readonly (readonly unknown[])[]) =>
    all.length === 0 ? '[]' : `[\n${all.map(row => JSON.stringify(row)).join(',\n')}\n]`
  const head = JSON.stringify(times).slice(0, -1)
  return `${head},"instructions":${rows(instructions)},"messages":${rows(messages)}}\n`
}

function heaviestPeak({ trainer }: Session): Readonly<Record<string, number>> | undefined {
  const total = (peak: Readonly<Record<Kind, number>>) => kinds.reduce((sum, kind) => sum + peak[kind], 0)
  return trainer.peaks.toSorted((a, b) => total(b) - total(a)).at(0)
}

export interface ReportParts extends Pick<RunReport, 'about' | 'memory'> {
  readonly program?: Program
  /** Left out: in the run folder. */
  readonly out?: string
}

/** Returns where it is. */
export function saveReport(folder: string, { program, out, ...parts }: ReportParts, io: Io): string {
  const path = out ?? join(folder, 'report.html')
  const times = program && readTimes(folder, io)
  const work = times && workOfRun(program, times)
  const collectives = work?.collectives.map(({ kind, ...one }) => ({ name: kind, ...one }))
  save(path, reportHtml({ run: readRun(folder, io), ...parts, ...(collectives && { collectives }) }), io)
  return path
}

/** Undefined: nobody measured it, or the file is not one of ours. */
export function readTimes(folder: string, io: Io): RunTimes | undefined {
  const file = join(folder, 'measured.json')
  try {
    return io.exists(file) ? runTimesOf(JSON.parse(io.read(file))) : undefined
  } catch {
    return undefined
  }
}

/** A full disk ends no run: what could not be kept now is tried again later. */
function unlessFull(work: () => void): void {
  try {
    work()
  } catch (e) {
    if (!isNoRoom(e)) throw e
  }
}

/** A run that has trained is not lost because its report cannot be written. */
export function closeRecords(records: RunRecords, io: Io): void {
  try {
    records.close()
  } catch (e) {
    // Where the run itself failed, that is what is to be said.
    const why = e instanceof ProblemsError ? e.problems.map(({ message }) => message).join('; ') : String(e)
    io.err(`no report: ${why}\n`)
  }
}
