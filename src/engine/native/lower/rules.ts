/**
 * From one instruction to the commands that do it: a total table over the kinds. Everything that depends on a rank's
 * place (its origin in the whole tensor, whether it counts a norm) becomes a number here, so commands have no branches.
 */

import { type Dim, elementsOf, hashName, maskName, type OpKind } from '../../../base/index.js'
import { has, indexOf, type Shape, sizeIn, strideOf } from '../../../geometry/index.js'
import {
  type Buffer,
  bytesPer,
  type Collective,
  type Compute,
  type InstrOf,
  pairsOf,
  type Ref,
  type Rules,
} from '../../../ir/index.js'
import { codeOf } from '../kernels/dtypes.js'
import { type CommandName, commands } from './commands.js'
import type { Fused } from './fuse.js'
import type { ListWriter } from './list.js'
import type { InputPlace } from './map.js'
import type { Joined } from './meetings.js'
import {
  counterOf,
  dense,
  isPrefix,
  isSuffix,
  matmulOf,
  type Run,
  refuse,
  rowsBy,
  runsOf,
  same,
  showDims,
} from './shapes.js'

/** One instruction's surroundings: a rank, a call, and where the call's buffers lie. */
export interface Site {
  readonly list: ListWriter
  readonly seed: number
  /** The name of the block the segment is called for. */
  readonly block: string
  /** Byte offset of a buffer. */
  at(ref: Ref): number
  /** The buffer is to be 0, which is written only once somebody touches it. */
  clear(ref: Ref): void
  /** Whether it is 0 and nothing was written: the caller must write all of it instead of adding to it. */
  fresh(ref: Ref): boolean
  shape(ref: Ref): Shape
  buffer(ref: Ref): Buffer
  /** The whole tensor's index of the buffer's first element, per dim of the buffer. */
  origins(ref: Ref): readonly number[]
  /** The rank's index along mesh axes, and how many there are. */
  part(axes: InstrOf<'slice'>['axes']): { readonly index: number; readonly parts: number }
  /** Whether the rank is the first along these axes. */
  isFirst(axes: readonly string[]): boolean
  input(name: string): (InputPlace & { readonly dims: readonly Dim[] }) | undefined
  scalar(name: 'lr' | 'step'): number
  /** One meeting per pair. */
  join(collective: Collective): readonly Joined[]
  /** What a contraction writes, where it does more than its own instruction. */
  fused(instr: InstrOf<'contract'>): Fused | undefined
  /** Makes what depends on shapes alone once for all ranks and calls. */
  once<T>(instr: object, make: () => T): T
  /** Collectives started and not yet waited for, by the first buffer they write. */
  readonly open: Map<Ref, { readonly instr: Collective; readonly joined: readonly Joined[] }>
}

const dims = (s: Site, ref: Ref): readonly Dim[] => s.shape(ref).dims
const size = (s: Site, ref: Ref): number => elementsOf(dims(s, ref))
const originAlong = (s: Site, ref: Ref, name: string): number =>
  s.origins(ref)[dims(s, ref).findIndex(dim => dim.name === name)] ?? 0

/** All operands must lie as the first does. */
const alike = (s: Site, refs: readonly Ref[]): number => refs.map(ref => dense(dims(s, ref), dims(s, refs[0]), ref))[0]

/** Commands of elementwise ops with one period: (out, a, b, n, period). */
function binary(s: Site, name: 'add' | 'mul', out: Ref, [a, b]: readonly Ref[]): void {
  const full = (ref: Ref) => same(dims(s, ref), dims(s, out))
  const [wide, other] = full(a) ? [a, b] : [b, a]
  if (!full(wide) || !isSuffix(dims(s, other), dims(s, out)))
    refuse(`${name} broadcasts over leading dims only, not ${showDims(dims(s, other))} over ${showDims(dims(s, out))}`)
  s.list.write(name, { out: s.at(out), a: s.at(wide), b: s.at(other), n: size(s, out), period: size(s, other) })
}

function copyRuns(s: Site, runs: readonly Run[], x: number, out: number): void {
  for (const { from, to, rows, columns, strideFrom, strideTo } of runs)
    s.list.write('copy', {
      ...{ x: x + from * bytesPer.f32, out: out + to * bytesPer.f32 },
      ...{ rows, columns, strideX: strideFrom, strideOut: strideTo },
    })
}

