/** Emitted runs skip spikes as the engine does, on all ranks alike, and go on with what their checkpoints remember. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { readCheckpoint } from '../src/checkpoint/index.js'
import { startSession, syntheticOf } from '../src/train/index.js'
import { type Finished, temporaryFolder, writeEmittedJob, writeFiles } from './emitted.js'
import { later } from './families.js'
import { Forking } from './forked.js'
import { jobOf } from './jobs.js'
import { louder } from './loud-data.js'
import { findPython, noPython } from './python.js'

/** What all ranks read in one step is 32 times as large. */
const loud = `
from runtime import context
from runtime.train import main

read = context.Context._read

def louder(self, step, *rest):
    values = read(self, step, *rest)
    return values * 32 if step == 36 else values

context.Context._read = louder
main(__file__)
`

const python = findPython()

describe('emitted runs that skip spikes', { skip: python ? false : noPython }, () => {
  const root = temporaryFolder()
  const job = jobOf('mlp', { dp: 2 }, { steps: 39, evalBatches: 0, spikes: 'skip' })
  let copies: Forking
  const run = async (ranks: number, args: readonly string[]): Promise<Finished[]> =>
    Promise.all((await copies.ranks(ranks, [...args], root)).map(({ done }) => done))
  const recordsIn = (ended: readonly Finished[]) =>
    ended.flatMap(({ out, code, err }) => {
      equal(code, 0, err)
      const lines = out.split('\n').filter(line => line.startsWith('{'))
      return lines.map(line => JSON.parse(line)).filter(({ event }) => event === undefined)
    })

  before(() => {
    copies = new Forking(python!)
    writeEmittedJob(root, job)
    writeFiles(root, { 'loud.py': loud })
  })
  after(async () => {
    await copies.close()
    rmSync(root, { recursive: true, force: true })
  })

  later('the step is skipped that the session skips, and who resumes knows the same limit', async () => {
    const shown = ['loud.py', '--precision', 'f64']
    const records = recordsIn(await run(2, [...shown, '--save', 'saved', '--save-every', '36']))
    const session = await startSession(job, louder(syntheticOf(job), job.training, [36]), { kernels: 'reference' })
    for (const { step, gradientNorm, normLimit = 0, skipped, taken } of records) {
      const here = await session.step()
      deepEqual([step, taken, skipped === undefined], [here.step, here.taken, here.skipped === undefined])
      ok(
        Math.abs(gradientNorm - here.gradientNorm) < 1e-9 * gradientNorm,
        `step ${step}: ${gradientNorm} ${here.gradientNorm}`,
      )
      ok(Math.abs(normLimit - (here.normLimit ?? 0)) < 1e-6 * normLimit + 1e-300, `step ${step}`)
    }
    await session.stop()
    equal(records.length, 39)
    match(records[36].skipped, /is a spike: expected below/)
    const folder = join(root, 'saved', 'step-00000036')
    const saved = readCheckpoint((name, begin, end) => readFileSync(join(folder, name)).subarray(begin, end))
    equal(saved.norms?.accepted.length, 36)
    const [again] = recordsIn(await run(2, [...shown, '--resume', folder, '--steps', '37']))
    deepEqual([again.step, again.normLimit, again.skipped], [37, records[36].normLimit, records[36].skipped])
  })
})
