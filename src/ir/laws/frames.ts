/** L1 to L4: frames live from alloc to free, apart from each other, inside the arena of their space, and in peace while in flight. */
import { type Space, type Spoken, spaces } from '../../base/index.js'
import {
  type Call,
  type Frame,
  kinds,
  noBytes,
  type Program,
  roomIn,
  type Segment,
  type Step,
  type Stream,
  spaceOf,
} from '../program.js'
import { traitsOf } from '../traits.js'
import { type Finding, type Law, placeOf } from './law.js'
import { clause, type Told, told } from './phrases.js'

/** For each segment and role: does the segment write into it? */
type Written = Readonly<Record<string, readonly boolean[]>>

export function frames(program: Program): Finding[] {
  const written: Written = Object.fromEntries(
    Object.entries(program.segments).map(([key, s]) => [key, rolesWritten(s)]),
  )
  return program.streams.flatMap((stream, pipeline) => new Lives(stream, pipeline, written).run())
}

function rolesWritten({ roles, buffers, instrs }: Segment): boolean[] {
  const written = new Set(instrs.flatMap(instr => traitsOf(instr).writes.map(ref => buffers[ref].role)))
  return roles.map((_, role) => written.has(role))
}

/** A frame on its way: what started it, and whether it is being filled. */
interface FrameFlight {
  readonly what: 'send' | 'recv' | 'call'
  readonly tag: string
  readonly fills: boolean
}

class Lives {
  readonly #findings: Finding[] = []
  /** What is under way, by frame, and the frames of each tag. */
  readonly #flights = new Map<number, FrameFlight[]>()
  readonly #tagged = new Map<string, number[]>()
  readonly #resident: ReadonlySet<number>
  readonly #live: Readonly<Record<Space, LiveFrames>>
  #step: number | undefined
  /** The step that used a frame last. */
  readonly #last = new Map<number, number>()
  readonly #stream: Stream
  readonly #pipeline: number
  readonly #written: Written

  constructor(stream: Stream, pipeline: number, written: Written) {
    this.#stream = stream
    this.#pipeline = pipeline
    this.#written = written
    this.#resident = new Set(stream.resident)
    const { frames } = stream
    const live = () => new LiveFrames(frames)
    this.#live = { device: live(), host: live(), disk: live() }
  }