/** Loss ops work on tokens in one order and give one number. */
function scalarOut(s: Site, out: Ref): number {
  if (size(s, out) !== 1) refuse(`a loss of ${showDims(dims(s, out))} is not one number`)
  return s.at(out)
}

/** The rows and classes of logits: the classes come last. */
function classes(s: Site, logits: Ref, perRow: Ref): { rows: number; columns: number; origin: number } {
  if (!isPrefix(dims(s, perRow), dims(s, logits)))
    refuse(`logits ${showDims(dims(s, logits))} do not have the dims of ${showDims(dims(s, perRow))} first`)
  const last = dims(s, logits).filter(({ name }) => !has(dims(s, perRow), name))
  return { ...rowsBy(dims(s, logits), last, 'a loss'), origin: originAlong(s, logits, last[0].name) }
}

function table(s: Site, ids: Ref, rows: Ref, out: Ref) {
  const [vocab, ...columns] = dims(s, rows)
  if (!same([...dims(s, ids), ...columns], dims(s, out)) || has(dims(s, out), vocab.name))
    refuse(`rows of ${showDims(dims(s, rows))} by ${showDims(dims(s, ids))} do not make ${showDims(dims(s, out))}`)
  const origin = originAlong(s, rows, vocab.name)
  return { n: size(s, ids), rows: vocab.size, columns: elementsOf(columns), origin }
}

const mask = (s: Site, key: string) => ({ seed: s.seed >>> 0, name: hashName(maskName(s.block, key)) })

const headDims = ['batch', 'seq', 'kvHeads', 'group', 'headDim']

function heads(s: Site, instr: Compute & { kind: 'attention' | 'attentionGrad' }, q: Ref, k: Ref) {
  const order = (ref: Ref, names: readonly string[]) =>
    same(
      dims(s, ref),
      names.flatMap(name => dims(s, ref).find(dim => dim.name === name) ?? []),
    )
  const of = (ref: Ref, name: string) => sizeIn(dims(s, ref), name) ?? 1
  const whole = (name: string) => sizeIn(s.shape(q).whole, name) ?? 1
  if (!order(q, headDims) || !order(k, headDims))
    refuse(`attention wants [${headDims.join(' ')}], not ${showDims(dims(s, q))}`)
  if (of(q, 'seq') !== whole('seq') || of(k, 'seq') !== whole('seq')) refuse('attention over a part of a sequence')
  return {
    ...{ batch: of(q, 'batch'), seq: of(q, 'seq'), kvHeads: of(q, 'kvHeads'), group: of(q, 'group') },
    ...{ headDim: of(q, 'headDim'), window: instr.window ?? 0, rate: instr.dropout?.rate ?? 0 },
    ...mask(s, instr.dropout?.key ?? ''),
    ...{ batchOrigin: originAlong(s, q, 'batch'), headOrigin: originAlong(s, q, 'kvHeads') },
    ...{ groupOrigin: originAlong(s, q, 'group'), heads: whole('kvHeads'), groups: whole('group') },
  }
}

export const combineCode = { sum: 0, max: 1, product: 2, min: 3, mean: 4 } as const

const collective = (instr: Collective, s: Site): void => {
  const [name] = instr.outs
  if (s.open.has(name)) throw new Error(`internal: ${name} already awaits a collective`)
  const joined = s.join(instr)
  const { list } = s
  for (const one of joined) {
    const command = list.write('start', { sync: 0, me: one.me, members: one.members.length, meeting: 0 })
    one.name(wordsAt(list, command))
  }
  s.open.set(name, { instr, joined })
}

/** The block and the meeting are the first and fourth word of every command that meets. */
const wordsAt = (list: ListWriter, command: number) => ({
  sync: { list, word: command + 2 },
  meeting: { list, word: command + 5 },
})

/** Elements before `dim`, and from it on. */
function around(all: readonly Dim[], dim: string | undefined): { outer: number; inner: number } {
  if (dim === undefined) return refuse('parts of a line')
  const at = all.findIndex(({ name }) => name === dim)
  return { outer: elementsOf(all.slice(0, at)), inner: elementsOf(all.slice(at)) }
}

