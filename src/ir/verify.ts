/**
 * The laws of a program (SPEC.md explains each number). `verify` is empty or says which law is broken, where and how.
 * The checker has its own tables and shares no code with the compiler: it is the second opinion. What it cannot
 * see (a wrong derivative rule, which the serial program would share) finite differences and PyTorch must.
 */
import { finish, type Rank, rankAt, type Work } from '../base/index.js'
import { buffers } from './laws/buffers.js'
import { form } from './laws/form.js'
import { frames } from './laws/frames.js'
import { groups } from './laws/groups.js'
import { identity } from './laws/identity.js'
import { distinct, type Finding, type Law, laws, type Place } from './laws/law.js'
import { messages } from './laws/messages.js'
import { partition } from './laws/partition.js'
import { replay } from './laws/replay.js'
import { stalls } from './laws/stall.js'
import { types } from './laws/types.js'
import type { Program } from './program.js'

export { type Law, laws, type Place }

export interface Violation extends Place {
  readonly law: Law
  readonly title: string
  readonly message: string
  /** The first rank of the stream. */
  readonly rank?: Rank
}

/** `serial` is the one-rank program of the same job: with it, identity (I) is checked too. */
export const verify = (program: Program, serial?: Program): Violation[] => finish(verifying(program, serial))

export function* verifying(program: Program, serial?: Program): Work<Violation[]> {
  return distinct(yield* findings(program, serial)).map(finding => ({
    ...finding,
    title: laws[finding.law],
    ...(finding.pipeline === undefined ? {} : { rank: rankAt(program.mesh, { pp: finding.pipeline }) }),
  }))
}

/** A program that is not well formed cannot be read further, and one that stalls or tramples its memory cannot be replayed. */
function* findings(program: Program, serial?: Program): Work<Finding[]> {
  const misformed = form(program)
  if (misformed.length > 0) return misformed
  yield 0.1 // about the shares of the time that large programs take
  const structure = [...frames(program), ...buffers(program), ...messages(program), ...groups(program)]
  if (structure.length === 0) structure.push(...stalls(program))
  yield 0.2
  const typed = [...partition(program, serial), ...types(program)]
  if (structure.length > 0) return [...structure, ...typed]
  yield 0.25
  const outcome = replay(program)
  yield 0.7
  return [...typed, ...outcome.findings, ...(serial ? identity(program, serial, outcome) : [])]
}

/** `[M1] every recv has its send ...: stream 1 (rank 4), step 12, mlp.F[3]: channel 0 -> 1: ...` */
export function showViolation({ law, title, pipeline, rank, step, segment, instr, message }: Violation): string {
  const where = [
    ...(pipeline === undefined ? [] : [`stream ${pipeline} (rank ${rank})`]),
    ...(step === undefined ? [] : [`step ${step}`]),
    ...(segment === undefined ? [] : [segment + (instr === undefined ? '' : `[${instr}]`)]),
  ]
  return `[${law}] ${title}: ${[...where, message].join(': ')}`
}
