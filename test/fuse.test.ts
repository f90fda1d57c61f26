/** Which additions a contraction takes up, drawn as text, and when it must not. */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { commandNames, lower } from '../src/engine/native/index.js'
import { fusionOf } from '../src/engine/native/lower/fuse.js'
import type { Buffer, Instr, Segment } from '../src/ir/index.js'
import { jobOf } from './jobs.js'

/**
 * One instruction a line: `y = x w` contracts, `y = x + u` adds, `y += x` accumulates, `y ~ x` is anything else that reads
 * x and writes y. Matrices are [r 4, c 4] at 64 bytes each, b* are biases [c 4]; a name is a place: `y@2` lies at place 2.
 * Capital letters lie in frames that others read.
 */
function segment(text: string): Segment {
  const buffers: Record<string, Buffer> = {}
  const dim = (name: string) => ({ name, size: 4 })
  const layout = { splits: {}, partial: {} }
  let places = 100
  const ref = (word: string): string => {
    const [name, place] = word.split('@')
    const dims = name.startsWith('b') ? [dim('c')] : name.startsWith('w') ? [dim('k'), dim('c')] : [dim('r'), dim('c')]
    const shape = name.startsWith('x') ? [dim('r'), dim('k')] : dims
    const role = name === name.toUpperCase() ? 1 : 0
    buffers[name] ??= { dtype: 'f32', dims: shape, layout, role, offset: 64 * (place ? Number(place) : places++) }
    return name
  }
  const instrs = text
    .trim()
    .split('\n')
    .map((line): Instr => {
      const [out, sign, ...ins] = line.trim().split(' ')
      const outs = [ref(out)]
      const operands = ins.filter(word => word !== '+').map(ref)
      if (sign === '+=') return { kind: 'accumulate', ins: operands, outs }
      if (sign === '~') return { kind: 'scale', by: 2, ins: operands, outs }
      return { kind: ins.includes('+') ? 'add' : 'contract', ins: operands, outs }
    })
  const roles = [
    { name: { is: 'scratch', of: 'activations' }, kind: 'activations', bytes: 1e5 },
    { name: { is: 'keep' }, kind: 'activations', bytes: 1e5 },
  ] as const
  return { name: 's', phase: 'F', roles, buffers, instrs }
}

/** The contractions that do more than their own: `y = x w + b + u`. */
function fused(text: string): string[] {
  const { contractions, instead } = fusionOf(segment(text))
  const lines = [...contractions].map(
    ([instr, { out, bias, add }]) =>
      `${out} = ${(instr as { readonly ins: readonly string[] }).ins.join(' ')}${bias ? ` + ${bias}` : ''}${add ? ` + ${add}` : ''}`,
  )
  const less = [...instead.values()].filter(instr => instr === undefined).length
  return less === 0 ? [] : [...lines, `${less} less${[...instead.values()].some(Boolean) ? ', later' : ''}`]
}

const cases: [title: string, text: string, expected: string[]][] = [
  ['a bias', 'p = x w\nY = p + b', ['Y = x w + b', '1 less']],
  ['a residual', 'p = x w\nY = U + p', ['Y = x w + U', '1 less']],
  ['bias, then residual', 'p = x w\nq = p + b\nY = U + q', ['Y = x w + b + U', '2 less']],
  ['a gradient', 'p = x w\nG += p', ['G = x w + G', '1 less']],
  [
    'a sum of three',
    'p = x w\nq = x1 w1\nr = x2 w2\nY = p + q + r',
    ['p = x w', 'q = x1 w1 + p', 'Y = x2 w2 + q', '1 less'],
  ],
  ['two matrices and one contraction', 'p = x w\nY = p + U + V', []],
  ['two residuals, one after the other', 'p = x w\nq = p + U\nY = q + V', ['q = x w + U', '1 less']],
  ['a product that others read', 'p = x w\nY = p + b\nZ ~ p', []],
  ['a product that is kept', 'P = x w\nY = P + b', []],
  ['twice the product', 'p = x w\nY = p + p', []],
  [
    'something reads the place of the sum in between',
    'p = x w\nz ~ t@7\ny@7 = p + b',
    ['y = x w + b', '1 less, later'],
  ],
  [
    'something writes the place of the sum in between',
    'p = x w\nt@7 ~ V\ny@7 = p + b',
    ['y = x w + b', '1 less, later'],
  ],
  ['what is added comes later', 'p = x w\nU ~ V\nY = p + U', ['Y = x w + U', '1 less, later']],
  [
    'what is added comes later, twice',
    'p = x w\nU ~ V\nq = p + U\nb ~ V\nY = q + b',
    ['Y = x w + b + U', '2 less, later'],
  ],
  ['a gradient that others add to in between', 'p = x w\nG += d\nG += p', ['G = x w + G', '1 less, later']],
  ['what is added comes later, over an operand', 'p = x@7 w\nu@7 ~ V\nY = p + u', []],
  ['the sum lies over an operand', 'p = x@7 w\ny@7 = p + b', []],
]
for (const [title, text, expected] of cases) test(`fuse: ${title}`, () => deepEqual(fused(text), expected))

test('of a layer of GPT no bias is added apart, no weight gradient accumulated apart, and none cleared first', () => {
  const options = { seed: 1, reserved: 64, workspaceBytes: 1024, waiting: { timeoutMs: 1000, spin: 0, yields: 0 } }
  const count = (layers: number) => {
    const job = jobOf('gpt', { microbatches: 2 })
    const { lists } = lower(compileJob({ ...job, model: { ...job.model, layers } as typeof job.model }), options)
    const names = lists[0].starts.map(start => commandNames[lists[0].words[start]])
    return (name: string) => names.filter(each => each === name).length
  }
  const [one, two] = [1, 2].map(count)
  const perLayer = (name: string) => two(name) - one(name)
  // Gradients of the residual stream (2), and of the three readers of the first norm (2), in each microbatch.
  equal(perLayer('add'), 8)
  // Gains and biases of two norms, biases of four products with weights and of the MLP's two; the first microbatch
  // writes what the second adds to, so nothing is cleared.
  equal(perLayer('copy'), 10)
  equal(perLayer('accumulate'), 10)
  equal(perLayer('fill'), 0)
})
