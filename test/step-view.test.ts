/** Looks at a run that goes on: how often, by a clock that the test sets. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type StepView, stepViewer } from '../src/calibrate/index.js'
import { compileJob } from '../src/compile/index.js'
import { startTrainer, syntheticData } from '../src/engine/index.js'
import { inputsOf } from '../src/geometry/index.js'
import type { Session } from '../src/train/index.js'
import { jobOf } from './jobs.js'

test('a look takes a hundredth of the time, a prediction is kept for half a minute; the first of each, in cold code, is not counted', async t => {
  const program = compileJob(jobOf('gpt', { dp: 2 }))
  const trainer = await startTrainer(program, { seed: 1, kernels: 'auto', measure: true })
  await trainer.step({ inputs: syntheticData(inputsOf(program), 8, 1)(0), lr: 1e-3, step: 0 })
  let clock = 0
  t.mock.method(performance, 'now', () => clock)
  const viewer = stepViewer({ cpu: 'a clock', cores: 2, memory: 2 ** 32 })
  const session = { program, trainer, behind: 1 } as unknown as Session
  const looked = (): StepView => {
    let seen: StepView | undefined
    viewer.look(session, view => {
      seen = view
      clock += 50 // to show it takes as long
    })
    return seen!
  }
  const dueAfter = (times: readonly number[]) =>
    times.map(time => {
      clock += time
      return viewer.isDue()
    })
  const first = looked()
  equal(first.step, 1)
  ok(first.measured.ranks.length === 2 && first.predicted)
  deepEqual(dueAfter([0, 999, 1]), [false, false, true])
  const second = looked()
  notEqual(second.predicted, first.predicted)
  deepEqual(dueAfter([0, 4999, 1]), [false, false, true])
  equal(looked().predicted, second.predicted)
  clock += 30_000
  notEqual(looked().predicted, second.predicted)
  t.mock.restoreAll()
  await trainer.stop()
})