  run(): Finding[] {
    for (const frame of this.#resident) this.#begin(frame)
    this.#stream.steps.forEach((step, i) => {
      this.#step = i
      this.#take(step)
    })
    this.#step = undefined
    for (const space of spaces) this.#close(space)
    return this.#findings
  }

  #close(space: Space): void {
    const { all, peak: peaks } = this.#live[space]
    for (const frame of all())
      if (!this.#resident.has(frame))
        this.#sayAt(this.#last.get(frame), 'L1', told('L1/leak', { frame: this.#called(frame) }))
    for (const kind of kinds) {
      const [peak, declared] = [peaks[kind], roomIn(this.#stream, space).peak[kind]]
      if (peak === declared) continue
      const at = { kind: clause(`.kind/${kind}`), peak, declared }
      const where = clause(`.space/${space}`)
      this.#say('L3', space === 'device' ? told('L3/device', at) : told('L3/elsewhere', { ...at, space: where }))
    }
  }

  #in = (frame: number): LiveFrames => this.#live[spaceOf(this.#stream.frames[frame])]

  #say = (law: Law, said: Told) => this.#sayAt(this.#step, law, said)

  #sayAt(step: number | undefined, law: Law, said: Told): void {
    this.#findings.push({ law, ...placeOf({ pipeline: this.#pipeline, step }), ...said })
  }

  #called = (frame: number) => clause('.frame', { name: this.#stream.frames[frame].name, frame })

  #take(step: Step): void {
    switch (step.kind) {
      case 'alloc':
        if (this.#resident.has(step.frame))
          this.#say('L1', told('L1/resident-allocated', { frame: this.#called(step.frame) }))
        this.#begin(step.frame)
        break
      case 'free':
        this.#touch(step.frame, clause('.freed'), true)
        if (this.#resident.has(step.frame))
          this.#say('L1', told('L1/resident-freed', { frame: this.#called(step.frame) }))
        this.#in(step.frame).remove(step.frame)
        break
      case 'send':
      case 'recv':
        this.#touch(step.frame, step.kind === 'send' ? clause('.sent') : clause('.received'), step.kind === 'recv')
        this.#fly(step.frame, { what: step.kind, tag: step.tag, fills: step.kind === 'recv' })
        break
      case 'wait':
        this.#land(step.tag)
        break
      case 'call':
        this.#call(step)
    }
  }

  #call({ segment, bind, tag }: Call): void {
    const fills = this.#written[segment]
    bind.forEach((frame, role) => {
      this.#touch(frame, clause('.used', { segment }), fills[role])
    })
    if (tag === undefined) return
    bind.forEach((frame, role) => {
      this.#fly(frame, { what: 'call', tag, fills: fills[role] })
    })
  }

  #fly(frame: number, flight: FrameFlight): void {
    this.#flights.set(frame, [...(this.#flights.get(frame) ?? []), flight])
    this.#tagged.set(flight.tag, [...(this.#tagged.get(flight.tag) ?? []), frame])
  }

  #land(tag: string): void {
    for (const frame of this.#tagged.get(tag) ?? []) {
      const others = this.#flights.get(frame)?.filter(flight => flight.tag !== tag) ?? []
      if (others.length > 0) this.#flights.set(frame, others)
      else this.#flights.delete(frame)
    }
    this.#tagged.delete(tag)
  }

  #begin(frame: number): void {
    if (this.#in(frame).has(frame)) {
      this.#say('L1', told('L1/twice', { frame: this.#called(frame) }))
      return
    }
    const { offset, bytes } = this.#stream.frames[frame]
    const { arena } = roomIn(this.#stream, spaceOf(this.#stream.frames[frame]))
    if (offset < 0 || offset + bytes > arena)
      this.#say('L2', told('L2/end', { frame: this.#called(frame), end: offset + bytes, arena }))
    if (this.#step !== undefined) this.#last.set(frame, this.#step)
    const over = this.#in(frame).add(frame)
    if (over !== undefined) this.#say('L2', told('L2/over', { frame: this.#called(frame), other: this.#called(over) }))
  }

  #touch(frame: number, how: Spoken, writes: boolean): void {
    if (this.#step !== undefined) this.#last.set(frame, this.#step)
    if (!this.#in(frame).has(frame)) this.#say('L1', told('L1/dead', { frame: this.#called(frame), how }))
    for (const { what, tag, fills } of this.#flights.get(frame) ?? [])
      if (writes || fills) this.#say('L4', told('L4', { frame: this.#called(frame), how, what, tag }))
  }
}

/** The live frames by offset, with the bytes of each kind. */
class LiveFrames {
  readonly peak = noBytes()
  readonly #now = { ...this.peak }
  readonly #alive = new Set<number>()
  readonly #byOffset: number[] = []
  readonly #frames: readonly Frame[]

  constructor(frames: readonly Frame[]) {
    this.#frames = frames
  }

  has = (frame: number) => this.#alive.has(frame)
  all = () => this.#alive

  /** Gives a live frame it lies over, if there is one. Neighbours suffice: the others do not overlap each other. */
  add(frame: number): number | undefined {
    const { kind, bytes, offset } = this.#frames[frame]
    this.#alive.add(frame)
    this.#now[kind] += bytes
    this.peak[kind] = Math.max(this.peak[kind], this.#now[kind])
    if (bytes === 0) return undefined
    const at = this.#indexOf(offset)
    const [before, after] = [this.#byOffset[at - 1], this.#byOffset[at]]
    this.#byOffset.splice(at, 0, frame)
    if (before !== undefined && this.#frames[before].offset + this.#frames[before].bytes > offset) return before
    return after !== undefined && offset + bytes > this.#frames[after].offset ? after : undefined
  }

  remove(frame: number): void {
    if (!this.#alive.delete(frame)) return
    const { kind, bytes, offset } = this.#frames[frame]
    this.#now[kind] -= bytes
    if (bytes === 0) return
    let at = this.#indexOf(offset)
    while (this.#byOffset[at] !== frame) at++
    this.#byOffset.splice(at, 1)
  }

  /** The first place whose offset is not below. */
  #indexOf(offset: number): number {
    let [low, high] = [0, this.#byOffset.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#frames[this.#byOffset[middle]].offset < offset) low = middle + 1
      else high = middle
    }
    return low
  }
}
