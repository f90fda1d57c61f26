/** What is kept of a parameter from step to step follows from one table: in programs, checkpoints and laws alike. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { statesKept } from '../src/base/index.js'
import { shardsOf } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { parse, print, showViolation, verify } from '../src/ir/index.js'
import { Optimizer } from '../src/plan/index.js'
import { jobOf } from './jobs.js'

const optimizers = {
  adamw: { kind: 'adamw', lr: 0.1 },
  sgd: { kind: 'sgd', lr: 0.1 },
  'sgd with momentum': { kind: 'sgd', lr: 0.1, momentum: 0.9 },
} as const

const kept = [
  ['adamw', 'f32', ['m', 'v'], ['param', 'm', 'v']],
  ['adamw', 'bf16', ['m', 'v', 'master'], ['param', 'm', 'v', 'param']],
  ['adamw', 'pure-bf16', ['m', 'v'], ['param', 'm', 'v']],
  ['sgd', 'f32', [], ['param']],
  ['sgd', 'bf16', ['master'], ['param', 'param']],
  ['sgd with momentum', 'f32', ['m'], ['param', 'm']],
  ['sgd with momentum', 'bf16', ['m', 'master'], ['param', 'm', 'param']],
] as const

for (const [name, precision, states, tensors] of kept)
  test(`${name} in ${precision} keeps ${states.join(', ') || 'nothing'}`, () => {
    const optimizer = optimizers[name]
    deepEqual(statesKept(Optimizer.parse(optimizer), precision === 'bf16'), states)
    const program = compileJob(jobOf('gpt', { precision }, { optimizer }))
    const [param] = program.params
    deepEqual(Object.keys(param.frames[0].states), states)
    const saved = shardsOf(program, 0).filter(({ tensor }) => tensor.endsWith(`.${param.name}`))
    deepEqual(
      saved.map(({ tensor }) => tensor.split('.')[0]),
      tensors,
    )
    deepEqual(parse(print(program)), program)
  })

test('[P3] a state that the optimizer does not keep', () => {
  const text = print(compileJob(jobOf('gpt', {}, { optimizer: optimizers['sgd with momentum'] })))
  const slipped = text.replace(/momentum=0.9/g, 'momentum=0')
  ok(slipped !== text)
  const [found] = verify(parse(slipped))
  equal(found?.law, 'P3', found && showViolation(found))
})
