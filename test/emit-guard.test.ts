/** Emitted runs skip a step whose gradient norm is not finite, on all ranks alike, and say so. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { readCheckpoint } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { batchAt } from '../src/data/index.js'
import { boot } from '../src/engine/index.js'
import { lrAt } from '../src/plan/index.js'
import { syntheticOf } from '../src/train/index.js'
import { type Finished, temporaryFolder, writeEmittedJob, writeFiles } from './emitted.js'
import { Forking } from './forked.js'
import { jobOf } from './jobs.js'
import { findPython, noPython } from './python.js'

/** What one rank reads in some steps is not finite. */
const spoilt = (steps: string) => `
from runtime import here
from runtime.train import main

read = here.Here._read

def spoilt(self, step, name, *rest):
    values = read(self, step, name, *rest)
    return values * float("nan") if self.rank == 1 and step in ${steps} and name == "x" else values

here.Here._read = spoilt
main(__file__)
`

const python = findPython()

describe('emitted runs that meet what is not finite', { skip: python ? false : noPython }, () => {
  const root = temporaryFolder()
  const job = jobOf(
    'mlp',
    { dp: 2, pp: 2, zero: 1, microbatches: 2 },
    {
      ...{
        steps: 4,
        evalBatches: 0,
        optimizer: { kind: 'adamw', lr: 1e-2 },
        lrSchedule: { kind: 'linear', warmup: 2 },
      },
    },
  )
  let copies: Forking
  const run = async (script: string, ...args: string[]): Promise<Finished[]> => {
    const ranks = await copies.ranks(4, [script, '--precision', 'f64', ...args], root)
    return Promise.all(ranks.map(({ done }) => done))
  }
  const saved = (step: number) => {
    const folder = join(root, 'saved', `step-0000000${step}`)
    return readCheckpoint((name, begin, end) => readFileSync(join(folder, name)).subarray(begin, end))
  }
  const tensorsOf = (step: number) => {
    const checkpoint = saved(step)
    return [...checkpoint.tensors.keys()].map(name => [name, ...checkpoint.tensor(name)])
  }
  const recordsIn = (ended: readonly Finished[]) =>
    ended.flatMap(({ out }) =>
      out
        .split('\n')
        .filter(line => line.startsWith('{'))
        .map(line => JSON.parse(line)),
    )

  before(() => {
    copies = new Forking(python!)
    writeEmittedJob(root, job)
    writeFiles(root, { 'once.py': spoilt('(1,)'), 'always.py': spoilt('(1, 2, 3)') })
  })
  after(async () => {
    await copies.close()
    rmSync(root, { recursive: true, force: true })
  })

  test('parameters, states and the count stand still; what follows is what the definition computes', async () => {
    const ended = await run('once.py', '--save', 'saved', '--save-every', '1')
    for (const { code, err } of ended) equal(code, 0, err)
    const program = compileJob(job)
    const machine = boot(program, { seed: job.training.seed })
    const { train } = syntheticOf(job)
    const expected = [0, 1, 2, 3].map(step => {
      const bad = (name: string, values: ArrayLike<number>) =>
        step === 1 && name === 'x' ? Array.from(values, () => NaN) : values
      const batch = batchAt(train, job.training, step)
      const lr = lrAt(job.training, machine.scalars().taken!)
      return { lr, ...machine.step({ inputs: name => bad(name, batch(name)), lr, step }) }
    })
    const records = recordsIn(ended)
    deepEqual(
      records.map(({ step, taken, skipped, lr }) => [step, taken, skipped, lr]),
      expected.map(({ taken, skipped, lr }, i) => [
        i + 1,
        taken,
        skipped ? 'gradient norm is not finite' : undefined,
        lr,
      ]),
    )
    equal(records[1].loss, null)
    deepEqual(tensorsOf(2), tensorsOf(1))
    deepEqual([saved(2).scalars, saved(4).scalars], [{ taken: 1 }, { taken: 3 }])
    for (const { name } of program.params) {
      const [own, right] = [saved(4).tensor(`param.${name}`), machine.parameter(name)]
      ok(
        own.every((value, i) => Math.abs(value - right[i]) < 1e-12),
        name,
      )
    }
  })

  test('a run resumes with the steps that were taken, and ends after three skips in a row', async () => {
    const ended = await run('always.py', '--resume', 'saved/step-00000001', '--steps', '6')
    deepEqual(
      ended.map(({ code }) => code),
      [1, 1, 1, 1],
    )
    const said = ended.map(({ err }) => err).join('')
    match(
      said,
      /lockstep: steps 2 to 4 were skipped: gradient norm is not finite; .* as step 1 left them; try a smaller lr/,
    )
    deepEqual(
      recordsIn(ended).map(({ step, taken }) => [step, taken]),
      [2, 3, 4].map(step => [step, 1]),
    )
  })
})
