/** Choices of experts that were made once are made again: on another plan, in another precision, from a file. */
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { ProblemsError } from '../src/base/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { readReplay as readBytes, withChoices } from '../src/data/index.js'
import { boot, dataFor } from '../src/engine/index.js'
import { verify } from '../src/ir/index.js'
import { check, Job, type PlanInput } from '../src/plan/index.js'
import { optionsOf, titleOf } from './jobs.js'

const jobOf = (plan: PlanInput, data?: { routing: string }): Job =>
  Job.parse({
    model: {
      ...{ family: 'llama', layers: 3, embed: 8, heads: 2, ffn: 8, vocab: 8 },
      moe: { experts: 4, topK: 2, ffn: 4, dense: 1, bias: 0.01, loss: { sequence: 0.1 } },
    },
    training: { seq: 4, globalBatch: 4 },
    plan,
    ...(data && { data }),
  })

const readReplay = (text: string) => readBytes(new TextEncoder().encode(text))

/** A step on one rank, and the choices of its layers as a file would have them. */
function recorded() {
  const program = compileJob(jobOf({}))
  const choices: Record<string, number[]> = {}
  const machine = boot(program, {
    seed: 1,
    observe({ call, instr, read }) {
      if (instr.kind === 'topK') choices[program.blocks[call.block].name] = [...read(instr.outs[0])]
    },
  })
  const { loss } = machine.step({ inputs: dataFor(program, optionsOf(jobOf({})))(0), lr: 0, step: 0 })
  return { loss, choices, gradient: machine.gradient('layers.1.mlp.router') }
}

const { loss, choices, gradient } = recorded()
const file = `${JSON.stringify(choices)}\n`
const replaying = { routing: 'choices.jsonl' }

for (const plan of [
  {},
  { dp: 2, ep: 2, microbatches: 2 },
  { pp: 2, cp: 2, tp: 2, ep: 4, zero: 1, recompute: 'full' },
] as PlanInput[])
  test(`choices from a file give what they gave when they were made (${titleOf(plan)})`, () => {
    const job = jobOf({ expertCapacity: 'worst', ...plan }, replaying)
    const program = compileJob(job)
    deepEqual(verify(program, compileJob(serialJob(job, job.plan.microbatches))), [])
    ok(!Object.values(program.segments).some(({ instrs }) => instrs.some(({ kind }) => kind === 'topK')))
    const machine = boot(program, { seed: 1 })
    const inputs = withChoices(dataFor(program, optionsOf(job))(0), readReplay(file), 0)
    ok(Math.abs(machine.step({ inputs, lr: 0, step: 0 }).loss - loss) < 1e-12)
    const worst = machine
      .gradient('layers.1.mlp.router')
      .reduce((most, value, i) => Math.max(most, Math.abs(value - gradient[i])), 0)
    ok(worst < 1e-13, `the router has other gradients: ${worst}`)
  })

test('every layer has choices of its own', () => {
  const { inputs } = compileJob(jobOf({}, replaying))
  deepEqual(
    inputs.map(({ name }) => name).filter(name => name.endsWith('.choices')),
    ['layers.1.choices', 'layers.2.choices'],
  )
})

const refused = (message: RegExp) => (e: unknown) => {
  ok(e instanceof ProblemsError)
  ok(
    e.problems.some(problem => message.test(problem.message)),
    e.message,
  )
  return true
}

test('choices that cannot be are refused', () => {
  const program = compileJob(jobOf({}, replaying))
  const machine = boot(program, { seed: 1 })
  const run = (text: string, step = 0) =>
    machine.step({
      inputs: withChoices(dataFor(program, optionsOf(jobOf({})))(0), readReplay(text), step),
      lr: 0,
      step,
    })
  const other = (change: (all: number[]) => number[]) =>
    JSON.stringify({ ...choices, 'layers.1': change(choices['layers.1']) })
  throws(() => run(file, 1), refused(/it has 1 steps, but step 2 is needed/))
  throws(() => run('nonsense'), refused(/line 1 is not a JSON object of layers/))
  throws(() => run('{"layers.1": []}'), refused(/step 1 has no routing of layers\.2|0 values, not 32/))
  throws(() => run(other(all => all.slice(1))), refused(/31 values, not 32/))
  throws(() => run(other(all => all.with(3, all[2]))), refused(/token 1 chooses expert \d twice/))
  throws(() => run(other(all => all.with(3, 4))), refused(/4 at 3 is outside candidate 4: ids are 0 to 3/))
})

test('a model without experts has nothing to choose', () => {
  const job = Job.parse({
    model: { family: 'mlp', layers: 1, embed: 4 },
    training: { seq: 4, globalBatch: 4 },
    data: replaying,
  })
  equal(
    check(job).some(({ path }) => path === 'data.routing'),
    true,
  )
})