const order = (s: Site, instr: Collective, pair: Pair): void => {
  const [from, to] = [dims(s, pair.in), dims(s, pair.out)].map(all => all.map(({ name }) => name).join(' '))
  if (from !== to) refuse(`${instr.kind} from [${from}] to [${to}] would have to transpose`)
}

/** The words every wait has; those that others must fill in are 0. */
interface Meet {
  readonly sync: number
  readonly me: number
  readonly members: number
  readonly meeting: number
  readonly x: readonly number[]
  readonly out: readonly number[]
}

type Pair = ReturnType<typeof pairsOf>[number]

type Waits = {
  readonly [K in Collective['kind']]: (
    instr: Extract<Collective, { kind: K }> & Pair,
    s: Site,
    meet: Meet,
  ) => [start: number, operands: number]
}

/** Each gives the word its command starts at, and the first word of the operands, which follow the named ones. */
const waits: Waits = {
  'all-reduce'(instr, s, meet) {
    const [combine, dtype] = [combineCode[instr.combine], codeOf(s.buffer(instr.in).dtype)]
    return [
      s.list.write('waitAllReduce', { ...meet, n: size(s, instr.in), combine, dtype }),
      firstOperand('waitAllReduce'),
    ]
  },
  'all-gather'(instr, s, meet) {
    const { outer, inner } = around(dims(s, instr.in), instr.dim)
    const fields = { ...meet, outer, innerBytes: inner * bytesPer[s.buffer(instr.in).dtype] }
    return [s.list.write('waitAllGather', fields), firstOperand('waitAllGather')]
  },
  'reduce-scatter'(instr, s, meet) {
    const fields = { ...meet, ...around(dims(s, instr.out), instr.dim), combine: combineCode.sum }
    const dtype = codeOf(s.buffer(instr.in).dtype)
    return [s.list.write('waitReduceScatter', { ...fields, dtype }), firstOperand('waitReduceScatter')]
  },
  'all-to-all'(instr, s, meet) {
    const piece = dims(s, instr.out).map(dim =>
      dim.name === instr.from ? { ...dim, size: dim.size / meet.members } : dim,
    )
    const [cut, lay] = [instr.to, instr.from].map(name => piece.findIndex(dim => dim.name === name))
    const [one, two] = [Math.min(cut, lay), Math.max(cut, lay)]
    const between = (from: number, to: number) => elementsOf(piece.slice(from, to))
    const fields = {
      ...{ outer: between(0, one), first: piece[one].size, middle: between(one + 1, two), second: piece[two].size },
      innerBytes: elementsOf(piece.slice(two + 1)) * bytesPer[s.buffer(instr.in).dtype],
      cutFirst: cut < lay ? 1 : 0,
    }
    return [s.list.write('waitAllToAll', { ...meet, ...fields }), firstOperand('waitAllToAll')]
  },
}

/** Within a command, the first of the words that list operands. */
const firstOperand = (name: CommandName): number => 2 + (commands[name] as readonly string[]).indexOf('...x')

function wait({ on }: InstrOf<'wait'>, s: Site): void {
  const open = s.open.get(on)
  if (!open) throw new Error(`internal: no collective that writes ${on} has started`)
  s.open.delete(on)
  for (const [i, pair] of pairsOf(open.instr).entries()) finish(open.instr, pair, open.joined[i], s)
}

function finish(instr: Collective, pair: Pair, joined: Joined, s: Site): void {
  order(s, instr, pair)
  const none = joined.members.map(() => 0)
  const meet: Meet = { sync: 0, me: joined.me, members: none.length, meeting: 0, x: none, out: none }
  const rule = waits[instr.kind] as (i: Collective & Pair, s: Site, m: Meet) => [number, number] // total
  const [start, operands] = rule({ ...instr, ...pair }, s, meet)
  s.list.waitsFor(joined.members)
  joined.name({ ...wordsAt(s.list, start), operands: { list: s.list, word: start + operands } })
  joined.close()
}

type ComputeRules = { readonly [K in OpKind]: (instr: InstrOf<K>, s: Site) => void }

const unaryName = (instr: { ins: readonly Ref[]; outs: readonly Ref[] }, s: Site) => ({
  ...{ y: s.at(instr.outs[0]), x: s.at(instr.ins[0]), n: alike(s, [...instr.outs, ...instr.ins]) },
})

