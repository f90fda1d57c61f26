/**
 * The engine on parts of a line, views, collectives of several tensors and calls that only start: small programs by hand,
 * with native kernels and with WebAssembly, against the one-rank program and, for sums of whole numbers, to the bit.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { compareRun, dataFor, type RunRecord, runSerial } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import type { Program } from '../src/ir/index.js'
import { type Toy, toy } from './toy.js'

type Kind = 'native' | 'wasm'
const pool = new Pool()
after(() => pool.close())

const options = { steps: 3, seed: 5, lr: 0.05, vocab: 1 }
/** What f32 costs; see engine.test.ts. */
const bounds = { loss: 1e-6, gradient: 5e-5, parameter: 1e-5 }
const skipOf = (kernels: Kind) => (kernels === 'native' && nativeMissing()) || false

async function record(program: Program, kernels: Kind): Promise<RunRecord> {
  const watching = { observeGradients: true, poison: true, timeoutMs: 20_000 }
  const engine = await startEngine(program, { seed: options.seed, kernels, pool, ...watching })
  try {
    const data = dataFor(program, options)
    const byName = <T>(of: (name: string) => T) => new Map(program.params.map(({ name }) => [name, of(name)]))
    const steps = []
    for (let step = 0; step < options.steps; step++) {
      const { loss } = await engine.step({ inputs: data(step), lr: options.lr, step })
      steps.push({ loss, gradients: byName(name => engine.gradient(name)) })
    }
    const spreads = byName(name => engine.spread(name))
    return { steps, parameters: byName(name => engine.parameter(name)), spreads, peaks: engine.peaks }
  } finally {
    await engine.stop()
  }
}

const odd = { embed: 5, ffn: 7 }
const plans: readonly Toy[] = [
  ...([1, 3] as const).flatMap(zero =>
    ([1, 2] as const).flatMap(pp => [false, true].map(tied => ({ zero, dp: 2, pp, tied, ...odd }))),
  ),
  { zero: 1, dp: 4, ...odd },
  { zero: 3, dp: 4, ...odd },
  { zero: 3, dp: 4, embed: 1, ffn: 2 },
  { zero: 1, dp: 2, tp: 2, pp: 2 },
  { zero: 3, dp: 2, tp: 2, pp: 2, tied: true },
]

for (const plan of plans)
  for (const kernels of ['native', 'wasm'] as const)
    test(`${kernels}: ${JSON.stringify(plan)} computes what one rank computes`, { skip: skipOf(kernels) }, async () => {
      const { embed = 6, ffn = 8, tied = false } = plan
      const program = toy(plan)
      const serial = runSerial(toy({ embed, ffn, tied }), options)
      const { steps, parameter, spread, memory } = compareRun(program, await record(program, kernels), serial)
      for (const { error, gradient } of steps) {
        assert.ok(error <= bounds.loss, `the loss is off by ${error}`)
        assert.ok(gradient.error <= bounds.gradient, `the gradient of ${gradient.name} is off by ${gradient.error}`)
      }
      assert.ok(parameter.error <= bounds.parameter, `${parameter.name} is off by ${parameter.error}`)
      assert.equal(spread.error, 0, `replicas of ${spread.name} differ`)
      assert.deepEqual(memory, [])
    })
