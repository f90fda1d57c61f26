/** Emitted runs say where a number that is not finite was made: the step is run again, and every result looked at. Under gloo. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, before, describe } from 'node:test'
import type { HealthEvent } from '../src/health/index.js'
import { type Finished, temporaryFolder, writeEmittedJob, writeFiles } from './emitted.js'
import { later } from './families.js'
import { Forking } from './forked.js'
import { jobOf } from './jobs.js'
import { findPython, noPython } from './python.js'
import { spokenEvents } from './spoken-events.js'

/** The data of one step is so large on one rank that products overflow. */
const huge = `
from runtime import context
from runtime.train import main

read = context.Context._read

def huge(self, step, name, *rest):
    values = read(self, step, name, *rest)
    return values * 1e30 if self.rank == 0 and step == 1 and name == "x" else values

context.Context._read = huge
main(__file__)
`

const python = findPython()

describe('emitted runs that look for what is not finite', { skip: python ? false : noPython }, () => {
  const root = temporaryFolder()
  let copies: Forking
  const run = async (...args: string[]): Promise<{ events: HealthEvent[]; steps: number[][] }> => {
    const ranks: Finished[] = await Promise.all((await copies.ranks(4, args, root)).map(({ done }) => done))
    for (const { code, err } of ranks) equal(code, 0, err)
    const lines = ranks.flatMap(({ out }) => out.split('\n').filter(line => line.startsWith('{')))
    const records = lines.map(line => JSON.parse(line))
    return {
      events: spokenEvents(records).filter(({ event }) => event === 'notFinite'),
      steps: records.filter(({ event }) => event === undefined).map(({ step, taken, loss }) => [step, taken, loss]),
    }
  }

  before(() => {
    copies = new Forking(python!)
    writeEmittedJob(root, jobOf('mlp', { dp: 2, pp: 2, microbatches: 2 }, { steps: 3, evalBatches: 0 }))
    writeFiles(root, { 'huge.py': huge })
  })
  after(async () => {
    await copies.close()
    rmSync(root, { recursive: true, force: true })
  })

  later(
    'a NaN on purpose is named: rank, block, microbatch, call; what follows is as if nothing had been looked at',
    async () => {
      const { events, steps } = await run('train.py', '--fault', 'nan:rank=3,step=2,at=14')
      deepEqual(
        events.map(({ step, rank }) => [step, rank]),
        [[2, 3]],
      )
      match(
        events[0].message,
        /^the first NaN or Inf is computed in \S+ of layers\.\d of microbatch 0 on rank 3, call \d+/,
      )
      const once = await run('train.py', '--fault', 'nan:rank=3,step=2,at=14,transient=1')
      match(once.events[0].message, /^a replay of the step is finite/)
      deepEqual(once.steps, steps)
      deepEqual(
        steps.map(([step, taken]) => [step, taken]),
        [
          [1, 1],
          [2, 1],
          [3, 2],
        ],
      )
    },
  )

  later('a product that overflows is named by its line', async () => {
    const { events } = await run('huge.py')
    equal(events.length, 1)
    equal(events[0].rank, 2) // which is sent what is still finite, and squares it
    ok(
      / on rank 2, call \d+: stage1\.py:\d+: \S.* = ops\.squared_error\w*\(/.test(events[0].message),
      events[0].message,
    )
  })
})
