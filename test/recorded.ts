/** A program run by the engine, recorded for the comparison with one rank, and how far f32 may be off. */
import assert from 'node:assert/strict'
import { type CompareOptions, type Comparison, dataFor, type RunRecord } from '../src/engine/index.js'
import { type Pool, startEngine } from '../src/engine/native/index.js'
import type { Program } from '../src/ir/index.js'

export type Kind = 'native' | 'wasm'

/**
 * What f32 costs, relative to what compare.ts measures by: a loss is one sum (1.3e-7 was seen); a gradient may be as small
 * as 1e-4 of the model's largest, so rounding of the largest weighs 1e4 times as much there (1e-5 was seen).
 */
export const bounds = { loss: 1e-6, gradient: 5e-5, parameter: 1e-5 }

/** What the engine's sums may make of a loss where the interpreter rounds as the plan says, relative to its loss. */
export const lossBounds = { f32: 1e-4, bf16: 2e-2, 'bf16-no-masters': 2e-2, 'pure-bf16': 2e-2, f16: 5e-3 } as const

/** Memory that is not in use is NaN throughout. */
export async function record(program: Program, kernels: Kind, pool: Pool, options: CompareOptions): Promise<RunRecord> {
  const watching = { observeGradients: true, poison: true, timeoutMs: 20_000 }
  const engine = await startEngine(program, { seed: options.seed, kernels, pool, ...watching })
  try {
    const data = dataFor(program, options)
    const byName = <T>(of: (name: string) => T, params = program.params) =>
      new Map(params.map(({ name }) => [name, of(name)]))
    const trained = program.params.filter(({ frozen }) => !frozen)
    const steps = []
    for (let step = 0; step < options.steps; step++) {
      const { loss } = await engine.step({ inputs: data(step), lr: options.lr, step })
      steps.push({ loss, gradients: byName(name => engine.gradient(name), trained) })
    }
    const spreads = byName(name => engine.spread(name))
    return {
      steps,
      parameters: byName(name => engine.parameter(name)),
      spreads,
      peaks: engine.peaks,
      peaksElsewhere: engine.peaksElsewhere,
    }
  } finally {
    await engine.stop()
  }
}

/** Losses, gradients and parameters within the bounds, replicas equal to the bit, peaks equal to the plan. */
export function isWithinBounds({ steps, parameter, spread, memory }: Comparison): void {
  for (const { error, gradient } of steps) {
    assert.ok(error <= bounds.loss, `the loss is off by ${error}`)
    assert.ok(gradient.error <= bounds.gradient, `the gradient of ${gradient.name} is off by ${gradient.error}`)
  }
  assert.ok(parameter.error <= bounds.parameter, `${parameter.name} is off by ${parameter.error}`)
  assert.equal(spread.error, 0, `replicas of ${spread.name} differ`)
  assert.deepEqual(memory, [])
}
