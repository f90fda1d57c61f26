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
  type Segment,
  type Step,
  type Stream,
} from '../ir/index.js'
import { pack } from './pack.js'
import { align } from './segment.js'

type Use = Exclude<Step, { kind: 'alloc' | 'free' }>

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
  call(
    segment: Segment,
    where: Pick<Call, 'block' | 'microbatch' | 'param'>,
    nameOf: (role: string) => string | undefined,
  ): void {
    const call = this.#calls++
    const bind = segment.roles.map(role => this.frame(nameOf(role.name) ?? `${role.name}@${call}`, role))
    this.#steps.push({ kind: 'call', segment: segment.name, ...where, bind })
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
    const used = usesOf(this.#steps)
    const end = this.#steps.length
    const span = (frame: number) => (this.#resident.has(frame) ? { start: 0, end: end + 1 } : used.get(frame)!)
    const spans = this.#frames.map((_, frame) => span(frame))
    const { offsets, bytes } = pack(this.#frames.map((frame, i) => ({ bytes: frame.bytes, ...spans[i] })))
    const frames: Frame[] = this.#frames.map((frame, i) => ({ ...frame, offset: offsets[i] }))
    const steps = withMemory(this.#steps, spans, this.#resident)
    return {
      frames,
      resident: [...this.#resident],
      steps,
      arena: align(bytes),
      peak: peakOf(frames, this.#resident, steps),
    }
  }

  #known(name: string): number {
    const frame = this.#byName.get(name)
    if (frame === undefined) throw new Error(`internal: no frame named ${name}`)
    return frame
  }
}

/** The frames each step touches. A wait touches what its send or receive moves. */
function usesOf(steps: readonly Use[]): Map<number, { start: number; end: number }> {
  const spans = new Map<number, { start: number; end: number }>()
  const moving = new Map<string, number>()
  for (const [at, step] of steps.entries()) {
    if (step.kind === 'send' || step.kind === 'recv') moving.set(step.tag, step.frame)
    const frames = step.kind === 'call' ? step.bind : [step.kind === 'wait' ? moving.get(step.tag)! : step.frame]
    for (const frame of frames) spans.set(frame, { start: spans.get(frame)?.start ?? at, end: at + 1 })
  }
  return spans
}

function withMemory(
  steps: readonly Use[],
  spans: readonly { start: number; end: number }[],
  resident: ReadonlySet<number>,
): Step[] {
  const born = steps.map(() => [] as number[])
  const dead = steps.map(() => [] as number[])
  for (const [frame, { start, end }] of spans.entries()) {
    if (resident.has(frame)) continue
    born[start].push(frame)
    dead[end - 1].push(frame)
  }
  return steps.flatMap((step, at) => [
    ...born[at].map(frame => ({ kind: 'alloc' as const, frame })),
    step,
    ...dead[at].map(frame => ({ kind: 'free' as const, frame })),
  ])
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
