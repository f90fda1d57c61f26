/** Cases of the kernels that layers are made of: products, activations, norms, attention, embeddings. */
import { hashName, type RopeScaling, rotationOf } from '../src/base/index.js'
import { absolute, type draw, largest, type Make, moment, orNone, reference } from './kernel-draw.js'
import type { Tensor } from './tiny.js'

const product = ({ size, tensor, chance, pick, int }: ReturnType<typeof draw>, batches: readonly number[]) => {
  const [b, big] = [pick(batches), pick(['', '', 'm', 'n', 'k'])]
  const [m, n, k] = ['m', 'n', 'k'].map(name => (name === big ? 401 + int(2000) : size()))
  const [transA, transB] = [chance(0.5), chance(0.5)]
  const [a, x] = [tensor(transA ? { b, k, m } : { b, m, k }), tensor(transB ? { b, n, k } : { b, k, n })]
  const bias = chance(0.5) ? tensor({ n }).values : undefined
  const add = chance(0.5) ? tensor({ b, m, n }).values : undefined
  const addends = (i: number) => [add?.[i] ?? 0, bias?.[i % n] ?? 0]
  const [product] = reference({ kind: 'contract' }, [a, x], { b, m, n })
  const [weight] = reference({ kind: 'contract' }, [absolute(a), absolute(x)], { b, m, n })
  return {
    command: 'matmul',
    ins: { a: a.values, b: x.values, ...(bias && { bias }), ...(add && { add }) },
    words: {
      ...(bias ? {} : { bias: 0 }),
      ...(add ? {} : { add: 0 }),
      m,
      n,
      k,
      transA: +transA,
      transB: +transB,
      batch: b,
      strideA: m * k,
      strideB: k * n,
      strideOut: m * n,
    },
    expected: { out: product.map((sum, i) => addends(i).reduce((total, addend) => total + addend, sum)) },
    magnitude: { out: weight.map((sum, i) => addends(i).reduce((total, addend) => total + Math.abs(addend), sum)) },
    bound: 1e-6,
  } as const
}

export const matmul: Make = d => product(d, [1, 1, 2, 3])

/** Wider than any panel. */
const widest = 64

const nothingElse = { panels: 0, packs: 0, sums: 0, adds: 0 }

/** The first of those that share an operand, which packs it. */
export const matmulWith: Make = d => {
  const { ins, words, ...rest } = product(d, [1])
  const panels = new Float32Array(words.k * (words.n + widest))
  const { panels: _, ...others } = nothingElse
  return { ...rest, command: 'matmulWith', ins: { ...ins, panels }, words: { ...others, ...words, packs: 1 } }
}

export const broadcast =
  (kind: 'add' | 'mul'): Make =>
  ({ size, tensor, chance }) => {
    const [r, c] = [size(), size(200)]
    const [a, b] = [tensor({ r, c }), chance(0.5) ? tensor({ c }) : tensor({ r, c })]
    const [out] = reference({ kind }, [a, b], { r, c })
    const words = { n: r * c, period: Math.max(1, b.values.length) }
    return { command: kind, ins: { a: a.values, b: b.values }, words, expected: { out }, bound: 1e-7 }
  }

export const scale: Make = ({ size, tensor }) => {
  const x = tensor({ n: size(1000) })
  const [out] = reference({ kind: 'scale', by: 0.3 }, [x], { n: x.values.length })
  const words = { n: x.values.length, by: 0.3 }
  return { command: 'scale', ins: { x: x.values }, words, expected: { out }, bound: 2e-7 }
}

export const sums =
  (command: 'sumRows' | 'sumColumns'): Make =>
  ({ size, tensor }) => {
    const [r, c] = [size(300), size(300)]
    const x = tensor({ r, c })
    const kept: Record<string, number> = command === 'sumRows' ? { c } : { r }
    const [out] = reference({ kind: 'sumTo' }, [x], kept)
    const [weight] = reference({ kind: 'sumTo' }, [absolute(x)], kept)
    const words = { rows: r, columns: c }
    return { command, ins: { x: x.values }, words, expected: { out }, magnitude: { out: weight }, bound: 1e-7 }
  }

