/** Steps of experts: what does not fit stops before anything is updated, what has room is the same on every plan, and is kept. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { loadCheckpoint, printCheckpoint, readCheckpoint } from '../src/checkpoint/index.js'
import { compileEvaluation, compileJob, serialJob } from '../src/compile/index.js'
import { boot, compare, dataFor, runSerial } from '../src/engine/index.js'
import { assemble, wholeDims } from '../src/geometry/index.js'
import { verify } from '../src/ir/index.js'
import { check, Job, type JobInput, type PlanInput } from '../src/plan/index.js'
import { optionsOf, titleOf } from './jobs.js'

const base = { family: 'llama', layers: 2, embed: 4, heads: 2, ffn: 4, vocab: 8 } as const
const training = { seq: 8, globalBatch: 8 }
const jobOf = (moe: object, plan: PlanInput): Job =>
  Job.parse({ model: { ...base, moe: { experts: 4, topK: 2, ffn: 4, ...moe } }, training, plan } as JobInput)

test('where rows do not fit the step stops, names rank, layer, microbatch and the factor that would do, and nothing is updated', () => {
  // Every token has the same scores, so all choose experts 0 and 1, which rank 0 holds.
  const job = jobOf({}, { dp: 2, ep: 2, microbatches: 2, expertCapacity: 1.5 })
  const program = compileJob(job)
  const machine = boot(program, { seed: 1 })
  for (const layer of [0, 1]) machine.setParameter(`layers.${layer}.mlp.router`, new Float64Array(16))
  const before = program.params.map(({ name }) => [name, machine.parameter(name), machine.states(name)])
  const step = { inputs: dataFor(program, optionsOf(job))(0), lr: 0.1, step: 0 }
  const message = (() => {
    try {
      machine.step(step)
    } catch (error) {
      return (error as Error).message
    }
    return ''
  })()
  match(
    message,
    /^rank 0, .*layers\.0, microbatch 0: the experts of this rank receive 64 tokens, but their capacity is 48; set `expertCapacity: 2`/,
  )
  deepEqual(
    program.params.map(({ name }) => [name, machine.parameter(name), machine.states(name)]),
    before,
  )
  const roomy = compileJob(jobOf({}, { dp: 2, ep: 2, microbatches: 2, expertCapacity: 2 }))
  const other = boot(roomy, { seed: 1 })
  for (const layer of [0, 1]) other.setParameter(`layers.${layer}.mlp.router`, new Float64Array(16))
  ok(Number.isFinite(other.step(step).loss), 'with that factor it runs')
})

test('equal scores choose the experts of lower number', () => {
  const program = compileJob(jobOf({ bias: 0.1 }, {}))
  const machine = boot(program, { seed: 1 })
  for (const layer of [0, 1]) machine.setParameter(`layers.${layer}.mlp.router`, new Float64Array(16))
  machine.step({ inputs: dataFor(program, { steps: 1, seed: 1, lr: 0, vocab: 8 })(0), lr: 0, step: 0 })
  deepEqual([...machine.gradient('layers.0.mlp.bias')], [64, 64, 0, 0])
  deepEqual([...machine.parameter('layers.0.mlp.bias')], [-0.1, -0.1, 0.1, 0.1])
})

/** What each layer keeps of the choices of each microbatch, whole; `vocab`: tokens are drawn below that. */
function keptBy(job: Job, vocab: number = base.vocab): ReadonlyMap<string, readonly number[]> {
  const program = compileEvaluation(job)
  const parts = new Map<string, Map<number, Float64Array>>()
  const machine = boot(program, {
    seed: 1,
    observe({ rank, call, instr, read }) {
      if (instr.kind !== 'assign') return
      const key = `${call.block}.${call.microbatch}`
      parts.set(key, (parts.get(key) ?? new Map()).set(rank, read(instr.outs[0])))
    },
  })
  machine.step({ inputs: dataFor(program, { ...optionsOf(job), vocab })(0), lr: 0, step: 0 })
  const { dims, layout } = program.segments['routed.F'].buffers.kept
  const whole = wholeDims(program.mesh, dims, layout)
  const wholes = [...parts].map(
    ([key, held]) => [key, [...assemble(program.mesh, whole, layout, held).values]] as const,
  )
  return new Map(wholes.sort(([a], [b]) => (a < b ? -1 : 1)))
}

const plans: readonly PlanInput[] = [
  ...[
    { dp: 2 },
    { dp: 4 },
    { dp: 2, ep: 2 },
    { dp: 4, ep: 2 },
    { dp: 4, ep: 4 },
    { tp: 2 },
    { tp: 2, ep: 2 },
    { tp: 2, etp: 2 },
  ],
  ...[
    { tp: 2, sequenceParallel: true },
    { tp: 2, sequenceParallel: true, ep: 2 },
    { cp: 2 },
    { cp: 4, ep: 2 },
    { cp: 2, zigzag: false },
  ],
  ...[
    { cp: 2, ep: 2, attention: 'ring' },
    { pp: 2, dp: 2, ep: 2 },
    { dp: 2, cp: 2, ep: 4 },
    { dp: 2, tp: 2, ep: 2, etp: 2 },
  ],
  ...[
    { cp: 2, tp: 2, etp: 2, ep: 2 },
    { dp: 2, cp: 2, tp: 2, ep: 4, etp: 2 },
    { pp: 2, cp: 2, tp: 2, ep: 4 },
  ],
] as const

