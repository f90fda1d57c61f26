/**
 * What the checker knows of each op: how many operands, which dims its results have, which dims may not be
 * split, through which operands a partial sum may pass, and what becomes of a split dim that the result lacks.
 * It is written from the meaning of the ops (base/op.ts), not from the compiler's rules: the second opinion.
 */
import type { Combine, Dim, OpTable, Spoken } from '../../base/index.js'
import { clause } from './phrases.js'

type Range = readonly [least: number, most: number]

/**
 * `x`: bf16, f16 or f32, one and the same for all such operands, and for a result that or f32 (the gradient of a weight is
 * kept in more digits than what it is made from). `p`: such a dtype, one and the same for all that is added to or is updated as
 * a parameter, operands and results. `s`: a state of it, in that dtype or in f32, all of them alike. `g`: its gradient, in such a dtype of its own.
 * `f`: f32, a statistic. `i`: i32. `r`: any of the three, whatever the operands are. `c`: codes, as the instruction says.
 * `b`: i8, codes that were packed.
 */
export interface Dtypes {
  readonly ins: string
  readonly outs: string
}

/** The dims (by name) a result must have, from those of the operands and the ones it claims. */
export type ShapeRule = (
  operands: readonly (readonly string[])[],
  claimed: readonly string[],
) => readonly string[] | undefined

export interface Signature {
  readonly ins: Range
  readonly outs: Range
  readonly shapes: readonly ShapeRule[]
  /** What operands and results are stored in, where not all of them belong to tokens. */
  readonly dtypes?: Dtypes
  /** Operands that may be a partial sum while the others are whole: the op is linear in each of them. */
  readonly linear?: readonly number[]
  /** Linear in all operands together: all partial, or none. */
  readonly jointly?: true
  /** A dim missing from a result is combined so; without this, such a dim may not be split. */
  readonly reduces?: Combine
  /** Of attention: the queries, and the keys and values, which may be those of one rank at a time. Its results are then shares. */
  readonly round?: { readonly queries: number; readonly keys: readonly number[] }
  /** Per result, the operands whose shares may be added up; 'all': those of all operands. */
  readonly sums?: 'all' | readonly (readonly number[])[]
  /** Works element by element on operands that lie alike, so it may be given parts of a line. */
  readonly flat?: true
  /** Of an optimizer: operands that lie as the gradient does; the others but the gradient are whole scalars. */
  readonly tensors?: readonly number[]
  /** Dims of operands and results, by place, that mean something else than their name does elsewhere: the new names. */
  readonly renames?: { readonly ins: Renames; readonly outs?: Renames }
  /** It depends on which token lies where: the operand that says so where that is not the one whose place it is. */
  readonly slots?: { readonly by: string; readonly at: number }
  /** What is wrong with sizes that no dim of one name tells. */
  readonly sizes?: (operands: readonly (readonly Dim[])[], results: readonly (readonly Dim[])[]) => Spoken | undefined
  /** Dims that must be whole. The results' claimed dims are given too. */
  readonly stuck?: (
    operands: readonly (readonly string[])[],
    results: readonly (readonly string[])[],
  ) => readonly string[]
}

type Renames = Readonly<Record<number, Readonly<Record<string, string>>>>

const n = (count: number): Range => [count, count]
const many = (least: number): Range => [least, Number.POSITIVE_INFINITY]

/** The result's dims are those of operand i. */
const like =
  (i: number, without?: string): ShapeRule =>
  operands =>
    operands[i].filter(dim => dim !== without)
const union: ShapeRule = operands => [...new Set(operands.flat())]
/** Any of the operands' dims; the others are combined away. */
const some: ShapeRule = (operands, claimed) =>
  claimed.every(dim => operands.flat().includes(dim)) ? claimed : undefined
