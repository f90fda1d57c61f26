/** The evaluation of a job: forward only, lawful, and the same number as the loss of a training step. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { compileEvaluation, compileJob, serialJob } from '../src/compile/index.js'
import { boot, syntheticData } from '../src/engine/index.js'
import { inputsOf } from '../src/geometry/index.js'
import { type Program, parse, print, verify } from '../src/ir/index.js'
import type { PlanInput } from '../src/plan/index.js'
import { jobOf, type ModelName, titleOf } from './jobs.js'

const plans: readonly (readonly [ModelName, PlanInput])[] = [
  ['llama', {}],
  ['mlp', { dp: 2, tp: 2, zero: 2 }],
  ['llama', { dp: 2, tp: 2, pp: 2, zero: 3, sequenceParallel: true, microbatches: 4, recompute: 'full' }],
  ['gpt', { dp: 4, zero: 3, gather: 'step', reduce: 'step', microbatches: 2 }],
  ['llama tied', { tp: 4, pp: 2, microbatches: 4 }],
  ['gpt', { dp: 2, tp: 2, zero: 3, precision: 'bf16' }],
  ...(['looped-bfs', 'zb-v', 'dualpipe'] as const).map(
    schedule => ['llama tied', { pp: 2, tp: 2, microbatches: 4, schedule }] as const,
  ),
]

for (const [model, plan] of plans)
  test(`${model}, ${titleOf(plan)}: an evaluation is lawful and gives the loss of a step`, () => {
    const job = jobOf(model, plan)
    const program = compileEvaluation(job)
    deepEqual(verify(program, compileEvaluation(serialJob(job, job.plan.microbatches))), [])
    const machine = boot(program, { seed: 1 })
    const data = { inputs: dataOf(program)(0), lr: Number.NaN, step: 0 }
    const { loss, count, normSquared } = machine.step(data)
    const training = compileJob(job)
    const trained = boot(training, { seed: 1 }).step({ ...data, lr: 0.1 })
    ok(Math.abs(loss - trained.loss) < 1e-13 * trained.loss, `${loss} against ${trained.loss}`)
    equal(count, trained.count)
    ok(Number.isNaN(normSquared))
    for (const { peak } of program.streams) deepEqual([peak.gradients, peak.optimizer], [0, 0])
    for (const [i, stream] of program.streams.entries())
      ok(stream.arena < training.streams[i].arena, 'judging takes less memory than training')
  })

const dataOf = (program: Program) => syntheticData(inputsOf(program), 8, 1)

test('parameters of one plan are judged under another, and no mask is drawn', () => {
  const trainer = boot(compileJob(jobOf('gpt tied', { dp: 2, pp: 2, microbatches: 2, zero: 3 })), { seed: 1 })
  const [judge, one] = [{ tp: 2, pp: 2, microbatches: 4 }, {}].map(plan => {
    const program = compileEvaluation(jobOf('gpt tied', plan))
    ok(!JSON.stringify(program.segments).includes('"dropout":{'))
    return {
      machine: boot(program, { seed: 9 }),
      data: { inputs: dataOf(program)(5), lr: Number.NaN, step: 0 },
      program,
    }
  })
  const before = judge.machine.step(judge.data).loss
  trainer.step({ inputs: dataOf(judge.program)(5), lr: 0.1, step: 0 })
  for (const { machine, program } of [judge, one])
    for (const { name } of program.params) machine.setParameter(name, trainer.parameter(name))
  const after = judge.machine.step(judge.data).loss
  ok(Math.abs(after - one.machine.step(one.data).loss) < 1e-13)
  notEqual(after, before)
  equal(judge.machine.step(judge.data).loss, after, 'judging changes nothing')
})

test('[P2] [P3] an evaluation that goes back, or a training step that does not, is found', () => {
  const job = jobOf('mlp', { pp: 2, microbatches: 2 })
  const laws = (program: Program) => [...new Set(verify(program).map(({ law }) => law))].join(' ')
  const evaluation = compileEvaluation(job)
  const { evaluates, ...pretends } = evaluation
  equal(evaluates, true)
  equal(laws(pretends), 'P2 P3')
  equal(laws({ ...compileJob(job), evaluates: true }), 'P2 P3 P9')
  deepEqual(parse(print(evaluation)), evaluation)
})
