/**
 * Ops with their gradients, on random tensors: sizes that are odd or 1, dims in any order. A case is a forward
 * computation and what the gradient ops say of it; finite differences and PyTorch each have their own opinion.
 */
import {
  type AttentionOptions,
  choices,
  type Dim,
  elementsOf,
  normal,
  type Op,
  type RopeScaling,
} from '../src/base/index.js'
import { runOp, type Tensor } from './tiny.js'

export interface Case {
  readonly name: string
  /** The op, or the first of a chain: what PyTorch is asked for. */
  readonly op: Op
  readonly ins: readonly Tensor[]
  /** Gradients of the results that have one, in their order. */
  readonly douts: readonly Tensor[]
  forward(ins: readonly Tensor[]): Tensor[]
  /** By index of operand. */
  gradient(outs: readonly Tensor[]): Record<number, Tensor>
}

export const like = (...dims: readonly (readonly Dim[])[]): Tensor[] => dims.map(dims => ({ dims, values: [] }))

export function apply(op: Op, ins: readonly Tensor[], ...outs: (readonly Dim[])[]): Tensor[] {
  return runOp(op, ins, like(...outs)).map((values, i) => ({ dims: outs[i], values }))
}

/** Random tensors of named dims whose sizes are drawn once. */
export function draws(seed: number) {
  const { int, pick } = choices(seed)
  const noise = normal({ seed, name: 'cases' })
  let drawn = 0
  const sizes = new Map<string, number>([['headDim', 2 * pick([1, 2, 3])]])
  const dim = (name: string): Dim => {
    const size = sizes.get(name) ?? pick([1, 2, 3, 5])
    sizes.set(name, size)
    return { name, size }
  }
  const shuffled = <T>(list: readonly T[]): T[] => {
    const left = [...list]
    return list.map(() => left.splice(int(left.length), 1)[0])
  }
  const dims = (names: string): Dim[] => shuffled(names.split(' ').filter(Boolean).map(dim)) // in any order
  const fill = (dims: readonly Dim[]): Tensor => ({
    dims,
    values: Array.from({ length: elementsOf(dims) }, () => noise(drawn++)),
  })
  const integers = (dims: readonly Dim[], least: number, below: number): Tensor => ({
    dims,
    values: Array.from({ length: elementsOf(dims) }, () => least + int(below - least)),
  })
  return { dim, dims, fill, integers, tensor: (names: string) => fill(dims(names)) }
}

type Draws = ReturnType<typeof draws>

/** One op, whose gradient is one op per list of operands. */
type Backward = (dout: Tensor, ins: readonly Tensor[], outs: readonly Tensor[]) => Record<number, Tensor>

function single(op: Op, ins: readonly Tensor[], outs: readonly Dim[][], d: Draws, backward: Backward): Case {
  const dout = d.fill(outs[0])
  return {
    name: op.kind,
    op,
    ins,
    douts: [dout],
    forward: ins => apply(op, ins, ...outs),
    gradient: results => backward(dout, ins, results),
  }
}

const eps = 1e-5
const contract: Op = { kind: 'contract' }
const sumTo: Op = { kind: 'sumTo' }

function products(d: Draws): Case[] {
  const both: Backward = (dout, [a, b]) => ({
    0: apply(contract, [dout, b], a.dims)[0],
    1: apply(contract, [dout, a], b.dims)[0],
  })
  return [
    single(contract, [d.tensor('batch seq embed'), d.tensor('embed ffn')], [d.dims('batch seq ffn')], d, both),
    single(contract, [d.tensor('batch seq m'), d.tensor('batch seq n k')], [d.dims('batch n')], d, both),
    single({ kind: 'mul' }, [d.tensor('batch embed'), d.tensor('embed')], [d.dims('batch embed')], d, both),
  ]
}

function sums(d: Draws): Case[] {
  const addends = [d.tensor('batch seq embed'), d.tensor('embed'), d.tensor('seq embed')]
  return [
    single({ kind: 'add' }, addends, [d.dims('batch seq embed')], d, (dout, ins) =>
      Object.fromEntries(ins.map((x, i) => [i, apply(sumTo, [dout], x.dims)[0]])),
    ),
    single(sumTo, [d.tensor('batch seq embed')], [d.dims('embed')], d, (dout, [x]) => ({
      0: apply({ kind: 'add' }, [dout], x.dims)[0],
    })),
    single({ kind: 'scale', by: -1.5 }, [d.tensor('batch embed')], [d.dims('batch embed')], d, (dout, [x]) => ({
      0: apply({ kind: 'scale', by: -1.5 }, [dout], x.dims)[0],
    })),
  ]
}

