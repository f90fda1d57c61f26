/**
 * *land*: codes that a flight gathers are unpacked as it is waited for, straight from where the other ranks have them, so that nobody
 * writes them down and reads them again. The program stays as it is: a flight that lands so ends with the call that unpacks it,
 * not at its wait, and between the two there is nothing but memory that comes and goes.
 *
 * Each rank has its own codes at their place among all when it starts: there they are packed, at the last moment, or copied. That frame stays until
 * they are unpacked, while that of what was packed is free at the wait. Of a rank that is late the others bring the codes there, as they would have done without this, and go on.
 */
import { sizeOfAll } from '../../../base/index.js'
import { sizeIn } from '../../../geometry/index.js'
import {
  type Call,
  type Collective,
  type Instr,
  type InstrOf,
  isFlat,
  type Program,
  type Ref,
  type Segment,
  type Stream,
  spaceOf,
  traitsOf,
} from '../../../ir/index.js'
import { markOf } from '../kernels/dtypes.js'
import { wordOf, wordsAt } from './list.js'
import type { RankPlace } from './map.js'
import type { RankCollective } from './rendezvous.js'
import { type Site, size } from './site.js'

/** Which pair of the collective brings the codes of a tensor, which their units, and what unpacks them. */
interface Landed {
  readonly codes: number
  readonly units: number
  readonly unpack: InstrOf<'unpack'>
  /** What packs them, where nobody else sees what it packs. */
  readonly pack?: InstrOf<'pack'>
}

/** A call of the stream, at a step. */
interface Called {
  readonly at: number
  readonly call: Call
  readonly segment: Segment
}

/** The calls of a stream that start such a flight, by step: the step that unpacks it, and what each of its collectives brings. */
export interface Landing extends Called {
  readonly tensors: ReadonlyMap<Collective, readonly Landed[]>
  /** The call before, whose work is done as the flight starts. */
  readonly packs?: Called
}

export function landingsIn({ segments, mesh }: Program, { steps }: Stream): ReadonlyMap<number, Landing> {
  const landings = new Map<number, Landing>()
  for (const [start, moves] of steps.entries()) {
    if (moves.kind !== 'call' || moves.tag === undefined) continue
    const collectives = segments[moves.segment].instrs.filter(bringsCodes(segments[moves.segment]))
    if (collectives.length === 0) continue
    const waited = steps.findIndex((step, i) => i > start && step.kind === 'wait' && step.tag === moves.tag)
    const at = steps.findIndex((step, i) => i > waited && step.kind !== 'alloc' && step.kind !== 'free')
    const call = steps[at]
    if (call?.kind !== 'call' || call.tag !== undefined) continue
    const segment = segments[call.segment]
    if (segment.instrs.some(({ kind }) => kind !== 'unpack')) continue
    const behind = steps.findIndex((step, i) => i > at && step.kind !== 'free')
    const freed = new Set(steps.slice(at + 1, behind).map(step => ('frame' in step ? step.frame : -1)))
    const [from, to] = [placesIn(moves, segments[moves.segment]), placesIn(call, segment)]
    const tensors = collectives.flatMap(instr => {
      const found = landedOf(instr, segment, { from, to, ranks: sizeOfAll(mesh, instr.group.axes) })
      const lastsUntilThen = instr.outs.every(ref => freed.has(from(ref).frame))
      return found && lastsUntilThen ? [[instr, found] as const] : []
    })
    const isApart = new Set(call.bind).size === call.bind.length
    if (!isApart || tensors.length === 0) continue
    const landing: Landing = { at, call, segment, tensors: new Map(tensors) }
    landings.set(start, packedLate(landing, packsBefore(segments, steps, { start, waited, at }), from))
  }
  return landings
}

/** The call that packs, if it stands right before the flight and what it writes is read by that alone. */
function packsBefore(
  segments: Program['segments'],
  steps: Stream['steps'],
  { start, waited, at: end }: { readonly start: number; readonly waited: number; readonly at: number },
): Called | undefined {
  const at = steps.findLastIndex((step, i) => i < start && step.kind !== 'alloc')
  const call = steps[at]
  if (call?.kind !== 'call' || call.tag !== undefined) return undefined
  const segment = segments[call.segment]
  if (segment.instrs.some(instr => instr.kind !== 'pack' || instr.parts > 1 || instr.ins.length > 1)) return undefined
  const freed = new Set(steps.slice(waited, end).map(step => (step.kind === 'free' ? step.frame : -1)))
  const written = segment.instrs.flatMap(instr =>
    traitsOf(instr).writes.map(ref => call.bind[segment.buffers[ref].role]),
  )
  const isRead = steps
    .slice(start + 1, waited)
    .some(step => step.kind === 'call' && written.some(frame => step.bind.includes(frame)))
  return !isRead && written.every(frame => freed.has(frame)) ? { at, call, segment } : undefined
}

/** With what packs each tensor, if that is all that the call before does. */
function packedLate(landing: Landing, packs: Called | undefined, from: Lying): Landing {
  if (!packs) return landing
  const to = placesIn(packs.call, packs.segment)
  const nameOf = (refs: readonly Ref[], lying: Lying) =>
    refs.map(ref => `${lying(ref).frame} ${lying(ref).offset}`).join()
  const byPlace = new Map(
    packs.segment.instrs.flatMap(instr => (instr.kind === 'pack' ? [[nameOf(instr.outs, to), instr] as const] : [])),
  )
  const tensors = [...landing.tensors].map(([instr, landed]) => {
    const packed = landed.map(one => {
      const pack = byPlace.get(nameOf([instr.ins[one.codes], instr.ins[one.units]], from))
      return { ...one, ...(pack && { pack }) }
    })
    return [instr, packed] as const
  })
  const found = tensors.flatMap(([, landed]) => landed.flatMap(({ pack }) => pack ?? []))
  return new Set(found).size === packs.segment.instrs.length
    ? { ...landing, tensors: new Map(tensors), packs }
    : landing
}

