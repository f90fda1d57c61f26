/** lockstep launch: emit a job and run it here, every rank a process of torchrun on gloo (or on this machine's GPUs). */
import { join, resolve } from 'node:path'
import { error, faultProblems, type Problem, ProblemsError, parseFaults, worldOf, wrapped } from '../../base/index.js'
import { eventOf } from '../../health/index.js'
import type { Program } from '../../ir/index.js'
import {
  type Beginning,
  beginningOf,
  beginningText,
  beginningWarnings,
  type StepRecord,
  savingProblems,
  stepsBehind,
} from '../../train/index.js'
import { type EmittedFolder, writeEmitted } from '../files/emit-folder.js'
import { freeFolder, markLatest } from '../files/latest-run.js'
import { withItsTokenizer } from '../files/load.js'
import { fewerRanks, jobsOfRanks } from '../files/other-ranks.js'
import { type Loaded, tryProgram } from '../files/program.js'
import { type Listeners, pythonWithTorch, startTorchrun } from '../files/torchrun.js'
import type { Io } from '../io.js'
import { type CheckpointOptions, savePlanOf } from '../text/checkpoint-options.js'
import { type Display, displayOf } from '../text/display.js'
import { countProblems, problemsJson, showProblems } from '../text/problems.js'
import { withProgress } from '../text/progress.js'
import type { Ranks } from '../text/ranks.js'
import { RunTotals, summaryOf } from '../text/summary.js'
import { paragraph } from './check.js'
import { withOptions } from './emit.js'

export interface LaunchOptions extends CheckpointOptions {
  readonly out?: string
  readonly steps?: number
  readonly seed?: number
  readonly timeout?: number
  readonly device: string
  readonly elastic?: boolean
  readonly shrink?: boolean
  readonly also?: Ranks
  readonly fault?: readonly string[]
  readonly hashEvery?: number
  readonly profileEvery?: number
  readonly tensorboard?: string
  readonly json?: boolean
}

/** What a run that restarts by itself loses at most, and keeps, if nobody says otherwise; emitted programs have the same. */
const elastic = { saveEvery: 20, keep: 3 } as const

const completed = (options: LaunchOptions): LaunchOptions => (options.elastic ? { ...elastic, ...options } : options)

export async function launchCommand(path: string, asked: LaunchOptions, io: Io): Promise<number> {
  const options = completed(asked)
  const { loaded, problems } = await tryProgram(path, io)
  if (!loaded) {
    if (options.json) io.out(problemsJson(problems))
    else io.err(`${showProblems(problems, io, path)}${countProblems(problems)}\n`)
    return 1
  }
  io.err(showProblems(problems, io, path))
  const refused = faultRefusals(options.fault ?? [], loaded.program)
  if (refused.length > 0) throw new ProblemsError(refused)
  const python = pythonWithTorch(io)
  const asks = withOptions(loaded.job, options)
  const folder = options.out ?? freeFolder(asks, path, io)
  const beginning = beginningOf(options, io, asks)
  const job = withItsTokenizer(asks, beginning, io)
  if (beginning) io.err(showProblems(beginningWarnings(beginning, job), io, path))
  const plan = savePlanOf(options, folder)
  const refusals = plan ? savingProblems(plan.folder, stepsBehind(beginning), io) : []
  if (refusals.length > 0) throw new ProblemsError(refusals)
  const others = options.also ? jobsOfRanks(job, options.also) : options.shrink ? fewerRanks(job) : []
  const emitted = await withProgress(io, watcher =>
    writeEmitted({ ...loaded, job }, { path, folder, beginning, others, io, watcher }),
  )
  markLatest(folder, io)
  return follow({ ...loaded, job }, emitted, { python, options, beginning, io })
}

function faultRefusals(texts: readonly string[], { mesh, params }: Program): Problem[] {
  const { faults, problems } = parseFaults(texts)
  return [...problems, ...faultProblems(faults, { ranks: worldOf(mesh), params })]
}

/** The start has so long, or as long as the time-out and some more: Python and PyTorch take long to load on a busy machine. */
const startSeconds = { all: 140, more: 20 }