function activations(d: Draws): Case[] {
  const gelus = [false, true].map(approximate =>
    single({ kind: 'gelu', approximate }, [d.tensor('batch ffn')], [d.dims('batch ffn')], d, (dy, [x]) => ({
      0: apply({ kind: 'geluGrad', approximate }, [dy, x], x.dims)[0],
    })),
  )
  const gated = [d.tensor('batch seq ffn'), d.tensor('batch seq ffn')]
  const swiglu = single({ kind: 'swiglu' }, gated, [d.dims('batch seq ffn')], d, (dy, ins) => ({
    ...apply({ kind: 'swigluGrad' }, [dy, ...ins], ins[0].dims, ins[1].dims),
  }))
  return [...gelus, swiglu]
}

function norms(d: Draws): Case[] {
  const [x, gain, bias] = [d.tensor('batch seq embed'), d.tensor('embed'), d.tensor('embed')]
  const outs = () => [d.dims('batch seq embed')]
  const pair = ['a', 'b'].map(() => d.tensor('p q'))
  return [
    single({ kind: 'layerNorm', eps }, [x, gain, bias], outs(), d, (dy, [x, gain]) => {
      const [dx] = apply({ kind: 'layerNormInputGrad', eps }, [dy, x, gain], x.dims)
      const [dgain, dbias] = apply({ kind: 'layerNormWeightGrad', eps }, [dy, x], gain.dims, bias.dims)
      return { 0: dx, 1: dgain, 2: dbias }
    }),
    ...[
      [x, gain],
      [d.tensor('batch p q'), pair[0]],
    ].map(([x, gain]) =>
      single({ kind: 'rmsNorm', eps }, [x, gain], [x.dims.toReversed()], d, (dy, [x, gain]) => ({
        0: apply({ kind: 'rmsNormInputGrad', eps }, [dy, x, gain], x.dims)[0],
        1: apply({ kind: 'rmsNormWeightGrad', eps }, [dy, x], gain.dims)[0],
      })),
    ),
  ]
}

export const attentionNames = {
  q: 'batch seq kvHeads group headDim',
  k: 'batch seq kvHeads headDim',
  lse: 'batch seq kvHeads group',
}

function attentions(d: Draws): Case[] {
  const variants = [{}, { window: 2 }, { dropout: { rate: 0.4, key: 'probabilities' } }, { scale: 0.3 }]
  return [
    ...[undefined, ...ropeScalings].map(scaling => rotation(scaling, d)),
    ...variants.map(variant => attention(variant, d)),
    ...[ropeScalings[1], undefined].map(scaling => rotation(scaling, d, [places(d)])),
    ...variants.map(variant => attention(variant, d, [places(d)])),
    attention({ scale: 0.4 }, d, [], { v: 'batch seq kvHeads vHeadDim', out: 'batch seq kvHeads group vHeadDim' }),
    joining(d),
  ]
}

/** Of heads so narrow and sequences so short that pairs of every speed are there. */
export const ropeScalings: readonly RopeScaling[] = [
  { kind: 'linear', factor: 3 },
  { kind: 'llama3', factor: 4, low: 0.5, high: 2, original: 16 },
  { kind: 'yarn', factor: 8, original: 24, fast: 3, slow: 0.2, scale: 0.7, scaleAll: 0.2 },
]

/** Where tokens stand in their documents; an op asks no more of these than that they are not negative. */
const places = (d: Draws): Tensor => d.integers(d.dims('batch seq'), 0, 4)

const inDocuments = (positions: readonly Tensor[]) => (positions.length > 0 ? ['in documents'] : [])

function rotation(scaling: RopeScaling | undefined, d: Draws, positions: readonly Tensor[] = []): Case {
  const rope = (inverse: boolean): Op => ({ kind: 'rope', theta: 100, inverse, ...(scaling && { scaling }) })
  const ins = [d.tensor(attentionNames.q), ...positions]
  const made = single(rope(false), ins, [d.dims(attentionNames.q)], d, (dy, [x]) => ({
    0: apply(rope(true), [dy, ...positions], x.dims)[0],
  }))
  return { ...made, name: ['rope', ...(scaling ? [scaling.kind] : []), ...inDocuments(positions)].join(' ') }
}

