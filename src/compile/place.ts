/**
 * *place*: lifetimes from use, offsets from lifetimes, and the sizes and peaks they imply. First the scratch buffers of a
 * segment in frames of their own, then the frames of a stream in its arena.
 */
import { diskPage, elsewheres, localDims, type Mesh, roundUp, type Space, spaces } from '../base/index.js'
import {
  type Buffer,
  type Frame,
  type Instr,
  type Kind,
  noBytes,
  type Ref,
  type Role,
  type Segment,
  type Step,
  type Stream,
  showRole,
  spaceOf,
  traitsOf,
} from '../ir/index.js'
import { align, pack } from './pack.js'
import type { BufferDraft, SegmentDraft, Slot } from './segment.js'
import type { StreamDraft, Use } from './stream/writer.js'

type BufferDrafts = readonly (readonly [Ref, BufferDraft])[]

export const placeBuffers = (mesh: Mesh, draft: SegmentDraft): Segment => placed(mesh, draft, slotsOf)

/** The same without addresses for scratch buffers: a segment to analyze, not to run. */
export const unplaced = (mesh: Mesh, draft: SegmentDraft): Segment =>
  placed(mesh, draft, drafts => {
    const scratch = (kind: Kind): Slot => ({ role: { is: 'scratch', of: kind }, kind, offset: 0 })
    return new Map(drafts.map(([ref, { slot }]) => [ref, typeof slot === 'string' ? scratch(slot) : slot]))
  })

function placed(
  mesh: Mesh,
  { name, phase, buffers: all, instrs }: SegmentDraft,
  slotsFor: (drafts: BufferDrafts, instrs: readonly Instr[]) => ReadonlyMap<Ref, Slot>,
): Segment {
  const used = new Set(instrs.flatMap(instr => [...traitsOf(instr).reads, ...traitsOf(instr).writes]))
  const drafts = [...all].filter(([ref]) => used.has(ref))
  const slots = slotsFor(drafts, instrs)
  const roles = rolesOf(drafts, slots)
  const at = new Map(roles.map((role, i) => [showRole(role.name), i]))
  const buffers: Record<Ref, Buffer> = {}
  for (const [ref, { tensor, layout, inside }] of drafts) {
    const { role, offset } = slots.get(ref)!
    const dims = localDims(mesh, tensor.dims, layout)
    const place = { role: at.get(showRole(role))!, offset, ...(inside && { inside }) }
    buffers[ref] = { dtype: tensor.dtype, dims, layout, ...place }
  }
  return { name, phase, roles, buffers, instrs }
}

/** Scratch of one kind is one frame; inside it buffers share bytes when they are not alive together. */
function slotsOf(drafts: BufferDrafts, instrs: readonly Instr[]): Map<Ref, Slot> {
  const slots = new Map<Ref, Slot>()
  const spans = lifetimes(instrs)
  const scratch = new Map<Kind, [Ref, BufferDraft][]>()
  for (const [ref, draft] of drafts) {
    const { slot } = draft
    if (typeof slot === 'string') scratch.set(slot, [...(scratch.get(slot) ?? []), [ref, draft]])
    else slots.set(ref, slot)
  }
  for (const [kind, own] of scratch) {
    const { offsets } = pack(own.map(([ref, { bytes }]) => ({ bytes, ...spans.get(ref)! })))
    for (const [i, [ref]] of own.entries())
      slots.set(ref, { role: { is: 'scratch', of: kind }, kind, offset: offsets[i] })
  }
  return slots
}

/** From the first write of a buffer to its last use. A collective holds all it touches until it is waited for. */
function lifetimes(instrs: readonly Instr[]): Map<Ref, { start: number; end: number }> {
  const spans = new Map<Ref, { start: number; end: number }>()
  const inFlight = new Map<Ref, readonly Ref[]>()
  for (const [at, instr] of instrs.entries()) {
    const { reads, writes, starts, finishes } = traitsOf(instr)
    if (starts) inFlight.set(writes[0], [...reads, ...writes])
    for (const ref of [...reads, ...writes, ...(finishes ? [finishes, ...(inFlight.get(finishes) ?? [])] : [])]) {
      const span = spans.get(ref)
      spans.set(ref, { start: span?.start ?? at, end: at + 1 })
    }
  }
  return spans
}

function rolesOf(drafts: BufferDrafts, slots: ReadonlyMap<Ref, Slot>): Role[] {
  const roles = new Map<string, Role>()
  for (const [ref, { bytes }] of drafts) {
    const { role, kind, offset, space } = slots.get(ref)!
    const key = showRole(role)
    const most = Math.max(roles.get(key)?.bytes ?? 0, offset + bytes)
    roles.set(key, { name: role, kind, bytes: most, ...(space && { space }) })
  }
  return [...roles.values()]
}

