/**
 * The gradients of whole models against differences of their loss, in f64: the second opinion on every gradient rule
 * and on how the compiler strings them together.
 *
 * The stencil is the central one of five points, at h = 5e-4: it leaves out some h^4 = 6e-14 of the loss's fifth
 * derivative, and rounding (1e-16 of a loss of about 3, over h) adds more. Errors are measured against the largest
 * gradient of the tensor, or 1e-3 of the model's largest where theory says 0 (the key bias of gpt, which is therefore
 * the worst of all, 1e-9). A wrong rule is off by 1e-2 or more.
 */
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { choices, normal as noiseOf } from '../src/base/index.js'
import { boot, type Interpreter } from '../src/engine/index.js'
import { defineModel, type ModelInput, normal, ones } from '../src/model/index.js'
import type { PlanInput } from '../src/plan/index.js'
import { family, test } from './families.js'
import { type Build, dataOf, familyModel, gradientScales, programOf, seq, wideMachine } from './one-rank.js'

const vocab = 7
const [h, bound] = [5e-4, 5e-9]

/** d loss(at + t * direction) / dt at 0. */
function slope(lossAt: (values: Float64Array) => number, at: Float64Array, direction: Float64Array): number {
  const rise = (by: number) =>
    lossAt(at.map((value, i) => value + by * direction[i])) - lossAt(at.map((value, i) => value - by * direction[i]))
  return (8 * rise(h) - rise(2 * h)) / (12 * h)
}

/** A single element, and one direction that moves them all. */
function directionsOf(size: number, seed: number, name: string): Float64Array[] {
  const { int } = choices(seed)
  const noise = noiseOf({ seed, name })
  const element = int(size)
  const single = new Float64Array(size).map((_, i) => (i === element ? 1 : 0))
  return [single, new Float64Array(size).map((_, i) => noise(i) / Math.sqrt(size))]
}

const dot = (a: Float64Array, b: Float64Array) => a.reduce((sum, value, i) => sum + value * b[i], 0)

/** The greatest error over all parameters, and where. A learning rate of 0 leaves the parameters as they are. */
function worstError(
  machine: Interpreter,
  names: readonly string[],
  loss: () => number,
): { name: string; error: number } {
  loss()
  const gradients = new Map(names.map(name => [name, machine.gradient(name)]))
  const scales = gradientScales(gradients, 1e-3)
  const errors = names.flatMap((name, seed) => {
    const [at, gradient] = [machine.parameter(name), gradients.get(name)!]
    const lossAt = (values: Float64Array) => {
      machine.setParameter(name, values)
      return loss()
    }
    const found = directionsOf(at.length, seed, name).map(direction => {
      const error = Math.abs(slope(lossAt, at, direction) - dot(gradient, direction)) / scales.get(name)!
      return { name, error }
    })
    machine.setParameter(name, at)
    return found
  })
  return errors.reduce((a, b) => (a.error >= b.error ? a : b)) // a NaN stays, and fails the test
}

const tested = family('gradients against finite differences', 6)

function agrees(title: string, build: Build, { plan = {} }: { plan?: PlanInput } = {}) {
  tested(`the gradients of ${title} agree with differences of the loss`, () => {
    const program = programOf(build, plan)
    const machine = wideMachine(program)
    const inputs = dataOf(program, vocab)
    const names = program.params.map(({ name }) => name)
    const { name, error } = worstError(machine, names, () => machine.step({ inputs, lr: 0, step: 0 }).loss)
    ok(error < bound, `${name} is off by ${error}`)
  })
}

const model = (title: string, config: ModelInput, plan: PlanInput = {}) => agrees(title, familyModel(config), { plan })

const gpt = { family: 'gpt', layers: 2, embed: 6, heads: 2, ffn: 5, vocab } as const
const llama = { family: 'llama', layers: 2, embed: 6, heads: 4, kvHeads: 2, headDim: 4, ffn: 5, vocab } as const

model('mlp', { family: 'mlp', layers: 2, embed: 3, ffn: 5 })
model('gpt, tied', gpt)
model('gpt, untied', { ...gpt, tied: false })
model('gpt with dropout', { ...gpt, dropout: 0.3 })
model('gpt with dropout, recomputed, in two parts', { ...gpt, dropout: 0.3 }, { microbatches: 2, recompute: 'full' })
model('llama with grouped queries', llama)
model('llama with biases', { ...llama, qkvBias: true })
model('llama with normed heads', { ...llama, qkNorm: true })
model('llama with a window', { ...llama, window: 2 })
model('llama, tied', { ...llama, tied: true })
model('llama with everything', { ...llama, tied: true, qkvBias: true, qkNorm: true, window: 3, kvHeads: 1 })

/** All experts are chosen, so that no step of a difference chooses others; what is dropped depends on places alone. */
const moe = { experts: 3, topK: 3, ffn: 4 }
const loss = { sequence: 0.3, microbatch: 0.2, z: 0.1 }
model('experts by softmax', { ...llama, moe: { ...moe, loss } })
model(
  'experts by sigmoid, shared and gated, in two parts',
  {
    ...llama,
    moe: { ...moe, scores: 'sigmoid', scale: 2.5, shared: 4, sharedGate: true, dense: 1, loss },
  },
  { microbatches: 2, recompute: 'full' },
)
model('experts with little room, renormalised', {
  ...llama,
  moe: { ...moe, normalize: false, capacity: { factor: 0.5, order: 'token', renormalize: true } },
})

