/**
 * What a rank does for each instruction, made ready for its place on the mesh. An action that must wait for other
 * ranks says so and is asked again.
 */
import {
  type Coordinates,
  draws,
  elementsOf,
  indexAlong,
  isOptimizer,
  type OpKind,
  type Rank,
} from '../../base/index.js'
import { type Cells, indexIn, membersOf, wholeInput } from '../../geometry/index.js'
import {
  type Call,
  type Collective,
  type Compute,
  type Instr,
  type InstrKind,
  type InstrOf,
  isCompute,
  isUpdate,
  type Ref,
} from '../../ir/index.js'
import { meaningOf } from '../text.js'
import { perform, type Shaped } from './collective.js'
import type { Moment } from './kernel.js'
import type { Memory } from './memory.js'
import type { Rendezvous } from './rendezvous.js'
import { isRounded, roundCells, roundToBf16By } from './rounding.js'
import { routedMove } from './routed.js'
import type { Seat } from './segment.js'
import type { World } from './world.js'

/** A rank at a segment. */
export interface Station {
  readonly world: World
  readonly rank: Rank
  readonly at: Coordinates
  readonly memory: Memory
  readonly seat: Seat
  /** Collectives that have started, by the first buffer they write. */
  readonly started: Map<Ref, StartedCollective>
  /** The instruction that is being done, in words, for whoever asks later. */
  here(): () => string
}

export interface StartedCollective {
  readonly collective: Rendezvous
  text(): string
  finish(): void
}

/** False: it must wait. */
export type Action = (moment: Moment, call: Call) => boolean

/** Brings what has been stored to the dtype of its buffer, where a machine has no more digits than that. */
function rounding({ seat, memory: { cells } }: Station, refs: readonly Ref[]): (stored?: readonly Cells[]) => void {
  const { buffers } = seat.prepared.segment
  const narrow = refs.map(ref => isRounded(cells, buffers[ref].dtype))
  if (!narrow.includes(true)) return () => {}
  return (stored = refs.map((ref, i) => (narrow[i] ? seat.view(ref, cells) : none))) => {
    for (const [i, values] of stored.entries()) if (narrow[i]) roundCells(values, buffers[refs[i]].dtype)
  }
}

const none = new Float32Array(0)

type Rule<I extends Instr> = (instr: I, station: Station) => Action

const compute: Rule<Compute> = (instr, station) => {
  const { seat, memory } = station
  const kernel = seat.prepared.kernel(instr)
  const [ins, outs] = [instr.ins.map(ref => seat.place(ref)), instr.outs.map(ref => seat.place(ref))]
  const byChance = isOptimizer(instr) && instr.stochastic
  const round = rounding(station, byChance ? instr.outs.slice(1) : instr.outs)
  const dither = byChance ? dithering(station, instr.outs[0]) : undefined
  const updates = isUpdate(instr)
  return (moment, { param }) => {
    if (updates && param !== undefined) capture(station, instr.ins[0], param)
    kernel(memory.cells, ins, outs, param === undefined ? moment : { ...moment, param })
    dither?.(moment, param ?? '')
    round()
    return true
  }
}

/** A parameter is rounded by draws that depend on its name, the step and the index of an element in the whole: on no plan. */
function dithering({ world, at, seat, memory: { cells } }: Station, ref: Ref) {
  const buffer = seat.prepared.segment.buffers[ref]
  if (!isRounded(cells, buffer.dtype)) return undefined
  if (buffer.dtype !== 'bf16') throw new Error(`${buffer.dtype} does not support stochastic rounding`)
  const indexOf = indexIn(world.program.mesh, buffer, at)
  return ({ seed, step }: Moment, name: string): void => {
    const draw = draws({ seed, name, step })
    const values = seat.view(ref, cells)
    for (let i = 0; i < values.length; i++) values[i] = roundToBf16By(draw(indexOf(i)), values[i])
  }
}

function capture({ world, seat, memory, rank }: Station, ref: Ref, param: string): void {
  const captured = world.gradients.get(param) ?? { buffer: seat.prepared.segment.buffers[ref], parts: new Map() }
  captured.parts.set(rank, seat.read(ref, memory.cells))
  world.gradients.set(param, captured)
}

