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
 * x and writes y; `b sum y` sums columns; `y <- x` begins a sum over ranks and `wait y` ends it; `y dnorm x` is the gradient of a norm's input and
 * `y dgain x` that of its weights, of the same x. Matrices are [r 4, c 4] at 64 bytes each, b* are biases [c 4]; a name is a place: `y@2` lies at place 2.
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
      if (out === 'wait') return { kind: 'wait', on: sign }
      const outs = [ref(out)]
      const operands = ins.filter(word => word !== '+').map(ref)
      if (sign === '<-') return { kind: 'all-reduce', ins: operands, outs, combine: 'sum', group: { axes: ['tp'] } }
      if (sign === 'dnorm') return { kind: 'rmsNormInputGrad', ins: [...operands, ref('U'), ref('b')], outs, eps: 1 }
      if (sign === 'dgain') return { kind: 'rmsNormWeightGrad', ins: [...operands, ref('U')], outs, eps: 1 }
      if (sign === 'sum') return { kind: 'sumTo', ins: operands, outs }
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

/** Those that do more than their own: `y = x w + b + u`, by the first along tp; `t at y`: t lies where y was to. */
function fused(text: string): string[] {
  const { sums, norms, columns, instead, places } = fusionOf(segment(text))
  const operands = (instr: Instr) => (instr as { readonly ins: readonly string[] }).ins.join(' ')
  const lines = [...sums].map(
    ([instr, { out, bias, add, first }]) =>
      `${out} = ${operands(instr)}${bias ? ` + ${bias}` : ''}${add ? ` + ${add}` : ''}${first ? `, first ${first}` : ''}`,
  )
  const summed = [...columns].map(([instr, grad]) => `${grad} += columns of ${operands(instr)}`)
  const weights = [...norms].map(([instr, { outs }]) => `${outs} of ${operands(instr)}`)
  const placed = [...places].map(([ref, place]) => `${ref} at ${place}`)
  const less = [...instead.values()].filter(instr => instr === undefined).length
  const done = `${less} less${[...instead.values()].some(Boolean) ? ', later' : ''}`
  return less === 0 ? [] : [...lines, ...summed, ...weights, ...placed, done]
}

const cases: [title: string, text: string, expected: string[]][] = [
  ['a bias', 'p = x w\nY = p + b', ['Y = x w + b', '1 less']],
  ['a residual', 'p = x w\nY = U + p', ['Y = x w + U', '1 less']],
  [
    'not later than what it starts from is there',
    'p@1 = x w\nq@2 = x2 w2\nt@3 = p + q\nr@1 = x3 w3\nb ~ U\nY = t + b',
    ['p = x w', 't = x2 w2 + p', '1 less'],
  ],
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
  ['the sum lies over an operand', 'p = x@7 w\ny@7 = p + b\nZ ~ y', ['y = x w + b', 'y at p', '1 less']],
  ['the sum lies over an operand, in a frame of others', 'p = x w\nt ~ Y\nY = p + b', ['Y = x w + b', '1 less, later']],
  [
    'the sum lies over an operand of the last of three, and what would be its place is taken before it was read',
    'p = x w\nq = x1 w1\nr@5 = x2@7 w2\ny@7 = p + q + r\nt@5 ~ V\nZ ~ y',
    ['p = x w', 'q = x1 w1 + p', 'y = x2 w2 + q', 'y at q', '1 less'],
  ],
  ['all places are taken', 'p@5 = x@7 w\ny@7 = p + b\nt@5 ~ V\nZ ~ y', []],
  [
    'bias and residual behind a sum over ranks',
    'p = x w\nt <- p\nwait t\nq = t + b\nY = U + q',
    ['p = x w + b + U, first tp', 't at Y', '2 less'],
  ],
  [
    'the sum lies over the share',
    'p@5 = x w\nt <- p\nwait t\ny@5 = t + b\nZ ~ y',
    ['p = x w + b, first tp', 't at y', '1 less'],
  ],
  ['somebody reads the place of the sum while ranks meet', 'p = x w\nt <- p\nz ~ v@7\nwait t\ny@7 = t + b', []],
  ['a residual that comes after the share', 'p = x w\nt <- p\nU ~ V\nwait t\nY = t + U', []],
  ['a sum over ranks that others read', 'p = x w\nt <- p\nwait t\nY = t + U\nZ ~ t', []],
  ['the gradient of a norm starts from another', 'p dnorm D\nY = p + V', ['Y = D U b + V', '1 less']],
  [
    'gradients of a norm in one pass, over what they read',
    'p dnorm d@7\ng dgain d@7\nG += g\ny@7 = V + p\nZ ~ y',
    ['y = d U b + V', 'g of d U b', '2 less'],
  ],
  [
    'the gradient of a bias with that of its weight',
    'b sum D\nb1 += b\nw = x D\nw1 += w',
    ['w1 = x D + w1', 'b1 += columns of x D', '3 less'],
  ],
  [
    'the gradient of a bias that others read',
    'b sum D\nb1 += b\nZ ~ b1\nw = x D\nw1 += w',
    ['w1 = x D + w1', '1 less'],
  ],
  ['a sum of columns that others read', 'b sum D\nb1 += b\nZ ~ b\nw = x D', []],
  ['columns that others have changed', 'b sum D\nb1 += b\nD ~ V\nw = x D\nw1 += w', ['w1 = x D + w1', '1 less']],
  ['columns of a left operand', 'b sum x\nb1 += b\np = x w\nG += p', ['G = x w + G', '1 less']],
  [
    'with the gradient of a bias a product stays where it is',
    'b sum D\nb1 += b\nw = x D\nw1 += w2\nw1 += w',
    ['b1 += columns of x D', '2 less'],
  ],
  ['of a norm, over what others read later', 'p@5 dnorm d@7\nt ~ d\ny@7 = V + p\ns@5 ~ V\nZ ~ y', []],
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
  // Neither gradients of the residual stream nor those of the three readers of the first norm.
  equal(perLayer('add'), 0)
  equal(perLayer('layerNormWeightGrad'), 0)
  // Gains and biases of two norms; those of products are summed with the gradients of their weights. The first
  // microbatch writes what the second adds to, so nothing is cleared.
  equal(perLayer('copy'), 4)
  equal(perLayer('accumulate'), 4)
  equal(perLayer('fill'), 0)
})