const sizes = { seq, features: 3, embed: 6, kvHeads: 2, group: 2, headDim: 4, ffn: 5, vocab }
const any = normal(1)

/** Every op of the builder, dims in odd orders, three carries of which two pass layers untouched, a table used four times. */
agrees('a model with every op of the builder', batch =>
  defineModel('every', { batch, ...sizes }, model => {
    model.block('start', b => {
      const tokens = b.embed(b.input('tokens', ['batch', 'seq'], 'i32'), b.param('table', ['vocab', 'embed'], any))
      const moved = b.add(tokens, b.param('place', ['embed', 'seq'], any), b.param('shift', ['embed'], any))
      const side = b.contract(tokens, b.param('side', ['ffn', 'embed'], any), ['ffn', 'seq', 'batch'])
      return { x: b.dropout(moved, 0.2), side: b.gelu(side, { approximate: true }), early: b.scale(tokens, -0.5) }
    })
    model.repeat('layers', 2, (b, { x, side, early }) => {
      const shared = b.param('shared', ['embed', 'kvHeads', 'headDim'], any)
      const normed = b.layerNorm(x, 'norm', ['embed'], 1e-5)
      const k = b.rope(b.contract(normed, shared, ['batch', 'seq', 'kvHeads', 'headDim']), 100)
      const v = b.rmsNorm(
        b.contract(x, shared, ['batch', 'kvHeads', 'seq', 'headDim']),
        'v',
        ['kvHeads', 'headDim'],
        0.1,
      )
      const spread = b.param('spread', ['group', 'kvHeads'], any)
      const q = b.contract(b.scale(k, 2), spread, ['batch', 'seq', 'kvHeads', 'group', 'headDim'])
      const heads = b.attention(q, k, v, { window: 3, dropout: 0.2 })
      const out = b.param('out', ['headDim', 'group', 'embed', 'kvHeads'], any)
      return { side, x: b.add(b.contract(heads, out, ['batch', 'seq', 'embed']), x), early }
    })
    model.block('mix', (b, { x, side, early }) => {
      const weight = b.tied('start.side')
      const gate = b.contract(b.mul(x, b.mul(early, x)), weight, ['seq', 'batch', 'ffn'])
      const up = b.add(side, b.contract(x, weight, ['batch', 'ffn', 'seq']), side)
      return { y: b.contract(b.swiglu(gate, up), weight, ['batch', 'seq', 'embed']), x }
    })
    model.block('head', (b, { x, y }) => {
      const table = b.tied('start.table')
      const gained = b.mul(b.param('gain', ['seq', 'embed'], ones), b.gelu(b.add(y, x)))
      b.crossEntropy(
        b.contract(b.mul(gained, gained), table, ['batch', 'seq', 'vocab']),
        b.input('labels', ['batch', 'seq'], 'i32'),
      )
      return {}
    })
  }),
)

agrees('a model whose carries change names and double', batch =>
  defineModel('carries', { batch, ...sizes }, model => {
    model.block('start', b => {
      const data = b.input('x', ['batch', 'seq', 'features'])
      const x = b.contract(data, b.param('in', ['features', 'embed'], any), ['batch', 'seq', 'embed'])
      return { x, again: x, other: b.gelu(x), bias: b.param('bias', ['embed'], any) }
    })
    model.block('swap', (_, { x, again, other, bias }) => ({ x: other, other: x, again, bias }))
    model.block('use', (b, { x, again, other, bias }) => ({ x: b.add(b.mul(x, again), bias, other), twice: x, bias }))
    model.block('end', (b, { x, twice, bias }) => {
      b.meanSquare(b.add(x, twice, b.mul(x, bias)), b.input('target', ['batch', 'seq', 'embed']))
      return {}
    })
  }),
)

agrees('a model with a carry nobody takes up and a parameter nobody uses', batch =>
  defineModel('ends', { batch, ...sizes }, model => {
    model.block('start', b => {
      b.param('idle', ['embed'], any)
      const scaled = b.mul(b.input('x', ['batch', 'seq', 'embed']), b.param('gain', ['embed'], any))
      return { x: scaled, unused: b.add(scaled, b.param('lost', ['embed'], any)) }
    })
    model.block('end', (b, { x }) => {
      b.meanSquare(x, b.input('target', ['batch', 'seq', 'embed']))
      return {}
    })
  }),
)

test('a parameter that is set is the parameter, however its parts are laid out', () => {
  const plans: PlanInput[] = [
    {},
    { tp: 2 },
    { dp: 2, zero: 3 },
    { dp: 2, tp: 2, zero: 1 },
    { pp: 2, tp: 2, dp: 2, zero: 2 },
  ]
  for (const plan of plans) {
    const program = programOf(familyModel({ ...gpt, embed: 8, ffn: 8, vocab: 8 }), plan)
    const machine = boot(program, { seed: 1 })
    for (const { name } of program.params) {
      const values = machine.parameter(name).map((_, i) => i + 0.25)
      machine.setParameter(name, values)
      deepEqual(machine.parameter(name), values)
      equal(machine.spread(name), 0)
    }
    throws(() => machine.setParameter('embed.tokens', [1]), /has 64 elements, not 1/)
    throws(() => machine.setParameter('nobody', [1]), /no parameter nobody/)
  }
})
