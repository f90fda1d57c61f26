/**
 * What the ranks of one pipeline coordinate do, in order: calls of segments, sends, receives and waits over named frames.
 * A frame's name says which logical thing it holds (`x@3.1`: carry x entering block 3, microbatch 1), so that two
 * segments meet by asking for the same name. Lifetimes and places come after, in *place*, from who uses what when.
 */
import type { Elsewhere } from '../../base/index.js'
import { type Call, type Frame, type Role, type RoleName, type Segment, type Step, showRole } from '../../ir/index.js'

export type Use = Exclude<Step, { kind: 'alloc' | 'free' }>

/** A stream whose frames have no place yet, and whose steps do not say when they are allocated and freed. */
export interface StreamDraft {
  readonly frames: readonly Omit<Frame, 'offset'>[]
  readonly resident: ReadonlySet<number>
  readonly steps: readonly Use[]
  readonly frameOf: (name: string, space?: Elsewhere) => number
}

/** What is asked of a frame. */
type FrameNeeds = Pick<Role, 'kind' | 'bytes' | 'space'>

/** The same thing may lie in several spaces, in a frame each. */
const nameIn = (name: string, space: Elsewhere | undefined): string => (space === undefined ? name : `${space}.${name}`)

/** Whose call it is; with a tag it only starts. */
export type Where = Pick<Call, 'block' | 'microbatch' | 'param' | 'tag'>

export class StreamWriter {
  readonly #frames: (Omit<Frame, 'offset' | 'bytes'> & { bytes: number })[] = []
  readonly #byName = new Map<string, number>()
  readonly #resident = new Set<number>()
  readonly #steps: Use[] = []
  #calls = 0

  /** Lives from step to step. */
  resident(name: string, of: FrameNeeds): number {
    const frame = this.frame(name, of)
    this.#resident.add(frame)
    return frame
  }

  frame(name: string, { kind, bytes, space }: FrameNeeds): number {
    const called = nameIn(name, space)
    const known = this.#byName.get(called)
    if (known !== undefined) {
      this.#frames[known].bytes = Math.max(this.#frames[known].bytes, bytes)
      return known
    }
    this.#byName.set(called, this.#frames.length)
    return this.#frames.push({ name: called, kind, bytes, ...(space && { space }) }) - 1
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

  finish(): StreamDraft {
    const frameOf = (name: string, space?: Elsewhere) => this.#known(nameIn(name, space))
    return { frames: [...this.#frames], resident: new Set(this.#resident), steps: [...this.#steps], frameOf }
  }

  #known(name: string): number {
    const frame = this.#byName.get(name)
    if (frame === undefined) throw new Error(`internal: no frame named ${name}`)
    return frame
  }
}
