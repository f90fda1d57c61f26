/**
 * What the ranks of one pipeline coordinate do, in order: calls of segments, sends, receives and waits over named frames.
 * A frame's name says which logical thing it holds (`x@3.1`: carry x entering block 3, microbatch 1), so that two
 * segments meet by asking for the same name. Lifetimes and places come after, from who uses what when.
 */
import {
  type Call,
  type Frame,
  type Kind,
  kinds,
  type Role,
  type RoleName,
  type Segment,
  type Step,
  type Stream,
  showRole,
} from '../ir/index.js'
import { pack } from './pack.js'
import { align } from './segment.js'

type Use = Exclude<Step, { kind: 'alloc' | 'free' }>

export type Where = Pick<Call, 'block' | 'microbatch' | 'param'>

export class StreamWriter {
  readonly #frames: { readonly name: string; readonly kind: Kind; bytes: number }[] = []
  readonly #byName = new Map<string, number>()
  readonly #resident = new Set<number>()
  readonly #steps: Use[] = []
  #calls = 0

  /** Lives from step to step. */
  resident(name: string, kind: Kind, bytes: number): number {
    const frame = this.frame(name, { kind, bytes })
    this.#resident.add(frame)
    return frame
  }

  frame(name: string, { kind, bytes }: Pick<Role, 'kind' | 'bytes'>): number {
    const known = this.#byName.get(name)
    if (known !== undefined) {
      this.#frames[known].bytes = Math.max(this.#frames[known].bytes, bytes)
      return known
    }
    this.#byName.set(name, this.#frames.length)
    return this.#frames.push({ name, kind, bytes }) - 1
  }

  /** `nameOf` gives the frame that plays a role; undefined: scratch, a frame for this call alone. */
  call(segment: Segment, where: Where, nameOf: (role: RoleName) => string | undefined): void {
    this.bound(segment, where, this.bindings(segment, nameOf))
  }

  /** What plays each role: a frame, or undefined where every call has its own. */
  bindings(segment: Segment, nameOf: (role: RoleName) => string | undefined): (number | undefined)[] {
    return segment.roles.map(role => {
      const name = nameOf(role.name)
      return name === undefined ? undefined : this.frame(name, role)
    })
  }

  bound(segment: Segment, where: Where, frames: readonly (number | undefined)[]): void {
    const call = this.#calls++
    const bind = frames.map((frame, i) => frame ?? this.#fresh(segment.roles[i], call))
    this.#steps.push({ kind: 'call', segment: segment.name, ...where, bind })
  }

  /** A frame for one call alone: nobody else asks for it, so its name is not looked up. */
  #fresh({ name, kind, bytes }: Role, call: number): number {
    return this.#frames.push({ name: `${showRole(name)}@${call}`, kind, bytes }) - 1
  }

  send(name: string, peer: number, tag: string): void {
    this.#steps.push({ kind: 'send', frame: this.#known(name), peer, tag })
  }

  recv(name: string, bytes: number, peer: number, tag: string): void {
    this.#steps.push({ kind: 'recv', frame: this.frame(name, { kind: 'activations', bytes }), peer, tag })
  }

  wait(tag: string): void {
    this.#steps.push({ kind: 'wait', tag })
  }

  indexOf(name: string): number {
    return this.#known(name)
  }

  /** *place*: lifetimes from use, offsets from lifetimes, and the peaks both imply. */
  finish(): Stream {
    const spans = usesOf(this.#steps, this.#frames.length)
    // What never dies lies at the bottom; the rest is packed above it.
    const offsets = new Array<number>(this.#frames.length)
    let floor = 0
    for (const frame of this.#resident) {
      offsets[frame] = floor
      floor += align(this.#frames[frame].bytes)
    }
    const mortal = [...this.#frames.keys()].filter(frame => !this.#resident.has(frame))
    const packed = pack(
      mortal.map(frame => ({ bytes: this.#frames[frame].bytes, start: spans.start[frame], end: spans.end[frame] })),
    )
    for (const [i, frame] of mortal.entries()) offsets[frame] = floor + packed.offsets[i]
    const frames: Frame[] = this.#frames.map(({ name, kind, bytes }, i) => ({ name, kind, bytes, offset: offsets[i] }))
    const steps = withMemory(this.#steps, mortal, spans)
    return {
      frames,
      resident: [...this.#resident],
      steps,
      arena: floor + align(packed.bytes),
      peak: peakOf(frames, this.#resident, steps),
    }
  }

  #known(name: string): number {
    const frame = this.#byName.get(name)
    if (frame === undefined) throw new Error(`internal: no frame named ${name}`)
    return frame
  }
}

/** By frame, the first step that touches it and the one after the last. */
interface Spans {
  readonly start: Int32Array
  readonly end: Int32Array
}

/** A wait touches what its send or receive moves. */
function usesOf(steps: readonly Use[], frames: number): Spans {
  const spans = { start: new Int32Array(frames).fill(-1), end: new Int32Array(frames) }
  const moving = new Map<string, number>()
  const touch = (frame: number, at: number) => {
    if (spans.start[frame] < 0) spans.start[frame] = at
    spans.end[frame] = at + 1
  }
  for (const [at, step] of steps.entries()) {
    if (step.kind === 'call') for (const frame of step.bind) touch(frame, at)
    else if (step.kind === 'wait') touch(moving.get(step.tag)!, at)
    else {
      moving.set(step.tag, step.frame)
      touch(step.frame, at)
    }
  }
  return spans
}

function withMemory(steps: readonly Use[], mortal: readonly number[], { start, end }: Spans): Step[] {
  const born = chained(mortal, steps.length, frame => start[frame])
  const dead = chained(mortal, steps.length, frame => end[frame] - 1)
  const all: Step[] = []
  for (const [at, step] of steps.entries()) {
    born(at, frame => all.push({ kind: 'alloc', frame }))
    all.push(step)
    dead(at, frame => all.push({ kind: 'free', frame }))
  }
  return all
}

/** Frames by step, as linked lists: an array for each of thousands of steps costs more than all the rest. */
function chained(frames: readonly number[], steps: number, at: (frame: number) => number) {
  const first = new Int32Array(steps).fill(-1)
  const next = new Int32Array(frames.reduce((most, frame) => Math.max(most, frame), -1) + 1)
  for (const frame of frames.toReversed()) {
    next[frame] = first[at(frame)]
    first[at(frame)] = frame
  }
  return (step: number, visit: (frame: number) => void) => {
    for (let frame = first[step]; frame >= 0; frame = next[frame]) visit(frame)
  }
}

function peakOf(frames: readonly Frame[], resident: ReadonlySet<number>, steps: readonly Step[]): Record<Kind, number> {
  const live = Object.fromEntries(kinds.map(kind => [kind, 0])) as Record<Kind, number> // every kind is there
  for (const frame of resident) live[frames[frame].kind] += frames[frame].bytes
  const peak = { ...live }
  for (const step of steps) {
    if (step.kind === 'free') live[frames[step.frame].kind] -= frames[step.frame].bytes
    if (step.kind !== 'alloc') continue
    const { kind, bytes } = frames[step.frame]
    live[kind] += bytes
    peak[kind] = Math.max(peak[kind], live[kind])
  }
  return peak
}
