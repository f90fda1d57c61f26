/**
 * Fused weights (fused QKV, fused gate and up): parameters that are multiplied by the same operand share one matrix, so that one GEMM
 * computes all of them, one the gradient of the operand and one their own. This file finds them, per kind of block: all its segments
 * use them together, and their gradients and optimizer state are unsharded and treated alike. The matrix is stored in the buffer of the
 * first; the program, its verifier and checkpoints know the single parameters only.
 */
import { type Dim, isOptimizer, opFacts, optimizerKinds, sameDims, sameLayout, stateEntries } from '../base/index.js'
import {
  type Call,
  type Instr,
  type InstrOf,
  isCompute,
  type Param,
  type ParamFrames,
  type Program,
  type Ref,
  type RoleName,
  type Segment,
  type Stream,
} from '../ir/index.js'
import { isBucket } from './buckets.js'
import { type FusedMatmuls, fusedMatmuls } from './fused-matmuls.js'

/** Buffers whose tensors share that of the first: [rows, widths of all]. */
export interface FusedBuffers {
  readonly frames: readonly number[]
  readonly rows: readonly Dim[]
  readonly widths: readonly (readonly Dim[])[]
}

export interface FusedParams {
  /** Kinds of blocks, with the names of their parameters that are fused. */
  readonly names: ReadonlySet<string>
  /** How a segment of a block uses fused parameters. */
  uses(segment: Segment): readonly FusedMatmuls[]
  /** Tensors of a bucket that are part of another one's buffer. */
  within(segment: Segment): ReadonlySet<Ref>
  /** Of a stream, by frame. */
  rows(pp: number): ReadonlyMap<number, FusedBuffers>
}

type Names = readonly string[]

/** `trained`: of the program whose parameters these are, where it is another. */
export function fusedParamsIn(program: Program, trained?: FusedParams): FusedParams {
  const found = new Set<string>()
  const uses = new Map<Segment, FusedMatmuls[]>()
  const within = new Map<Segment, ReadonlySet<Ref>>()
  const rows = program.streams.map(() => new Map<number, FusedBuffers>())
  // What the host updates goes there by itself.
  const isUpdatedHere = program.streams.every(({ frames }) => frames.every(({ space }) => space === undefined))
  for (const [kind, segments] of isUpdatedHere ? segmentsByKind(program) : [])
    for (const names of segments.flatMap(segment => (segment.phase === 'F' ? sharing(segment) : []))) {
      const key = [kind, ...names].join(' ')
      if (trained && !trained.names.has(key)) continue
      const used = segments.map(segment => [segment, fusedMatmuls(segment, names)] as const)
      const [, first] = used.find(([{ phase }]) => phase === 'F')!
      if (used.some(([, use]) => use === 'apart') || first === undefined || first === 'apart') continue
      const laid = program.streams.map((_, pp) => rowsOf(program, pp, { kind, names, ...first }))
      if (!program.streams.every((stream, pp) => laid[pp]?.every(group => isTreatedAlike(program, stream, group))))
        continue
      found.add(key)
      for (const [segment, use] of used)
        if (typeof use === 'object') uses.set(segment, [...(uses.get(segment) ?? []), use])
      for (const [pp, groups] of laid.entries())
        for (const row of groups!.flat()) {
          for (const frame of row.frames) rows[pp].set(frame, row)
        }
    }
  for (const [pp, { steps }] of program.streams.entries())
    for (const step of steps)
      if (step.kind === 'call' && isBucket(program.segments[step.segment]))
        within.set(program.segments[step.segment], absorbed(program.segments[step.segment], step, rows[pp]))
  return {
    names: found,
    uses: segment => uses.get(segment) ?? [],
    within: segment => within.get(segment) ?? new Set(),
    rows: pp => rows[pp],
  }
}

/** Whether a buffer is part of another one's. */
export const isWithin = (rows: ReadonlyMap<number, FusedBuffers>, frame: number): boolean =>
  rows.has(frame) && rows.get(frame)!.frames[0] !== frame

function absorbed({ buffers }: Segment, { bind }: Call, rows: ReadonlyMap<number, FusedBuffers>): ReadonlySet<Ref> {
  return new Set(Object.keys(buffers).filter(ref => isWithin(rows, bind[buffers[ref].role])))
}

/** Forward and backward of each kind of block. */
function segmentsByKind({ blocks, segments, streams }: Program): ReadonlyMap<string, readonly Segment[]> {
  const found = new Map<string, Set<Segment>>()
  for (const { steps } of streams)
    for (const step of steps) {
      if (step.kind !== 'call' || step.block < 0 || !passes.includes(segments[step.segment].phase)) continue
      const { kind } = blocks[step.block]
      found.set(kind, (found.get(kind) ?? new Set()).add(segments[step.segment]))
    }
  return new Map([...found].map(([kind, all]) => [kind, [...all]]))
}

const passes: readonly Segment['phase'][] = ['F', 'I', 'W', 'B']

/** Names of parameters that are multiplied by one operand, in one precision, in the order of their products. */
function sharing({ instrs, buffers, roles }: Segment): Names[] {
  const found = new Map<string, string[]>()
  for (const instr of instrs) {
    if (instr.kind !== 'contract') continue
    const [x, weight] = instr.ins
    const { name } = roles[buffers[weight].role]
    if (name.is !== 'param' || name.of === undefined) continue
    const key = JSON.stringify([x, buffers[weight].dtype, buffers[instr.outs[0]].dtype])
    found.set(key, [...(found.get(key) ?? []), name.of])
  }
  return [...found.values()].filter(names => names.length > 1 && new Set(names).size === names.length)
}