function joining(d: Draws): Case {
  const ins = [d.tensor('batch seq kvHeads qkNopeHeadDim'), d.tensor('batch seq qkRopeHeadDim')]
  const both = { name: 'both', size: d.dim('qkNopeHeadDim').size + d.dim('qkRopeHeadDim').size }
  return single({ kind: 'join' }, ins, [[both, ...d.dims('batch seq kvHeads')]], d, (dout, ins) => ({
    ...apply({ kind: 'joinGrad' }, [dout], ...ins.map(x => x.dims)),
  }))
}

function attention(
  variant: AttentionOptions,
  d: Draws,
  positions: readonly Tensor[] = [],
  { v, out } = { v: attentionNames.k, out: attentionNames.q },
): Case {
  const ins = [d.tensor(attentionNames.q), d.tensor(attentionNames.k), d.tensor(v), ...positions]
  const outs = [d.dims(out), d.dims(attentionNames.lse)]
  const made = single({ ...variant, kind: 'attention' }, ins, outs, d, (dout, ins, outs) => {
    const real = ins.slice(0, 3)
    const operands = [dout, ...real, ...outs, ...positions]
    return { ...apply({ ...variant, kind: 'attentionGrad' }, operands, ...real.map(x => x.dims)) }
  })
  const wide = v === attentionNames.k ? [] : ['values of another width']
  return { ...made, name: ['attention', ...Object.keys(variant), ...inDocuments(positions), ...wide].join(' ') }
}

function lookups(d: Draws): Case[] {
  const { size } = d.dim('vocab')
  const ids = d.integers(d.dims('batch seq'), 0, size)
  const dropout: Op = { kind: 'dropout', dropout: { rate: 0.3, key: 'hidden' } }
  return [
    single({ kind: 'embed' }, [ids, d.tensor('vocab embed')], [d.dims('batch seq embed')], d, (dout, [ids, table]) => ({
      1: apply({ kind: 'embedGrad' }, [ids, dout], table.dims)[0],
    })),
    single(dropout, [d.tensor('batch seq embed')], [d.dims('batch seq embed')], d, (dy, [x]) => ({
      0: permuted(apply(dropout, [permuted(dy, dy.dims)], dy.dims)[0], x.dims),
    })),
  ]
}

/** The same tensor with its dims in another order. */
export const permuted = (x: Tensor, dims: readonly Dim[]): Tensor => apply({ kind: 'add' }, [x], dims)[0]

/** Cross entropy as the program does it: max, sum of exp, picked logit, loss. Its gradient is divided by the count. */
function losses(d: Draws): Case[] {
  const [logits, labels] = [d.tensor('batch seq vocab'), d.integers(d.dims('batch seq'), -2, d.dim('vocab').size)]
  const count = apply({ kind: 'countLabels' }, [labels], [])[0]
  const tokens = d.dims('batch seq')
  const chain = (logits: Tensor): Tensor[] => {
    const [max] = apply({ kind: 'maxOver' }, [logits], tokens)
    const [sum] = apply({ kind: 'sumExp' }, [logits, max], tokens)
    const [picked] = apply({ kind: 'pick' }, [logits, labels], tokens)
    return [...apply({ kind: 'tokenLoss' }, [max, sum, picked, labels], []), max, sum]
  }
  const scale = Number(count.values[0]) || 1
  const squared = d.dims('batch embed')
  const elements = elementsOf(squared)
  return [
    {
      name: 'tokenLoss',
      op: { kind: 'tokenLoss' },
      ins: [logits, labels],
      douts: [{ dims: [], values: [1 / scale] }],
      forward: ([logits]) => chain(logits).slice(0, 1),
      gradient: () => {
        const [, max, sum] = chain(logits)
        return { 0: apply({ kind: 'tokenLossGrad' }, [logits, max, sum, labels, count], logits.dims)[0] }
      },
    },
    {
      ...single({ kind: 'squaredError' }, [d.tensor('batch embed'), d.fill(squared)], [[]], d, (_, [x, target]) => ({
        0: apply({ kind: 'squaredErrorGrad' }, [x, target, { dims: [], values: [elements] }], x.dims)[0],
      })),
      douts: [{ dims: [], values: [1 / elements] }],
    },
  ]
}

export const casesOf = (seed: number): Case[] => {
  const d = draws(seed)
  return [products, sums, activations, norms, attentions, lookups, losses].flatMap(family => family(d))
}
