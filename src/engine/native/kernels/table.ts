/**
 * The kernels a training step spends its time in, on the shapes of a small GPT: operands by name of the command's word,
 * what the reference calls the op, and what it costs.
 */
import type { Op } from '../../../base/index.js'
import type { CommandName } from '../index.js'

export type Sizes = Readonly<Record<string, number>>

export interface Trial {
  readonly command: CommandName
  /** What is special about it: a transpose form, say. */
  readonly form?: string
  readonly op: Op
  /** Operands by name, in the order of the op. Integers are ids below `below`. */
  readonly ins: Readonly<Record<string, Sizes>>
  readonly outs: Readonly<Record<string, Sizes>>
  readonly words: Readonly<Record<string, number>>
  /** Ids among the operands: how many there are. */
  readonly below?: number
  /** Results are read too. */
  readonly updates?: boolean
  /** Words of what is f32 whatever tokens are in: statistics, gradients of parameters, what optimizers keep. */
  readonly wide?: readonly string[]
  /** Multiplications and additions, where they and not the bytes are what it costs. */
  readonly flops?: number
  /** Vector instructions, one an element, of functions such as exp, beside the products: a division counts for eight. */
  readonly steps?: number
}

/** Of exp, of a sigmoid. */
const [expSteps, sigmoidSteps] = [16, 26]

const [embed, ffn, vocab, heads, eps] = [384, 1536, 256, 6, 1e-5]
const headDim = embed / heads

function matmuls(m: number): Trial[] {
  const [n, k] = [ffn, embed]
  const trial = (form: string, ins: Trial['ins']): Trial => ({
    ...{ command: 'matmul', form, op: { kind: 'contract' }, ins, outs: { out: { m, n } }, flops: 2 * m * n * k },
    words: {
      ...{ bias: 0, add: 0, m, n, k, transA: Number(form[0] === 'T'), transB: Number(form[1] === 'T') },
      ...{ batch: 1, strideA: 0, strideB: 0, strideOut: 0 },
    },
  })
  return [
    trial('NN', { a: { m, k }, b: { k, n } }),
    trial('NT', { a: { m, k }, b: { n, k } }),
    { ...trial('TN', { a: { k, m }, b: { k, n } }), wide: ['out'] }, // the gradient of a weight
  ]
}

function attentions({ batch, seq }: Tokens): Trial[] {
  const [q, lse] = [
    { batch, seq, heads, group: 1, headDim },
    { batch, seq, heads, group: 1 },
  ]
  const kv = { batch, seq, heads, headDim }
  const words = {
    ...{ batch, queries: seq, keys: seq, positions: seq, queryOrigin: 0, queryUntil: seq, queryGap: 0 },
    ...{ keyOrigin: 0, keyUntil: seq, keyGap: 0, before: 0, beforeLse: 0, places: 0, order: 0 },
    ...{
      kvHeads: heads,
      group: 1,
      headDim,
      valueDim: headDim,
      scale: headDim ** -0.5,
      window: 0,
      rate: 0,
      seed: 0,
      name: 0,
      step: 0,
    },
    ...{ batchOrigin: 0, headOrigin: 0, groupOrigin: 0, heads, groups: 1 },
  }
  const products = batch * heads * seq * (seq + 1) * headDim // causal: half of a product of seq x seq x headDim
  return [
    {
      ...{ command: 'attention', op: { kind: 'attention' }, ins: { q, k: kv, v: kv }, outs: { out: q, lse }, words },
      ...{ flops: 2 * products, steps: (expSteps * products) / headDim / 2, wide: ['lse'] },
    },
    {
      ...{
        command: 'attentionGrad',
        op: { kind: 'attentionGrad' },
        words,
        flops: 5 * products,
        steps: (expSteps * products) / headDim / 2,
      },
      ...{ ins: { dout: q, q, k: kv, v: kv, out: q, lse }, outs: { dq: q, dk: kv, dv: kv }, wide: ['lse'] },
    },
  ]
}

function norms(rows: number): Trial[] {
  const [x, w] = [{ rows, columns: embed }, { columns: embed }]
  const words = { rows, columns: embed, eps }
  return [
    { command: 'layerNorm', op: { kind: 'layerNorm', eps }, ins: { x, gain: w, bias: w }, outs: { y: x }, words },
    {
      ...{ command: 'layerNormInputGrad', op: { kind: 'layerNormInputGrad', eps } },
      words: { ...words, dgain: 0, dbias: 0, add: 0 },
      ...{ ins: { dy: x, x, gain: w }, outs: { dx: x } },
    },
    {
      ...{ command: 'layerNormWeightGrad', op: { kind: 'layerNormWeightGrad', eps }, words },
      ...{ ins: { dy: x, x }, outs: { dgain: w, dbias: w }, wide: ['dgain', 'dbias'] },
    },
    { command: 'rmsNorm', op: { kind: 'rmsNorm', eps }, ins: { x, gain: w }, outs: { y: x }, words },
    {
      ...{ command: 'rmsNormInputGrad', op: { kind: 'rmsNormInputGrad', eps }, words: { ...words, dgain: 0, add: 0 } },
      ...{ ins: { dy: x, x, gain: w }, outs: { dx: x } },
    },
  ]
}

