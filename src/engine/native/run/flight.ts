/**
 * What every rank was doing when a run ended badly: the instruction it stands in, whom it waits for, and the commands
 * before it. Nothing is recorded while a step runs; a rank's list and the index in its status block say it all.
 */
import type { Rank } from '../../../base/index.js'
import type { Program, Step } from '../../../ir/index.js'
import { platform } from '../../../platform/index.js'
import { showInstr, showStep } from '../../text.js'
import { commandNames, type ExecError, errorMeanings, Status } from '../lower/commands.js'
import { type CommandList, Hand, wordOf } from '../lower/list.js'
import type { LoweredProgram } from '../lower/lowered.js'
import { Control, streamOf } from '../lower/map.js'
import type { Trouble } from './crew.js'

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

export class EngineError extends Error {
  readonly ranks: readonly RankReport[]
  readonly timeOut: TimeOut | undefined
  constructor(ranks: readonly RankReport[], besides: readonly string[] = [], timeOut?: TimeOut) {
    super(messageOf(ranks, besides))
    this.name = 'EngineError'
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
  const given = still ? [`nothing moved for ${showTime(still.seconds)}`] : []
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
function copiersIn({ lowered, words, trouble: { dead, failed } }: Scene): string[] {
  return lowered.copiers.flatMap(({ rank, status }, i) => {
    const member = lowered.lists.length + i
    const error = failed.get(member) ?? ''
    const reason = dead.get(member) ?? diskFailure(error, words[status / 4 + Status.code]) ?? reasons[error] ?? error
    return reason === '' ? [] : [`what copies for rank ${rank} failed: ${reason}`]
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
  const reason =
    trouble.dead.get(rank) ?? noRoom ?? lost ?? stillIn(trouble, rank) ?? reasons[failed] ?? trouble.failed.get(rank)
  const show = (index: number) => showCommand(program, list, steps, index)
  return {
    rank,
    state: stateOf(rank, trouble, words[status + Status.done] === asked, missing > 0),
    command,
    text: show(command),
    waitsFor: missing > 0 && missing <= peers.length ? [peers[missing - 1]] : [],
    ...(reason ? { reason } : {}),
    last: Array.from({ length: Math.min(kept, command) }, (_, i) => show(command - Math.min(kept, command) + i)),
  }
}

/** `nothing for 5.2 s, where it usually takes 12 ms` */
function stillIn({ still }: Trouble, rank: Rank): string | undefined {
  if (!still) return undefined
  const usual = still.usual.get(rank)
  const before = usual === undefined ? '' : `, where it has never taken more than ${showTime(usual)}`
  return `nothing for ${showTime(still.seconds)}${before}`
}

const showTime = (seconds: number): string =>
  seconds < 1 ? `${Number((1000 * seconds).toPrecision(2))} ms` : `${seconds.toFixed(1)} s`

const diskFailure = (failed: string, code: number): string | undefined =>
  failed === onDisk ? `${errorMeanings[onDisk]}: ${platform.disk?.meaning(code) ?? 'there are no files'}` : undefined

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
): string {
  const step = steps[list.origins[command].step]
  const word = (name: 'n' | 'own' | 'experts' | 'room') => list.words[list.starts[command] + wordOf('rowsOf', name)]
  const factor = Math.ceil((100 * needed * word('experts')) / (word('n') * word('own'))) / 100
  const where = step?.kind === 'call' ? `${blocks[step.block]?.name}, microbatch ${step.microbatch}` : 'a step'
  return `${where}: its experts get ${needed} rows, there is room for ${word('room')}; \`rows: ${factor}\` would do`
}

/** What the errors of exec mean; being stopped by another's is no news. */
const reasons: Readonly<Record<string, string | undefined>> = { ...errorMeanings, [aborted]: '' }

function stateOf(rank: Rank, { dead, failed }: Trouble, done: boolean, waits: boolean): RankReport['state'] {
  if (dead.has(rank)) return 'dead'
  if (waits) return 'waiting'
  const stopped = failed.get(rank)
  if (stopped !== undefined) return stopped === aborted ? 'running' : 'failed'
  return done ? 'finished' : 'running'
}

function showCommand({ segments }: Program, list: CommandList, steps: readonly Step[], index: number): string {
  const name = commandNames[list.words[list.starts[index]]] ?? 'a broken command'
  const { step: at, instr } = list.origins[index]
  const step = steps[at]
  if (!step) return name
  const inner = step.kind === 'call' ? segments[step.segment].instrs[instr] : undefined
  return `${name} of step ${at} ${showStep(step)}${inner ? `: [${instr}] ${showInstr(inner)}` : ''}`
}

function messageOf(ranks: readonly RankReport[], besides: readonly string[]): string {
  const culprits = ranks.filter(({ state }) => state === 'dead' || state === 'failed')
  const waiting = ranks.filter(({ state }) => state === 'waiting')
  const failures = [
    ...besides,
    ...culprits.map(({ rank, reason }) => `rank ${rank} failed: ${reason ?? 'no reason given'}`),
  ]
  const head =
    failures.length > 0 ? failures.join('; ') : `the ranks stand still: ${waiting.length} of ${ranks.length} wait`
  return [head, ...ranks.map(line)].join('\n')
}

const line = ({ rank, state, text, waitsFor, reason }: RankReport): string => {
  const where = state === 'finished' ? 'has finished its step' : `${state} in ${text}`
  const whom = waitsFor.length > 0 ? `, waits for rank ${waitsFor.join(', ')}` : ''
  return `  rank ${rank} ${where}${whom}${reason ? ` (${reason})` : ''}`
}

/** Everything, for a file. */
export const flightRecord = (ranks: readonly RankReport[]): string =>
  `${ranks.flatMap(report => [line(report).trim(), ...report.last.map(text => `    ${text}`), `  > ${report.text}`]).join('\n')}\n`
