/**
 * What one instruction asks of a machine: a kernel for its device, a collective for its links, a copy from its host, or
 * nothing. Read off the dims of its buffers, so the formulas a reader knows are sums over the instructions of a program.
 */
import {
  type Dim,
  elementsOf,
  fromFacts,
  heldElements,
  isCodeType,
  type Mesh,
  matricesIn,
  multipliedIn,
  type OpWork,
  shapeOfMatrix,
} from '../base/index.js'
import type { CollectiveKind, Precision } from '../cluster/index.js'
import {
  applyRule,
  type Buffer,
  bytesPer,
  type Collective,
  type Compute,
  type Group,
  type Instr,
  type InstrOf,
  isRouted,
  type Program,
  type Ref,
  type Rules,
  type Segment,
  traitsOf,
} from '../ir/index.js'
import type { AttentionGeneration, Kernel } from './kernel.js'
import { flopsOf } from './price.js'
import { keysOfTurn } from './round.js'

export type Work =
  | Kernel
  /** `bytes` is the whole, as in a `Collective`; where the group is, the mesh says. */
  | { readonly kind: 'collective'; readonly how: CollectiveKind; readonly bytes: number; readonly group: Group }
  | { readonly kind: 'copy'; readonly bytes: number }
  /** The end of a collective, which was priced where it starts. */
  | { readonly kind: 'wait' }

/** What a segment does not say of its instructions. */
export interface Surroundings {
  readonly mesh: Mesh
  /** The precision of products, where it is not that of what is stored. */
  readonly multiply?: Precision | undefined
  /** The attention kernel; by default the newest. */
  readonly attention?: AttentionGeneration | undefined
}

interface Place extends Surroundings {
  readonly segment: Segment
}

type Rule = (instr: Compute | InstrOf<'slice'>, place: Place) => Work

/** Bound by memory: every operand is read once, every result written once. */
const pass: Rule = (instr, place) => {
  const { reads, writes } = traitsOf(instr)
  return { kind: 'memory', read: total(reads, place), written: total(writes, place), op: instr.kind }
}

/** One operand is looked into, not read through: no more of it is read than is written. */
const lookInto =
  (operand: number): Rule =>
  (instr, place) => {
    const { reads, writes } = traitsOf(instr)
    const written = total(writes, place)
    const others = reads.filter((_, i) => i !== operand)
    return { kind: 'memory', read: total(others, place) + written, written, op: instr.kind }
  }

const collective = (instr: Exclude<Collective, { kind: 'shift' | 'move' }>, place: Place): Work => ({
  kind: 'collective',
  how: isRouted(instr) ? 'all-to-all' : instr.kind,
  // What is there before a sum or a scatter, or after a gather; of all pairs together, which share one latency.
  bytes: total(
    instr.kind === 'all-gather'
      ? instr.outs
      : instr.kind === 'all-combine'
        ? instr.ins.slice(0, 1)
        : instr.kind === 'all-dispatch'
          ? instr.outs
          : instr.ins,
    place,
  ),
  group: instr.group,
})

const byWork: Readonly<Record<Extract<OpWork, string>, (instr: Compute, place: Place) => Work>> = {
  product: ({ ins: [a, b], outs: [out] }, place) => product(a, b, out, place),
  attention: ({ ins, ...how }, place) => attention('forward', ins, how as Mask, place),
  attentionBackward: ({ ins: [, ...ins], ...how }, place) => attention('backward', ins, how as Mask, place),
  experts: (instr, place) => ofExperts(instr, [instr.ins[0], instr.ins[2], instr.outs[0]], place),
  expertsBackward: (instr, place) => ofExperts(instr, [instr.ins[0], instr.outs[0], instr.ins[1]], place),
  orthogonal,
  columns,
  selection,
  pass,
}

/** What ops of attention have beside operands. */
type Mask = Pick<InstrOf<'attention'>, 'window' | 'dropout'>

