/**
 * What every rank was doing when a run ended badly: the instruction it stands in, whom it waits for, and the commands
 * before it. Nothing is recorded while a step runs; a rank's list and the index in its status block say it all.
 */
import {
  failureClause,
  type Gap,
  linesOf,
  type Rank,
  type Reason,
  type Spoken,
  SpokenError,
  sayFailure,
} from '../../../base/index.js'
import type { Program, Step } from '../../../ir/index.js'
import { platform } from '../../../platform/index.js'
import { sayInstr, showStep } from '../../text.js'
import { commandNames, type ExecError, Status } from '../lower/commands.js'
import { type CommandList, Hand, wordOf } from '../lower/list.js'
import type { LoweredProgram } from '../lower/lowered.js'
import { Control, streamOf } from '../lower/map.js'
import type { Trouble } from './crew.js'

/** The state of one rank when the engine failed. */
export interface RankReport {
  readonly rank: Rank
  readonly state: 'finished' | 'waiting' | 'running' | 'failed' | 'dead'
  /** Index of the command in the rank's list. */
  readonly command: number
  /** The command, the instruction and the task it came from, in words. */
  readonly text: string
  readonly waitsFor: readonly Rank[]
  /** Why, where there is more to say. */
  readonly reason?: string
  /** Both as phrases, where they are more than names. */
  readonly said?: { readonly place: Reason; readonly why: Reason }
  /** The commands before it, last one last. */
  readonly last: readonly string[]
}

/** That a step was given up because nobody got on. */
export interface TimeOut {
  /** Who neither waits nor is done; where all wait, whom they wait for. */
  readonly rank?: Rank
  /** That it stood still, where somebody looked on, and the longest that what the rank is at has taken before. */
  readonly seconds?: number
  readonly usual?: number
}

/** The engine failed: which ranks, at which command, and why. */
export class EngineError extends SpokenError {
  readonly ranks: readonly RankReport[]
  /** What failed, of all that it says. */
  readonly failures: Gap
  readonly timeOut: TimeOut | undefined
  constructor(ranks: readonly RankReport[], besides: readonly Spoken[] = [], timeOut?: TimeOut) {
    const failures = failuresOf(ranks, besides)
    super(failureClause('.failed/ranks', { failures, ranks: linesOf(ranks.map(line)) }))
    this.name = 'EngineError'
    this.failures = failures
    this.ranks = ranks
    this.timeOut = timeOut
  }
}

const kept = 8

interface Scene {
  readonly program: Program
  readonly lowered: LoweredProgram
  /** The shared memory. */
  readonly words: Int32Array
  readonly trouble: Trouble
}

/** The error to throw; with a path, the whole record goes there too. */
export function failureOf(scene: Scene, path?: string): EngineError {
  const reports = scene.lowered.lists.map((list, rank) =>
    reportOf(rank, list, streamOf(scene.program, rank).steps, scene),
  )
  if (path !== undefined) platform.write(path, flightRecord(reports))
  const { still } = scene.trouble
  const given = still ? [failureClause('.failed/nothing-moved', { time: showTime(still.seconds) })] : []
  return new EngineError(reports, [...copiersIn(scene), ...given], timeOutIn(scene.trouble, reports))
}

function timeOutIn({ still, failed, dead }: Trouble, reports: readonly RankReport[]): TimeOut | undefined {
  if (dead.size > 0 || !(still || [...failed.values()].includes(timedOut))) return undefined
  const { rank } = reports.find(({ state }) => state === 'running') ?? {}
  const awaited = rank ?? reports.flatMap(({ waitsFor }) => waitsFor)[0]
  const usual = awaited === undefined ? undefined : still?.usual.get(awaited)
  return {
    ...(awaited !== undefined && { rank: awaited }),
    ...(still && { seconds: still.seconds }),
    ...(usual !== undefined && { usual }),
  }
}

/** Copiers that failed by themselves, and why. */
function copiersIn({ lowered, words, trouble: { dead, failed } }: Scene): Spoken[] {
  return lowered.copiers.flatMap(({ rank, status }, i) => {
    const member = lowered.lists.length + i
    const error = failed.get(member) ?? ''
    const why = dead.get(member) ?? diskFailure(error, words[status / 4 + Status.code]) ?? reasons[error] ?? error
    return why === '' ? [] : [failureClause('.failed/copier', { rank, why })]
  })
}

function reportOf(
  rank: Rank,
  list: CommandList,
  steps: readonly Step[],
  { program, lowered, words, trouble }: Scene,
): RankReport {
  const status = lowered.map.ranks[rank].status / 4
  const behind = words[lowered.handAt[rank] / 4 + Hand.behind]
  const command = Math.min(behind + words[status + Status.command], list.starts.length - 1)
  const missing = words[status + Status.waitingFor]
  const asked = words[lowered.map.control / 4 + Control.go]
  const peers = list.peers.get(command) ?? []
  const failed = trouble.failed.get(rank) ?? ''
  const noRoom =
    failed === withoutRoom ? overflowAt(program, list, steps, command, words[status + Status.needed]) : undefined
  const lost = diskFailure(failed, words[status + Status.code])
  const why = trouble.dead.get(rank) ?? noRoom ?? lost ?? stillIn(trouble, rank) ?? reasons[failed] ?? failed
  const say = (index: number) => sayCommand(program, list, steps, index)
  const show = (index: number) => sayFailure(say(index))
  return {
    rank,
    state: stateOf(rank, trouble, words[status + Status.done] === asked, missing > 0),
    command,
    text: show(command),
    waitsFor: missing > 0 && missing <= peers.length ? [peers[missing - 1]] : [],
    ...(why !== '' && { reason: sayFailure(why) }),
    said: { place: say(command), why },
    last: Array.from({ length: Math.min(kept, command) }, (_, i) => show(command - Math.min(kept, command) + i)),
  }
}

