/**
 * An op on parts is the op on the whole: operands are cut by hand along one dim, each part is computed alone, and
 * results are laid side by side where they have the dim, and combined where they do not.
 */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Combine, elementsOf, type Op } from '../src/base/index.js'
import { draws, like, permuted } from './op-cases.js'
import { runOp, type Tensor, tensorOf } from './tiny.js'

const parts = 2

/** Part `index` of a tensor cut along `name`; a tensor without the dim is whole on every rank. */
function cut(x: Tensor, name: string, index: number): Tensor {
  const size = x.dims.find(dim => dim.name === name)?.size
  if (size === undefined) return x
  const part = { name, size: size / parts }
  const rest = x.dims.filter(dim => dim.name !== name)
  const length = elementsOf([part, ...rest])
  const outermost = Array.from(permuted(x, [{ name, size }, ...rest]).values)
  const values = outermost.slice(index * length, (index + 1) * length)
  const inOrder = x.dims.map(dim => (dim.name === name ? part : dim))
  const { dims, values: own } = permuted({ dims: [part, ...rest], values }, inOrder)
  return { dims, values: own, origin: { [name]: index * part.size }, whole: { [name]: size } }
}

const near = (a: ArrayLike<number>, b: ArrayLike<number>, what: string) =>
  ok(Math.max(0, ...Array.from(a, (value, i) => Math.abs(value - b[i]))) < 1e-12, what)

const combineAll = (values: readonly Float64Array[], how: Combine) =>
  values.reduce((a, b) => a.map((value, i) => (how === 'max' ? Math.max(value, b[i]) : value + b[i])))

interface Cut {
  readonly dim: string
  /** What results that lack the dim are of their parts. */
  readonly combine?: Combine
  /** Operands, by index, that stay whole. */
  readonly but?: readonly number[]
}

type Ids = readonly [dims: string, least: number]
const isIds = (operand: string | Ids): operand is Ids => typeof operand !== 'string'

/** Operands are dims, or dims and the least of random ids below 8. */
function splits(op: Op, ins: readonly (string | Ids)[], outs: readonly string[], ...cuts: Cut[]) {
  const d = draws(7)
  const operands = ins.map(given =>
    isIds(given) ? d.integers(tensorOf(given[0]).dims, given[1], 8) : d.fill(tensorOf(given).dims),
  )
  const results = like(...outs.map(text => tensorOf(text).dims))
  for (const { dim, combine = 'sum', but } of cuts)
    test(`${op.kind} cut along ${dim} is ${op.kind}`, () => {
      const pieces = Array.from({ length: parts }, (_, p) => {
        const own = operands.map((x, i) => (but?.includes(i) ? x : cut(x, dim, p)))
        const room = results.map(({ dims }) => cut({ dims, values: new Float64Array(elementsOf(dims)) }, dim, p))
        return runOp(op, own, room)
      })
      for (const [i, values] of runOp(op, operands, results).entries()) {
        const { dims } = results[i]
        const own = pieces.map(piece => piece[i])
        if (!dims.some(({ name }) => name === dim)) near(combineAll(own, combine), values, `result ${i}`)
        else
          for (const [p, part] of own.entries()) near(part, cut({ dims, values }, dim, p).values, `part ${p} of ${i}`)
      }
    })
}

const x = 'embed 6, batch 4, seq 2'
const w = 'ffn 4, embed 6'
const y = 'batch 4, ffn 4, seq 2'
splits({ kind: 'contract' }, [x, w], [y], { dim: 'batch' }, { dim: 'ffn' }, { dim: 'embed' })
splits({ kind: 'contract' }, [x, y], [w], { dim: 'batch' }, { dim: 'ffn' })
splits({ kind: 'add' }, [x, 'embed 6'], [x], { dim: 'embed' }, { dim: 'seq' })
splits({ kind: 'sumTo' }, [x], ['embed 6'], { dim: 'seq' }, { dim: 'embed' })
splits({ kind: 'layerNorm', eps: 1e-5 }, [x, 'embed 6', 'embed 6'], [x], { dim: 'seq' })
splits({ kind: 'layerNormWeightGrad', eps: 1e-5 }, [x, x], ['embed 6', 'embed 6'], { dim: 'seq' })
splits({ kind: 'rmsNormWeightGrad', eps: 1e-5 }, [x, x], ['embed 6'], { dim: 'batch' })

