/**
 * T8 and L10: spaces. What an instruction works on lies in one space, and only a move takes anything to another; so a thing may lie
 * in two, and when it is written in one, what lies in the other is stale until it is moved again.
 */
import type { Space, Spoken } from '../../base/index.js'
import { type Instr, isCollective, pairsOf, type Ref } from '../instr.js'
import { type Call, type Program, type Segment, type Stream, spaceOf } from '../program.js'
import { showRole } from '../role.js'
import { traitsOf } from '../traits.js'
import type { Finding } from './law.js'
import { clause, type Told, told } from './phrases.js'
import { everyStep } from './walk.js'

export const spaces = (program: Program): Finding[] => [
  ...Object.entries(program.segments).flatMap(([segment, body]) =>
    body.instrs.flatMap((instr, i): Finding[] => {
      const what = misplaced(instr, body)
      return what === undefined ? [] : [{ law: 'T8', segment, instr: i, ...told('.instr', { kind: instr.kind, what }) }]
    }),
  ),
  ...misplayed(program),
  ...program.streams.flatMap((stream, pipeline) => new Copies(program, stream, pipeline).run()),
]

/** What is wrong with where its operands and results lie. */
function misplaced(instr: Instr, { roles, buffers }: Segment): Spoken | undefined {
  const at = (ref: Ref) => spaceOf(roles[buffers[ref].role])
  const space = (ref: Ref) => clause(`.space/${at(ref)}`)
  if (instr.kind === 'move') {
    const stays = pairsOf(instr).find(pair => at(pair.in) === at(pair.out))
    if (instr.group.axes.length > 0) return clause('T/alone')
    return stays && clause('T/both-on', { ref: stays.in, other: stays.out, space: space(stays.in) })
  }
  const { reads, writes } = traitsOf(instr)
  const [first, ...others] = [...reads, ...writes]
  if (first === undefined) return undefined
  const apart = others.find(ref => at(ref) !== at(first))
  if (apart !== undefined)
    return clause('T/apart-on', { ref: first, space: space(first), other: apart, elsewhere: space(apart) })
  if (at(first) === 'disk') return clause('T/on-disk', { ref: first })
  return isCollective(instr) && at(first) !== 'device'
    ? clause('T/no-meeting', { ref: first, space: space(first) })
    : undefined
}

/** Frames that play a role of another space, and messages that do not leave the device. */
function misplayed(program: Program): Finding[] {
  const findings: Finding[] = []
  for (const { pipeline, stream, at, step } of everyStep(program)) {
    const say = (said: Told) => findings.push({ law: 'T8', pipeline, step: at, ...said })
    const space = (of: Space) => clause(`.space/${of}`)
    const [named, where] = [(i: number) => stream.frames[i].name, (i: number) => spaceOf(stream.frames[i])]
    if ((step.kind === 'send' || step.kind === 'recv') && where(step.frame) !== 'device')
      say(told('T/message-on', { frame: named(step.frame), space: space(where(step.frame)) }))
    if (step.kind !== 'call') continue
    for (const [i, role] of program.segments[step.segment].roles.entries()) {
      const frame = step.bind[i]
      if (where(frame) !== spaceOf(role))
        say(
          told('T/role-on', {
            ...{ frame: named(frame), space: space(where(frame)) },
            ...{ role: showRole(role.name), other: space(spaceOf(role)) },
          }),
        )
    }
  }
  return findings
}

/** Which frames of a stream hold the same, in two spaces, and which of them are stale. */
class Copies {
  readonly #findings: Finding[] = []
  readonly #twins = new Map<number, Set<number>>()
  /** Stale frames, and the frame that was written. */
  readonly #stale = new Map<number, number>()
  readonly #program: Program
  readonly #stream: Stream
  readonly #pipeline: number

  constructor(program: Program, stream: Stream, pipeline: number) {
    this.#program = program
    this.#stream = stream
    this.#pipeline = pipeline
  }

  run(): Finding[] {
    const { frames, steps, resident } = this.#stream
    if (frames.every(({ space }) => space === undefined)) return []
    for (const [at, step] of steps.entries()) {
      if (step.kind === 'call') this.#call(step, at)
      else if (step.kind === 'send') this.#read(step.frame, at)
      else if (step.kind === 'recv' || step.kind === 'free') this.#forget(step.frame)
    }
    for (const frame of resident) this.#read(frame, undefined)
    return this.#findings
  }

  #call({ segment, bind }: Call, at: number): void {
    const { instrs, buffers } = this.#program.segments[segment]
    const frameOf = (ref: Ref) => bind[buffers[ref].role]
    for (const instr of instrs) {
      const { reads, writes } = traitsOf(instr)
      for (const ref of reads) this.#read(frameOf(ref), at)
      for (const ref of writes) this.#write(frameOf(ref))
      if (instr.kind === 'move') for (const pair of pairsOf(instr)) this.#pair(frameOf(pair.in), frameOf(pair.out))
    }
  }

  #read(frame: number, step: number | undefined): void {
    const by = this.#stale.get(frame)
    if (by === undefined) return
    const [stale, written] = [frame, by].map(i => this.#stream.frames[i].name)
    const place = { pipeline: this.#pipeline, ...(step === undefined ? {} : { step }) }
    this.#findings.push({
      law: 'L10',
      ...place,
      ...(step === undefined ? told('L10/left', { stale, written }) : told('L10/read', { stale, written })),
    })
    this.#stale.delete(frame)
  }

  /** What lies elsewhere of it is stale, unless it is itself: then it has become another thing. */
  #write(frame: number): void {
    if (!this.#stale.has(frame)) for (const copy of this.#copiesOf(frame)) this.#stale.set(copy, frame)
    this.#forget(frame)
  }

  /** A copy may have been copied, and what it was made of too. */
  #copiesOf(frame: number): Set<number> {
    const copies = new Set([frame])
    for (const copy of copies) for (const twin of this.#twins.get(copy) ?? []) copies.add(twin)
    copies.delete(frame)
    return copies
  }

  #pair(one: number, other: number): void {
    for (const [a, b] of [
      [one, other],
      [other, one],
    ])
      this.#twins.set(a, (this.#twins.get(a) ?? new Set()).add(b))
  }

  #forget(frame: number): void {
    for (const twin of this.#twins.get(frame) ?? []) this.#twins.get(twin)?.delete(frame)
    this.#twins.delete(frame)
    this.#stale.delete(frame)
  }
}
