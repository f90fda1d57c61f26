/** lockstep launch: emit a job and run it here, every rank a process of torchrun on gloo (or on this machine's GPUs). */
import { join, resolve } from 'node:path'
import { error, ProblemsError, worldOf } from '../../base/index.js'
import {
  type Beginning,
  beginningOf,
  beginningText,
  passedOver,
  type StepRecord,
  savingProblems,
  stepsBehind,
} from '../../train/index.js'
import { type EmittedFolder, writeEmitted } from '../files/emit-folder.js'
import { type Loaded, tryProgram } from '../files/program.js'
import { freeFolder } from '../files/run-folder.js'
import { pythonWithTorch, startTorchrun } from '../files/torchrun.js'
import type { Io } from '../io.js'
import { type CheckpointOptions, savePlanOf } from '../text/checkpoint-options.js'
import { displayOf } from '../text/display.js'
import { countProblems, showProblems } from '../text/problems.js'
import { withProgress } from '../text/progress.js'
import { summaryOf } from '../text/summary.js'
import { paragraph } from './check.js'
import { withOptions } from './emit.js'

export interface LaunchOptions extends CheckpointOptions {
  readonly out?: string
  readonly steps?: number
  readonly seed?: number
  readonly timeout: number
  readonly device: string
  readonly json?: boolean
}

export async function launchCommand(path: string, options: LaunchOptions, io: Io): Promise<number> {
  const { loaded, problems } = await tryProgram(path, io)
  if (!loaded) {
    if (options.json) io.out(`${JSON.stringify({ ok: false, problems })}\n`)
    else io.err(`${showProblems(problems, io, path)}${countProblems(problems)}\n`)
    return 1
  }
  io.err(showProblems(problems, io, path))
  const python = pythonWithTorch(io)
  const job = withOptions(loaded.job, options)
  const folder = options.out ?? freeFolder(job, path, io)
  const beginning = beginningOf(options, io)
  if (beginning) io.err(showProblems(passedOver(beginning), io, path))
  const plan = savePlanOf(options, folder)
  const refusals = plan ? savingProblems(plan.folder, stepsBehind(beginning), io) : []
  if (refusals.length > 0) throw new ProblemsError(refusals)
  const emitted = await withProgress(io, watcher =>
    writeEmitted({ ...loaded, job }, { path, folder, beginning, io, watcher }),
  )
  return follow({ ...loaded, job }, emitted, { python, options, beginning, io })
}

/** The start has these beside the time-out: Python and PyTorch take long to load on a busy machine. */
const startSeconds = 20

/** What train.py is told; it runs in its own folder. */
function argumentsOf({ timeout, device, save, saveEvery, resume, init }: LaunchOptions): string[] {
  const given = {
    timeout,
    rendezvous: timeout + startSeconds,
    device,
    save: save && resolve(save),
    'save-every': saveEvery,
  }
  const from = { resume: resume && resolve(resume), init: init && resolve(init) }
  return Object.entries({ ...given, ...from }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, String(value)],
  )
}

interface Session {
  readonly python: string
  readonly options: LaunchOptions
  readonly beginning: Beginning | undefined
  readonly io: Io
}

async function follow(loaded: Loaded, { folder, data }: EmittedFolder, session: Session): Promise<number> {
  const { options, beginning, io } = session
  const ranks = worldOf(loaded.program.mesh)
  const display = displayOf(loaded.job, io, options.json === true)
  const log = join(folder, 'torchrun.log')
  const records: StepRecord[] = []
  const complaints: string[] = []
  let stopped: number | undefined
  if (!options.json)
    io.out(
      [
        paragraph(loaded.job),
        `Data: ${data}.`,
        ...(beginning ? [beginningText(beginning)] : []),
        `${ranks} processes of torchrun. Folder: ${folder}\n`,
      ].join('\n'),
    )
  const args = argumentsOf(options)
  const torchrun = startTorchrun(
    session.python,
    { folder, ranks, args },
    {
      line(text) {
        const record = recordOf(text)
        if (!record) return io.append(log, `${text}\n`)
        records.push(record)
        display.step(record)
      },
      complaint(text) {
        io.append(log, `${text}\n`)
        if (stopped === undefined && isOurs(text)) complaints.push(text)
      },
    },
  )
  const saves = savePlanOf(options, folder) !== undefined
  let forget = io.onInterrupt(code => {
    stopped = code
    display.note(
      `${saves ? 'stopping after a step, when it is saved' : 'ending all ranks'}; Ctrl-C again stops at once`,
    )
    torchrun.stop()
    forget = io.onInterrupt(() => torchrun.stop()) // a second time: at once
  })
  const code = await torchrun.done
  forget()
  display.finish()
  if (stopped === undefined && code !== 0) throw failure(code, complaints, log)
  if (!options.json) for (const line of summaryOf(loaded.job, records, stepsBehind(beginning))) display.note(line)
  if (stopped !== undefined && saves && records.at(-1)?.checkpoint === undefined)
    io.err(`launch: stopped before a checkpoint could be written; what the ranks said is in ${log}\n`)
  return stopped ?? 0
}

/** A line of metrics, or something else that was printed. */
function recordOf(line: string): StepRecord | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null && 'step' in value && 'loss' in value
      ? { ...(value as StepRecord), ...unfinite(value as StepRecord) } // the runtime writes these fields
      : undefined
  } catch {
    return undefined
  }
}

/** JSON has no word for what is not finite. */
const unfinite = ({ loss, gradientNorm }: StepRecord) => ({
  loss: loss ?? Number.NaN,
  gradientNorm: gradientNorm ?? Number.NaN,
})

/** What the runtime says; torchrun's own account stays in the log. */
const isOurs = (line: string): boolean => /^(lockstep: | {2,4}(at |stage\d+\.py:))/.test(line)

const mostComplaints = 12

function failure(code: number | null, complaints: readonly string[], log: string): ProblemsError {
  const said = inOrderOfBlame(complaints).slice(0, mostComplaints)
  const lines = said.map(line => `\n  ${line.replace(/^lockstep: /, '')}`)
  const how = code === null ? 'was killed' : `ended with exit code ${code}`
  return new ProblemsError([error('launch/failed', '', `torchrun ${how}${lines.join('')}`, `all of it is in ${log}`)])
}

/** First whose fault it was, as the launcher says, then what that rank has said, then the others. */
function inOrderOfBlame(complaints: readonly string[]): string[] {
  const verdict = complaints.findLast(line => verdictPattern.test(line))
  const [, killed, failed] = verdictPattern.exec(verdict ?? '') ?? []
  const groups: string[][] = []
  for (const line of complaints)
    if (line === verdict) continue
    else if (line.startsWith('lockstep: ') || groups.length === 0) groups.push([line])
    else groups[groups.length - 1].push(line)
  const isBlamed = ([line]: readonly string[]) => line.startsWith(`lockstep: rank ${killed ?? failed}:`)
  const others = groups.filter(group => !isBlamed(group))
  return [...(verdict === undefined ? [] : [verdict]), ...groups.filter(isBlamed).flat(), ...others.flat()]
}

const verdictPattern = /^lockstep: (?:rank (\d+) was killed by|the first to fail was rank (\d+),)/