/** Starts: operands are looked at when they are needed, results are NaN until the wait. */
const collective: Rule<Shaped> = (instr, station) => {
  const { members } = membersOf(station.world.program.mesh, station.rank, instr.group)
  const moves = station.seat.prepared.moves(instr, members.length)
  const index = members.indexOf(station.rank)
  return meeting(instr, station, (i, parts, result) => perform(moves[i], parts, index, result))
}

/** Rows and tokens lie where the routes say, which are read when all are there. */
const routed: Rule<InstrOf<'all-dispatch' | 'all-combine'>> = (instr, station) => {
  const { seat, memory } = station
  const lay = routedMove(station.world.program.mesh, instr, ref => seat.prepared.segment.buffers[ref])
  const [, to, from] = instr.ins
  return meeting(instr, station, (_, parts, result) =>
    lay({ to: seat.view(to, memory.cells), from: seat.view(from, memory.cells) }, parts, result),
  )
}

/** Lays what all members handed in as pair i where the result of this rank is. */
type Lay = (pair: number, parts: readonly Cells[], result: Cells) => void

function meeting(instr: Collective, station: Station, lay: Lay): Action {
  const { world, rank, memory, seat, started, here } = station
  const { cells } = memory
  const { members, key } = membersOf(world.program.mesh, rank, instr.group)
  const round = rounding(station, instr.outs)
  const meaning = meaningOf(instr, ref => seat.prepared.shape(ref), members)
  const name = instr.outs[0]
  return () => {
    if (started.has(name)) throw new Error(`${name} already awaits a collective`)
    const text = here()
    const results = instr.outs.map(ref => seat.view(ref, cells))
    // In place, the poison of a result would eat its operand.
    const operands = instr.ins.slice(0, instr.outs.length).map(ref => {
      const operand = seat.view(ref, cells)
      return results.some(result => overlap(operand, result)) ? operand.slice() : operand
    })
    const collective = world.collectives.join(key, { rank, members, meaning, text, operands })
    for (const result of results) result.fill(NaN)
    const finish = () => {
      for (const [i, result] of results.entries()) lay(i, collective.operands(i), result)
      round(results)
    }
    started.set(name, { collective, text, finish })
    return true
  }
}

/** Views of one memory. */
const overlap = (a: Cells, b: Cells): boolean =>
  a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength

const rules: { readonly [K in Exclude<InstrKind, OpKind>]: Rule<InstrOf<K>> } = {
  'all-reduce': collective,
  'all-gather': collective,
  'reduce-scatter': collective,
  'all-to-all': collective,
  shift: collective,
  move: collective,
  'all-dispatch': routed,
  'all-combine': routed,
  wait:
    ({ on }, { started }) =>
    () => {
      const open = started.get(on)
      if (!open) throw new Error(`no collective that writes ${on} has started`)
      if (!open.collective.ready) return false
      open.finish()
      return started.delete(on)
    },
  slice(instr, { world, at, seat, memory: { cells } }) {
    const move = seat.prepared.slice(instr)
    const part = indexAlong(world.program.mesh, instr.axes, at)
    return () => {
      perform(move, [seat.view(instr.in, cells)], part, seat.view(instr.out, cells))
      return true
    }
  },
  load: (instr, station) => (instr.input === 'lr' ? loadRate(instr.out, station) : loadPart(instr, station)),
}

function loadRate(out: Ref, { world, seat, memory: { cells } }: Station): Action {
  const to = seat.place(out)
  return () => {
    cells[to.at] = world.data.lr
    return true
  }
}

function loadPart(instr: InstrOf<'load'>, station: Station): Action {
  const { world, seat, memory } = station
  const { cells } = memory
  const [to, { dims }] = [seat.place(instr.out), seat.prepared.shape(instr.out)]
  const whole = wholeInput(world.program, instr.input)
  const indexed = seat.prepared.load(instr, whole)
  const elements = elementsOf(dims)
  const round = rounding(station, [instr.out])
  return () => {
    const values = world.data.inputs(instr.input)
    const indexOf = indexed(to.parts)
    for (let i = 0; i < elements; i++) cells[to.at + i] = values[indexOf(i)]
    round()
    return true
  }
}

export function actionOf(instr: Instr, station: Station): Action {
  if (isCompute(instr)) return compute(instr, station)
  return (rules[instr.kind] as Rule<Instr>)(instr, station) // the table is total, so the rule fits its kind
}
