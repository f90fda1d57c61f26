/** A step whose grad norm is NaN or Inf, or not below the limit, changes nothing, on every rank alike; the run goes on. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { coordinatesOf, type Files, worldOf } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { elementsIn } from '../src/checkpoint/box.js'
import { printManifest } from '../src/checkpoint/manifest.js'
import { shardsOf } from '../src/checkpoint/shards.js'
import { compileJob } from '../src/compile/index.js'
import { batchAt, type Dataset } from '../src/data/index.js'
import { boot, fastKernels, type Runner, startTrainer, syntheticData } from '../src/engine/index.js'
import { inputsOf } from '../src/geometry/index.js'
import type { Program } from '../src/ir/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { beginningOf, openCheckpoints, startSession, syntheticOf, train } from '../src/train/index.js'
import { expertModels } from './expert-models.js'
import { jobOf } from './jobs.js'

type Plan = NonNullable<JobInput['plan']>
type Data = ReturnType<typeof syntheticData>

/** Everything that lives from step to step, as every rank has it. */
function stateOf(program: Program, { held }: Pick<Runner, 'held'>): number[][] {
  const { mesh, scalars } = program
  return Array.from({ length: worldOf(mesh) }, (_, rank) => rank).flatMap(rank => {
    const frame = scalars!.taken!.frames[coordinatesOf(mesh, rank).pp ?? 0]
    const tensors = shardsOf(program, rank).map(shard => [...held(shard).subarray(0, elementsIn(shard))])
    return [...tensors, [held({ rank, frame, dtype: 'f32', first: 0 })[0]]]
  })
}

const spoilt =
  (data: Data, at: number): Data =>
  step =>
  name => {
    const values = Float64Array.from(data(step)(name))
    if (step === at && name === 'x') values[values.length - 3] = Number.NaN
    return values
  }

const plans: readonly Plan[] = [
  {},
  { dp: 2, pp: 2 },
  { tp: 2, dp: 2, zero: 1 },
  { dp: 2, pp: 2, zero: 3, microbatches: 2 },
]

const [fastest, ...slower] = fastKernels()
const runs = plans.flatMap((plan, i) =>
  (['reference', fastest, ...(i === 1 ? slower : [])] as const).map(kernels => ({ plan, kernels })),
)

for (const { plan, kernels } of runs)
  test(`${kernels} ${JSON.stringify(plan)}: a NaN in the data of one rank moves nothing on any`, async () => {
    const program = compileJob(jobOf('mlp', plan, { optimizer: { kind: 'adamw', lr: 0.01, weightDecay: 0.1 } }))
    const data = syntheticData(inputsOf(program), 1, 3)
    const [run, twin] = await Promise.all([1, 2].map(() => startTrainer(program, { kernels, seed: 1 })))
    const step = (on: typeof run, of: Data, i: number) => on.step({ inputs: of(i), lr: 0.1, step: i })
    const first = await step(run, data, 0)
    deepEqual([first.taken, first.skipped], [1, false])
    const before = stateOf(program, run)
    const bad = await step(run, spoilt(data, 1), 1)
    deepEqual([bad.taken, bad.skipped, Number.isFinite(bad.normSquared)], [1, true, false])
    deepEqual(stateOf(program, run), before)
    const third = await step(run, data, 2)
    deepEqual([third.taken, third.skipped], [2, false])
    for (const i of [0, 2]) await step(twin, data, i) // as if the second had not been
    deepEqual(stateOf(program, run), stateOf(program, twin))
    await Promise.all([run.stop(), twin.stop()])
  })

test('a parameter that is not finite is not spread: experts, their bias and the count stand still', () => {
  const job = Job.parse({
    model: expertModels.deepseek,
    training: { seq: 4, globalBatch: 8, optimizer: { kind: 'sgd', lr: 0.1, momentum: 0.9 } },
    plan: { dp: 2, ep: 2 },
  })
  const program = compileJob(job)
  const machine = boot(program, { seed: 1 })
  const data = syntheticData(inputsOf(program), 8, 3)
  const names = program.params.map(({ name }) => name)
  equal(machine.step({ inputs: data(0), lr: 0.1, step: 0 }).skipped, false)
  const output = names.at(-1)!
  const bias = names.find(name => name.endsWith('mlp.bias'))!
  const moved = machine.parameter(bias)
  ok(
    moved.some(value => value !== 0),
    'the bias moves in a step that is taken',
  )
  const head = machine.parameter(output)
  machine.setParameter(
    output,
    head.map((value, i) => (i === 3 ? Number.NaN : value)),
  )
  equal(machine.step({ inputs: data(1), lr: 0.1, step: 1 }).skipped, true)
  deepEqual(machine.parameter(bias), moved)
  machine.setParameter(output, head)
  deepEqual(machine.scalars(), { taken: 1 })
  equal(machine.step({ inputs: data(2), lr: 0.1, step: 2 }).taken, 2)
})

