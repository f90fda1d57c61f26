/**
 * What each instruction does to values: most compute a new one from what they are given, sums add, collectives
 * and slices leave the value what it was. A segment is translated once and replayed for every call.
 */
import {
  type Dim,
  isOptimizer,
  opFacts,
  type ScalarName,
  type StateName,
  scalarNames,
  scalarsMoved,
  scalarsOf,
  statesOf,
  summedDims,
} from '../../base/index.js'
import { type Collective, type Compute, type Instr, isCollective, isCompute, isRouted, pairsOf } from '../instr.js'
import type { Program, Segment } from '../program.js'
import { traitsOf } from '../traits.js'
import type { Slicing } from './buffers.js'
import { stagesOf } from './groups.js'
import { finish, hashText, mixA, mixB, nothing, type Value } from './value.js'

/** Operands are slots: indices into the segment's buffers. */
export type Act = {
  readonly instr: number
  readonly salt: Value
} /** A new value. `local`: it also depends on block and microbatch (a dropout mask). `loss`: it is one. */ & (
  | {
      readonly op: 'make'
      readonly ins: readonly number[]
      readonly outs: readonly number[]
      readonly local: boolean
      readonly loss: boolean
      /** The results are shares of values, of this turn of those that are needed. */
      readonly share?: { readonly turn: number; readonly needed: readonly number[] }
    }
  /** Of a stack: the same of everything that lies there. */
  | { readonly op: 'each'; readonly in: number; readonly outs: readonly number[] }
  | { readonly op: 'stack'; readonly ins: readonly number[]; readonly out: number }
  | { readonly op: 'unstack'; readonly in: number; readonly outs: readonly number[] }
  /** `beside`: addends are laid side by side, which stand for their sum. */
  | { readonly op: 'add'; readonly ins: readonly number[]; readonly out: number; readonly beside?: true }
  | { readonly op: 'accumulate'; readonly in: number; readonly out: number }
  | { readonly op: 'deduct'; readonly in: number; readonly out: number }
  /** A gradient becomes an addend of a mean, where it lies. */
  | { readonly op: 'blend'; readonly in: number; readonly out: number }
  | { readonly op: 'zero'; readonly outs: readonly number[] }
  | { readonly op: 'keep'; readonly in: number; readonly out: number }
  /** The value in fewer bits. */
  | { readonly op: 'round'; readonly in: number; readonly out: number }
  | { readonly op: 'load'; readonly out: number; readonly scalar: boolean }
  /** `first`: only the stream at pipeline coordinate 0 counts. */
  | { readonly op: 'square'; readonly in: number; readonly out: number; readonly first: boolean }
  /** What is updated comes first among the results, then these states. */
  | {
      readonly op: 'update'
      readonly ins: readonly number[]
      readonly outs: readonly number[]
      readonly states: readonly StateName[]
      /** It has a gradient, which the norm counts. */
      readonly trains: boolean
      /** Scalars of the program among its operands. */
      readonly reads: readonly { readonly scalar: ScalarName; readonly in: number }[]
      readonly limit: number | undefined
    }
  /** Scalars of the program move, by what the norm, its operand, is. */
  | {
      readonly op: 'move'
      readonly in: number
      readonly outs: readonly number[]
      /** Which they must be. */
      readonly scalars: readonly ScalarName[]
      readonly limit: number | undefined
    }
  /** A state follows a value, in a step that is taken. */
  | {
      readonly op: 'average'
      readonly in: number
      readonly norm: number
      readonly taken: number
      readonly out: number
      readonly limit: number | undefined
    }
  /** A state is another in the next step, if this one is taken. */
  | {
      readonly op: 'become'
      readonly in: number
      readonly norm: number
      readonly out: number
      readonly limit: number | undefined
    }
  /** The norm is held against the limit of the step. */
  | { readonly op: 'weigh'; readonly norm: number; readonly limit: number; readonly out: number }
  /** Something is divided by the scale, where it lies. */
  | { readonly op: 'unscale'; readonly by: number; readonly out: number }
  | {
      readonly op: 'arrive'
      readonly in: number
      readonly out: number
      readonly group: string
      readonly stages: readonly number[]
      /** The greatest is taken of addends, or candidates are added up. */
      readonly strange: boolean
    }
  | { readonly op: 'leave'; readonly out: number }
  /** Rows are made of tokens, worked on, or become tokens again. */
  | {
      readonly op: 'rows'
      readonly ins: readonly number[]
      readonly outs: readonly number[]
      readonly how: 'become' | 'work' | 'leave'
    }
)

interface Slots {
  readonly slotOf: ReadonlyMap<string, number>
  /** Views that are read as slices of the whole. */
  readonly slicings: readonly Slicing[]
}

