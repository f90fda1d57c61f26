/** The facts of ops against what else says the same: the comments of the union, the checker, and compiled models. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { isOptimizer, opFacts, opKinds, statesOf } from '../src/base/index.js'
import { signatures } from '../src/ir/laws/signatures.js'
import { check, recomputable } from '../src/plan/index.js'
import { jobOf, type models } from './jobs.js'

const source = readFileSync(new URL('../../src/base/op.ts', import.meta.url), 'utf8')

/** '(q, k, v) -> (out, lse)' of the comment before an op. */
function documented(kind: string): string | undefined {
  const [before] = source.split(`kind: '${kind}'`)
  const comment = before.slice(before.lastIndexOf('/**'))
  return /\(([^()]*)\) -> \(([^()]*)\)/.exec(comment)?.[0]
}

for (const kind of opKinds.filter(name => !isOptimizer({ kind: name })))
  test(`${kind} has the operands and results of its comment`, () => {
    const { ins, outs } = opFacts[kind]
    equal(`(${ins.join(', ')}) -> (${outs.join(', ')})`, documented(kind))
  })

/** What it keeps of a vector or of a matrix, and the parameter. */
const ofAdafactor = [undefined, 1].map(inputs => {
  const settings = { beta2Decay: 0, eps1: 0, eps2: 0, clipThreshold: 0, weightDecay: 0, inputs }
  return 1 + statesOf({ kind: 'adafactor', ...settings }).length
})

test('the checker counts as many operands and results, and holds the same results to be statistics', () => {
  for (const kind of opKinds) {
    const { ins, outs, statistic = outs.length, updates } = opFacts[kind]
    const { ins: least, outs: made, dtypes } = signatures[kind]
    ok(ins.includes('...') || least.includes(ins.length), `${kind}: ${ins.join()} against ${least.join()}`)
    for (const results of kind === 'adafactor' ? ofAdafactor : [outs.length])
      ok(made.includes(results), `${kind}: ${outs.join()} against ${made.join()}`)
    if (updates) continue
    const letters = [...(dtypes?.outs ?? 'x'.repeat(outs.length))]
    deepEqual(
      letters.map(letter => letter === 'f'),
      outs.map((_, i) => i >= statistic),
      kind,
    )
  }
})

test('what can be computed again, and who has it', () => {
  const unused = (model: keyof typeof models) =>
    check(jobOf(model, { recompute: [...recomputable] }))
      .filter(({ path }) => path === 'plan.recompute')
      .map(({ message }) => message)
  const experts = 'sigmoid, scores, chosen, dispatch, expertContract or weightedSwiglu'
  deepEqual(unused('mlp'), [
    `this mlp has no swiglu, layerNorm, rmsNorm, join, rope, attention, dropout, embed, ${experts}`,
  ])
  deepEqual(unused('gpt'), [`this gpt has no swiglu, rmsNorm, join, rope, dropout, ${experts}`])
  deepEqual(unused('gpt tied'), [`this gpt has no swiglu, rmsNorm, join, rope, ${experts}`])
  deepEqual(unused('llama'), [`this llama has no gelu, layerNorm, join, dropout, ${experts}`])
  deepEqual(unused('latent'), [`this llama has no gelu, layerNorm, dropout, ${experts}`])
})