test('a limit skips what is not below it, and nothing else', () => {
  const job = jobOf('gpt', { dp: 2, pp: 2 }, { clip: undefined })
  const norm = (skipAbove?: number) => {
    const program = compileJob({ ...job, training: { ...job.training, ...(skipAbove && { skipAbove }) } })
    const machine = boot(program, { seed: 1 })
    return machine.step({ inputs: syntheticData(inputsOf(program), 8, 3)(0), lr: 0.1, step: 0 })
  }
  const { normSquared } = norm()
  const exact = Math.sqrt(normSquared)
  deepEqual(
    [0.99, 1.01].map(times => norm(times * exact).skipped),
    [true, false],
  )
})

/** What some steps of a run read is not finite. */
function broken(dataset: Dataset, training: Job['training'], steps: readonly number[]): Dataset {
  const { train } = dataset
  const bad = new Set<number>()
  const noted = { ...train, write: (_: string, sample: number) => void bad.add(sample) }
  for (const step of steps) batchAt(noted, training, step)('x')
  return {
    ...dataset,
    train: {
      ...train,
      write(input, sample, into) {
        train.write(input, sample, into)
        if (input === 'x' && bad.has(sample)) into.fill(Number.NaN)
      },
    },
  }
}

const training = { steps: 6, evalBatches: 0, lrSchedule: { kind: 'linear', warmup: 2 } } as const
const started = async (job: Job, bad: readonly number[], files: Files, resume?: string) =>
  startSession(job, broken(syntheticOf(job), job.training, bad), {
    ...{ kernels: 'reference', beginning: beginningOf(resume === undefined ? {} : { resume }, files) },
  })

test('a session says which steps it skipped and why; the learning rate waits, the data moves on, and so does who resumes', async () => {
  const files = memoryFiles()
  const first = await started(jobOf('mlp', { dp: 2 }, training), [1], files)
  const checkpoints = openCheckpoints('saved', first, { files, run: 'a' })
  const records = [await first.step(), await first.step()]
  deepEqual(
    records.map(({ step, taken, lr, skipped }) => [step, taken, lr, skipped]),
    [
      [1, 1, 0.0005, undefined],
      [2, 1, 0.001, 'grad norm is NaN or Inf'],
    ],
  )
  checkpoints.save()
  deepEqual([first.behind, first.taken], [2, 1])
  const second = await started(jobOf('mlp', { tp: 2 }, training), [1], files, 'saved')
  deepEqual([second.behind, second.taken], [2, 1])
  const [third, again] = [await first.step(), await second.step()]
  deepEqual([third.taken, third.lr, third.skipped], [2, 0.001, undefined])
  deepEqual([again.step, again.taken, again.lr], [third.step, third.taken, third.lr])
  ok(Math.abs(again.loss - third.loss) < 1e-12 * third.loss)
  const [one, other] = [first, second].map(({ trainer }) => trainer.parameter('layers.0.up'))
  for (const [i, value] of one.entries()) ok(Math.abs(value - other[i]) < 1e-12, `${value} and ${other[i]}`)
  await Promise.all([first.stop(), second.stop()])
})

test('a checkpoint that says nothing of scalars has taken every step', async () => {
  const files = memoryFiles()
  const job = jobOf('mlp', {}, training)
  const first = await started(job, [], files)
  const checkpoints = openCheckpoints('saved', first, { files, run: 'a' })
  for (let i = 0; i < 3; i++) await first.step()
  const folder = checkpoints.save()
  const path = `${folder}/manifest.json`
  const { checksum: _, scalars, ...old } = JSON.parse(files.read(path))
  deepEqual(scalars, { taken: 3 })
  files.write(path, printManifest(old))
  const second = await started(job, [], files, 'saved')
  equal(second.taken, 3)
  const [a, b] = [await first.step(), await second.step()]
  deepEqual([b.taken, b.lr, b.loss], [a.taken, a.lr, a.loss])
  await Promise.all([first.stop(), second.stop()])
})

test('as many skips in a row as the job allows end the run, with a word about what to do', async () => {
  const files = memoryFiles()
  const job = jobOf('mlp', {}, { ...training, mostSkips: 2 })
  const session = await started(job, [1, 3, 4], files)
  const seen: (string | undefined)[] = []
  const all = async () => {
    for await (const { skipped } of train(session)) seen.push(skipped)
  }
  await rejects(all(), (e: Error) => {
    match(
      e.message,
      /steps 4 to 5 were skipped: grad norm is NaN or Inf; parameters and optimizer state are unchanged since step 3/,
    )
    match(e.message, /try a smaller lr, a warmup, or clip, check the data of these steps, or allow more/)
    return true
  })
  const said = 'grad norm is NaN or Inf'
  deepEqual(seen, [undefined, said, undefined, said, said])
  deepEqual([session.behind, session.taken], [5, 2])
  await session.stop()
})
