/**
 * The laws of a program (SPEC.md explains each number). `verify` is empty or says which law is broken, where and how.
 * The checker has its own tables and shares no code with the compiler: it is the second opinion. What it cannot
 * see (a wrong derivative rule, which the serial program would share) finite differences and PyTorch must.
 */
import { asPart, error, finish, ProblemsError, type Rank, rankAt, type Work } from '../base/index.js'
import { alignment } from './laws/alignment.js'
import { buffers, Flows } from './laws/buffers.js'
import { form } from './laws/form.js'
import { frames } from './laws/frames.js'
import { groups } from './laws/groups.js'
import { identity, SerialReplay } from './laws/identity.js'

import { distinct, type Finding, type Law, laws, type Place } from './laws/law.js'
import { messages } from './laws/messages.js'
import { partition } from './laws/partition.js'
import type { LawPhrases } from './laws/phrases.js'
import { replaying } from './laws/replay.js'
import { residents } from './laws/residents.js'
import { spaces } from './laws/spaces.js'
import { stalls } from './laws/stall.js'
import { starts } from './laws/starts.js'
import { types } from './laws/types.js'
import type { Program } from './program.js'

export { type Law, type LawPhrases, laws, type Place, SerialReplay }

/** A violated invariant of SPEC.md: which one, where in the program, and the rank. */
export interface Violation extends Finding {
  readonly title: string
  /** The first rank of the stream. */
  readonly rank?: Rank
}

/**
 * Statically checks a program against the invariants of SPEC.md. `serial` is the single-rank program of the same job: with it,
 * equivalence (I) is checked too. To compare many programs with the same one, pass its `SerialReplay`.
 */
export const verify = (program: Program, serial?: Program | SerialReplay): Violation[] =>
  finish(verifying(program, serial))

export function* verifying(program: Program, serial?: Program | SerialReplay): Work<Violation[]> {
  const against = serial === undefined || serial instanceof SerialReplay ? serial : new SerialReplay(serial)
  return violationsOf(program, yield* findings(program, against))
}

/**
 * The laws a program must keep to be run at all, whatever it computes: W, M, G, S, L within segments, and T within
 * segments. They are read off the program without replaying it, and take about as long as compiling it did.
 */
export function verifyStructure(program: Program): Violation[] {
  const misformed = form(program)
  return violationsOf(program, misformed.length > 0 ? misformed : [...finish(structure(program)), ...types(program)])
}

/** Throws all that `verifyStructure` finds. What runs programs calls it first: a broken one would run over its memory. */
export const requireSound = (program: Program): void => requireNone(verifyStructure(program))

/** Throws all that `verify` finds. */
export const requireLawful = (program: Program, serial?: Program): void => requireNone(verify(program, serial))

function requireNone(violations: readonly Violation[]): void {
  if (violations.length > 0)
    throw new ProblemsError(violations.map(violation => error('program/law', '', showViolation(violation))))
}

const violationsOf = ({ mesh }: Program, found: readonly Finding[]): Violation[] =>
  distinct(found).map(finding => ({
    ...finding,
    title: laws[finding.law],
    ...(finding.pipeline === undefined ? {} : { rank: rankAt(mesh, { pp: finding.pipeline }) }),
  }))

const structural = [frames, residents, buffers, alignment, messages, groups, spaces]

function* structure(program: Program, flows = new Flows(program)): Work<Finding[]> {
  const found: Finding[] = []
  for (const [i, law] of structural.entries()) {
    for (const finding of law(program, flows)) found.push(finding)
    yield (i + 1) / (structural.length + 1)
  }
  return found.length > 0 ? found : stalls(program)
}

/** A program that is not well formed cannot be read further, and one that stalls or tramples its memory cannot be replayed. */
function* findings(program: Program, against?: SerialReplay): Work<Finding[]> {
  const serial = against?.program
  const misformed = form(program)
  if (misformed.length > 0) return misformed
  yield 0.05 // about the shares of the time that large programs take
  const flows = new Flows(program)
  const broken = yield* asPart(0.05, 0.25, structure(program, flows))
  const typed = [...partition(program, serial), ...(serial ? starts(program, serial) : []), ...types(program)]
  if (broken.length > 0) return [...broken, ...typed]
  const outcome = yield* asPart(0.3, 0.65, replaying(program, flows))
  if (against) yield* asPart(0.65, 1, against.replaying())
  return [...typed, ...outcome.findings, ...(against ? identity(program, against, outcome) : [])]
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