export function actsOf(program: Program, segment: Segment, { slotOf, slicings }: Slots): Act[] {
  const slot = (ref: string) => slotOf.get(ref) ?? -1
  const sliced = (at: number): Act[] =>
    slicings
      .filter(slicing => slicing.at === at)
      .map(({ view, whole }) => ({ instr: at, salt: nothing, op: 'keep', in: slot(whole), out: slot(view) }))
  const crossing = new Map<string, Collective>()
  const done = (instr: Instr, at: number): Act[] => {
    const base = { instr: at, salt: hashText(meaningOf(segment, instr)) }
    if (isCollective(instr)) {
      if (isRouted(instr)) {
        const [ins, outs] = [instr.ins.map(slot), instr.outs.map(slot)]
        return [{ ...base, op: 'make', ins, outs, local: false, loss: false }]
      }
      const stages = stagesOf(program, instr.group)
      const pairs = pairsOf(instr).map(pair => ({ ...base, in: slot(pair.in), out: slot(pair.out) }))
      if (!stages) return pairs.map(pair => ({ ...pair, op: 'keep' }))
      crossing.set(instr.outs[0], instr)
      const group = `${instr.group.axes.filter(axis => axis !== 'pp').join()}@${stages.join()}`
      const isGreatest = instr.kind === 'all-reduce' && instr.combine === 'max'
      const strange = isGreatest !== isCandidate(program, segment, instr.outs[0])
      return pairs.map(pair => ({ ...pair, op: 'arrive', group, stages, strange }))
    }
    if (instr.kind === 'wait')
      return (crossing.get(instr.on)?.outs ?? []).map(out => ({ ...base, op: 'leave', out: slot(out) }))
    if (instr.kind === 'slice') return [{ ...base, op: 'keep', in: slot(instr.in), out: slot(instr.out) }]
    if (instr.kind === 'load') {
      const scalar = program.inputs.find(({ name }) => name === instr.input)?.dims.length === 0
      return [{ ...base, op: 'load', out: slot(instr.out), scalar }]
    }
    return computes(segment, instr, slot).map(act => ({ ...base, ...act }))
  }
  return segment.instrs.flatMap((instr, at) => [...sliced(at), ...done(instr, at), ...rows(segment, instr, at, slot)])
}

/** Whether a buffer lies where a parameter that follows the greatest of a step has its candidates. */
function isCandidate({ streams, params, segments }: Program, segment: Segment, ref: string): boolean {
  const { role } = segment.buffers[ref]
  return streams.some(({ steps }, pp) =>
    steps.some(
      step =>
        step.kind === 'call' &&
        segments[step.segment] === segment &&
        params.some(
          ({ frames: { [pp]: held } }) => held?.states.history !== undefined && held.grad === step.bind[role],
        ),
    ),
  )
}

/** What an instruction does to rows, if it is given any. */
function rows({ buffers }: Segment, instr: Instr, at: number, slot: (ref: string) => number): Act[] {
  if (!isCompute(instr) && !isRouted(instr)) return []
  const { reads, writes } = traitsOf(instr)
  const hasRows = (ref: string) => buffers[ref].dims.some(({ name }) => name === 'row')
  if (instr.kind === 'rowsOf' || ![...reads, ...writes].some(hasRows)) return []
  const kind = isRouted(instr) ? opOfRouted[instr.kind] : instr.kind
  const how = kind === 'dispatch' ? 'become' : kind === 'combine' ? 'leave' : 'work'
  return [{ op: 'rows', instr: at, salt: nothing, ins: reads.map(slot), outs: writes.map(slot), how }]
}

type Bare<T> = T extends Act ? Omit<T, 'instr' | 'salt'> : never

function computes(segment: Segment, instr: Compute, slot: (ref: string) => number): Bare<Act>[] {
  if (instr.kind !== 'attentionMerge') return [compute(segment, instr, slot)]
  const [out, lse, more, moreLse] = instr.ins.map(slot)
  return [
    { op: 'add', ins: [out, more], out: slot(instr.outs[0]) },
    { op: 'add', ins: [lse, moreLse], out: slot(instr.outs[1]) },
  ]
}