const scalar: ShapeRule = () => []
const free: ShapeRule = (_, claimed) => claimed
/** ids [i...] and table [row, c...] give [i..., c...]: one dim of the table is looked up. */
const lookup: ShapeRule = ([ids, table], claimed) => {
  const columns = table.filter(dim => claimed.includes(dim))
  return columns.length === table.length - 1 ? [...ids, ...columns] : undefined
}
/** ids [i...] and dout [i..., c...] give [row, c...]: the row dim is found in no operand. */
const scatter: ShapeRule = ([ids, dout], claimed) => {
  const rows = claimed.filter(dim => !dout.includes(dim))
  return rows.length === 1 ? [...rows, ...dout.filter(dim => !ids.includes(dim))] : undefined
}

const elementwise = (operands: number, rest: Partial<Signature> = {}): Signature => ({
  ins: n(operands),
  outs: n(1),
  shapes: [like(0)],
  ...rest,
})

const dimsOfGain = (i: number) => (operands: readonly (readonly string[])[]) => operands[i]
const dimsOfResult = (_: unknown, results: readonly (readonly string[])[]) => results[0]
/** The positions of keys and values are another dim than those of queries: ranks may hold a part of these, never of those. */
const inKeys = { seq: 'keys' }
const ofKeys = () => ['keys', 'slot', 'headDim', 'vHeadDim']
/** The queries' dims, as wide as values are. */
const asWideAsValues: ShapeRule = ([q, , v]) =>
  q.map(dim => (dim === 'headDim' && v.includes('vHeadDim') ? 'vHeadDim' : dim))

/** Every token, or query, stands at one place of its document: positions have its sample and its place in the sequence, no more. */
function ofTokens(tokens: readonly Dim[], positions: readonly Dim[] | undefined): Spoken | undefined {
  const [wanted, given] = [tokens.filter(isOfToken), positions ?? []].map(dims => dims.map(({ name }) => name).sort())
  return positions === undefined || wanted.join() === given.join()
    ? undefined
    : clause('T/positions', { given: given.join(' '), wanted: wanted.join(' ') })
}

/** Every rank knows which token lies at each slot of its sequences, no more. */
function ofSlots(order: readonly Dim[] | undefined): Spoken | undefined {
  const given = order?.map(({ name }) => name) ?? ['batch', 'slot']
  return given.length === 2 && given.includes('batch') && given.includes('slot')
    ? undefined
    : clause('T/order', { given: given.join(' ') })
}

/** Of a join: the dim that each part has alone, and the one that only the whole has. */
function ownOf(parts: readonly (readonly string[])[], whole: readonly string[]): readonly string[] {
  const made = whole.filter(dim => !parts.some(part => part.includes(dim)))
  return [...parts.flatMap(part => part.filter(dim => !whole.includes(dim))), ...made]
}
const sideBySide: ShapeRule = (operands, claimed) => {
  const each = operands.every(part => part.filter(dim => !claimed.includes(dim)).length === 1)
  const own = ownOf(operands, claimed)
  const shared = operands.flat().filter(dim => !own.includes(dim))
  return each && own.length === 3 ? [...new Set(shared), own[2]] : undefined
}
/** A part has one dim of its own, for which the joined one is missing. */
const partOf: ShapeRule = ([whole], claimed) =>
  claimed.filter(dim => !whole.includes(dim)).length === 1 && whole.some(dim => !claimed.includes(dim))
    ? claimed
    : undefined

function addUp(parts: readonly (readonly Dim[])[], whole: readonly Dim[]): Spoken | undefined {
  const names = (dims: readonly Dim[]) => dims.map(({ name }) => name)
  const own = ownOf(parts.map(names), names(whole))
  if (own.length !== 3) return clause('T/joined', { dims: own.join(' ') })
  const [first, second, all] = own.map(name => [...parts, whole].flat().find(dim => dim.name === name)?.size ?? 0)
  const saidOf = (i: number, size: number) => `${own[i]} ${size}`
  return first + second === all
    ? undefined
    : clause('T/joined-sizes', { first: saidOf(0, first), second: saidOf(1, second), whole: saidOf(2, all) })
}

