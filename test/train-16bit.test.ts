/** Training in 16 bits, step by step as PyTorch's casts, scaler, clipping and AdamW have it. */
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { boot, type Runner, startEngine } from '../src/engine/index.js'
import type { Program } from '../src/ir/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { readFixture } from './fixtures.js'

interface Case {
  readonly precision: 'f16' | 'bf16'
  readonly model: JobInput['model']
  readonly batch: number
  readonly seq: number
  readonly clip: number
  readonly optimizer: JobInput['training']['optimizer'] & { readonly lr: number }
  readonly scaler: { readonly kind: 'torch'; readonly init: number } | null
  readonly params: Readonly<Record<string, { readonly values: readonly number[] }>>
  readonly data: readonly Readonly<Record<string, readonly number[]>>[]
  readonly steps: readonly Step[]
  readonly masters: Readonly<Record<string, readonly number[]>>
}

interface Step {
  readonly loss: number
  readonly scale: number
  readonly skipped: number
  readonly scaleAfter: number
}

const layersOf = ({ model }: Case): number =>
  typeof model === 'object' && 'layers' in model ? Number(model.layers) : 1

const cases: readonly Case[] = JSON.parse(readFixture('precision/train-16bit.json')).cases

function programOf({ precision, model, batch, seq, clip, optimizer, scaler }: Case, plan: JobInput['plan']): Program {
  const { init: initial, ...numbers } = scaler ?? { init: 1 }
  const training = { seq, globalBatch: batch, clip, optimizer, ...(scaler && { lossScale: { ...numbers, initial } }) }
  return compileJob(Job.parse({ model, training, plan: { ...plan, precision } }))
}

/** Skips and scales exactly, losses and masters as near as 16 bits allow. */
async function follows(one: Case, runner: Runner): Promise<void> {
  const bound = one.precision === 'f16' ? 5e-3 : 2e-2
  for (const [name, { values }] of Object.entries(one.params)) runner.setParameter(name, values)
  for (const [step, expected] of one.steps.entries()) {
    const inputs = (name: string) => one.data[step][name]
    const { loss, skipped, scale } = await runner.step({ inputs, lr: one.optimizer.lr, step })
    const { before = 1, after = 1 } = scale ?? {}
    deepEqual([Number(skipped), before, after], [expected.skipped, expected.scale, expected.scaleAfter], `step ${step}`)
    ok(Math.abs(loss / expected.loss - 1) < bound, `step ${step}: the loss ${loss} is not ${expected.loss}`)
  }
  for (const [name, master] of Object.entries(one.masters)) {
    const held = runner.states(name).master!
    for (const [i, value] of master.entries()) ok(Math.abs(held[i] - value) < 3e-3, `${name}: ${held[i]} and ${value}`)
  }
  await runner.stop()
}

for (const one of cases)
  for (const plan of [{}, { dp: one.batch % 2 === 0 ? 2 : 1, pp: Math.min(2, layersOf(one)) }]) {
    const title = `${one.precision} ${JSON.stringify(plan)}`
    const program = programOf(one, plan)
    test(`interpreter, ${title}`, () => follows(one, boot(program, { seed: 1, precision: 'f32' })))
    test(`engine, ${title}`, async () => follows(one, await startEngine(program, { seed: 1 })))
  }
