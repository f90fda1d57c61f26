/**
 * What is known of an op beside its arithmetic: one table, total over the union. Liveness, precision, recomputation,
 * prices, laws and emitted code read it and never list ops. The checker has its own opinion (`ir/laws/signatures.ts`).
 */
import type { OpKind, OpTable } from './op.js'
import { type OptimizerKind, optimizerFacts, optimizerKinds } from './optimizer.js'

/**
 * What an op costs: a product of matrices; one for each expert, of rows or of gradients; attention, forward or backward; Newton and Schulz; Gram and Schmidt, column by column; a choice of the greatest, digit by digit; a pass over memory in which every operand is read
 * and every result written once; or a look into one operand, of which no more is read than is written.
 */
export type OpWork =
  | 'product'
  | 'experts'
  | 'expertsBackward'
  | 'attention'
  | 'attentionBackward'
  | 'orthogonal'
  | 'columns'
  | 'selection'
  | 'pass'
  | { readonly lookInto: number }

export interface OpFacts {
  /** Operands and results in order. `dx` is the gradient of `x`; `...` is any number of further operands. */
  readonly ins: readonly string[]
  readonly outs: readonly string[]
  readonly work: OpWork
  /** The first of the results that are statistics: what many numbers went into, or others are divided by. Stored in f32. */
  readonly statistic?: number
  /** The first of the results that its arithmetic gives in f32, whatever it is given. */
  readonly wide?: number
  /** The operand whose dtype its arithmetic gives. Else: that of the widest real operand. */
  readonly like?: number
  /** What training makes small. */
  readonly loss?: true
  /** It reads what it writes. */
  readonly updates?: true
  /** A forward op that a plan may have computed again in backward: where it says so, or also where it says `selective`, or `cheap`. */
  readonly recomputed?: 'listed' | 'selective' | 'cheap'
  /** The first of the results that are whole numbers. */
  readonly index?: number
  /** It moves numbers or adds them up: what all its real operands are stored in, its result is too. */
  readonly moves?: true
  /** Its results are kept, whatever a plan computes again: a rounding would make others of them. */
  readonly kept?: true
  /** It may be done to many tensors in one call. */
  readonly lists?: true
  /** Dims of which operands may hold unlike parts: queries a part of the sequence, their keys all of it. */
  readonly unlike?: readonly string[]
  /** Operands and results whose dims count blocks of another's, not elements. */
  readonly counts?: readonly string[]
}

function op(signature: string, facts: Partial<OpFacts> = {}): OpFacts {
  const [ins, outs] = signature.split('->').map(side => side.split(' ').filter(name => name !== ''))
  return { ins, outs, work: 'pass', ...facts }
}

/** An optimizer is an op whose operands and results follow from its scalars and its states. */
const optimizerOps = Object.fromEntries(
  optimizerKinds.map(kind => {
    const { scalars, given = [], states } = optimizerFacts[kind]
    const operands = [...scalars, ...given].join(' ')
    return [kind, op(`grad ${operands} -> param ${states.join(' ')}`, { updates: true, lists: true })]
  }),
) as { readonly [K in OptimizerKind]: OpFacts } // every kind is there