/** What train.py is told; it runs in its own folder. */
function argumentsOf(options: LaunchOptions, beginning: Beginning | undefined): string[] {
  const { timeout, device, elastic, fault = [], hashEvery, profileEvery, tensorboard, ...saving } = options
  const { save, saveEvery, saveSync, keep, keepEvery, resume } = saving
  // The folder has the weights of others, and adapters beside weights, as a checkpoint, and starts from that by itself.
  const init = beginning?.weights || beginning?.adapters !== undefined ? undefined : saving.init
  const given = {
    timeout,
    rendezvous: timeout === undefined ? startSeconds.all : timeout + startSeconds.more,
    device,
    save: save && resolve(save),
    'save-every': saveEvery,
    keep,
    'keep-every': keepEvery,
    'hash-every': hashEvery,
    'profile-every': profileEvery,
    tensorboard: tensorboard && resolve(tensorboard),
  }
  const from = { resume: resume && resolve(resume), init: init && resolve(init) }
  const words = Object.entries({ ...given, ...from }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, String(value)],
  )
  return [
    ...words,
    ...(saveSync ? ['--save-sync'] : []),
    ...(elastic ? ['--elastic'] : []),
    ...fault.flatMap(text => ['--fault', text]),
  ]
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
  const heard = new Heard(display, text => io.append(log, `${text}\n`))
  if (!options.json)
    io.out(
      [
        ...wrapped(paragraph(loaded.job)),
        `Data: ${data}.`,
        ...(beginning ? [beginningText(beginning)] : []),
        `${ranks} processes of torchrun. Folder: ${folder}\n`,
      ].join('\n'),
    )
  const own = [...(options.elastic ? ['--elastic'] : []), ...(options.shrink ? ['--shrink'] : [])]
  const torchrun = startTorchrun(session.python, { folder, ranks, own, args: argumentsOf(options, beginning) }, heard)
  const saves = savePlanOf(options, folder) !== undefined
  let forget = io.onInterrupt(code => {
    heard.stopped = code
    display.note(
      `${saves ? 'stopping after a step, when it is saved' : 'ending all ranks'}; Ctrl-C again stops at once`,
    )
    torchrun.stop()
    forget = io.onInterrupt(() => torchrun.stop()) // a second time: at once
  })
  const code = await torchrun.done
  forget()
  display.finish()
  const { stopped, totals } = heard
  if (stopped === undefined && code !== 0) throw failure(code, heard.complaints, log)
  if (!options.json) for (const line of summaryOf(loaded.job, totals, stepsBehind(beginning))) display.note(line)
  if (stopped !== undefined && saves && totals.last?.checkpoint === undefined)
    io.err(`launch: stopped before a checkpoint could be written; what the ranks said is in ${log}\n`)
  return stopped ?? 0
}

/** What the ranks and their launcher print: steps are shown, the rest is kept. */
class Heard implements Listeners {
  readonly totals = new RunTotals()
  /** Since the last restart. */
  complaints: string[] = []
  /** The exit code, once somebody has asked the run to stop. */
  stopped: number | undefined
  readonly #display: Display
  readonly #log: (text: string) => void

  constructor(display: Display, log: (text: string) => void) {
    this.#display = display
    this.#log = log
  }

  line(text: string): void {
    const value = jsonOf(text)
    const [record, event] = [recordOf(value), eventOf(value)]
    if (record) {
      this.totals.add(record)
      this.#display.step(record)
    } else if (event) this.#display.event(event)
    else this.#log(text)
  }

  complaint(text: string): void {
    this.#log(text)
    if (this.stopped === undefined && isOurs(text)) this.complaints.push(text)
    if (!restartPattern.test(text)) return
    this.complaints = []
    this.#display.note(text.replace(restartPattern, ''))
  }
}

const restartPattern = /^lockstep: restart: /

/** undefined: something else was printed. */
function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

const recordOf = (value: unknown): StepRecord | undefined =>
  typeof value === 'object' && value !== null && 'step' in value && 'loss' in value
    ? { ...(value as StepRecord), ...unfinite(value as StepRecord) } // the runtime writes these fields
    : undefined

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

const verdictPattern = /^lockstep: (?:rank (\d+) was (?:killed by|suspended)|the first to fail was rank (\d+),)/