/** Where activations bend, and far out on both sides. */
export const special = [0, -0, 1e-8, -1e-8, 0.5, -0.5, -0.75, 5, -5, -8, 8, -12, 12, 20, -20]
export const activation = (d: ReturnType<typeof draw>) => {
  const x = d.tensor({ n: d.size(500, 129) }, 3)
  x.values.set(special.slice(0, x.values.length))
  return x
}

export const gelu: Make = d => {
  const [x, approximate] = [activation(d), d.chance(0.5)]
  const [y] = reference({ kind: 'gelu', approximate }, [x], { n: x.values.length })
  const words = { n: x.values.length, approximate: +approximate }
  // The tanh form is exp of a large argument far out, and the argument's rounding shows; the reference cancels there.
  const [bound, magnitude] = approximate ? [3e-6, 1e-9] : [1e-6, 1e-20]
  return { command: 'gelu', ins: { x: x.values }, words, expected: { y }, magnitude, bound }
}

export const geluGrad: Make = d => {
  const [x, approximate] = [activation(d), d.chance(0.5)]
  const n = x.values.length
  const dy = d.tensor({ n })
  const [dx] = reference({ kind: 'geluGrad', approximate }, [dy, x], { n })
  const words = { n, approximate: +approximate }
  const magnitude = { dx: dy.values.map(Math.abs) }
  return { command: 'geluGrad', ins: { dy: dy.values, x: x.values }, words, expected: { dx }, magnitude, bound: 1e-6 }
}

export const swiglu: Make = d => {
  const gate = activation(d)
  const n = gate.values.length
  const up = d.tensor({ n })
  const [y] = reference({ kind: 'swiglu' }, [gate, up], { n })
  return {
    command: 'swiglu',
    ins: { gate: gate.values, up: up.values },
    words: { n },
    expected: { y },
    magnitude: 1e-20,
    bound: 1e-6,
  }
}

export const swigluGrad: Make = d => {
  const gate = activation(d)
  const n = gate.values.length
  const [dy, up] = [d.tensor({ n }), d.tensor({ n })]
  const [dgate, dup] = reference({ kind: 'swigluGrad' }, [dy, gate, up], { n }, { n })
  return {
    command: 'swigluGrad',
    ins: { dy: dy.values, gate: gate.values, up: up.values },
    words: { n },
    expected: { dgate, dup },
    magnitude: { dgate: dy.values.map((dy, i) => Math.abs(dy * up.values[i])), dup: 1e-20 },
    bound: 1e-6,
  }
}

export const eps = 1e-5
/** Rows with an offset: a variance by difference of squares would show. */
export const normInput = ({ tensor, size, pick }: ReturnType<typeof draw>) => {
  const [r, c] = [size(150), Math.max(1, size(384, 1000))]
  const x = tensor({ r, c })
  const offset = pick([0, 0, 3])
  for (let i = 0; i < x.values.length; i++) x.values[i] += offset
  return { r, c, x, words: { rows: r, columns: c, eps } }
}

export const norm =
  (kind: 'layerNorm' | 'rmsNorm'): Make =>
  d => {
    const { r, c, x, words } = normInput(d)
    const [gain, bias] = [d.tensor({ c }), d.tensor({ c })]
    const ins = kind === 'layerNorm' ? [x, gain, bias] : [x, gain]
    const [y] = reference({ kind, eps }, ins, { r, c })
    const given = { x: x.values, gain: gain.values, ...(kind === 'layerNorm' && { bias: bias.values }) }
    return { command: kind, ins: given, words, expected: { y }, magnitude: largest(y), bound: 1e-6 }
  }

/** What a row's gradients are made of before they cancel: the largest g over the deviation. */
export function rowWeight(x: Float32Array, g: Float32Array, row: number, c: number, centred: boolean): number {
  const at = x.subarray(row * c, (row + 1) * c)
  const mean = centred ? at.reduce((a, b) => a + b, 0) / c : 0
  const variance = at.reduce((sum, x) => sum + (x - mean) ** 2, 0) / c
  return largest(g.subarray(row * c, (row + 1) * c)) / Math.sqrt(variance + eps)
}