const works: Rules<Work, Place> = {
  ...fromFacts(({ work }) => (typeof work === 'string' ? byWork[work] : lookInto(work.lookInto))),
  'all-reduce': collective,
  'all-gather': collective,
  'reduce-scatter': collective,
  'all-to-all': collective,
  // Every member sends to another as far away, all at the same time.
  shift: (instr, place) => ({ kind: 'collective', how: 'send', bytes: total(instr.ins, place), group: instr.group }),
  'all-dispatch': collective,
  'all-combine': collective,
  move: (instr, place) => ({ kind: 'copy', bytes: total(instr.ins, place) }),
  wait: () => ({ kind: 'wait' }),
  slice: lookInto(0),
  load: ({ out }, place) => ({ kind: 'copy', bytes: total([out], place) }),
}

export const workOf = (instr: Instr, segment: Segment, { mesh, multiply, attention }: Surroundings): Work =>
  applyRule(works, instr, { segment, mesh, multiply, attention })

export const isKernel = (work: Work): work is Kernel =>
  work.kind === 'matmul' || work.kind === 'attention' || work.kind === 'memory'

/** Multiplications and additions. */
export const workFlops = (work: Work): number => (isKernel(work) ? flopsOf(work) : 0)

export const bufferBytes = (mesh: Mesh, { dims, layout, dtype }: Buffer): number =>
  heldElements(mesh, dims, layout) * bytesPer[dtype]

const total = (refs: readonly Ref[], { segment, mesh }: Place): number =>
  refs.reduce((sum, ref) => sum + bufferBytes(mesh, segment.buffers[ref]), 0)

const precisionOf = ({ dtype }: Buffer, { multiply }: Pick<Place, 'multiply'>): Precision =>
  multiply ?? multipliedIn[dtype]

/** Dims in both operands and the result repeat the product; dims missing from the result are summed. */
function product(aRef: Ref, bRef: Ref, outRef: Ref, place: Place): Kernel {
  const [a, b, out] = [aRef, bRef, outRef].map(ref => place.segment.buffers[ref])
  const has = ({ dims }: Buffer, { name }: Dim) => dims.some(dim => dim.name === name)
  const size = (dims: readonly Dim[], keep: (dim: Dim) => boolean) => elementsOf(dims.filter(keep))
  return {
    kind: 'matmul',
    m: size(a.dims, dim => has(out, dim) && !has(b, dim)),
    n: size(b.dims, dim => has(out, dim) && !has(a, dim)),
    k: size(a.dims, dim => !has(out, dim)),
    batch: size(a.dims, dim => has(out, dim) && has(b, dim)),
    precision: precisionOf(a, place),
    resultBytes: bytesPer[out.dtype],
  }
}

/** Each step: the square of the matrix by its shorter side, the square of that, and the matrix times their sum. */
function orthogonal(instr: Compute, place: Place): Kernel {
  const { inputs, steps, products, lines } = instr as InstrOf<'newtonSchulz'> // no other op works so
  const x = place.segment.buffers[instr.ins[0]]
  const { each, rows, columns } = matricesIn(x.dims, inputs, lines)
  const [short, long] = [Math.min(rows, columns), Math.max(rows, columns)]
  const product = { m: short, n: short, k: 2 * long + short, batch: each * steps }
  return { kind: 'matmul', ...product, precision: place.multiply ?? products, resultBytes: bytesPer[products] }
}

/** Every column is read beside each before it, and written, twice. */
function columns(instr: Compute, place: Place): Kernel {
  const { inputs } = instr as InstrOf<'gramSchmidt'> // no other op works so
  const { columns } = shapeOfMatrix(place.segment.buffers[instr.ins[0]].dims, inputs)
  const bytes = total(instr.outs, place)
  return { kind: 'memory', read: bytes * (2 * columns + 1), written: bytes * (columns + 1), op: instr.kind }
}

/** Three digits of what is the least to be kept, each in a pass, and one more that keeps. */
export const selectionPasses = 4

