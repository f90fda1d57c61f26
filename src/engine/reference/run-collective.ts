/**
 * One collective on given numbers, without threads: what every rank holds afterwards, to the bit what a group of threads leaves. Each
 * member takes pieces of what all hand in, and lays them side by side or folds them into one, in member order.
 */
import { type ElementType, error, ProblemsError, type Rank } from '../../base/index.js'
import { roundToBf16, roundToF16 } from './rounding.js'

/** The collectives that `runCollective` knows. */
export const runCollectives = [
  ...(['broadcast', 'scatter', 'gather', 'reduce', 'all-gather'] as const),
  ...(['reduce-scatter', 'all-reduce', 'all-to-all', 'all-to-all-uneven'] as const),
] as const

/** A collective and its operands, for `runCollective`. */
export interface CollectiveCall {
  readonly kind: (typeof runCollectives)[number]
  /** The operand of each rank; all have the same length. */
  readonly inputs: readonly ArrayLike<number>[]
  /** f32 by default. Inputs are rounded to it, and 16-bit results are rounded once more. */
  readonly dtype?: ElementType
  /** The reduction: sum by default. */
  readonly combine?: 'sum' | 'max' | 'product' | 'min' | 'mean'
  /** The root rank: 0 by default. */
  readonly root?: Rank
  /** Of an uneven all-to-all: counts[j][i] elements go from rank j to rank i. */
  readonly counts?: readonly (readonly number[])[]
}

/** From `start` on, so many elements of what rank `from` hands in. */
interface Taken {
  readonly from: Rank
  readonly start: number
  readonly length: number
}

type Takes = (call: Required<CollectiveCall>, me: Rank) => readonly Taken[]

const ofEach =
  (start: (me: Rank, part: number) => number, parts: 'whole' | 'part'): Takes =>
  ({ inputs }, me) =>
    inputs.map(({ length }, from) => {
      const part = parts === 'whole' ? length : length / inputs.length
      return { from, start: start(me, part), length: part }
    })

const all = ofEach(() => 0, 'whole')
const own = ofEach((me, part) => me * part, 'part')
const atRoot: Takes = (call, me) => (me === call.root ? all(call, me) : [])
const ofRoot =
  (pieces: Takes): Takes =>
  (call, me) =>
    pieces(call, me).filter(({ from }) => from === call.root)

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0)

/** What each rank takes, and whether it is folded. */
const rules: Readonly<Record<CollectiveCall['kind'], { readonly pieces: Takes; readonly folds?: true }>> = {
  broadcast: { pieces: ofRoot(all) },
  scatter: { pieces: ofRoot(own) },
  gather: { pieces: atRoot },
  'all-gather': { pieces: all },
  'all-to-all': { pieces: own },
  'all-to-all-uneven': {
    pieces: ({ counts }, me) => counts.map((row, from) => ({ from, start: sumOf(row.slice(0, me)), length: row[me] })),
  },
  reduce: { pieces: atRoot, folds: true },
  'all-reduce': { pieces: all, folds: true },
  'reduce-scatter': { pieces: own, folds: true },
}

const same = (x: number) => x
const integer = (x: number) => x | 0
const byte = (x: number) => (x << 24) >> 24

/** Numbers as they are stored, and as they are added up. */
const numbers: Readonly<Record<ElementType, { store: (x: number) => number; add: (x: number) => number }>> = {
  f32: { store: Math.fround, add: Math.fround },
  f64: { store: same, add: same },
  bf16: { store: roundToBf16, add: Math.fround },
  f16: { store: roundToF16, add: Math.fround },
  i32: { store: integer, add: integer },
  i8: { store: byte, add: integer },
}

const isWhole = (dtype: ElementType): boolean => dtype === 'i32' || dtype === 'i8'

/** Of two numbers one, before it is rounded. A NaN stays. */
const folds: Readonly<Record<Required<CollectiveCall>['combine'], (a: number, b: number, whole: boolean) => number>> = {
  sum: (a, b) => a + b,
  mean: (a, b) => a + b,
  product: (a, b, whole) => (whole ? Math.imul(a, b) : a * b),
  max: (a, b) => (b > a || Number.isNaN(b) ? b : a),
  min: (a, b) => (b < a || Number.isNaN(b) ? b : a),
}

/**
 * Runs one collective on given numbers without threads. Returns what each rank holds: nothing for ranks other than the
 * root of a gather or reduce.
 */
export function runCollective(given: CollectiveCall): number[][] {
  const call = { dtype: 'f32', combine: 'sum', root: 0, counts: [], ...given } as const
  const problems = problemsOf(call)
  if (problems.length > 0) throw new ProblemsError(problems.map(message => error('group/call', call.kind, message)))
  const { store } = numbers[call.dtype]
  const inputs = call.inputs.map(values => Array.from(values, store))
  const { pieces, folds } = rules[call.kind]
  return inputs.map((_, me) => {
    const taken = pieces(call, me).map(({ from, start, length }) => inputs[from].slice(start, start + length))
    return folds ? folded(taken, call) : taken.flat()
  })
}

function folded(taken: readonly (readonly number[])[], { dtype, combine }: Required<CollectiveCall>): number[] {
  const { store, add } = numbers[dtype]
  const [whole, fold] = [isWhole(dtype), folds[combine]]
  const mean = (total: number) => (whole ? Math.trunc(total / taken.length) : add(total / taken.length))
  return (taken[0] ?? []).map((first, i) => {
    const total = taken.slice(1).reduce((sum, values) => add(fold(sum, values[i], whole)), first)
    return store(combine === 'mean' ? mean(total) : total)
  })
}

const cut: readonly string[] = ['scatter', 'reduce-scatter', 'all-to-all'] satisfies CollectiveCall['kind'][]

/** All that is wrong with a call. */
function problemsOf({ kind, inputs, root, counts }: Required<CollectiveCall>): string[] {
  const ranks = inputs.length
  if (ranks === 0) return ['a group needs a member']
  const { length } = inputs[0]
  return [
    ...(inputs.every(other => other.length === length) ? [] : ['ranks hand in different numbers of elements']),
    ...(Number.isInteger(root) && root >= 0 && root < ranks
      ? []
      : [`there is no member ${root} in a group of ${ranks}`]),
    ...(cut.includes(kind) && length % ranks !== 0 ? [`${length} elements cannot be cut into ${ranks} parts`] : []),
    ...(kind === 'all-to-all-uneven' ? unevenProblems(counts, ranks, length) : []),
  ]
}

function unevenProblems(counts: readonly (readonly number[])[], ranks: number, length: number): string[] {
  if (counts.length !== ranks || counts.some(row => row.length !== ranks))
    return [`counts must have ${ranks} rows of ${ranks}`]
  return counts.flatMap((row, j) => {
    const odd = row.flatMap((n, i) =>
      Number.isInteger(n) && n >= 0 ? [] : [`counts[${j}][${i}] is ${n}, not a count`],
    )
    return sumOf(row) > length ? [...odd, `member ${j} has ${length} elements, not ${sumOf(row)} to send`] : odd
  })
}
