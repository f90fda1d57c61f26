/**
 * *land*: codes that a flight gathers are unpacked as it is waited for, straight from where the other ranks have them, so that nobody
 * writes them down and reads them again. The program stays as it is: a flight that lands so ends with the call that unpacks it,
 * not at its wait, and between the two there is nothing but memory that comes and goes.
 *
 * Each rank copies its own codes to their place among all before it starts. That frame stays until they are unpacked, while what was
 * packed is free at the wait. Of a rank that is late the others bring the codes there, as they would have done without this, and go on.
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
}

/** The calls of a stream that start such a flight, by step: the step that unpacks it, and what each of its collectives brings. */
export interface Landing {
  readonly at: number
  readonly call: Call
  readonly segment: Segment
  readonly tensors: ReadonlyMap<Collective, readonly Landed[]>
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
    if (isApart && tensors.length > 0) landings.set(start, { at, call, segment, tensors: new Map(tensors) })
  }
  return landings
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
}

export const landingTensors = (
  landing: Landing | undefined,
  instr: Collective,
  { frames }: Stream,
  arenas: RankPlace['arenas'],
  elements: (segment: Segment, ref: Ref) => number,
): readonly LandingTensor[] | undefined =>
  landing?.tensors.get(instr)?.map(({ codes, units, unpack }) => {
    const { call, segment } = landing
    const [out] = unpack.outs
    const { role, offset, dtype } = segment.buffers[out]
    const frame = frames[call.bind[role]]
    const pair = (i: number) => ({ in: instr.ins[i], out: instr.outs[i] })
    return {
      ...{ unpack, codes: pair(codes), units: pair(units), run: unpack.run, n: elements(segment, out) },
      full: arenas[spaceOf(frame)] + frame.offset + offset + markOf(dtype),
    }
  })

/** A rank's own codes go to their place among all, where the others find them. */
export function layOwn(tensors: readonly LandingTensor[], { me }: RankCollective, s: Site): void {
  for (const { codes, units } of tensors)
    for (const [pair, width] of [
      [codes, 1],
      [units, 4],
    ] as const) {
      const bytes = size(s, pair.in) * width
      s.list.write('copyBytes', { out: s.at(pair.out) + me * bytes, x: s.at(pair.in), bytes })
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