function pointwise(rows: number): Trial[] {
  const [x, bias] = [{ rows, columns: ffn }, { columns: ffn }]
  const n = rows * ffn
  const gelu = { n, approximate: 1 }
  return [
    {
      ...{ command: 'add', form: 'bias', op: { kind: 'add' }, words: { n, period: ffn } },
      ...{ ins: { a: x, b: bias }, outs: { out: x } },
    },
    {
      ...{ command: 'add', form: 'residual', op: { kind: 'add' }, words: { n, period: n } },
      ...{ ins: { a: x, b: x }, outs: { out: x } },
    },
    {
      ...{ command: 'gelu', op: { kind: 'gelu', approximate: true }, words: gelu, steps: n * (sigmoidSteps + 4) },
      ...{ ins: { x }, outs: { y: x } },
    },
    {
      ...{ command: 'geluGrad', op: { kind: 'geluGrad', approximate: true }, words: gelu },
      ...{ ins: { dy: x, x }, outs: { dx: x }, steps: n * (sigmoidSteps + 10) },
    },
    {
      ...{ command: 'swiglu', op: { kind: 'swiglu' }, words: { n }, steps: n * (sigmoidSteps + 2) },
      ...{ ins: { gate: x, up: x }, outs: { y: x } },
    },
    {
      ...{ command: 'swigluGrad', op: { kind: 'swigluGrad' }, words: { n }, steps: n * (sigmoidSteps + 7) },
      ...{ ins: { dy: x, gate: x, up: x }, outs: { dgate: x, dup: x } },
    },
    {
      ...{ command: 'sumRows', op: { kind: 'sumTo' }, words: { rows, columns: ffn } },
      ...{ ins: { x }, outs: { out: bias }, wide: ['out'] },
    },
    { command: 'accumulate', op: { kind: 'accumulate' }, ins: { x }, outs: { out: x }, words: { n }, updates: true },
    {
      ...{ command: 'sumSquares', op: { kind: 'sumSquares', once: [] }, ins: { x }, outs: { out: {} } },
      ...{ words: { n, times: 1 }, updates: true, wide: ['x', 'out'] },
    },
  ]
}

function tables(n: number): Trial[] {
  const words = { n, rows: vocab, columns: embed, origin: 0 }
  const [ids, table, out] = [{ n }, { rows: vocab, columns: embed }, { n, columns: embed }]
  return [
    { command: 'embed', op: { kind: 'embed' }, ins: { ids, table }, outs: { out }, words, below: vocab },
    {
      command: 'embedGrad',
      op: { kind: 'embedGrad' },
      ins: { ids, dout: out },
      outs: { dtable: table },
      wide: ['dtable'],
      words,
      below: vocab,
    },
  ]
}

function losses(rows: number): Trial[] {
  const [x, row, columns] = [{ rows, vocab: 8 * vocab }, { rows }, 8 * vocab]
  return [
    {
      ...{ command: 'maxColumns', op: { kind: 'maxOver' }, words: { rows, columns } },
      ...{ ins: { x }, outs: { out: row }, wide: ['out'] },
    },
    {
      ...{
        command: 'sumExp',
        op: { kind: 'sumExp' },
        words: { rows, columns },
        steps: rows * columns * (expSteps + 2),
      },
      ...{ ins: { x, max: row }, outs: { out: row }, wide: ['max', 'out'] },
    },
    {
      ...{ command: 'tokenLossGrad', op: { kind: 'tokenLossGrad' }, words: { rows, columns, origin: 0 } },
      ...{ ins: { x, max: row, sumExp: row, labels: row, count: {} }, outs: { dx: x }, below: columns },
      wide: ['max', 'sumExp', 'count'],
      steps: rows * columns * (expSteps + 2),
    },
  ]
}

function updates(tokens: number): Trial[] {
  const x = { n: tokens * embed }
  const how = { beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 }
  return [
    {
      ...{ command: 'adamw', op: { kind: 'adamw', ...how, clip: 0 }, updates: true },
      words: { ...x, ...how, top: 0, coupled: 0, clip: 0, limit: Number.POSITIVE_INFINITY, rate: 1 },
      ...{ ins: { grad: x, normSquared: {}, lr: {}, taken: {} }, outs: { param: x, m: x, v: x } },
      wide: ['grad', 'normSquared', 'lr', 'taken', 'param', 'm', 'v'],
    },
  ]
}

export interface Tokens {
  readonly batch: number
  readonly seq: number
}

export function trials(tokens: Tokens): Trial[] {
  const rows = tokens.batch * tokens.seq
  const [products, others] = [matmuls(rows), [norms, pointwise, tables, losses, updates].flatMap(make => make(rows))]
  return [...products, ...attentions(tokens), ...others]
}
