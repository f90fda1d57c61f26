/**
 * Emitted runs find units that no longer learn, in whatever parts the optimizer's means lie, and copies of which one has another bit, and say
 * both as runs of the engine do. Under gloo.
 */
import { deepEqual, equal } from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { english, speak } from '../src/base/index.js'
import { eventOf, eventPhrases, type HealthEvent } from '../src/health/index.js'
import type { Job } from '../src/plan/index.js'
import { temporaryFolder, writeEmittedJob, writeFiles } from './emitted.js'
import { later } from './families.js'
import { Forking } from './forked.js'
import { jobOf } from './jobs.js'
import { findPython, noPython } from './python.js'

/** The first units of a layer are pushed so far that GELU and its gradient are zero whatever comes. */
const killed = `
from runtime.stage import Stage
from runtime.train import main

initialize = Stage.initialize

def kill(self):
    initialize(self)
    for param in self.params:
        for buffer, layout in self.stored(param) if param["name"] == "layers.1.up.bias" else []:
            index = self._element_indices(param, layout)
            self.local_shard_of(buffer, param, layout).view(-1)[: index.numel()][index < 5] = -1e3

Stage.initialize = kill
main(__file__)
`

const python = findPython()
const training = { steps: 10, evalBatches: 0, optimizer: { kind: 'adamw', lr: 1e-3, weightDecay: 0.1 } } as const

/** Message and advice are those of the phrase. */
function isSpoken({ phrase = '', values = {}, message, advice }: HealthEvent): void {
  deepEqual([message, advice], [...speak({ phrase, values }, english(eventPhrases))])
}

describe('health of emitted runs', { skip: python ? false : noPython }, () => {
  const root = temporaryFolder()
  let copies: Forking
  let runs = 0
  before(() => {
    copies = new Forking(python!)
  })
  after(async () => {
    await copies.close()
    rmSync(root, { recursive: true, force: true })
  })

  async function eventsOf(job: Job, ranks: number, args: readonly string[]): Promise<HealthEvent[]> {
    const folder = join(root, String(runs++))
    writeEmittedJob(folder, job)
    const run = JSON.parse(readFileSync(join(folder, 'run.json'), 'utf8'))
    // Two looks, in steps 4 and 8, instead of six, so that ten steps are enough.
    const units = { ...run.units, every: 4, looks: 2 }
    writeFiles(folder, { 'killed.py': killed, 'run.json': JSON.stringify({ ...run, units }) })
    const ended = await Promise.all((await copies.ranks(ranks, args, folder)).map(({ done }) => done))
    for (const { code, err } of ended) // A run whose replicas differ ends with a code of its own.
      equal(code, args.some(word => word.startsWith('flip')) ? 78 : 0, err)
    const lines = ended.flatMap(({ out }) => out.split('\n').filter(line => line.startsWith('{')))
    return lines.flatMap(line => eventOf(JSON.parse(line)) ?? [])
  }

  for (const [plan, ranks] of [
    [{ tp: 2, pp: 2 }, 4],
    [{ dp: 2, zero: 1 }, 2],
  ] as const)
    later(`${JSON.stringify(plan)}: dead units are counted, once, with their layer`, async () => {
      const events = await eventsOf(jobOf('mlp', plan, training), ranks, ['killed.py'])
      deepEqual(
        events.map(({ step, event, where, numbers }) => [step, event, where, numbers.units]),
        [[9, 'deadUnits', 'layers.1', 5]],
      )
      isSpoken(events[0])
    })

  later(
    'of a weight that two stages hold every copy is hashed, and the rank that has another bit is named',
    async () => {
      const job = jobOf('gpt tied', { dp: 2, pp: 2, microbatches: 2 }, { steps: 3, evalBatches: 0 })
      for (const rank of [0, 3]) {
        const fault = `flip:rank=${rank},step=3,parameter=embed.tokens,index=5,bit=1`
        const events = await eventsOf(job, 4, ['train.py', '--hash-every', '1', '--fault', fault])
        deepEqual(
          events.map(({ step, event, rank, phrase }) => [step, event, rank, phrase]),
          [[3, 'replicasDiffer', rank, 'replicasDiffer/odd']],
        )
        isSpoken(events[0])
      }
    },
  )

  later('a run that learns, and whose copies are alike, says nothing', async () => {
    const job = jobOf('llama', { dp: 2, zero: 2, precision: 'bf16' }, training)
    deepEqual(await eventsOf(job, 2, ['train.py', '--hash-every', '5']), [])
  })
})
