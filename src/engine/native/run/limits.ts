/** What a run may ask for, checked before anything is laid out: its options, a rank's arena, the memory of all ranks. */
import { error, ProblemsError, type Rank, rankAt, showBytes, worldOf } from '../../../base/index.js'
import { type Kind, kinds, type Program, roomIn, type Stream } from '../../../ir/index.js'
import { platform } from '../../../platform/index.js'
import { streamOf } from '../lower/map.js'
import type { EngineOptions } from './engine.js'

/** How long a step may stand still at least: a busy machine makes ranks late, and never by so much. */
export const defaultPatienceMs = 10_000
/** How long ranks have to leave a step that failed. */
export const graceMs = 2_000
/** Ranks wait as long as others get on, which main sees to. */
export const neverMs = 2 ** 40

/** A timer waits no longer than 2^31 ms, and a limit of NaN would wait for ever. */
export function requireOptions({ seed, timeoutMs = graceMs }: EngineOptions): void {
  const problems = [
    ...(Number.isSafeInteger(seed) ? [] : [error('engine/options', 'seed', `${seed} is not a whole number`)]),
    ...(timeoutMs > 0 && timeoutMs < 2 ** 31
      ? []
      : [error('engine/options', 'timeoutMs', `${timeoutMs} is not above 0 and below 2^31`)]),
  ]
  if (problems.length > 0) throw new ProblemsError(problems)
}

/** A rank that needs more than it may have is named before anything starts. */
export function fits(program: Program, limit: number): void {
  const heaviest = heaviestOf(program)
  if (streamOf(program, heaviest).arena > limit)
    throw tooLarge(program, `${needsOf(program, heaviest)}, but may have ${showBytes(limit)}`)
}

/** Arenas of memory and workspace: known without laying out every rank, of which there may be more than any list can hold. */
export function leastBytes({ mesh, streams }: Program, workspaceBytes: number): number {
  const ranksEach = worldOf(mesh) / streams.length
  const arenas = (stream: Stream) => stream.arena + roomIn(stream, 'host').arena
  return streams.reduce((sum, stream) => sum + ranksEach * (arenas(stream) + workspaceBytes), 0)
}

/** All ranks live on this machine: together they must fit it. */
export function affords(program: Program, bytes: number): void {
  const has = platform.memoryBytes
  if (bytes <= has) return
  const all = `all ranks together need ${showBytes(bytes)}, but this machine has ${showBytes(has)}`
  throw tooLarge(program, `${all}; ${needsOf(program, heaviestOf(program))}`)
}

const tooLarge = (program: Program, message: string): ProblemsError =>
  new ProblemsError([error('engine/memory', '', message, remedyFor(program, heaviestOf(program)))])

/** The first rank of the stream with the largest arena. */
function heaviestOf({ mesh, streams }: Program): Rank {
  const arenas = streams.map(({ arena }) => arena)
  return rankAt(mesh, { pp: arenas.indexOf(Math.max(...arenas)) })
}

function needsOf(program: Program, rank: Rank): string {
  const { arena, peak } = streamOf(program, rank)
  const parts = kinds.filter(kind => peak[kind] > 0).map(kind => `${kind} ${showBytes(peak[kind])}`)
  return `rank ${rank} needs ${showBytes(arena)} (${parts.join(', ')})`
}

/** What makes each kind of memory smaller, on a rank and on a machine that holds all ranks. */
const remedies: Readonly<Record<Kind, string>> = {
  parameters: 'zero 3, more tp or more pp',
  gradients: 'zero 2, more tp or more pp',
  optimizer: 'zero 1 over more dp, or an optimizer that keeps less',
  activations: 'more microbatches, recompute, more tp or a shorter seq',
  workspace: 'more tp, or a smaller batch',
  data: 'a smaller batch',
}

function remedyFor(program: Program, rank: Rank): string {
  const { peak } = streamOf(program, rank)
  const largest = kinds.reduce((most, kind) => (peak[kind] > peak[most] ? kind : most))
  return `most of it is ${largest}: try ${remedies[largest]}`
}