export const normInputGrad =
  (kind: 'layerNormInputGrad' | 'rmsNormInputGrad'): Make =>
  d => {
    const { r, c, x, words } = normInput(d)
    const [dy, gain] = [d.tensor({ r, c }), d.tensor({ c })]
    const [own] = reference({ kind, eps }, [dy, x, gain], { r, c })
    const g = dy.values.map((dy, i) => dy * gain.values[i % c])
    const [centred, add] = [kind === 'layerNormInputGrad', d.chance(0.5) ? d.tensor({ r, c }) : undefined]
    const dx = own.map((value, i) => value + (add?.values[i] ?? 0))
    const weight = (i: number) => rowWeight(x.values, g, Math.floor(i / c), c, centred) + Math.abs(add?.values[i] ?? 0)
    const weights = weightGrads(centred, dy, x, d.chance(0.5))
    return {
      ...{ command: kind, ins: { dy: dy.values, x: x.values, gain: gain.values, ...(add && { add: add.values }) } },
      words: { ...words, ...(!add && { add: 0 }), ...weights.words },
      expected: { dx, ...weights.expected },
      magnitude: { dx: g.map((_, i) => weight(i)), dgain: 2 * Math.sqrt(r), dbias: 2 * Math.sqrt(r) },
      bound: 2e-6,
    }
  }

/** The gradients of a norm's weights, which the gradient of its input may be asked for as well. */
function weightGrads(centred: boolean, dy: Tensor, x: Tensor, asked: boolean) {
  const names = centred ? ['dgain', 'dbias'] : ['dgain']
  if (!asked) return { words: Object.fromEntries(names.map(name => [name, 0])), expected: {} }
  const kind = centred ? 'layerNormWeightGrad' : 'rmsNormWeightGrad'
  const results = reference({ kind, eps }, [dy, x], ...names.map(() => ({ c: x.dims[1].size })))
  return { words: {}, expected: Object.fromEntries(names.map((name, i) => [name, results[i]])) }
}

export const normWeightGrad =
  (kind: 'layerNormWeightGrad' | 'rmsNormWeightGrad'): Make =>
  d => {
    const { r, c, x, words } = normInput(d)
    const dy = d.tensor({ r, c })
    const results = reference({ kind, eps }, [dy, x], ...(kind === 'layerNormWeightGrad' ? [{ c }, { c }] : [{ c }]))
    const expected = kind === 'layerNormWeightGrad' ? { dgain: results[0], dbias: results[1] } : { dgain: results[0] }
    const magnitude = 2 * Math.sqrt(r)
    return { command: kind, ins: { dy: dy.values, x: x.values }, words, expected, magnitude, bound: 2e-6 }
  }

const ropeScalings: RopeScaling[] = [
  { kind: 'linear', factor: 4 },
  { kind: 'llama3', factor: 8, low: 1, high: 4, original: 8192 },
  { kind: 'yarn', factor: 40, original: 4096, fast: 32, slow: 1, scale: 1, scaleAll: 0.5 },
]

export const rope: Make = ({ tensor, integers, pick, chance, int }) => {
  const shape = {
    batch: pick([1, 2]),
    seq: pick([1, 5, 33]),
    heads: pick([1, 3]),
    headDim: 2 * pick([1, 3, 8, 32, 65]),
  }
  const [inverse, theta, origin] = [chance(0.5), pick([1e4, 5e5]), pick([0, int(100000)])]
  const [until, gap] = [int(shape.seq + 1), pick([0, int(1000)])]
  const x = { ...tensor(shape), origin: { seq: origin }, gap: { dim: 'seq', until, gap } }
  const scaling = pick([undefined, ...ropeScalings])
  const places = chance(0.5) ? [integers({ batch: shape.batch, seq: shape.seq }, 0, 100000)] : []
  const [y] = reference({ kind: 'rope', theta, inverse, ...(scaling && { scaling }) }, [x, ...places], shape)
  const rotation = rotationOf(shape.headDim, theta, scaling)
  const words = { ...shape, ...rotation, inverse: +inverse, origin, until, gap }
  const rest = { expected: { y }, magnitude: largest(x.values), bound: 3e-7 }
  return { command: 'rope', ins: { x: x.values }, ...orNone(['places'], places, words), ...rest }
}