interface Wanted extends Pick<FusedMatmuls, 'rows' | 'widths'> {
  readonly kind: string
  readonly names: Names
}

/**
 * For each block of the kind its rows: of parameters, of gradients, of every state. Undefined where one is sharded, or is read
 * from the buffer that a gather of ZeRO 3 fills, where each parameter is a tensor of its own.
 */
function rowsOf(program: Program, pp: number, { kind, names, rows, widths }: Wanted): FusedBuffers[][] | undefined {
  const found = new Map<number, FusedBuffers[]>()
  for (const step of program.streams[pp].steps) {
    if (step.kind !== 'call' || program.blocks[step.block]?.kind !== kind || found.has(step.block)) continue
    const bound = namedFrames(program, step, names)
    if (bound.includes(undefined)) continue // this pass does not read all of them
    const params = bound.map(frame => paramIn(program, pp, frame))
    if (!params.every(isWhole) || params.some(({ dtype }) => dtype !== params[0].dtype)) return undefined
    const columns = params.map(({ frames }) => framesOf(frames[pp]))
    if (columns.some(column => column.length !== columns[0].length)) return undefined
    found.set(
      step.block,
      columns[0].map((_, i) => ({ frames: columns.map(column => column[i]), rows, widths })),
    )
  }
  return [...found.values()]
}

const framesOf = ({ param, grad, states }: ParamFrames): number[] => [
  param,
  ...(grad === undefined ? [] : [grad]),
  ...stateEntries(states).map(([, frame]) => frame),
]

/** Unsharded, its optimizer state too: it can be fused with others. */
const isWhole = (param: Param | undefined): param is Param =>
  param !== undefined &&
  param.kept.flat === undefined &&
  param.state.flat === undefined &&
  param.keptInside === undefined &&
  Object.values(param.apart ?? {}).every(own => sameDims(own.dims, param.dims) && sameLayout(own.layout, param.state))

function namedFrames({ segments }: Program, { segment, bind }: Call, names: Names): (number | undefined)[] {
  const { roles } = segments[segment]
  const isOf = (name: RoleName, of: string) => name.is === 'param' && name.of === of
  return names.map(of => bind[roles.findIndex(({ name }) => isOf(name, of))])
}

const paramIn = ({ params }: Program, pp: number, frame: number | undefined): Param | undefined =>
  frame === undefined ? undefined : params.find(({ frames }) => frames[pp]?.param === frame)

/** Outside its block everything that is done to one of them is done to all, to numbers wherever they lie or to each in its own columns. */
function isTreatedAlike(program: Program, { steps }: Stream, rows: readonly FusedBuffers[]): boolean {
  const done = new Map<number, string[]>()
  for (const step of steps) {
    if (step.kind === 'send' || step.kind === 'recv') {
      if (rows.some(({ frames }) => frames.includes(step.frame))) return false
      continue
    }
    if (step.kind !== 'call') continue
    const segment = program.segments[step.segment]
    const bound = rows.filter(({ frames }) => frames.some(frame => step.bind.includes(frame)))
    if (bound.length === 0 || passes.includes(segment.phase)) continue
    if (isBucket(segment)) {
      if (!segment.instrs.every(isSum) || !bound.every(({ frames }) => frames.every(one => step.bind.includes(one))))
        return false
      continue
    }
    if (step.param === undefined || !(isByElement(segment) || isDoneSeparately(segment))) return false
    const places = new Set(
      bound.flatMap(({ frames }) => frames.flatMap((one, i) => (step.bind.includes(one) ? [i] : []))),
    )
    if (places.size !== 1) return false
    const [place] = places
    done.set(place, [...(done.get(place) ?? []), isDoneSeparately(segment) ? 'apart' : textOf(segment)])
  }
  const texts = rows[0].frames.map((_, i) => JSON.stringify(done.get(i) ?? []))
  return texts.every(text => text === texts[0])
}

const isSum = (instr: Instr): boolean => instr.kind === 'all-reduce' && instr.combine === 'sum'
const byElement: readonly Instr['kind'][] = ['zero', 'unscale', 'sumSquares', ...optimizerKinds, 'wait']
const isByElement = ({ instrs, roles }: Segment): boolean =>
  !roles.some(isOfMatrices) &&
  instrs.every(instr => (byElement.includes(instr.kind) && !drawsByIndex(instr)) || isSum(instr) || isRounding(instr))

/** What is stored separately even if its parameter is fused. */
const isOfMatrices = ({ name }: Segment['roles'][number]): boolean => name.is === 'dealt' || name.is === 'direction'

/** An update that must know whose elements it has, and may have many parameters at once: each as it is by itself. */
export const isDoneSeparately = (segment: Segment): boolean =>
  segment.phase === 'update' && !isByElement(segment) && segment.instrs.every(isForeach)

/** What may be done to many parameters at once: every line works on lists as on tensors, and nobody is waited for. */
export const isForeach = (instr: Instr): boolean => isCompute(instr) && opFacts[instr.kind].lists === true
/** What is drawn for an element depends on whose it is. */
const drawsByIndex = (instr: Instr): boolean => isOptimizer(instr) && instr.stochastic === true
const isRounding = (instr: Instr): instr is InstrOf<'scale'> => instr.kind === 'scale' && instr.by === 1

/** A segment but for the sizes of its tensors. */
const textOf = ({ phase, roles, buffers, instrs }: Segment): string =>
  JSON.stringify([
    ...[phase, instrs, roles.map(({ name, kind }) => [name, kind])],
    Object.entries(buffers).map(([ref, { dtype, role, offset }]) => [ref, dtype, role, offset]),
  ])