/** A token is compared with all candidates, and makes all its choices at once. */
const ofChoice = () => ['candidate', 'choice']
/** scores [t..., candidate] give [t..., choice]. */
const choosing: ShapeRule = ([scores]) => [...scores.filter(dim => dim !== 'candidate'), 'choice']
const isOfToken = ({ name }: Dim) => name === 'batch' || name === 'seq'
const isToken = (dim: string) => dim === 'batch' || dim === 'seq' || dim === 'choice'
/** Tokens, or their choices, become rows. */
const toRows: ShapeRule = ([x]) => ['row', ...x.filter(dim => !isToken(dim))]
/** Rows become choices again, or what tokens get from all of theirs. */
const fromRows: ShapeRule = ([rows, to], claimed) => [
  ...to.filter(dim => dim !== 'choice' || claimed.includes(dim)),
  ...rows.filter(dim => dim !== 'row'),
]
/** rows [row, a...] and weights [expert, a..., b...] give [row, b...]. */
const ofRows: ShapeRule = ([rows, , w]) => ['row', ...w.filter(dim => dim !== 'expert' && !rows.includes(dim))]
/** rows [row, a...] and their gradients [row, b...] give [expert, a..., b...]. */
const ofExperts: ShapeRule = ([rows, drows]) => ['expert', ...[...rows, ...drows].filter(dim => dim !== 'row')]