function compute({ buffers, roles }: Segment, instr: Compute, slot: (ref: string) => number): Bare<Act> {
  const [ins, outs] = [instr.ins.map(slot), instr.outs.map(slot)]
  if (isOptimizer(instr)) {
    const scalars = scalarsOf(instr)
    const reads = scalarNames.flatMap(scalar => {
      const at = scalars.indexOf(scalar)
      return at < 0 ? [] : [{ scalar, in: ins[1 + at] }]
    })
    return { op: 'update', ins, outs, states: statesOf(instr), trains: true, reads, limit: instr.limit }
  }
  switch (instr.kind) {
    case 'add':
      return { op: 'add', ins, out: outs[0] }
    case 'beside':
      return { op: 'add', ins, out: outs[0], beside: true }
    case 'scale': {
      if (instr.by !== 1) return { op: 'make', ins, outs, local: false, loss: false }
      const [from, to] = [buffers[instr.ins[0]].dtype, buffers[instr.outs[0]].dtype]
      const travels = roles[buffers[instr.outs[0]].role].name.is === 'wire'
      const narrows = to !== from && to !== 'f32' && !travels // what travels is the value, in fewer digits
      return { op: narrows ? 'round' : 'keep', in: ins[0], out: outs[0] } // by 1 it is a copy
    }
    case 'stack':
      return { op: 'stack', ins, out: outs[0] }
    case 'unstack':
      return { op: 'unstack', in: ins[0], outs }
    case 'newtonSchulz':
      return instr.lines ? { op: 'each', in: ins[0], outs } : { op: 'make', ins, outs, local: false, loss: false }
    case 'accumulate':
      return { op: 'accumulate', in: ins[0], out: outs[0] }
    case 'track':
      return { op: 'update', ins, outs, states: ['history'], trains: false, reads: [], limit: instr.limit }
    case 'deduct':
      return { op: 'deduct', in: ins[0], out: outs[0] }
    case 'blend':
      return { op: 'blend', in: ins[0], out: outs[0] }
    case 'become':
      return { op: 'become', in: ins[0], norm: ins[1], out: outs[0], limit: instr.limit }
    case 'balance':
      return { op: 'update', ins, outs, states: [], trains: false, reads: [], limit: instr.limit }
    case 'take':
      return { op: 'move', in: ins[0], outs, scalars: scalarsMoved(instr.scaler), limit: instr.limit }
    case 'average':
      return { op: 'average', in: ins[0], norm: ins[1], taken: ins[2], out: outs[0], limit: instr.limit }
    case 'weigh':
      return { op: 'weigh', norm: ins[0], limit: ins[1], out: outs[0] }
    case 'unscale':
      return { op: 'unscale', by: ins[0], out: outs[0] }
    case 'zero':
      return { op: 'zero', outs }
    case 'sumSquares':
      return { op: 'square', in: ins[0], out: outs[0], first: instr.once.includes('pp') }
    default: {
      const local = 'dropout' in instr && instr.dropout !== undefined
      const { shares } = buffers[instr.outs[0]].layout
      const share = shares && { share: { turn: shares.held[0], needed: shares.needed } }
      return { op: 'make', ins, outs, local, loss: opFacts[instr.kind].loss === true, ...share }
    }
  }
}

/** What differs between plans and changes no value: who counts, who meets, whether somebody looks, how a line is cut. */
const apart = ['kind', 'ins', 'outs', 'once', 'group', 'guarded', 'lines', 'ranks']
const ofLines = ['parts', 'blocks']
const inLines: readonly Instr['kind'][] = ['pack', 'unpack', 'greatest', 'scatter']
/** What has addends side by side is the sum of what has them on several ranks. */
const ofAddends: readonly Instr['kind'][] = ['scatter', 'become', 'unpack', 'blend', 'unscale']
/** Rows that move to other ranks are the rows that one rank would have. */
const opOfRouted = { 'all-dispatch': 'dispatch', 'all-combine': 'combine' } as const

/** Kind, attributes and the dims of the results: what tells two instructions on the same operands apart. */
function meaningOf(segment: Segment, instr: Instr): string {
  const routed = isRouted(instr) ? opOfRouted[instr.kind] : undefined
  if (!isCompute(instr) && !routed) return instr.kind === 'load' ? `load ${instr.input}` : instr.kind
  const cuts = 'signs' in instr && instr.signs ? [...ofLines, 'run'] : ofLines // signs of a part share a unit
  const named = Object.entries(instr).filter(
    ([key]) => !apart.includes(key) && !(cuts.includes(key) && inLines.includes(instr.kind)),
  )
  const attributes = named.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => `${key}=${JSON.stringify(value)}`)
  const ofStack = instr.kind === 'newtonSchulz' ? instr.lines?.dims : undefined
  const counted = (dims: readonly Dim[]) => (ofAddends.includes(instr.kind) ? summedDims(dims) : dims)
  const dims = traitsOf(instr).writes.map((ref, i) =>
    counted(i === 0 && ofStack ? ofStack : segment.buffers[ref].dims)
      .map(dim => dim.name)
      .sort()
      .join(),
  )
  return [routed ?? instr.kind, ...attributes, ...dims].join(' ')
}

/** The value a `make` gives as its result number `index`. */
export const resultA = (h: number, index: number): number => finish(mixA(h, index))
export const resultB = (h: number, index: number): number => finish(mixB(h, index))
