/** Cases of attention: queries and keys of the whole sequence or of a part of it, in one run or two. */
import { hashName, type Op } from '../src/base/index.js'
import { type draw, largest, type Make, moment, orNone, reference } from './kernel-draw.js'
import type { Tensor } from './tiny.js'

type Draw = ReturnType<typeof draw>

/** The whole sequence, a run of it, or two runs. */
function partOfSequence(positions: number, { pick, int }: Draw) {
  const [before, skipped, after] = pick([
    [0, 0, 0] as const,
    [int(positions), 0, 0],
    [int(positions), int(positions), 0],
  ])
  const length = Math.max(1, positions - before - skipped - after)
  const origin = Math.min(before, positions - 1)
  const gap = Math.max(0, Math.min(skipped, positions - origin - length))
  return { length, origin, until: int(length) + 1, gap }
}

type Part = ReturnType<typeof partOfSequence>

/** Of a tensor [batch seq ...], the positions of a part, which says where it lies. */
function cut(of: Tensor, seq: number, { length, origin, until, gap }: Part): Tensor & { values: Float32Array } {
  const [batch, , ...rest] = of.dims
  const row = rest.reduce((n, dim) => n * dim.size, 1)
  const taken = Array.from({ length: batch.size }, (_, b) =>
    Array.from({ length }, (_, i) => {
      const at = (b * seq + origin + i + (i < until ? 0 : gap)) * row
      return Array.from(of.values).slice(at, at + row)
    }),
  )
  return {
    ...{ ...of, dims: [batch, { name: 'seq', size: length }, ...rest], values: Float32Array.from(taken.flat(2)) },
    ...{ whole: { ...of.whole, seq }, origin: { ...of.origin, seq: origin }, gap: { dim: 'seq', until, gap } },
  }
}

/** What documents have: positions of queries, and an order of all tokens. */
const tables = ['places', 'order']

/** Tokens of each sequence in runs that follow each other, and these in any order. */
export function shuffled({ int, pick }: Draw, batch: number, slot: number): Tensor {
  const orders = Array.from({ length: batch }, () => {
    const order = Array.from({ length: slot }, (_, i) => i)
    const runs: number[][] = []
    while (order.length > 0) runs.splice(int(runs.length + 1), 0, order.splice(0, pick([1, 3, 40, 70])))
    return runs.flat()
  })
  const dims = Object.entries({ batch, slot }).map(([name, size]) => ({ name, size }))
  return { dims, values: Int32Array.from(orders.flat()) }
}

/** Local and whole sizes of q, k, v; window and dropout sometimes; and now and then some of the keys only. */
function attentionInput(d: Draw) {
  const { tensor, pick, chance, int } = d
  const [batch, seq] = [pick([1, 2]), pick([1, 2, 7, 31, 64, 65, 130, 150])]
  const all = { length: seq, origin: 0, until: seq, gap: 0 }
  const [queries, keys] = [partOfSequence(seq, d), chance(0.5) ? partOfSequence(seq, d) : all]
  const [kvHeads, group, headDim] = [pick([1, 2]), pick([1, 2, 3]), pick([1, 2, 6, 16, 32, 33, 64])]
  const [vHeadDim, scale] = [chance(0.5) ? headDim : pick([1, 5, 24, 40]), chance(0.5) ? headDim ** -0.5 : 0.3]
  const whole = { batch: 5, kvHeads: 4, group: 6, seq }
  const origin = { batch: int(3), kvHeads: int(2), group: int(3) }
  const [k, v] = [{ headDim }, { vHeadDim }].map(depth => ({
    ...{ ...tensor({ batch, seq, kvHeads, ...depth } as Record<string, number>), whole, origin }, // one of the two depths
  }))
  const q = cut({ ...tensor({ batch, seq, kvHeads, group, headDim }), whole, origin }, seq, queries)
  const [window, rate] = [pick([0, 0, 1, 5, 70]), chance(0.4) ? 0.3 : 0]
  // Short documents, and long ones: some lie in other blocks than their keys.
  const places = chance(0.5) ? [d.integers({ batch, seq: queries.length }, 0, pick([1, 4, 80, seq]))] : []
  const documents = places.length > 0 && chance(0.5) ? [...places, shuffled(d, batch, seq)] : places
  const words = {
    ...{
      batch,
      queries: queries.length,
      keys: keys.length,
      positions: seq,
      kvHeads,
      group,
      headDim,
      valueDim: vHeadDim,
      scale,
    },
    ...{ window, rate },
    ...{ queryOrigin: queries.origin, queryUntil: queries.until, queryGap: queries.gap },
    ...{ keyOrigin: keys.origin, keyUntil: keys.until, keyGap: keys.gap },
    ...{ seed: moment.seed, name: hashName('block.attention'), step: moment.step },
    ...{ batchOrigin: origin.batch, headOrigin: origin.kvHeads, groupOrigin: origin.group },
    ...{ heads: whole.kvHeads, groups: whole.group },
  }
  const choice = { scale, ...(window > 0 && { window }), ...(rate > 0 && { dropout: { rate, key: 'attention' } }) }
  const asked = { batch, seq: queries.length, kvHeads, group }
  const held = { batch, seq: keys.length, kvHeads }
  const shapes = {
    ...{ q: { ...asked, headDim }, out: { ...asked, vHeadDim }, lse: asked },
    ...{ k: { ...held, headDim }, v: { ...held, vHeadDim } },
  }
  const some = keys === all ? undefined : { k: cut(k, seq, keys), v: cut(v, seq, keys) }
  return { q, k, v, some, documents, words, choice, shapes }
}

