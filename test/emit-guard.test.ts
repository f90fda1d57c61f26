/** Emitted runs skip a step whose grad norm is NaN or Inf, on all ranks alike, scale their losses, and say so. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { after, before, describe, test as either } from 'node:test'
import { readCheckpoint } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { batchAt } from '../src/data/index.js'
import { boot } from '../src/engine/index.js'
import { lrAt } from '../src/plan/index.js'
import { syntheticOf } from '../src/train/index.js'
import { type Finished, temporaryFolder, writeEmittedJob, writeFiles } from './emitted.js'
import { later, test } from './families.js'
import { fixturePath } from './fixtures.js'
import { Forking } from './forked.js'
import { jobOf } from './jobs.js'
import { findPython, noPython } from './python.js'

/** What one rank reads in some steps is not finite. */
const spoilt = (steps: string) => `
from runtime import context
from runtime.train import main

read = context.Context._read

def spoilt(self, step, name, *rest):
    values = read(self, step, name, *rest)
    return values * float("nan") if self.rank == 1 and step in ${steps} and name == "x" else values

context.Context._read = spoilt
main(__file__)
`

/** The least scale is the first. */
const least = `
from runtime import trainer

told = trainer.read_json
trainer.read_json = lambda folder, name: {**told(folder, name), **({"leastScale": 16.0} if name == "run.json" else {})}
${spoilt('(1, 2, 3)')}`

/** The scalers of others, on tensors of one number. */
const scalers = `
import json
import sys

import torch
from runtime import scaler

for kind, count in (("torch", 2), ("megatron", 3), ("deepspeed", 3)):
    cases = json.load(open(f"{sys.argv[1]}/scaler-{kind}.json"))["cases"]
    for case in cases:
        c = case["config"]
        full = c.get("hysteresis", c.get("delayed_shift", 0))
        numbers = {"growth_factor": c.get("growth_factor", 2.0), "growth_interval": c.get("growth_interval", c.get("scale_window"))}
        if kind != "deepspeed":
            numbers["backoff_factor"] = c["backoff_factor"]
        else:
            numbers["consecutive"] = int(c["consecutive_hysteresis"])
        if kind != "torch":
            numbers.update(min_scale=c["min_scale"], max_hysteresis=full)
        state = [torch.tensor(float(x)) for x in (c.get("init_scale", c.get("initial_scale")), 0, full)][:count]
        for row, mark in zip(case["rows"], case["overflow"]):
            before = state[0].item()
            getattr(scaler, f"rescale_as_{kind}_")(*state, torch.tensor(mark == "."), **numbers)
            seen = [before, int(mark == "!"), *(x.item() for x in state)]
            if kind == "deepspeed":
                seen = [*seen[:3], seen[4]]
            assert seen == row[: len(seen)], (kind, case["name"], seen, row)
print("scalers agree")
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
        lossScale: { kind: 'megatron', initial: 16, interval: 2, hysteresis: 1 },
        mostSkips: 3,
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
        .map(line => JSON.parse(line))
        .filter(({ event }) => event === undefined),
    )

  before(() => {
    copies = new Forking(python!)
    writeEmittedJob(root, job)
    writeFiles(root, {
      'once.py': spoilt('(1,)'),
      'always.py': spoilt('(1, 2, 3)'),
      'least.py': least,
      'scalers.py': scalers,
    })
  })
  after(async () => {
    await copies.close()
    rmSync(root, { recursive: true, force: true })
  })

  // The others resume from what it saves.
  either('parameters, states and the count stand still; what follows is what the definition computes', async () => {
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
      records.map(({ step, taken, skipped, lr, scale }) => [step, taken, skipped, lr, scale]),
      expected.map(({ taken, skipped, lr, scale }, i) => [
        i + 1,
        taken,
        skipped ? 'grad norm is NaN or Inf, loss scale 16 -> 8' : undefined,
        lr,
        scale!.before,
      ]),
    )
    equal(records[1].loss, null)
    deepEqual(tensorsOf(2), tensorsOf(1))
    deepEqual(
      [saved(2).scalars, saved(4).scalars],
      [
        { taken: 1, scale: 8, growth: 0, hysteresis: 0 },
        { taken: 3, scale: 16, growth: 0, hysteresis: 1 },
      ],
    )
    deepEqual(saved(4).scalars, machine.scalars())
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
      [77, 77, 77, 77],
    )
    const said = ended.map(({ err }) => err).join('')
    match(
      said,
      /lockstep: steps 2 to 4 were skipped: grad norm is NaN or Inf, loss scale 4 -> 2; parameters and optimizer state are unchanged since step 1; try a smaller lr/,
    )
    deepEqual(
      recordsIn(ended).map(({ step, taken }) => [step, taken]),
      [2, 3, 4].map(step => [step, 1]),
    )
  })

  later('a run whose scale is the least there is ends with the reason', async () => {
    const ended = await run('least.py', '--resume', 'saved/step-00000001', '--steps', '6')
    deepEqual(
      ended.map(({ code }) => code),
      [77, 77, 77, 77],
    )
    match(
      ended.map(({ err }) => err).join(''),
      /lockstep: the gradients of step 2 are NaN or Inf with the loss scale at its minimum, 16; .* or bf16/,
    )
  })

  later('a run that resumes goes on to the bit, its scale too', async () => {
    const ended = await run('once.py', '--resume', 'saved/step-00000002', '--save', 'again', '--save-every', '1')
    for (const { code, err } of ended) equal(code, 0, err)
    const again = readCheckpoint((name, begin, end) =>
      readFileSync(join(root, 'again', 'step-00000004', name)).subarray(begin, end),
    )
    deepEqual(again.scalars, saved(4).scalars)
    for (const name of again.tensors.keys()) deepEqual(again.tensor(name), saved(4).tensor(name), name)
  })

  later('scalers on the device move as those of others', async () => {
    const [rank] = await copies.ranks(1, ['scalers.py', resolve(fixturePath('precision'))], root)
    const { code, out, err } = await rank.done
    equal(code, 0, err)
    match(out, /scalers agree/)
  })
})