const bringsCodes =
  ({ buffers }: Segment) =>
  (instr: Segment['instrs'][number]): instr is InstrOf<'all-gather'> =>
    instr.kind === 'all-gather' && isFlat(instr) && instr.ins.some(ref => buffers[ref].dtype === 'i8')

type Lying = (ref: Ref) => { readonly frame: number; readonly offset: number }

const placesIn =
  ({ bind }: Call, { buffers }: Segment): Lying =>
  ref => ({ frame: bind[buffers[ref].role], offset: buffers[ref].offset })

interface Between {
  readonly from: Lying
  readonly to: Lying
  readonly ranks: number
}

/** Of all that a collective brings, what unpacks it; undefined where something else is done with any of it. */
function landedOf(
  { outs }: Collective,
  { instrs, buffers }: Segment,
  { from, to, ranks }: Between,
): readonly Landed[] | undefined {
  const nameOf = ({ frame, offset }: ReturnType<Lying>) => `${frame} ${offset}`
  const brought = new Map(outs.map((ref, pair) => [nameOf(from(ref)), pair]))
  const landed = instrs.flatMap((unpack): Landed[] => {
    if (unpack.kind !== 'unpack' || unpack.signs || unpack.parts !== ranks || unpack.blocks?.some(ways => ways > 1))
      return []
    if (sizeIn(buffers[unpack.ins[0]].dims, 'addend') !== undefined) return []
    const [codes, units] = unpack.ins.map(ref => brought.get(nameOf(to(ref))))
    return codes === undefined || units === undefined ? [] : [{ codes, units, unpack }]
  })
  const pairs = new Set(landed.flatMap(({ codes, units }) => [codes, units]))
  return pairs.size === outs.length && 2 * landed.length === outs.length ? landed : undefined
}

/** A tensor that lands, as the rank that starts the flight sees it: buffers of the flight, and where its numbers go. */
export interface LandingTensor {
  readonly unpack: Instr
  readonly codes: { readonly in: Ref; readonly out: Ref }
  readonly units: { readonly in: Ref; readonly out: Ref }
  readonly run: number
  readonly n: number
  readonly full: number
  /** Where what it packs lies; absent: it is packed already. */
  readonly x?: number
}

export const landingTensors = (
  landing: Landing | undefined,
  instr: Collective,
  { frames }: Stream,
  arenas: RankPlace['arenas'],
  elements: (segment: Segment, ref: Ref) => number,
): readonly LandingTensor[] | undefined =>
  landing?.tensors.get(instr)?.map(({ codes, units, unpack, pack }) => {
    const place = ({ call, segment }: Called, ref: Ref) => {
      const { role, offset, dtype } = segment.buffers[ref]
      const frame = frames[call.bind[role]]
      return arenas[spaceOf(frame)] + frame.offset + offset + markOf(dtype)
    }
    const [out] = unpack.outs
    const pair = (i: number) => ({ in: instr.ins[i], out: instr.outs[i] })
    return {
      ...{ unpack, codes: pair(codes), units: pair(units), run: unpack.run, n: elements(landing.segment, out) },
      ...{ full: place(landing, out), ...(pack && landing.packs && { x: place(landing.packs, pack.ins[0]) }) },
    }
  })

/** A rank's own codes go to their place among all, where the others find them. */
export function layOwn(tensors: readonly LandingTensor[], { me }: RankCollective, s: Site): void {
  for (const { codes, units, run, x } of tensors) {
    const [part, bytes] = [size(s, codes.in), 4 * size(s, units.in)]
    const to = { codes: s.at(codes.out) + me * part, units: s.at(units.out) + me * bytes }
    if (x !== undefined) {
      s.list.write('pack', { ...to, x, n: part, part, parts: 1, run })
      continue
    }
    s.list.write('copyBytes', { out: to.codes, x: s.at(codes.in), bytes: part })
    s.list.write('copyBytes', { out: to.units, x: s.at(units.in), bytes })
  }
}

/** Where the parts of all ranks lie, and where each unpacks them: two pairs a tensor. */
export const landingPlaces = (tensors: readonly LandingTensor[], at: Site['at']): { x: number; out: number }[] =>
  tensors.flatMap(({ codes, units, full }) => [
    { x: full, out: at(codes.out) },
    { x: 0, out: at(units.out) },
  ])

export function land(tensors: readonly LandingTensor[], joined: RankCollective, s: Site): void {
  const members = joined.members.length
  const places = new Array<number>(2 * members).fill(0)
  const words = tensors.flatMap(({ codes, units, run, n }) => [
    ...[size(s, codes.in), n, ...places],
    ...[size(s, units.in), run, ...places],
  ])
  const start = s.list.write('waitCodes', {
    ...{ sync: 0, me: joined.me, members, collective: 0, count: tensors.length, tensors: words },
  })
  s.list.waitsFor(joined.members)
  const operands = { list: s.list, word: start + wordOf('waitCodes', 'count') + 3, stride: 2 + 2 * members }
  joined.name({ ...wordsAt(s.list, start), operands })
  joined.close()
}