const f32 = (like: Tensor, values: Float64Array, shape: Record<string, number>): Tensor => ({
  ...like,
  dims: Object.entries(shape).map(([name, size]) => ({ name, size })),
  values: Float32Array.from(values),
})

/** To some of the keys only it starts from what others gave. */
export const attention: Make = d => {
  const { q, k, v, some, documents, words, choice, shapes } = attentionInput(d)
  const given = some ?? { k, v }
  const share = reference({ kind: 'attention', ...choice }, [q, given.k, given.v, ...documents], shapes.out, shapes.lse)
  const ins = { q: q.values, k: given.k.values as Float32Array, v: given.v.values as Float32Array }
  const rest = { command: 'attention', magnitude: 4, bound: 1e-6 } as const
  if (!some) {
    const [out, lse] = share
    return { ...rest, ins, ...orNone(tables, documents, { ...words, before: 0, beforeLse: 0 }), expected: { out, lse } }
  }
  const [before, beforeLse] = [d.tensor(shapes.out), d.tensor(shapes.lse)]
  const parts = [before, beforeLse, f32(q, share[0], shapes.out), f32(q, share[1], shapes.lse)]
  const [out, lse] = reference({ kind: 'attentionMerge' }, parts, shapes.out, shapes.lse)
  const more = { before: before.values, beforeLse: beforeLse.values }
  return { ...rest, ins: { ...ins, ...more }, ...orNone(tables, documents, words), expected: { out, lse } }
}

export const attentionMerge: Make = ({ tensor, size, int }) => {
  const [rows, columns] = [size(), size()]
  const [a, b] = [tensor({ rows, columns }), tensor({ rows, columns })]
  const [aLse, bLse] = [tensor({ rows }, 5), tensor({ rows }, 5)]
  // One of them saw no key.
  if (rows > 0) aLse.values[int(rows)] = -Infinity
  const [out, lse] = reference({ kind: 'attentionMerge' }, [a, aLse, b, bLse], { rows, columns }, { rows })
  const ins = { a: a.values, aLse: aLse.values, b: b.values, bLse: bLse.values }
  return { command: 'attentionMerge', ins, words: { rows, columns }, expected: { out, lse }, magnitude: 4, bound: 1e-6 }
}

/** Of some keys only, given the output and lse of all of them. */
export const attentionGrad: Make = d => {
  const { q, k, v, some = { k, v }, documents, words, choice, shapes } = attentionInput(d)
  const results = reference({ kind: 'attention', ...choice }, [q, k, v, ...documents], shapes.out, shapes.lse)
  const [out, lse] = results.map((values, i) => f32(q, values, i === 0 ? shapes.out : shapes.lse))
  const dout = { ...out, values: d.values(out.values.length) }
  const op: Op = { kind: 'attentionGrad', ...choice }
  const operands = [dout, q, some.k, some.v, out, lse, ...documents]
  const [dq, dk, dv] = reference(op, operands, shapes.q, shapes.k, shapes.v)
  const ins = { dout: dout.values, q: q.values, k: some.k.values, v: some.v.values, out: out.values, lse: lse.values }
  const magnitude = Math.max(4, largest(dq), largest(dk), largest(dv))
  return {
    command: 'attentionGrad',
    ins,
    ...orNone(tables, documents, words),
    expected: { dq, dk, dv },
    magnitude,
    bound: 2e-6,
  }
}