export const signatures: OpTable<Signature> = {
  contract: { ins: n(2), outs: n(1), shapes: [some], linear: [0, 1], reduces: 'sum' },
  absMax: { ins: n(1), outs: n(1), dtypes: { ins: 'x', outs: 'f' }, shapes: [some], reduces: 'max' },
  quantize: { ins: n(2), outs: n(1), dtypes: { ins: 'xf', outs: 'c' }, shapes: [like(0)] },
  scaledContract: { ins: n(4), outs: n(1), dtypes: { ins: 'ccff', outs: 'r' }, shapes: [some], reduces: 'sum' },
  add: { ins: many(1), outs: n(1), shapes: [union], jointly: true, sums: 'all', flat: true },
  mul: { ins: n(2), outs: n(1), shapes: [union], linear: [0, 1] },
  scale: elementwise(1, { dtypes: { ins: 'x', outs: 'r' }, linear: [0], flat: true }),
  sumTo: { ins: n(1), outs: n(1), shapes: [some], linear: [0], reduces: 'sum' },
  gelu: elementwise(1),
  geluGrad: elementwise(2, { linear: [0] }),
  swiglu: elementwise(2, { linear: [1] }),
  swigluGrad: { ins: n(3), outs: n(2), shapes: [like(1), like(2)], linear: [0] },
  layerNorm: elementwise(3, { stuck: dimsOfGain(1) }),
  layerNormInputGrad: elementwise(3, { linear: [0], stuck: dimsOfGain(2) }),
  layerNormWeightGrad: {
    ins: n(2),
    outs: n(2),
    shapes: [some, some],
    linear: [0],
    reduces: 'sum',
    stuck: dimsOfResult,
  },
  rmsNorm: elementwise(2, { stuck: dimsOfGain(1) }),
  rmsNormInputGrad: elementwise(3, { linear: [0], stuck: dimsOfGain(2) }),
  rmsNormWeightGrad: { ins: n(2), outs: n(1), shapes: [some], linear: [0], reduces: 'sum', stuck: dimsOfResult },
  join: {
    ins: n(2),
    outs: n(1),
    shapes: [sideBySide],
    jointly: true,
    stuck: (operands, [out]) => ownOf(operands, out),
    sizes: (operands, [out]) => addUp(operands, out),
  },
  joinGrad: {
    ins: n(1),
    outs: n(2),
    shapes: [partOf],
    linear: [0],
    reduces: 'sum',
    stuck: ([dout], results) => ownOf(results, dout),
    sizes: ([dout], results) => addUp(results, dout),
  },
  rope: {
    ins: [1, 2],
    outs: n(1),
    dtypes: { ins: 'xi', outs: 'x' },
    shapes: [like(0)],
    linear: [0],
    stuck: () => ['headDim', 'qkRopeHeadDim'],
    sizes: ([x, positions]) => ofTokens(x, positions),
    slots: { by: 'positions', at: 1 },
  },
  attention: {
    ins: [3, 5],
    outs: n(2),
    dtypes: { ins: 'xxxii', outs: 'xf' },
    shapes: [asWideAsValues, like(0, 'headDim')],
    renames: { ins: { 1: inKeys, 2: inKeys } },
    round: { queries: 0, keys: [1, 2] },
    stuck: ofKeys,
    sizes: ([q, , , positions, order]) => ofTokens(q, positions) ?? ofSlots(order),
    slots: { by: 'order', at: 4 },
  },
  attentionGrad: {
    ins: [6, 8],
    outs: n(3),
    dtypes: { ins: 'xxxxxfii', outs: 'xxx' },
    shapes: [like(1), like(2), like(3)],
    linear: [0],
    reduces: 'sum',
    renames: { ins: { 2: inKeys, 3: inKeys }, outs: { 1: inKeys, 2: inKeys } },
    round: { queries: 1, keys: [2, 3] },
    stuck: ofKeys,
    sizes: ([, q, , , , , positions, order]) => ofTokens(q, positions) ?? ofSlots(order),
    slots: { by: 'order', at: 7 },
  },
  attentionMerge: {
    ins: n(4),
    outs: n(2),
    dtypes: { ins: 'xfxf', outs: 'xf' },
    shapes: [like(0), like(1)],
    sums: [
      [0, 2],
      [1, 3],
    ],
  },
  dropout: elementwise(1, {
    ins: [1, 2],
    dtypes: { ins: 'xi', outs: 'x' },
    linear: [0],
    stuck: () => ['slot'],
    sizes: ([, order]) => ofSlots(order),
    slots: { by: 'order', at: 1 },
  }),
  embed: { ins: n(2), outs: n(1), dtypes: { ins: 'ix', outs: 'x' }, shapes: [lookup], linear: [1], reduces: 'sum' },
  embedGrad: {
    ins: n(2),
    outs: n(1),
    dtypes: { ins: 'ix', outs: 'x' },
    shapes: [scatter],
    linear: [1],
    reduces: 'sum',
  },
  maxOver: { ins: n(1), outs: n(1), dtypes: { ins: 'x', outs: 'f' }, shapes: [some], reduces: 'max' },
  sumExp: { ins: n(2), outs: n(1), dtypes: { ins: 'xf', outs: 'f' }, shapes: [like(1)], reduces: 'sum' },
  pick: { ins: n(2), outs: n(1), dtypes: { ins: 'xi', outs: 'f' }, shapes: [like(1)], linear: [0], reduces: 'sum' },
  tokenLoss: { ins: n(4), outs: n(1), dtypes: { ins: 'fffi', outs: 'f' }, shapes: [scalar], reduces: 'sum' },
  tokenLossGrad: elementwise(5, { dtypes: { ins: 'xffif', outs: 'x' } }),
  countLabels: { ins: n(1), outs: n(1), dtypes: { ins: 'i', outs: 'f' }, shapes: [scalar], reduces: 'sum' },
  squaredError: { ins: n(2), outs: n(1), dtypes: { ins: 'xx', outs: 'f' }, shapes: [scalar], reduces: 'sum' },
  squaredErrorGrad: elementwise(3, { dtypes: { ins: 'xxf', outs: 'x' } }),
  countElements: { ins: n(1), outs: n(1), dtypes: { ins: 'x', outs: 'f' }, shapes: [scalar], reduces: 'sum' },
  sigmoid: elementwise(1),
  sigmoidGrad: elementwise(2, { linear: [0] }),
  scores: elementwise(1, { dtypes: { ins: 'x', outs: 'f' }, stuck: ofChoice }),
  scoresGrad: elementwise(2, { dtypes: { ins: 'ff', outs: 'r' }, linear: [0], stuck: ofChoice }),
  topK: { ins: [1, 2], outs: n(1), dtypes: { ins: 'ff', outs: 'i' }, shapes: [choosing], stuck: ofChoice },
  chosen: { ins: n(2), outs: n(1), dtypes: { ins: 'fi', outs: 'f' }, shapes: [like(1)], stuck: ofChoice },
  chosenGrad: {
    ...{ ins: n(3), outs: n(1), dtypes: { ins: 'ffi', outs: 'f' }, shapes: [like(1)], linear: [0], stuck: ofChoice },
  },
  assign: {
    ins: [2, 3],
    outs: n(1),
    dtypes: { ins: 'fii', outs: 'i' },
    shapes: [like(1)],
    stuck: () => ['candidate', 'choice', 'seq', 'slot'],
    sizes: ([, , order]) => ofSlots(order),
    slots: { by: 'order', at: 2 },
  },
  rowsOf: { ins: n(1), outs: n(3), dtypes: { ins: 'i', outs: 'iii' }, shapes: [like(0), free, free] },
  dispatch: { ins: n(4), outs: n(1), dtypes: { ins: 'xiii', outs: 'x' }, shapes: [toRows] },
  combine: { ins: n(4), outs: n(1), dtypes: { ins: 'xiii', outs: 'x' }, shapes: [fromRows] },
  expertContract: { ins: n(3), outs: n(1), dtypes: { ins: 'xix', outs: 'x' }, shapes: [ofRows] },
  expertWeightGrad: { ins: n(3), outs: n(1), dtypes: { ins: 'xxi', outs: 'x' }, shapes: [ofExperts] },
  scaledExpertContract: { ins: n(5), outs: n(1), dtypes: { ins: 'cicff', outs: 'r' }, shapes: [ofRows] },
  scaledExpertWeightGrad: { ins: n(5), outs: n(1), dtypes: { ins: 'cciff', outs: 'r' }, shapes: [ofExperts] },
  weightedSwiglu: elementwise(3, { dtypes: { ins: 'xxf', outs: 'x' }, linear: [1, 2] }),
  weightedSwigluGrad: {
    ...{ ins: n(4), outs: n(3), dtypes: { ins: 'xxxf', outs: 'xxf' }, shapes: [like(1), like(2), like(3)] },
    reduces: 'sum',
  },
  countChoices: {
    ins: n(1),
    outs: n(1),
    dtypes: { ins: 'i', outs: 'f' },
    shapes: [free],
    reduces: 'sum',
    stuck: ofChoice,
  },
  countTop: { ins: n(1), outs: n(1), dtypes: { ins: 'f', outs: 'f' }, shapes: [some], reduces: 'sum', stuck: ofChoice },
  balanceLoss: {
    ...{ ins: n(2), outs: n(1), dtypes: { ins: 'ff', outs: 'f' }, shapes: [scalar], reduces: 'sum', stuck: ofChoice },
  },
  balanceLossGrad: { ...elementwise(2, { dtypes: { ins: 'fff', outs: 'f' }, stuck: ofChoice }), ins: [2, 3] },
  zLoss: { ins: n(1), outs: n(1), dtypes: { ins: 'x', outs: 'f' }, shapes: [scalar], reduces: 'sum', stuck: ofChoice },
  zLossGrad: { ...elementwise(1, { dtypes: { ins: 'xf', outs: 'r' }, stuck: ofChoice }), ins: [1, 2] },
  track: { ins: n(2), outs: n(2), dtypes: { ins: 'ff', outs: 'ff' }, shapes: [scalar, free] },
  balance: { ins: n(2), outs: n(1), dtypes: { ins: 'pf', outs: 'p' }, shapes: [like(0)], flat: true },
  zero: { ins: n(0), outs: many(1), shapes: [free], flat: true },
  accumulate: elementwise(1, { dtypes: { ins: 'p', outs: 'p' }, linear: [0], flat: true }),
  deduct: elementwise(1, { dtypes: { ins: 'p', outs: 'p' }, linear: [0], flat: true }),
  blend: { ins: n(1), outs: n(1), dtypes: { ins: 'x', outs: 'f' }, shapes: [like(0)] },
  gramSchmidt: elementwise(1, { dtypes: { ins: 'f', outs: 'f' }, stuck: ([x]) => x.filter(name => name !== 'expert') }),
  become: { ins: n(2), outs: n(1), dtypes: { ins: 'ff', outs: 'f' }, shapes: [like(0)], flat: true },
  beside: { ins: many(1), outs: n(1), dtypes: { ins: 'f', outs: 'f' }, shapes: [free] },
  greatest: { ins: n(1), outs: n(2), dtypes: { ins: 'p', outs: 'pi' }, shapes: [free, free], linear: [0] },
  scatter: { ins: n(2), outs: n(1), dtypes: { ins: 'fi', outs: 'f' }, shapes: [free] },
  sumSquares: { ins: n(1), outs: n(1), dtypes: { ins: 'p', outs: 'f' }, shapes: [scalar], flat: true },
  lambSquares: { ins: n(6), outs: n(2), dtypes: { ins: 'gffpss', outs: 'ff' }, shapes: [scalar, scalar], flat: true },
  muonMean: { ins: n(3), outs: n(1), dtypes: { ins: 'gfs', outs: 'f' }, shapes: [like(0)], flat: true },
  newtonSchulz: {
    ...{ ins: n(1), outs: n(2), dtypes: { ins: 'f', outs: 'ff' }, shapes: [like(0)] },
    // Of lines laws/stacks.ts says what must be whole.
    stuck: ([x]) => x.filter(name => !['expert', 'matrix', 'line'].includes(name)),
  },
  stack: { ins: many(1), outs: n(1), dtypes: { ins: 'f', outs: 'f' }, shapes: [free], flat: true },
  unstack: { ins: n(1), outs: many(1), dtypes: { ins: 'f', outs: 'f' }, shapes: [free], flat: true },
  pack: { ins: many(1), outs: n(2), dtypes: { ins: 'x', outs: 'bf' }, shapes: [free, free], linear: [0], flat: true },
  unpack: { ins: n(2), outs: n(1), dtypes: { ins: 'bf', outs: 'r' }, shapes: [free], flat: true },
  factorSquares: { ins: n(2), outs: n(3), dtypes: { ins: 'gf', outs: 'fff' }, shapes: [free, free, free] },
  adafactorSquares: { ins: [5, 10], outs: n(2), dtypes: { ins: 'gffpffffff', outs: 'ff' }, shapes: [scalar, scalar] },
  average: { ins: n(3), outs: n(1), dtypes: { ins: 'pff', outs: 'f' }, shapes: [like(0)], flat: true },
  unscale: { ins: n(1), outs: n(1), dtypes: { ins: 'f', outs: 'r' }, shapes: [free], linear: [], flat: true },
  weigh: { ins: n(2), outs: n(1), dtypes: { ins: 'ff', outs: 'f' }, shapes: [scalar] },
  take: { ins: n(1), outs: [1, 4], dtypes: { ins: 'f', outs: 'ffff' }, shapes: [scalar, scalar, scalar, scalar] },
  adamw: {
    ins: [3, 4],
    outs: [3, 4],
    dtypes: { ins: 'gfff', outs: 'psss' },
    shapes: [like(0), like(0), like(0), like(0)],
    flat: true,
  },
  sgd: { ins: [3, 4], outs: [1, 2], dtypes: { ins: 'gfff', outs: 'ps' }, shapes: [like(0), like(0)], flat: true },
  lamb: {
    ...{ ins: n(6), outs: n(3), dtypes: { ins: 'gfffff', outs: 'pss' }, shapes: [like(0), like(0), like(0)] },
    flat: true,
  },
  muon: {
    ...{ ins: n(4), outs: n(2), dtypes: { ins: 'gfff', outs: 'ps' }, shapes: [like(0), like(0)], flat: true },
    tensors: [3],
  },
  adafactor: {
    ins: [6, 9],
    outs: [2, 4],
    dtypes: { ins: 'gffffffff', outs: 'pfff' },
    shapes: [free, free, free, free],
  },
  lion: { ins: n(3), outs: n(2), dtypes: { ins: 'gff', outs: 'ps' }, shapes: [like(0), like(0)], flat: true },
}
