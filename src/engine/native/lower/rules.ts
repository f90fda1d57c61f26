/**
 * From one instruction to the commands that do it: a total table over the kinds. Everything that depends on a rank's
 * place (its origin in the whole tensor, whether it counts a norm) becomes a number here, so commands have no branches.
 */
import { elementsOf, type OpKind } from '../../../base/index.js'
import { firstIndex, has, sizeIn } from '../../../geometry/index.js'
import type { InstrOf, Ref, Rules } from '../../../ir/index.js'
import { attentionRules, orderIn } from './attention.js'
import { codeRules } from './codes.js'
import { collective, wait } from './collectives.js'
import { expertRules } from './experts.js'
import type { FusedResult, NormInputGrad } from './fuse.js'
import { optimizerRules } from './optimizers.js'
import { counterOf, isPrefix, isSuffix, matmulOf, partRuns, refuse, rowsBy, same, showDims } from './shapes.js'
import { alike, bytesOf, copyRuns, dims, mask, originAlong, type Site, size, storedAlike } from './site.js'
import { sparseRules } from './sparse.js'

/** Commands of elementwise ops with one period: (out, a, b, n, period). */
function binary(s: Site, name: 'add' | 'mul', out: Ref, [a, b]: readonly Ref[]): void {
  const full = (ref: Ref) => same(dims(s, ref), dims(s, out))
  const [wide, other] = full(a) ? [a, b] : [b, a]
  if (name === 'mul' && full(wide) && !full(other) && isPrefix(dims(s, other), dims(s, out))) {
    const rows = size(s, other)
    s.list.write('mulRows', { out: s.at(out), a: s.at(wide), b: s.at(other), rows, columns: size(s, out) / rows })
    return
  }
  if (!full(wide) || !isSuffix(dims(s, other), dims(s, out)))
    refuse(`${name} broadcasts over leading dims only, not ${showDims(dims(s, other))} over ${showDims(dims(s, out))}`)
  s.list.write(name, { out: s.at(out), a: s.at(wide), b: s.at(other), n: size(s, out), period: size(s, other) })
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

/** The parts of a join and where each begins in a row of the whole: rows of a part come first in those of the whole. */
function* joined(s: Site, parts: readonly Ref[], whole: Ref) {
  const rows = dims(s, whole).slice(0, -1)
  const stride = dims(s, whole).at(-1)?.size ?? 0
  let first = 0
  for (const part of parts) {
    const [own, columns] = [dims(s, part).slice(0, -1), dims(s, part).at(-1)?.size ?? 0]
    if (!isPrefix(own, rows) || has(rows, dims(s, part).at(-1)?.name ?? ''))
      refuse(`${showDims(dims(s, part))} is not joined into ${showDims(dims(s, whole))} along its last dim`)
    const words = { rows: elementsOf(own), repeats: elementsOf(rows) / elementsOf(own), columns, stride }
    yield { part: s.at(part), whole: s.at(whole) + bytesOf(s, whole, first), words }
    first += columns
  }
}

type ComputeRules = { readonly [K in OpKind]: (instr: InstrOf<K>, s: Site) => void }

const unaryName = (instr: { ins: readonly Ref[]; outs: readonly Ref[] }, s: Site) => ({
  y: s.at(instr.outs[0]),
  x: s.at(instr.ins[0]),
  n: alike(s, [...instr.outs, ...instr.ins]),
})

/** Norms: rows over the dims of gain, which come last. */
const normRows = (s: Site, x: Ref, gain: Ref, others: readonly Ref[]) => {
  alike(s, [x, ...others])
  return rowsBy(dims(s, x), dims(s, gain), 'a norm')
}

/** Where an addend lies; 0: there is nothing to add, or another rank adds it. */
function addend(s: Site, sum: FusedResult | undefined, ref: Ref | undefined): number {
  if (ref === undefined || (sum?.first && !s.isFirst(sum.first))) return 0
  return ref === sum?.out && s.fresh(ref) ? 0 : s.at(ref)
}

/** What the gradient of a norm's input may do besides: start from another gradient, make those of the weights. */
function normGrad(s: Site, instr: NormInputGrad) {
  const sum = s.fused(instr)
  const [dgain, dbias] = s.normWeights(instr)?.outs ?? []
  const place = (ref: Ref | undefined) => (ref === undefined ? 0 : s.at(ref))
  return {
    at: { dx: s.at(sum?.out ?? instr.outs[0]), add: addend(s, sum, sum?.add), dgain: place(dgain) },
    dbias: place(dbias),
  }
}

/** `check` of a run says so first. */
const withoutCodes = ({ kind }: { kind: string }) => {
  throw new Error(`internal: the engine has no kernel for ${kind}`)
}

const compute: ComputeRules = {
  contract(instr, s) {
    const [[a, b], [out]] = [instr.ins, instr.outs]
    const { swap, transA, transB, m, n, k, batch } = s.once(instr, () => matmulOf(dims(s, a), dims(s, b), dims(s, out)))
    const [left, right] = swap ? [b, a] : [a, b]
    const sum = s.fused(instr)
    const words = {
      ...{ add: addend(s, sum, sum?.add), bias: addend(s, sum, sum?.bias) },
      out: s.at(sum?.out ?? out),
      a: s.at(left),
      b: s.at(right),
      m,
      n,
      k,
      transA: Number(transA),
      transB: Number(transB),
      batch,
      strideA: m * k,
      strideB: k * n,
      strideOut: m * n,
    }
    const share = batch === 1 ? s.panels(right) : undefined
    const columns = s.columns(instr)
    if (!share && columns === undefined) return void s.list.write('matmul', words)
    const summed =
      columns === undefined ? { adds: 0, sums: 0 } : { adds: Number(!s.fresh(columns)), sums: s.at(columns) }
    const start = s.list.write('matmulWith', { ...words, panels: 0, packs: 0, ...summed })
    share?.({ m, n, k, transB, start })
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
  layerNormInputGrad(instr, s) {
    const [[dy, x, gain], [dx]] = [instr.ins, instr.outs]
    const { at, dbias } = normGrad(s, instr)
    const operands = { dy: s.at(dy), x: s.at(x), gain: s.at(gain), eps: instr.eps }
    s.list.write('layerNormInputGrad', { ...at, dbias, ...operands, ...normRows(s, x, gain, [dy, dx]) })
  },
  layerNormWeightGrad({ ins: [dy, x], outs: [dgain, dbias], eps }, s) {
    const at = { dgain: s.at(dgain), dbias: s.at(dbias), dy: s.at(dy), x: s.at(x) }
    s.list.write('layerNormWeightGrad', { ...at, ...normRows(s, x, dgain, [dy]), eps })
  },
  rmsNorm({ ins: [x, gain], outs: [y], eps }, s) {
    s.list.write('rmsNorm', { y: s.at(y), x: s.at(x), gain: s.at(gain), ...normRows(s, x, gain, [y]), eps })
  },
  rmsNormInputGrad(instr, s) {
    const [[dy, x, gain], [dx]] = [instr.ins, instr.outs]
    const operands = { dy: s.at(dy), x: s.at(x), gain: s.at(gain), eps: instr.eps }
    s.list.write('rmsNormInputGrad', { ...normGrad(s, instr).at, ...operands, ...normRows(s, x, gain, [dy, dx]) })
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
  join({ ins, outs: [out] }, s) {
    storedAlike(s, [out, ...ins])
    for (const { part, whole, words } of joined(s, ins, out))
      s.list.write('joinPart', { x: part, out: whole, ...words })
  },
  joinGrad({ ins: [dout], outs }, s) {
    for (const { part, whole, words } of joined(s, outs, dout))
      s.list.write('joinGradPart', { x: whole, out: part, ...words })
  },
  ...attentionRules,
  dropout(instr, s) {
    const [y] = instr.outs
    const [given, order] = instr.ins
    const { whole } = s.shape(y)
    alike(s, [y, given])
    const counter = counterOf(dims(s, y), whole, s.parts(y), order !== undefined)
    const lying = { order: orderIn(s, order, y), slots: sizeIn(whole, 'seq') ?? 1, origin: originAlong(s, y, 'seq') }
    s.list.writeTimed('dropout', {
      ...{ y: s.at(y), x: s.at(given), ...lying, ...counter, base: firstIndex(dims(s, y), s.parts(y), whole) },
      ...{ rate: instr.dropout.rate, ...mask(s, instr.dropout.key) },
    })
  },
  embed({ ins: [ids, rows], outs: [out] }, s) {
    storedAlike(s, [rows, out])
    s.list.write('embed', { out: s.at(out), ids: s.at(ids), table: s.at(rows), ...table(s, ids, rows, out) })
  },
  embedGrad: ({ ins: [ids, dout], outs: [rows] }, s) =>
    void s.list.write('embedGrad', {
      dtable: s.at(rows),
      ids: s.at(ids),
      dout: s.at(dout),
      ...table(s, ids, rows, dout),
    }),
  absMax: withoutCodes,
  quantize: withoutCodes,
  scaledContract: withoutCodes,
  scaledExpertContract: withoutCodes,
  scaledExpertWeightGrad: withoutCodes,
  track: withoutCodes,
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
  ...expertRules,
  zero: ({ outs: [out] }, s) => s.clear(out),
  accumulate({ ins: [x], outs: [out] }, s) {
    const n = alike(s, [out, x])
    const { dtype } = s.buffer(out)
    const all = [{ from: 0, to: 0, rows: 1, columns: n, strideFrom: n, strideTo: n }]
    if (s.fresh(out)) copyRuns(s, all, { dtype, x: s.at(x), out: s.at(out) })
    else s.list.write('accumulate', { out: s.at(out), x: s.at(x), n })
  },
  sumSquares({ ins: [x], outs: [out], once }, s) {
    s.list.write('sumSquares', { out: s.at(out), x: s.at(x), n: size(s, x), times: Number(s.isFirst(once)) })
  },
  ...optimizerRules,
  ...codeRules,
  ...sparseRules,
}

/** Part `index` of a line; beyond its end there are zeros. */
function sliceLine(s: Site, from: Ref, out: Ref, index: number): void {
  const [all, part] = [size(s, from), size(s, out)]
  const columns = Math.min(part, Math.max(0, all - index * part))
  const [x, to] = [s.at(from) + bytesOf(s, from, index * part), s.at(out)]
  if (columns > 0) s.list.write('copy', { x, out: to, rows: 1, columns, strideX: columns, strideOut: columns })
  if (columns < part) s.list.write('fill', { out: to + bytesOf(s, out, columns), n: part - columns, value: 0 })
}

export const rules: Rules<void, Site> = {
  ...compute,
  'all-reduce': collective,
  'all-gather': collective,
  'reduce-scatter': collective,
  'all-to-all': collective,
  shift: collective,
  move: collective,
  'all-dispatch': collective,
  'all-combine': collective,
  wait,
  slice({ in: from, out, axes, dim }, s) {
    if (dim === undefined) return sliceLine(s, from, out, s.index(axes))
    const parts = dims(s, out).map(one => s.part(one.name === dim ? axes : [], one))
    const runs = partRuns(dims(s, out), parts, dims(s, from))
    copyRuns(s, runs, { dtype: s.buffer(out).dtype, x: s.at(from), out: s.at(out) })
  },
  load({ input, out }, s) {
    if (input === 'lr') {
      const one = { rows: 1, columns: 1, strideX: 1, strideOut: 1 }
      s.list.write('copy', { x: s.rate, out: s.at(out), ...one })
      return
    }
    const whole = s.input(input)
    if (!whole) throw new Error(`internal: there is no input ${input}`)
    const runs = partRuns(dims(s, out), s.parts(out), whole.dims)
    copyRuns(s, runs, { dtype: whole.dtype, x: whole.offset, out: s.at(out) })
  },
}
