/** Training from TypeScript: what `lockstep train` does, in a few lines, on files of the caller's own. */
import { deepEqual, equal, match, ok, rejects, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { type Files, ProblemsError } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { Job, type JobInput } from '../src/plan/index.js'
import {
  beginningOf,
  openCheckpoints,
  openData,
  type Session,
  type StepRecord,
  startSession,
  train,
} from '../src/train/index.js'

const jobOf = (plan: JobInput['plan'], training: Partial<JobInput['training']> = {}): Job =>
  Job.parse({
    model: { family: 'gpt', layers: 2, embed: 8, heads: 2, ffn: 8, vocab: 8, dropout: 0.1 },
    training: { seq: 4, globalBatch: 4, steps: 4, evalEvery: 2, evalBatches: 1, ...training },
    plan,
  })

const kernels = 'reference'

async function started(job: Job, files: Files, origin = {}): Promise<Session> {
  const { dataset } = await openData(job, files)
  return startSession(job, dataset, { kernels, beginning: beginningOf(origin, files) })
}

const numbers = ({ step, loss, gradientNorm, evalLoss = 0 }: StepRecord) => [step, loss, gradientNorm, evalLoss]

test('a session is stepped, saved, and resumed under another plan as if it had never ended', async () => {
  const files = memoryFiles()
  const whole = await started(jobOf({ dp: 2 }), files)
  const expected: StepRecord[] = []
  for await (const record of train(whole)) expected.push(record)
  deepEqual(
    expected.map(({ step, evalLoss }) => [step, evalLoss !== undefined]),
    [
      [1, false],
      [2, true],
      [3, false],
      [4, true],
    ],
  )
  equal(await whole.evaluate(), expected[3].evalLoss)

  const first = await started(jobOf({ dp: 2 }), files)
  const checkpoints = openCheckpoints('saved', first, { files, run: 'a' })
  throws(() => openCheckpoints('saved', first, { files, run: 'b' }), /saved is in use by run a/)
  deepEqual(
    [await first.step(), await first.step()].map(({ loss }) => loss),
    expected.slice(0, 2).map(({ loss }) => loss),
  )
  equal(checkpoints.save(), 'saved/step-00000002')
  checkpoints.close()

  const second = await started(jobOf({ tp: 2 }), files, { resume: 'saved' })
  equal(second.taken, 2)
  const resumed: StepRecord[] = []
  for await (const record of train(second)) resumed.push(record)
  equal(second.taken, 4)
  const rest = expected.slice(2).flatMap(numbers)
  for (const [i, value] of resumed.flatMap(numbers).entries())
    ok(Math.abs(value - rest[i]) <= 1e-12 * Math.abs(rest[i]), `${value} and ${rest[i]}`)
  equal(resumed.length, 2)
  for (const session of [whole, first, second]) await session.stop()
})

test('a job that cannot run here is refused before anything starts', async () => {
  const { dataset } = await openData(jobOf({}), memoryFiles())
  const started = startSession(jobOf({ deviceMemory: '1KiB' }), dataset, { kernels: 'reference' })
  await rejects(started, e => {
    ok(e instanceof ProblemsError)
    match(e.message, /plan\/memory/)
    return true
  })
})

test('a checkpoint of another job is refused, and the trainer is not left running', async () => {
  const files = memoryFiles()
  const session = await started(jobOf({}), files)
  const checkpoints = openCheckpoints('saved', session, { files, run: 'a' })
  await session.step()
  checkpoints.save()
  await session.stop()
  await rejects(
    started(jobOf({}, { seed: 2 }), files, { resume: 'saved' }),
    /the seed of the checkpoint is 1, the job’s 2/,
  )
  const fresh = await started(jobOf({}, { seed: 2 }), files, { init: 'saved' })
  equal(fresh.taken, 0)
  await fresh.stop()
})
