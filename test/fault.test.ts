/** The first number that is not finite is found where it was made, and a run that ends says so. */
import { deepEqual, equal, match, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { type BadNumber, boot, dataFor, firstFault, type Interpreter } from '../src/engine/index.js'
import type { Job } from '../src/plan/index.js'
import { startSession, syntheticOf, train } from '../src/train/index.js'
import { jobOf, optionsOf } from './jobs.js'

/** A step from the first weights, some of them changed. */
function faultOf(
  job: Job,
  prepare: (machine: Interpreter) => void = () => {},
  spoil?: [string, number],
): BadNumber | undefined {
  const program = compileJob(job)
  const inputs = dataFor(program, optionsOf(job))(0)
  const data = (name: string) => {
    const values = Float64Array.from(inputs(name))
    if (spoil?.[0] === name) values[spoil[1]] = Number.NaN
    return values
  }
  return firstFault(program, { seed: 1, precision: 'f32' }, prepare, { inputs: data, lr: 0.1, step: 0 })
}

/** Parameters so large that what is made of both overflows, and nothing before. */
const enlarged = (names: readonly string[], times: number) => (machine: Interpreter) => {
  for (const name of names) {
    const values = machine.parameter(name).map(value => value * times)
    machine.setParameter(name, values)
  }
}

test('a sound step has none, wherever queries see no key', () => {
  equal(faultOf(jobOf('gpt', { dp: 2, tp: 2 })), undefined)
  equal(faultOf(jobOf('llama', { cp: 2, attention: 'ring' })), undefined)
})

for (const plan of [{}, { tp: 2 }, { dp: 2, pp: 2, zero: 1, microbatches: 2 }] as const)
  test(`${JSON.stringify(plan)}: the product that overflows in the third layer is named, and no other`, () => {
    const fault = faultOf(jobOf('mlp', plan), enlarged(['layers.2.up', 'layers.2.down'], 1e30))!
    equal(fault.instr.kind, 'contract')
    deepEqual([fault.call.block, fault.call.segment, fault.call.microbatch], [3, 'layers.F', 0])
    equal(Number.isFinite(fault.made.value), false)
    equal(
      fault.of.every(({ most }) => Number.isFinite(most)),
      true,
    )
  })

test('in f16 a gradient that overflows by its scale is named', () => {
  const job = jobOf('mlp', { precision: 'f16', dp: 2 }, { lossScale: 2 ** 30 })
  const fault = faultOf(job)!
  deepEqual([fault.instr.kind, fault.call.segment], ['squaredErrorGrad', 'loss.B'])
  equal(faultOf(jobOf('mlp', { precision: 'f16', dp: 2 }, { lossScale: 2 ** 10 })), undefined)
})

test('what the data has, the data had', () => {
  const fault = faultOf(jobOf('mlp', { dp: 2, microbatches: 2 }), undefined, ['target', 40])!
  deepEqual([fault.instr.kind, fault.made.ref], ['load', 'target'])
})

test('a run that ends says what broke it', async () => {
  const job = jobOf('mlp', { dp: 2, pp: 2 }, { steps: 4, evalBatches: 0, mostSkips: 1 })
  const session = await startSession(job, syntheticOf(job), { kernels: 'auto' })
  const program = compileJob(job)
  const param = program.params.find(({ name }) => name === 'layers.1.down')!
  for (const rank of [0, 1, 2, 3]) {
    const [[pp, { param: frame }]] = Object.entries(param.frames)
    if (Math.floor(rank / 2) !== Number(pp)) continue
    const at = { rank, frame, dtype: 'f32', first: 0 } as const
    session.trainer.hold(at, session.trainer.held(at).map(value => value * 1e38) as Float32Array)
  }
  const all = async () => {
    for await (const _ of train(session));
  }
  await rejects(all(), (e: Error) => {
    match(
      e.message,
      /step 1 was skipped: .*; the first NaN or Inf is computed in (layers|loss).* on rank \d \(.*pp \d.*\): \w+ gives -?(Infinity|NaN) in %\S+, of %/,
    )
    return true
  })
  await session.stop()
  equal(boot(program, { seed: 1 }).scalars().taken, 0)
})