/** A row of a part, as often as the other part has rows for it. */
export const joinPart =
  (command: 'joinPart' | 'joinGradPart'): Make =>
  ({ tensor, pick }) => {
    const [rows, repeats, own, other] = [pick([1, 7, 33]), pick([1, 2, 5]), pick([1, 3, 16, 64]), pick([1, 4, 32])]
    const [part, rest, whole] = [
      { rows, own },
      { rows, repeats, other },
      { rows, repeats, both: own + other },
    ]
    const words = { rows, repeats, columns: own, stride: own + other }
    if (command === 'joinGradPart') {
      const x = tensor(whole)
      const [out] = reference({ kind: 'joinGrad' }, [x], part, rest)
      return { command, ins: { x: x.values }, words, expected: { out }, magnitude: 2 * repeats, bound: 3e-7 }
    }
    const [x, beside] = [tensor(part), tensor(rest)]
    const [out] = reference({ kind: 'join' }, [x, beside], whole)
    return {
      command,
      ins: { x: x.values },
      initial: { out: Float32Array.from(out, (value, i) => (i % (own + other) < own ? 0 : value)) },
      words,
      expected: { out },
      bound: 0,
    }
  }

export const dropout: Make = ({ tensor, pick, int, chance, integers }) => {
  const [batch, seq, embed] = [pick([1, 3]), pick([1, 4, 9]), pick([1, 5, 40, 300])]
  const ordered = chance(0.4)
  const whole = { batch: 7, seq: ordered ? 2 ** 11 : 2 ** 20, embed: 2 ** 10 }
  const origin = { batch: int(4), seq: int(whole.seq / 2), embed: int(100) } // indices beyond 2^32, where there is no order
  const [until, gap] = [int(seq) + 1, pick([0, int(1000)])]
  const x = { ...tensor({ batch, seq, embed }), whole, origin, gap: { dim: 'seq', until, gap } }
  const order = ordered ? [integers({ batch, slot: whole.seq }, 0, whole.seq)] : []
  const rate = pick([0.1, 0.5, 0.9])
  const [y] = reference({ kind: 'dropout', dropout: { rate, key: 'mask' } }, [x, ...order], { ...x, values: [] })
  const [stride0, stride1] = [whole.seq * whole.embed, whole.embed]
  const base = origin.batch * stride0 + origin.seq * stride1 + origin.embed
  const words = {
    ...{
      n0: batch,
      n1: seq,
      n2: embed,
      base,
      stride0,
      stride1,
      until,
      gap,
      rate,
      slots: whole.seq,
      origin: origin.seq,
    },
    ...{ seed: moment.seed, name: hashName('block.mask'), step: moment.step },
  }
  return { command: 'dropout', ins: { x: x.values }, ...orNone(['order'], order, words), expected: { y }, bound: 2e-7 }
}

export function table({ size, pick }: ReturnType<typeof draw>) {
  const [n, rows, columns, origin] = [size(200), Math.max(1, size()), size(), pick([0, 40])]
  return { n, rows, columns, origin, words: { n, rows, columns, origin } }
}

export const embed: Make = d => {
  const { n, rows, columns, origin, words } = table(d)
  const ids = d.integers({ n }, 0, rows + 60)
  const weights = { ...d.tensor({ vocab: rows, columns }), origin: { vocab: origin } }
  const [out] = reference({ kind: 'embed' }, [ids, weights], { n, columns })
  return {
    command: 'embed',
    ins: { table: weights.values },
    ids: { ids: ids.values },
    words,
    expected: { out },
    bound: 0,
  }
}

export const embedGrad: Make = d => {
  const { n, rows, columns, origin, words } = table(d)
  const ids = d.integers({ n }, 0, rows + 60)
  const dout = d.tensor({ n, columns })
  const weights: Tensor = { ...d.tensor({ vocab: rows, columns }), origin: { vocab: origin } }
  const [dtable] = reference({ kind: 'embedGrad' }, [ids, dout], weights)
  const ins = { dout: dout.values }
  return {
    command: 'embedGrad',
    ins,
    ids: { ids: ids.values },
    words,
    expected: { dtable },
    magnitude: 20,
    bound: 1e-6,
  }
}