/** Bytes of an arena in each space: what fits into so many need not be packed any closer. */
export type Arenas = Readonly<Record<Space, number>>

export const noArenas: Arenas = { device: 0, host: 0, disk: 0 }
export const anyArenas: Arenas = { device: Infinity, host: Infinity, disk: Infinity }

export function placeFrames(draft: StreamDraft, enough: Arenas = noArenas): Stream {
  const { frames: drafts, resident, steps: uses } = draft
  const spans = usesOf(uses, drafts.length)
  const offsets = new Array<number>(drafts.length)
  const used = new Set(drafts.map(spaceOf))
  const arenas = spaces.map(space => (used.has(space) ? placeIn(space, draft, { spans, offsets, enough }) : 0))
  const frames = drafts.map((frame, i): Frame => ({ ...frame, offset: offsets[i] }))
  const mortal = [...drafts.keys()].filter(frame => !resident.has(frame))
  const steps = withMemory(uses, mortal, spans)
  const [device, ...rooms] = spaces.map((space, i) => ({
    arena: arenas[i],
    peak: used.has(space) ? peakOf(frames, resident, steps, space) : noBytes(),
  }))
  const away = elsewheres.flatMap((space, i) => (rooms[i].arena > 0 ? [[space, rooms[i]] as const] : []))
  const elsewhere = away.length > 0 && { elsewhere: Object.fromEntries(away) }
  return { frames, resident: [...resident], steps, ...device, ...elsewhere }
}

/** What a frame takes in its space. */
const roomFor = (space: Space, bytes: number): number => (space === 'disk' ? roundUp(bytes, diskPage) : align(bytes))

interface Placing {
  readonly spans: Spans
  /** Of each frame: found here. */
  readonly offsets: number[]
  readonly enough: Arenas
}

/** What never dies lies at the bottom of its space; the rest is packed above it. Gives the bytes of the arena. */
function placeIn(space: Space, { frames, resident }: StreamDraft, { spans, offsets, enough }: Placing): number {
  let floor = 0
  for (const frame of resident) {
    if (spaceOf(frames[frame]) !== space) continue
    offsets[frame] = floor
    floor += roomFor(space, frames[frame].bytes)
  }
  const mortal = [...frames.keys()].filter(frame => !resident.has(frame) && spaceOf(frames[frame]) === space)
  const packed = pack(
    mortal.map(frame => ({
      ...{ start: spans.start[frame], end: spans.end[frame] },
      bytes: space === 'disk' ? roomFor(space, frames[frame].bytes) : frames[frame].bytes,
    })),
    enough[space] - floor,
  )
  for (const [i, frame] of mortal.entries()) offsets[frame] = floor + packed.offsets[i]
  return floor + align(packed.bytes)
}

/** The first step that touches each frame, and the one after the last. */
interface Spans {
  readonly start: Int32Array
  readonly end: Int32Array
}

/** A wait touches what its send, its receive or the call that it finishes does. */
function usesOf(steps: readonly Use[], frames: number): Spans {
  const spans = { start: new Int32Array(frames).fill(-1), end: new Int32Array(frames) }
  const started = new Map<string, readonly number[]>()
  for (const [at, step] of steps.entries()) {
    const touched = step.kind === 'call' ? step.bind : step.kind === 'wait' ? started.get(step.tag)! : [step.frame]
    if (step.kind !== 'wait' && step.tag !== undefined) started.set(step.tag, touched)
    for (const frame of touched) {
      if (spans.start[frame] < 0) spans.start[frame] = at
      spans.end[frame] = at + 1
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

function peakOf(
  frames: readonly Frame[],
  resident: ReadonlySet<number>,
  steps: readonly Step[],
  space: Space,
): Record<Kind, number> {
  const live = noBytes()
  const isHere = (frame: number) => spaceOf(frames[frame]) === space
  for (const frame of resident) if (isHere(frame)) live[frames[frame].kind] += frames[frame].bytes
  const peak = { ...live }
  for (const step of steps) {
    if ((step.kind !== 'alloc' && step.kind !== 'free') || !isHere(step.frame)) continue
    const { kind, bytes } = frames[step.frame]
    if (step.kind === 'free') {
      live[kind] -= bytes
      continue
    }
    live[kind] += bytes
    peak[kind] = Math.max(peak[kind], live[kind])
  }
  return peak
}
