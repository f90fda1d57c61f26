/** What a run may ask for, checked before anything is laid out: its options, a rank's arena, the memory of all ranks. */
import { ProblemsError, type Rank, rankAt, type Spoken, showBytes, worldOf } from '../../../base/index.js'
import { kinds, type Program, roomIn, type Stream } from '../../../ir/index.js'
import { platform } from '../../../platform/index.js'
import { streamOf } from '../lower/map.js'
import type { EngineOptions } from './engine.js'
import { clause, refused } from './phrases.js'

/** How long a step may stand still at least: a busy machine makes ranks late, and never by so much. */
export const defaultPatienceMs = 10_000
/** How long ranks have to leave a step that failed. */
export const graceMs = 2_000
/** Ranks wait as long as others get on, which main sees to. */
export const neverMs = 2 ** 40

/** A timer waits no longer than 2^31 ms, and a limit of NaN would wait for ever. */
export function requireOptions({ seed, timeoutMs = graceMs }: EngineOptions): void {
  const problems = [
    ...(Number.isSafeInteger(seed) ? [] : [refused('seed', 'engine/options/whole', { value: seed })]),
    ...(timeoutMs > 0 && timeoutMs < 2 ** 31
      ? []
      : [refused('timeoutMs', 'engine/options/time', { value: timeoutMs })]),
  ]
  if (problems.length > 0) throw new ProblemsError(problems)
}

/** A rank that needs more than it may have is named before anything starts. */
export function fits(program: Program, limit: number): void {
  const heaviest = heaviestOf(program)
  if (streamOf(program, heaviest).arena > limit)
    throw new ProblemsError([
      refused('', 'engine/memory/rank', {
        ...{ needs: needsOf(program, heaviest), limit: showBytes(limit), remedy: remedyFor(program, heaviest) },
      }),
    ])
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
  const heaviest = heaviestOf(program)
  throw new ProblemsError([
    refused('', 'engine/memory/machine', {
      ...{ bytes: showBytes(bytes), has: showBytes(has) },
      ...{ needs: needsOf(program, heaviest), remedy: remedyFor(program, heaviest) },
    }),
  ])
}

/** The first rank of the stream with the largest arena. */
function heaviestOf({ mesh, streams }: Program): Rank {
  const arenas = streams.map(({ arena }) => arena)
  return rankAt(mesh, { pp: arenas.indexOf(Math.max(...arenas)) })
}

function needsOf(program: Program, rank: Rank): Spoken {
  const { arena, peak } = streamOf(program, rank)
  const parts = kinds
    .filter(kind => peak[kind] > 0)
    .map(kind => clause('.part', { kind: clause(`.kind/${kind}`), bytes: showBytes(peak[kind]) }))
  return clause('.needs', { rank, bytes: showBytes(arena), parts: { joint: ',', of: parts } })
}

/** What makes the largest kind of memory smaller, on a rank and on a machine that holds all ranks. */
function remedyFor(program: Program, rank: Rank): Spoken {
  const { peak } = streamOf(program, rank)
  const largest = kinds.reduce((most, kind) => (peak[kind] > peak[most] ? kind : most))
  return clause(`.less/${largest}`, { kind: clause(`.kind/${largest}`) })
}