for (const order of ['choice', 'token', 'probability'] as const)
  test(`where experts have little room, ${plans.length} plans keep the same choices (${order})`, () => {
    const capacity = { factor: 0.75, order }
    const right = keptBy(serialJob(jobOf({ capacity }, { microbatches: 2 }), 2))
    ok([...right.values()].flat().includes(-1), 'some are dropped')
    for (const plan of order === 'choice' ? plans : plans.slice(-3)) {
      const job = jobOf({ capacity }, { ...plan, microbatches: 2 })
      deepEqual(
        check(job).filter(({ severity }) => severity === 'error'),
        [],
        titleOf(plan),
      )
      deepEqual(keptBy(job), right, titleOf(plan))
    }
  })

test('of tokens that are alike every plan keeps the first, however their probabilities were rounded', () => {
  const capacity = { factor: 0.75, order: 'probability' }
  const wide = (plan: PlanInput) => {
    const job = jobOf({ capacity }, { ...plan, microbatches: 2 })
    return { ...job, model: { ...job.model, embed: 64 } }
  }
  const right = keptBy(serialJob(wide({}), 2), 1)
  const [room, { seq }] = [3, training] // of 8 tokens with 2 choices among 4 experts, three quarters
  const [first] = right.values()
  const [best, second] = first
  const sequence = Array.from({ length: seq }, (_, token) => (token < room ? [best, second] : [-1, -1]))
  deepEqual(first, Array.from({ length: 4 }, () => sequence).flat(2))
  for (const plan of [{ tp: 2 }, ...plans.slice(-3)]) deepEqual(keptBy(wide(plan), 1), right, titleOf(plan))
})

test('experts saved under ep 4 go on under ep 2, etp 2 and cp 2, and on one rank', () => {
  const run = '00000000-0000-4000-8000-000000000000'
  const moe = { bias: 0.01, shared: 4, loss: { sequence: 0.1 } }
  const job = jobOf(moe, { dp: 4, ep: 4, zero: 1, expertCapacity: 'worst' })
  const program = compileJob(job)
  const [options, trained] = [optionsOf(job), boot(program, { seed: 1 })]
  const data = dataFor(program, options)
  const goOn = (machine: typeof trained) => machine.step({ inputs: data(1), lr: 0.01, step: 1 }).loss
  trained.step({ inputs: data(0), lr: 0.01, step: 0 })
  const files = new Map(printCheckpoint(program, { run, job, step: 1, seed: 1 }, shard => trained.held(shard)))
  const bytesOf = (content: string | Uint8Array) =>
    typeof content === 'string' ? new TextEncoder().encode(content) : content
  const checkpoint = readCheckpoint((file, begin, end) => bytesOf(files.get(file)!).subarray(begin, end))
  const right = goOn(trained)
  for (const plan of [
    {},
    { dp: 2, cp: 2, tp: 2, ep: 2, etp: 2, expertCapacity: 'worst' },
    { dp: 2, ep: 2, zero: 3 },
  ] as PlanInput[]) {
    const other = compileJob(jobOf(moe, plan))
    const machine = boot(other, { seed: 2 })
    deepEqual(
      loadCheckpoint(other, checkpoint, 'everything', (shard, values) => machine.hold(shard, values)),
      [],
    )
    ok(Math.abs(goOn(machine) - right) < 1e-6, titleOf(plan))
  }
})

test('an evaluation has the bias, counts nothing and has no losses beside the model’s', () => {
  const job = jobOf({ bias: 0.01, loss: { sequence: 0.1, z: 0.1 } }, { dp: 2, ep: 2, microbatches: 2 })
  const program = compileEvaluation(job)
  deepEqual(verify(program, compileEvaluation(serialJob(job, 2))), [])
  const kinds = new Set(Object.values(program.segments).flatMap(({ instrs }) => instrs.map(({ kind }) => kind)))
  for (const kind of ['countChoices', 'countTop', 'balanceLoss', 'zLoss', 'balance', 'accumulate'] as const)
    equal(kinds.has(kind), kind === 'accumulate', kind)
  equal(program.results.terms, undefined)
})

test('a bias that is back at 0 is compared by what it has been: f32 leaves some rounding of that', () => {
  const model = { family: 'llama', layers: 1, embed: 8, heads: 2, ffn: 4, vocab: 8 } as const
  const moe = { experts: 2, topK: 1, ffn: 4, bias: 0.01 }
  const job = Job.parse({ model: { ...model, moe }, training: { seq: 4, globalBatch: 4 } })
  const options = { steps: 2, seed: 2, lr: 1e-3, vocab: 8 }
  const serial = runSerial(compileJob(serialJob(job)), options)
  deepEqual([...serial.parameters.get('layers.0.mlp.bias')!], [0, 0])
  const { parameter } = compare(compileJob(job), serial, { ...options, precision: 'f32' })
  ok(parameter.error > 0 && parameter.error < 1e-5, `${parameter.name} is off by ${parameter.error}`)
})