export const opFacts: OpTable<OpFacts> = {
  contract: op('a b -> out', { work: 'product', recomputed: 'listed' }),
  absMax: op('x -> amax', { statistic: 0, wide: 0, kept: true, counts: ['amax'] }),
  quantize: op('x amax -> codes', { counts: ['amax'] }),
  scaledContract: op('a b aMax bMax -> out', { work: 'product', counts: ['aMax', 'bMax'] }),
  add: op('a b ... -> out', { recomputed: 'listed', moves: true }),
  mul: op('a b -> out'),
  scale: op('x -> out', { lists: true }),
  sumTo: op('x -> out'),
  gelu: op('x -> y', { recomputed: 'cheap' }),
  geluGrad: op('dy x -> dx'),
  swiglu: op('gate up -> y', { recomputed: 'cheap' }),
  swigluGrad: op('dy gate up -> dgate dup'),
  layerNorm: op('x weight bias -> y', { recomputed: 'cheap' }),
  layerNormInputGrad: op('dy x weight -> dx'),
  layerNormWeightGrad: op('dy x -> dweight dbias', { wide: 0 }),
  rmsNorm: op('x weight -> y', { recomputed: 'cheap' }),
  rmsNormInputGrad: op('dy x weight -> dx'),
  rmsNormWeightGrad: op('dy x -> dweight', { wide: 0 }),
  join: op('a b -> out', { recomputed: 'listed' }),
  joinGrad: op('dout -> da db'),
  rope: op('x positions -> y', { recomputed: 'cheap' }),
  attention: op('q k v positions order -> out lse', {
    ...{ work: 'attention', statistic: 1, wide: 1, recomputed: 'selective', unlike: ['seq'] },
  }),
  attentionGrad: op('dout q k v out lse positions order -> dq dk dv', {
    work: 'attentionBackward',
    like: 1,
    unlike: ['seq'],
  }),
  attentionMerge: op('out lse more moreLse -> out lse', { statistic: 1, wide: 1, like: 0 }),
  dropout: op('x order -> y', { recomputed: 'listed' }),
  embed: op('ids table -> out', { work: { lookInto: 1 }, recomputed: 'listed' }),
  embedGrad: op('ids dout -> dtable', { wide: 0 }),
  maxOver: op('x -> out', { statistic: 0 }),
  sumExp: op('logits max -> out', { statistic: 0, wide: 0 }),
  pick: op('logits labels -> out', { work: { lookInto: 0 }, statistic: 0, wide: 0 }),
  tokenLoss: op('max sumExp picked labels -> loss', { statistic: 0, wide: 0, loss: true }),
  tokenLossGrad: op('logits max sumExp labels count -> dlogits', { like: 0 }),
  countLabels: op('labels -> count', { statistic: 0 }),
  squaredError: op('x target -> loss', { statistic: 0, wide: 0, loss: true }),
  squaredErrorGrad: op('x target count -> dx', { like: 0 }),
  countElements: op('target -> count', { statistic: 0 }),
  sigmoid: op('x -> y', { recomputed: 'listed' }),
  sigmoidGrad: op('dy y -> dx'),
  scores: op('logits -> scores', { statistic: 0, wide: 0, recomputed: 'listed' }),
  scoresGrad: op('dscores scores -> dlogits'),
  topK: op('scores bias -> choice', { index: 0, kept: true }),
  chosen: op('scores choice -> weight', { statistic: 0, wide: 0, recomputed: 'listed' }),
  chosenGrad: op('dweight scores choice -> dscores', { statistic: 0, wide: 0 }),
  assign: op('scores choice order -> kept', { index: 0, kept: true }),
  rowsOf: op('choice -> to from counts', { index: 0, kept: true }),
  dispatch: op('x to from counts -> rows', { moves: true, like: 0, recomputed: 'listed' }),
  combine: op('rows to from counts -> out', { moves: true, like: 0 }),
  expertContract: op('rows counts w -> out', { work: 'experts', like: 0, recomputed: 'listed' }),
  expertWeightGrad: op('rows drows counts -> dw', { work: 'expertsBackward', like: 0 }),
  scaledExpertContract: op('rows counts w rowsMax wMax -> out', { work: 'experts', counts: ['rowsMax', 'wMax'] }),
  scaledExpertWeightGrad: op('rows drows counts rowsMax drowsMax -> dw', {
    work: 'expertsBackward',
    counts: ['rowsMax', 'drowsMax'],
  }),
  weightedSwiglu: op('gate up weight -> y', { like: 0, recomputed: 'cheap' }),
  weightedSwigluGrad: op('dy gate up weight -> dgate dup dweight', { like: 0, statistic: 2, wide: 2 }),
  countChoices: op('choice -> counts', { statistic: 0, wide: 0, kept: true }),
  countTop: op('scores -> counts', { statistic: 0, wide: 0, kept: true }),
  balanceLoss: op('scores counts -> loss', { statistic: 0, wide: 0, loss: true }),
  balanceLossGrad: op('scores counts scale -> dscores', { statistic: 0, wide: 0 }),
  zLoss: op('logits -> loss', { statistic: 0, wide: 0, loss: true }),
  zLossGrad: op('logits scale -> dlogits', { like: 0 }),
  balance: op('counts normSquared -> bias', { updates: true }),
  zero: op('-> out', { lists: true }),
  accumulate: op('value -> out', { updates: true }),
  track: op('amax normSquared -> scale history', { updates: true, lists: true }),
  deduct: op('value -> out', { updates: true }),
  blend: op('m -> grad', { updates: true }),
  gramSchmidt: op('x -> out', { work: 'columns', statistic: 0 }),
  become: op('next normSquared -> state', { updates: true, lists: true }),
  beside: op('x ... -> out', { statistic: 0, moves: true }),
  greatest: op('x -> values places', { work: 'selection', like: 0, index: 1 }),
  scatter: op('values places -> out', { statistic: 0 }),
  sumSquares: op('x -> out', { updates: true, lists: true }),
  lambSquares: op('grad normSquared taken param m v -> paramSquared stepSquared', { statistic: 0 }),
  muonMean: op('grad normSquared m -> direction', { statistic: 0, lists: true }),
  newtonSchulz: op('x -> out room', { work: 'orthogonal', statistic: 0, lists: true }),
  stack: op('x ... -> stack', { statistic: 0, moves: true, unlike: ['matrix', 'line'] }),
  unstack: op('stack -> x', { statistic: 0, moves: true, unlike: ['matrix', 'line'] }),
  pack: op('x ... -> codes units', { statistic: 1, unlike: ['flat'] }),
  unpack: op('codes units -> x', { unlike: ['flat'] }),
  factorSquares: op('grad normSquared -> rows columns mean', { statistic: 0 }),
  adafactorSquares: op(
    'grad normSquared taken param rows columns mean rowMeans columnMeans meanSquare -> paramSquared stepSquared',
    { statistic: 0 },
  ),
  average: op('value normSquared taken -> ema', { updates: true, lists: true }),
  unscale: op('scale -> x', { updates: true, lists: true }),
  weigh: op('normSquared limit -> weighed', { statistic: 0 }),
  take: op('normSquared -> taken scale growth hysteresis', { updates: true }),
  ...optimizerOps,
}

export const opKinds = Object.keys(opFacts) as readonly OpKind[] // its own keys

/** A table of ops that follows from this one. */
export const fromFacts = <T>(of: (facts: OpFacts) => T): OpTable<T> =>
  Object.fromEntries(opKinds.map(kind => [kind, of(opFacts[kind])])) as OpTable<T> // every kind is there