/** Norms: rows over the dims of gain, which come last. */
const normRows = (s: Site, x: Ref, gain: Ref, others: readonly Ref[]) => {
  alike(s, [x, ...others])
  return rowsBy(dims(s, x), dims(s, gain), 'a norm')
}

const compute: ComputeRules = {
  contract(instr, s) {
    const [[a, b], [out]] = [instr.ins, instr.outs]
    const { swap, transA, transB, m, n, k, batch } = s.once(instr, () => matmulOf(dims(s, a), dims(s, b), dims(s, out)))
    const [left, right] = swap ? [b, a] : [a, b]
    const sum = s.fused(instr)
    const place = (ref: Ref | undefined) => (ref === undefined || (ref === sum?.out && s.fresh(ref)) ? 0 : s.at(ref))
    s.list.write('matmul', {
      ...{ add: place(sum?.add), bias: place(sum?.bias), out: s.at(sum?.out ?? out), a: s.at(left), b: s.at(right) },
      ...{ m, n, k, transA: Number(transA), transB: Number(transB) },
      ...{ batch, strideA: m * k, strideB: k * n, strideOut: m * n },
    })
  },
  add({ ins, outs: [out] }, s) {
    const full = ins.find(ref => same(dims(s, ref), dims(s, out))) ?? ins[0]
    const [first, ...more] = [...ins.slice(0, ins.indexOf(full)), ...ins.slice(ins.indexOf(full) + 1)]
    binary(s, 'add', out, [full, first])
    for (const other of more) binary(s, 'add', out, [out, other])
  },
  mul: ({ ins, outs: [out] }, s) => binary(s, 'mul', out, ins),
  scale(instr, s) {
    const { y, x, n } = unaryName(instr, s)
    s.list.write('scale', { out: y, x, n, by: instr.by })
  },
  sumTo({ ins: [x], outs: [out] }, s) {
    const [all, kept] = [size(s, x), size(s, out)]
    const at = { out: s.at(out), x: s.at(x) }
    if (isSuffix(dims(s, out), dims(s, x))) s.list.write('sumRows', { ...at, rows: all / kept, columns: kept })
    else if (isPrefix(dims(s, out), dims(s, x))) s.list.write('sumColumns', { ...at, rows: kept, columns: all / kept })
    else refuse(`summing ${showDims(dims(s, x))} to ${showDims(dims(s, out))} is neither rows nor columns`)
  },
  gelu: (instr, s) => void s.list.write('gelu', { ...unaryName(instr, s), approximate: Number(instr.approximate) }),
  geluGrad({ ins: [dy, x], outs: [dx], approximate }, s) {
    const at = { dx: s.at(dx), dy: s.at(dy), x: s.at(x), n: alike(s, [dx, dy, x]) }
    s.list.write('geluGrad', { ...at, approximate: Number(approximate) })
  },
  swiglu: ({ ins: [gate, up], outs: [y] }, s) =>
    void s.list.write('swiglu', { y: s.at(y), gate: s.at(gate), up: s.at(up), n: alike(s, [y, gate, up]) }),
  swigluGrad({ ins: [dy, gate, up], outs: [dgate, dup] }, s) {
    const at = { dgate: s.at(dgate), dup: s.at(dup), dy: s.at(dy), gate: s.at(gate), up: s.at(up) }
    s.list.write('swigluGrad', { ...at, n: alike(s, [dgate, dup, dy, gate, up]) })
  },
  layerNorm({ ins: [x, gain, bias], outs: [y], eps }, s) {
    const at = { y: s.at(y), x: s.at(x), gain: s.at(gain), bias: s.at(bias) }
    s.list.write('layerNorm', { ...at, ...normRows(s, x, gain, [y]), eps })
  },
  layerNormInputGrad({ ins: [dy, x, gain], outs: [dx], eps }, s) {
    const at = { dx: s.at(dx), dy: s.at(dy), x: s.at(x), gain: s.at(gain) }
    s.list.write('layerNormInputGrad', { ...at, ...normRows(s, x, gain, [dy, dx]), eps })
  },
  layerNormWeightGrad({ ins: [dy, x], outs: [dgain, dbias], eps }, s) {
    const at = { dgain: s.at(dgain), dbias: s.at(dbias), dy: s.at(dy), x: s.at(x) }
    s.list.write('layerNormWeightGrad', { ...at, ...normRows(s, x, dgain, [dy]), eps })
  },
  rmsNorm({ ins: [x, gain], outs: [y], eps }, s) {
    s.list.write('rmsNorm', { y: s.at(y), x: s.at(x), gain: s.at(gain), ...normRows(s, x, gain, [y]), eps })
  },
  rmsNormInputGrad({ ins: [dy, x, gain], outs: [dx], eps }, s) {
    const at = { dx: s.at(dx), dy: s.at(dy), x: s.at(x), gain: s.at(gain) }
    s.list.write('rmsNormInputGrad', { ...at, ...normRows(s, x, gain, [dy, dx]), eps })
  },
  rmsNormWeightGrad({ ins: [dy, x], outs: [dgain], eps }, s) {
    s.list.write('rmsNormWeightGrad', {
      dgain: s.at(dgain),
      dy: s.at(dy),
      x: s.at(x),
      ...normRows(s, x, dgain, [dy]),
      eps,
    })
  },
  rope(instr, s) {
    const all = dims(s, instr.ins[0])
    const [batch, seq, headDim] = ['batch', 'seq', 'headDim'].map(name => all.find(dim => dim.name === name)!)
    const middle = all.filter(({ name }) => !['batch', 'seq', 'headDim'].includes(name))
    if (!batch || !seq || !headDim || !same(all, [batch, seq, ...middle, headDim]))
      refuse(`rotary positions want [batch seq .. headDim], not ${showDims(all)}`)
    const { y, x } = unaryName(instr, s)
    s.list.write('rope', {
      ...{ y, x, batch: batch.size, seq: seq.size, heads: elementsOf(middle), headDim: headDim.size },
      ...{ theta: instr.theta, inverse: Number(instr.inverse), origin: originAlong(s, instr.ins[0], 'seq') },
    })
  },
  attention(instr, s) {
    const [q, k, v] = instr.ins
    const [out, lse] = instr.outs
    const at = { out: s.at(out), lse: s.at(lse), q: s.at(q), k: s.at(k), v: s.at(v) }
    s.list.writeTimed('attention', { ...at, ...heads(s, instr, q, k) })
  },
  attentionGrad(instr, s) {
    const [dout, q, k, v, out, lse] = instr.ins
    const [dq, dk, dv] = instr.outs
    const at = { dq: s.at(dq), dk: s.at(dk), dv: s.at(dv), dout: s.at(dout), q: s.at(q), k: s.at(k), v: s.at(v) }
    s.list.writeTimed('attentionGrad', { ...at, out: s.at(out), lse: s.at(lse), ...heads(s, instr, q, k) })
  },
  dropout(instr, s) {
    const [y] = instr.outs
    const { whole } = s.shape(y)
    const { y: to, x } = unaryName(instr, s)
    s.list.writeTimed('dropout', {
      ...{ y: to, x, ...counterOf(dims(s, y), whole), base: indexOf(dims(s, y), s.origins(y), whole) },
      ...{ rate: instr.dropout.rate, ...mask(s, instr.dropout.key) },
    })
  },
  embed: ({ ins: [ids, rows], outs: [out] }, s) =>
    void s.list.write('embed', { out: s.at(out), ids: s.at(ids), table: s.at(rows), ...table(s, ids, rows, out) }),
  embedGrad: ({ ins: [ids, dout], outs: [rows] }, s) =>
    void s.list.write('embedGrad', {
      dtable: s.at(rows),
      ids: s.at(ids),
      dout: s.at(dout),
      ...table(s, ids, rows, dout),
    }),
  maxOver({ ins: [x], outs: [out] }, s) {
    const { rows, columns } = classes(s, x, out)
    s.list.write('maxColumns', { out: s.at(out), x: s.at(x), rows, columns })
  },
  sumExp({ ins: [x, max], outs: [out] }, s) {
    const { rows, columns } = classes(s, x, out)
    alike(s, [max, out])
    s.list.write('sumExp', { out: s.at(out), x: s.at(x), max: s.at(max), rows, columns })
  },
  pick({ ins: [x, labels], outs: [out] }, s) {
    alike(s, [labels, out])
    s.list.write('pick', { out: s.at(out), x: s.at(x), labels: s.at(labels), ...classes(s, x, out) })
  },
  tokenLoss({ ins, outs: [loss] }, s) {
    const [max, sumExp, picked, labels] = ins.map(ref => s.at(ref))
    s.list.write('tokenLoss', { loss: scalarOut(s, loss), max, sumExp, picked, labels, n: alike(s, ins) })
  },
  tokenLossGrad({ ins: [x, max, sumExp, labels, count], outs: [dx] }, s) {
    alike(s, [max, sumExp, labels])
    alike(s, [x, dx])
    s.list.write('tokenLossGrad', {
      ...{ dx: s.at(dx), x: s.at(x), max: s.at(max), sumExp: s.at(sumExp), labels: s.at(labels), count: s.at(count) },
      ...classes(s, x, labels),
    })
  },
  countLabels: ({ ins: [labels], outs: [count] }, s) =>
    void s.list.write('countLabels', { count: scalarOut(s, count), labels: s.at(labels), n: size(s, labels) }),
  squaredError: ({ ins: [x, target], outs: [loss] }, s) =>
    void s.list.write('squaredError', {
      loss: scalarOut(s, loss),
      x: s.at(x),
      target: s.at(target),
      n: alike(s, [x, target]),
    }),
  squaredErrorGrad({ ins: [x, target, count], outs: [dx] }, s) {
    const at = { dx: s.at(dx), x: s.at(x), target: s.at(target), count: s.at(count) }
    s.list.write('squaredErrorGrad', { ...at, n: alike(s, [x, target, dx]) })
  },
  countElements: ({ ins: [target], outs: [count] }, s) =>
    void s.list.write('fill', { out: scalarOut(s, count), n: 1, value: size(s, target) }),
  zero: ({ outs: [out] }, s) => s.clear(out),
  accumulate({ ins: [x], outs: [out] }, s) {
    const n = alike(s, [out, x])
    if (s.fresh(out))
      copyRuns(s, [{ from: 0, to: 0, rows: 1, columns: n, strideFrom: n, strideTo: n }], s.at(x), s.at(out))
    else s.list.write('accumulate', { out: s.at(out), x: s.at(x), n })
  },
  sumSquares({ ins: [x], outs: [out], once }, s) {
    if (s.isFirst(once)) s.list.write('sumSquares', { out: s.at(out), x: s.at(x), n: size(s, x) })
  },
  adamw({ ins, outs: [param, m, v], beta1, beta2, eps, weightDecay, clip }, s) {
    const [grad, normSquared, lr, step] = ins.map(ref => s.at(ref))
    s.list.write('adamw', {
      ...{ param: s.at(param), m: s.at(m), v: s.at(v), grad, normSquared, lr, step },
      ...{ n: alike(s, [param, m, v, ins[0]]), beta1, beta2, eps, weightDecay, clip },
    })
  },
  sgd({ ins, outs: [param, m], momentum, weightDecay, clip }, s) {
    const [grad, normSquared, lr] = ins.map(ref => s.at(ref))
    const at = { param: s.at(param), m: m === undefined ? 0 : s.at(m), grad, normSquared, lr }
    s.list.write('sgd', { ...at, n: alike(s, [param, ins[0], ...(m ? [m] : [])]), momentum, weightDecay, clip })
  },
}

export const rules: Rules<void, Site> = {
  ...compute,
  'all-reduce': collective,
  'all-gather': collective,
  'reduce-scatter': collective,
  'all-to-all': collective,
  wait,
  slice({ in: from, out, axes, dim }, s) {
    if (dim === undefined) return refuse('a part of a line')
    const { index } = s.part(axes)
    const width = sizeIn(dims(s, out), dim) ?? 1
    const first = index * width * strideOf(dims(s, from), dim) * bytesPer.f32
    copyRuns(s, runsOf(dims(s, out), dims(s, from), dims(s, out)), s.at(from) + first, s.at(out))
  },
  load({ input, out }, s) {
    if (input === 'lr' || input === 'step') {
      const one = { rows: 1, columns: 1, strideX: 1, strideOut: 1 }
      s.list.write('copy', { x: s.scalar(input), out: s.at(out), ...one })
      return
    }
    const whole = s.input(input)
    if (!whole) throw new Error(`internal: there is no input ${input}`)
    const first = indexOf(dims(s, out), s.origins(out), whole.dims)
    copyRuns(s, runsOf(dims(s, out), whole.dims, dims(s, out)), whole.offset + first * bytesPer.f32, s.at(out))
  },
}