const q = 'batch 2, seq 4, kvHeads 2, group 2, headDim 4'
const k = 'seq 4, kvHeads 2, batch 2, headDim 4'
const lse = 'group 2, batch 2, seq 4, kvHeads 2'
const dropout = { rate: 0.5, key: 'mask' }
const heads = [{ dim: 'batch' }, { dim: 'kvHeads' }, { dim: 'group' }]
splits({ kind: 'rope', theta: 100, inverse: false }, [q], [q], { dim: 'seq' }, { dim: 'group' })
const places = ['seq 4, batch 2', 0] as const
splits(
  { kind: 'rope', theta: 100, inverse: true },
  [q, places],
  [q],
  { dim: 'seq' },
  { dim: 'batch' },
  { dim: 'group' },
)
splits({ kind: 'attention' }, [q, k, k, places], [q, lse], ...heads, { dim: 'seq', but: [1, 2] })
splits({ kind: 'attentionGrad', window: 2 }, [q, q, k, k, q, lse, places], [q, k, k], ...heads)
splits({ kind: 'dropout', dropout }, [x], [x], { dim: 'batch' }, { dim: 'embed' }, { dim: 'seq' })
splits({ kind: 'attention' }, [q, k, k], [q, lse], ...heads, { dim: 'seq', but: [1, 2] })
splits({ kind: 'attention', window: 2 }, [q, k, k], [q, lse], ...heads, { dim: 'seq', but: [1, 2] })
splits({ kind: 'attention', dropout }, [q, k, k], [q, lse], ...heads, { dim: 'seq', but: [1, 2] })
splits({ kind: 'attentionGrad', dropout }, [q, q, k, k, q, lse], [q, k, k], ...heads)
const v = 'seq 4, kvHeads 2, batch 2, vHeadDim 3'
const out = 'batch 2, seq 4, kvHeads 2, vHeadDim 3, group 2'
splits({ kind: 'attention', scale: 0.3 }, [q, k, v], [out, lse], ...heads, { dim: 'seq', but: [1, 2] })
splits({ kind: 'attentionGrad', scale: 0.3 }, [out, q, k, v, out, lse], [q, k, v], ...heads)
const [plain, turned] = ['batch 2, seq 4, qkNopeHeadDim 3, kvHeads 2', 'seq 4, batch 2, qkRopeHeadDim 1']
splits({ kind: 'join' }, [plain, turned], [k], { dim: 'batch' }, { dim: 'seq' }, { dim: 'kvHeads' })
splits({ kind: 'joinGrad' }, [k], [plain, turned], { dim: 'batch' }, { dim: 'seq' }, { dim: 'kvHeads' })

const tokens = 'seq 2, batch 4'
const table = 'embed 6, vocab 8'
const logits = 'seq 2, vocab 8, batch 4'
splits({ kind: 'embed' }, [[tokens, 0], table], [x], { dim: 'vocab' }, { dim: 'batch' }, { dim: 'embed' })
splits({ kind: 'embedGrad' }, [[tokens, 0], x], [table], { dim: 'vocab' }, { dim: 'batch' })
splits({ kind: 'maxOver' }, [logits], [tokens], { dim: 'vocab', combine: 'max' }, { dim: 'seq' })
splits({ kind: 'sumExp' }, [logits, tokens], [tokens], { dim: 'vocab' }, { dim: 'seq' })
splits({ kind: 'pick' }, [logits, [tokens, -2]], [tokens], { dim: 'vocab' }, { dim: 'batch' })
splits({ kind: 'tokenLoss' }, [tokens, [tokens, 1], tokens, [tokens, -2]], [''], { dim: 'batch' })
splits({ kind: 'countLabels' }, [[tokens, -2]], [''], { dim: 'batch' }, { dim: 'seq' })
const lossIns = [logits, tokens, [tokens, 1], [tokens, -2], ''] as const
splits({ kind: 'tokenLossGrad' }, lossIns, [logits], { dim: 'vocab' }, { dim: 'batch' })
