/**
 * The layout in which a gradient is accumulated when several segments make it. The gain is used once on tokens, which
 * sequence parallelism splits over tp, and once on whole samples, which are whole on tp: as produced, the one gradient
 * is `sum:dp sum:tp` and the other `sum:dp`.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { compile } from '../src/compile/index.js'
import { compare, runSerial, worstOf } from '../src/engine/index.js'
import { type Program, showLayout, showViolation, verify } from '../src/ir/index.js'
import { type BlockBuilder, type Carry, defineModel, type Model, normal, type Value } from '../src/model/index.js'
import { Plan, type PlanInput } from '../src/plan/index.js'
import { makeSchedule } from '../src/schedule/index.js'

type D = 'batch' | 'seq' | 'embed'
type Use = (b: BlockBuilder<D>, gain: Value) => Value

const tokens: Use = (b, gain) => b.mul(b.input('x', ['batch', 'seq', 'embed']), gain)
const samples: Use = (b, gain) => b.mul(b.input('z', ['batch', 'embed']), gain)

const modelOf = (first: Use, second: Use): Model =>
  defineModel('tied', { batch: 4, seq: 4, embed: 4 }, m => {
    m.block('first', (b): Carry => ({ one: first(b, b.param('gain', ['embed'], normal(0.5))) }))
    m.block('second', (b, { one }): Carry => ({ one, other: second(b, b.tied('first.gain')) }))
    m.block('last', (b, { one, other }) => {
      const [x, y] = first === samples ? [other, one] : [one, other]
      b.meanSquare(b.gelu(b.add(x, y)), b.input('target', ['batch', 'seq', 'embed']))
      return {}
    })
  })

function programOf(model: Model, input: PlanInput): Program {
  const plan = Plan.parse(input)
  const training = { optimizer: { kind: 'sgd', lr: 0.1, momentum: 0.9, weightDecay: 0 } } as const
  const schedule = makeSchedule('1f1b', { ranks: plan.pp, chunks: 1, microbatches: plan.microbatches })
  return compile({ model, plan, training, schedule })
}

const accumulatedIn = ({ segments }: Program) =>
  new Set(
    Object.values(segments).flatMap(({ phase, buffers, roles }) =>
      Object.values(buffers)
        .filter(({ role }) => (phase === 'B' || phase === 'W') && roles[role].name.is === 'grad')
        .map(({ layout }) => showLayout(layout)),
    ),
  )

for (const [what, model, layout] of [
  ['the first, which the second can be brought to', modelOf(samples, tokens), '[] sum:dp'],
  ['one that both can be brought to', modelOf(tokens, samples), '[] sum:dp'],
  ['as both produce it', modelOf(tokens, tokens), '[] sum:dp sum:tp'],
] as const)
  for (const pp of [1, 2])
    test(`a gradient made in two places is accumulated in one layout: ${what}, pp ${pp}`, () => {
      const plan = { dp: 2, tp: 2, pp, sequenceParallel: true, zero: 1 } as const
      const [one, many] = [programOf(model, {}), programOf(model, plan)]
      deepEqual([...accumulatedIn(many)], [layout])
      deepEqual(verify(many, one).map(showViolation), [])
      const options = { steps: 2, seed: 1, lr: 0.1, vocab: 1 }
      ok(worstOf(compare(many, runSerial(one, options), options)) <= 1e-12)
    })
