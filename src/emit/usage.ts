/**
 * What the streams say about a segment's roles. A frame that is bound by one call alone, and neither sent, received
 * nor kept from step to step, holds temporaries: in Python these are local variables, and the frame never exists.
 */
import { asPart, type Work } from '../base/index.js'
import {
  type Call,
  type Program,
  type Ref,
  type RoleName,
  type Segment,
  type Stream,
  showRole,
  traitsOf,
} from '../ir/index.js'
import { namesOf } from './names.js'
import { findingScales, type Scales } from './norm-scales.js'

export interface Usage {
  /** Whether values in a role die with the call. */
  readonly temporary: readonly boolean[]
  /** Whether a role is bound to frames that live from step to step. */
  readonly resident: readonly boolean[]
  /** Whether a role is a gradient that is cleared here and whose next use everywhere is an accumulate. */
  readonly overwritten: readonly boolean[]
  readonly names: ReadonlyMap<Ref, string>
  readonly scales: Scales
}

type UsageDraft = {
  -readonly [K in keyof Omit<Usage, 'scales'>]: Usage[K] extends readonly boolean[] ? boolean[] : Usage[K]
}

/** A value of a frame, by its place in it. */
const slot = (role: RoleName, offset: number): string => `${showRole(role)}+${offset}`

export function* findingUsage(program: Program): Work<ReadonlyMap<string, Usage>> {
  const found = new Map<string, UsageDraft>()
  for (const [pp, stream] of program.streams.entries()) {
    yield (0.7 * pp) / program.streams.length
    const kept = outliving(stream)
    const resident = new Set(stream.resident)
    /** Per frame, what its values were called by the segment that wrote them. */
    const called = stream.frames.map(() => new Map<string, string>())
    for (const [index, step] of stream.steps.entries()) {
      if (step.kind !== 'call') continue
      const segment = program.segments[step.segment]
      const known = found.get(segment.name) ?? {
        temporary: segment.roles.map(() => true),
        resident: segment.roles.map(() => true),
        overwritten: segment.roles.map(({ kind }) => kind === 'gradients'),
        names: namesOf(segment, givenNames(segment, step, called)),
      }
      found.set(segment.name, known)
      for (const [role, frame] of step.bind.entries()) {
        if (kept.has(frame)) known.temporary[role] = false
        if (!resident.has(frame)) known.resident[role] = false
        if (known.overwritten[role]) known.overwritten[role] = accumulatesNext(program, stream, index, frame)
      }
      remember(segment, step, known.names, called)
    }
  }
  const outlives = (segment: Segment, ref: Ref) => !found.get(segment.name)!.temporary[segment.buffers[ref].role]
  const scales = yield* asPart(0.7, 1, findingScales(program, outlives))
  return new Map([...found].map(([name, usage]) => [name, { ...usage, scales: scales(program.segments[name]) }]))
}

/** The first that a frame's next user does to it, if there is one in this step, is to accumulate into it. */
function accumulatesNext({ segments }: Program, { steps }: Stream, after: number, frame: number): boolean {
  const next = nextCall(steps, after, frame)
  if (!next) return false
  const { buffers, instrs } = segments[next.segment]
  const touches = (ref: Ref) => next.bind[buffers[ref].role] === frame
  const first = instrs.find(instr => {
    const { reads, writes } = traitsOf(instr)
    return [...reads, ...writes].some(touches)
  })
  // The own part of something larger cannot take the place of the sum: it would keep the rest from being freed.
  return first?.kind === 'accumulate' && !first.ins.some(ref => touches(ref) || buffers[ref].inside)
}

function nextCall(steps: Stream['steps'], after: number, frame: number): Call | undefined {
  for (let i = after + 1; i < steps.length; i++) {
    const step = steps[i]
    if (step.kind === 'call' && step.bind.includes(frame)) return step
  }
  return undefined
}

/** Frames that hold something before or after the one call that uses them: the others are never made. */
export function outliving({ frames, resident, steps }: Stream): ReadonlySet<number> {
  const calls = frames.map(() => 0)
  const kept = new Set(resident)
  for (const step of steps) {
    if (step.kind === 'call') for (const frame of new Set(step.bind)) calls[frame]++
    else if (step.kind === 'send' || step.kind === 'recv') kept.add(step.frame)
  }
  for (const [frame, n] of calls.entries()) if (n > 1) kept.add(frame)
  return kept
}

function givenNames(segment: Segment, { bind }: Call, called: readonly Map<string, string>[]): Map<Ref, string> {
  const given = new Map<Ref, string>()
  const made = new Set(
    segment.instrs.map(traitsOf).flatMap(({ reads, writes }) => writes.filter(ref => !reads.includes(ref))),
  )
  for (const [ref, { role, offset }] of Object.entries(segment.buffers)) {
    if (made.has(ref)) continue
    const { name, kind } = segment.roles[role]
    const wish = called[bind[role]].get(slot(name, offset))
    if (wish !== undefined) given.set(ref, wish)
    else if (kind === 'parameters' && ref.includes('~') && name.is === 'param' && name.of)
      given.set(ref, showRole(name))
  }
  return given
}

function remember(segment: Segment, { bind }: Call, names: Usage['names'], called: readonly Map<string, string>[]) {
  for (const [ref, { role, offset }] of Object.entries(segment.buffers)) {
    const at = slot(segment.roles[role].name, offset)
    if (!called[bind[role]].has(at)) called[bind[role]].set(at, names.get(ref)!)
  }
}