/** `nothing for 5.2 s, where it usually takes 12 ms` */
function stillIn({ still }: Trouble, rank: Rank): Spoken | undefined {
  if (!still) return undefined
  const usual = still.usual.get(rank)
  const before = usual === undefined ? '' : failureClause('.standstill/usual', { time: showTime(usual) })
  return failureClause('.standstill', { time: showTime(still.seconds), before })
}

const showTime = (seconds: number): string =>
  seconds < 1 ? `${Number((1000 * seconds).toPrecision(2))} ms` : `${seconds.toFixed(1)} s`

const diskFailure = (failed: string, code: number): Spoken | undefined =>
  failed === onDisk
    ? failureClause('.exec/disk', { why: platform.disk?.meaning(code) ?? failureClause('.exec/no-files') })
    : undefined

const onDisk: ExecError = 'disk'
const aborted: ExecError = 'aborted'
const timedOut: ExecError = 'timeout'
const withoutRoom: ExecError = 'rows'

/** Which rows did not fit, and what would have done. */
function overflowAt(
  { blocks }: Program,
  list: CommandList,
  steps: readonly Step[],
  command: number,
  needed: number,
): Spoken {
  const step = steps[list.origins[command].step]
  const word = (name: 'n' | 'own' | 'experts' | 'room') => list.words[list.starts[command] + wordOf('rowsOf', name)]
  const factor = Math.ceil((100 * needed * word('experts')) / (word('n') * word('own'))) / 100
  const where =
    step?.kind === 'call'
      ? failureClause('.rows/in', { block: String(blocks[step.block]?.name), microbatch: step.microbatch })
      : failureClause('.rows/step')
  return failureClause('.rows/native', { where, needed, room: word('room'), factor })
}

/** What the errors of exec mean; being stopped by another's is no news. */
const reasons: Readonly<Record<string, Reason | undefined>> = {
  [aborted]: '',
  timeout: failureClause('.exec/timeout'),
  unknown: failureClause('.exec/unknown'),
  workspace: failureClause('.exec/workspace'),
  rows: failureClause('.exec/rows'),
} satisfies Readonly<Record<Exclude<ExecError, 'ok' | 'disk'>, Reason>>

function stateOf(rank: Rank, { dead, failed }: Trouble, done: boolean, waits: boolean): RankReport['state'] {
  if (dead.has(rank)) return 'dead'
  if (waits) return 'waiting'
  const stopped = failed.get(rank)
  if (stopped !== undefined) return stopped === aborted ? 'running' : 'failed'
  return done ? 'finished' : 'running'
}

function sayCommand({ segments }: Program, list: CommandList, steps: readonly Step[], index: number): Reason {
  const command = commandNames[list.words[list.starts[index]]] ?? failureClause('.command/broken')
  const { step: at, instr } = list.origins[index]
  const step = steps[at]
  if (!step) return command
  const inner = step.kind === 'call' ? segments[step.segment].instrs[instr] : undefined
  const what = inner
    ? failureClause('.command/instr', { step: showStep(step), at: instr, instr: sayInstr(inner) })
    : showStep(step)
  return failureClause('.command', { command, step: at, what })
}

function failuresOf(ranks: readonly RankReport[], besides: readonly Spoken[]): Gap {
  const culprits = ranks.filter(({ state }) => state === 'dead' || state === 'failed')
  const waiting = ranks.filter(({ state }) => state === 'waiting').length
  const failed = ({ rank, reason, said }: RankReport) =>
    failureClause('.failed/rank', { rank, why: said?.why || reason || failureClause('.failed/no-reason') })
  const failures = [...besides, ...culprits.map(failed)]
  return failures.length > 0
    ? { joint: ';', of: failures }
    : failureClause('.failed/all-still', { waiting, ranks: ranks.length })
}

const line = ({ rank, state, text, waitsFor, reason = '', said }: RankReport): Spoken => {
  const [place, why] = [said?.place ?? text, said?.why ?? reason]
  const more = {
    whom: waitsFor.length > 0 ? failureClause('.rank/waits-for', { ranks: waitsFor.join(', ') }) : '',
    why: why === '' ? '' : failureClause('.rank/why', { why }),
  }
  return state === 'finished'
    ? failureClause('.rank/finished', { rank, ...more })
    : failureClause(`.rank/${state}`, { rank, place, ...more })
}

/** The flight recorder dump of a failed run, as text for a file. */
export const flightRecord = (ranks: readonly RankReport[]): string =>
  `${ranks.flatMap(report => [sayFailure(line(report)).trim(), ...report.last.map(text => `    ${text}`), `  > ${report.text}`]).join('\n')}\n`