function selection(instr: Compute, place: Place): Kernel {
  const [read, written] = [selectionPasses * total(instr.ins, place), total(instr.outs, place)]
  return { kind: 'memory', read, written, op: instr.kind }
}

/** Every row meets the weights of one expert: as many products as there are experts, of an even share of the rows. */
function ofExperts(instr: Compute, refs: readonly Ref[], place: Place): Kernel {
  const [rows, w, out] = refs.map(ref => place.segment.buffers[ref])
  const size = (dims: readonly Dim[], name: string) => dims.find(dim => dim.name === name)?.size ?? 1
  const [all, experts] = [size(rows.dims, 'row'), size(w.dims, 'expert')]
  return {
    kind: 'matmul',
    m: Math.ceil(all / experts),
    n: elementsOf(out.dims) / all,
    k: elementsOf(rows.dims) / all,
    batch: experts,
    precision: multipliesNumbers(instr) ? 'bf16' : precisionOf(rows, place),
    resultBytes: bytesPer[out.dtype],
  }
}

/** For all experts at once there is a kernel of E4M3 codes with one scale each; of others what they stand for is multiplied. */
const multipliesNumbers = (instr: Compute): boolean =>
  'formats' in instr && (instr.blocks !== undefined || instr.formats.some(format => format !== 'f8e4m3'))

function attention(
  pass: 'forward' | 'backward',
  [qRef, kRef, vRef]: readonly Ref[],
  { window, dropout }: Pick<InstrOf<'attention'>, 'window' | 'dropout'>,
  place: Place,
): Kernel {
  const [q, k, v] = [qRef, kRef, vRef].map(ref => place.segment.buffers[ref])
  const size = ({ dims }: Buffer, name: string) => dims.find(dim => dim.name === name)?.size ?? 1
  const [keys, headDim] = [size(k, 'seq'), size(q, 'headDim')]
  const ofTurn = keysOfTurn(place.mesh, q, k, window)
  const narrow = window !== undefined && window < keys
  return {
    ...{ kind: 'attention', pass, batch: size(q, 'batch') },
    heads: size(q, 'kvHeads') * size(q, 'group'),
    kvHeads: size(k, 'kvHeads'),
    queries: size(q, 'seq'),
    keys: ofTurn ?? (narrow ? window : keys),
    headDim: mean(pass, headDim, v.dims.find(dim => dim.name === 'vHeadDim')?.size ?? headDim),
    // All keys of a window are seen, but by the first queries; those of a turn are counted pair by pair.
    causal: !narrow && ofTurn === undefined,
    ...(!narrow && ofTurn === undefined && unevenness(size(q, 'seq'), keys, place.mesh)),
    ...(dropout && { dropout: true as const }),
    precision: precisionOf(q, place),
    generation: place.attention ?? 'cudnn',
  }
}

/** The one width with which the products are what they are: of two forward one is with values, of five backward two are. */
const mean = (pass: 'forward' | 'backward', keys: number, values: number): number =>
  pass === 'forward' ? (keys + values) / 2 : (3 * keys + 2 * values) / 5

/** Of a causal sequence that is cut in order the last rank sees most: its pairs over those of the average. */
const unevenness = (queries: number, keys: number, { zigzag }: Mesh): { unevenness?: number } =>
  zigzag !== undefined || queries === keys ? {} : { unevenness: 2 - queries / keys }

/** The precision most products are in: that of the first one of the forward, or of codes where there are any. */
export function multipliesIn({ segments }: Program, multiply?: Precision): Precision {
  const products = Object.values(segments).flatMap(({ instrs, buffers }) =>
    instrs.flatMap(({ kind, ...instr }) => (isProduct(kind) && 'ins' in instr ? [buffers[instr.ins[0]]] : [])),
  )
  const [first] = [...products.filter(({ dtype }) => isCodeType(dtype)), ...products]
  return first ? precisionOf(first, { multiply }) : (multiply ?? 'f32')
}

const isProduct = (kind: Instr['kind']): boolean => kind === 'contract' || kind === 'scaledContract'
