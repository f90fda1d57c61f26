/** `training.spikes: skip`: a step whose gradient norm is far above those before it changes nothing, on every rank alike, and the run goes on. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import type { Files } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { compileJob } from '../src/compile/index.js'
import { fastKernels, startTrainer, syntheticData } from '../src/engine/index.js'
import { inputsOf } from '../src/geometry/index.js'
import { watchRun } from '../src/health/index.js'
import type { Job, JobInput } from '../src/plan/index.js'
import { beginningOf, openCheckpoints, type Session, startSession, syntheticOf } from '../src/train/index.js'
import { jobOf } from './jobs.js'
import { louder } from './loud-data.js'

type Plan = NonNullable<JobInput['plan']>

const plans: readonly Plan[] = [
  { dp: 2, pp: 2 },
  { tp: 2, dp: 2, zero: 1 },
  { dp: 2, zero: 3, offload: { optimizer: 'host' } },
]
const [fastest, ...slower] = fastKernels()
const runs = plans.flatMap((plan, i) =>
  (['reference', fastest, ...(i === 0 ? slower : [])] as const).map(kernels => ({ plan, kernels })),
)

for (const { plan, kernels } of runs)
  test(`${kernels} ${JSON.stringify(plan)}: a norm that is not below the step's limit changes nothing, and is no overflow`, async () => {
    const lossScale = { kind: 'torch', initial: 16, interval: 2 } as const
    const program = compileJob(jobOf('mlp', plan, { spikes: 'skip', ema: {}, lossScale }))
    const data = syntheticData(inputsOf(program), 1, 3)
    const trainer = await startTrainer(program, { kernels, seed: 1 })
    const step = (i: number, limit?: number) =>
      trainer.step({ inputs: data(i), lr: 0.1, step: i, ...(limit !== undefined && { limit }) })
    const state = () => program.params.map(({ name }) => [...trainer.parameter(name)])
    const { normSquared } = await step(0)
    const before = state()
    const above = await step(0, normSquared / 4)
    deepEqual([above.skipped, above.taken, above.scale], [true, 1, { before: 16, after: 32 }])
    ok(Number.isFinite(above.normSquared) && above.normSquared > normSquared / 4)
    deepEqual(state(), before)
    const below = await step(0, 2 * above.normSquared)
    deepEqual([below.skipped, below.taken], [false, 2])
    ok(state().some((values, i) => values.some((value, k) => value !== before[i][k])))
    const nan = await trainer.step({
      inputs: name => Array.from(data(0)(name), () => Number.NaN),
      lr: 0.1,
      step: 0,
      limit: 1,
    })
    deepEqual([nan.skipped, nan.taken, nan.scale], [true, 2, { before: 32, after: 16 }])
    await trainer.stop()
  })

const training = { steps: 50, evalBatches: 0, spikes: 'skip' } as const
const started = (job: Job, files: Files, resume?: string): Promise<Session> =>
  startSession(job, louder(syntheticOf(job), job.training, [36, 40]), {
    ...{ kernels: 'reference', beginning: beginningOf(resume === undefined ? {} : { resume }, files) },
  })

test('a run skips spikes and says so, its checkpoints know what it goes by, and another plan goes on with it', async () => {
  const files = memoryFiles()
  const job = jobOf('mlp', { dp: 2 }, training)
  const session = await started(job, files)
  const watch = watchRun({ path: 'run' })
  const events: string[] = []
  const checkpoints = openCheckpoints('saved', session, { files, run: 'a' })
  const seen: (number | string)[] = []
  for (let i = 0; i < 45; i++) {
    const record = await session.step()
    if (record.skipped) seen.push(record.step, record.skipped)
    for (const { event, step } of watch(record)) if (event === 'normSpike') events.push(`${event} ${step}`)
    if (record.step === 38) checkpoints.save()
  }
  deepEqual(seen.filter(Number.isFinite), [37, 41])
  match(String(seen[1]), /^grad norm \S+ is a spike: expected below \S+, from earlier steps$/)
  deepEqual(events, ['normSpike 37', 'normSpike 41'])
  equal(session.taken, 43)
  const other = await started(jobOf('mlp', { tp: 2 }, training), files, 'saved')
  equal(other.norms?.accepted.length, 37)
  const again = [await other.step(), await other.step(), await other.step()]
  deepEqual(
    again.map(({ step, skipped }) => [step, skipped !== undefined]),
    [
      [39, false],
      [40, false],
      [41, true],
    ],
  )
  await Promise.all([session.stop(), other.stop()])
})

test('without it, they are noted and taken', async () => {
  const session = await started(jobOf('mlp', { dp: 2 }, { ...training, spikes: 'note' }), memoryFiles())
  const watch = watchRun({ path: 'run' })
  const found: string[] = []
  for (let i = 0; i < 38; i++) for (const { event, step } of watch(await session.step())) found.push(`${event} ${step}`)
  ok(found.includes('normSpike 37'), found.join(', '))
  equal(session.taken, 38)
  await session.stop()
})
