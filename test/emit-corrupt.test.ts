/** Emitted runs whose replicas differ, whose disk is full, or whose ranks do not meet: what they say, keep and go back to. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { temporaryFolder, writeEmittedJob } from './emitted.js'
import { linesOf, tensorsIn } from './emitted-runs.js'
import { later } from './families.js'
import { Forking } from './forked.js'
import { jobOf } from './jobs.js'
import { findPython, noPython } from './python.js'

const python = findPython()
const launcher = ['-c', 'from runtime.torchrun import main; main()']

describe('emitted runs that are corrupt, or do not begin', { skip: !python && noPython }, () => {
  const folder = temporaryFolder()
  let copies: Forking
  let undisturbed: Record<string, string>
  const run = async (saved: string, own: readonly string[], ...args: string[]) => {
    rmSync(join(folder, 'metrics.jsonl'), { force: true })
    const words = [
      ...own,
      '--standalone',
      '--nproc_per_node=2',
      'train.py',
      '--device',
      'cpu',
      '--save-sync',
      '--save',
      saved,
    ]
    const { done } = await copies.start([...launcher, ...words, ...args], { cwd: folder })
    return done
  }
  before(async () => {
    copies = new Forking(python!)
    writeEmittedJob(folder, jobOf('gpt', { dp: 2 }, { steps: 6 }))
    const { code, err } = await run('undisturbed', [])
    equal(code, 0, err)
    undisturbed = tensorsIn(join(folder, 'undisturbed', 'step-00000006'))
  })
  after(async () => {
    await copies.close()
    rmSync(folder, { recursive: true, force: true })
  })

  // Before the rendezvous, and when all have come but are not connected yet.
  for (const place of ['rendezvous', 'dist.init_process_group'])
    later(`a rank that is stopped in the rendezvous is named: ${place}`, async () => {
      const script = `import os, signal
from runtime import train
from torch import distributed as dist
original = ${place === 'rendezvous' ? 'train.' : ''}${place}
def stopping(*args, **more):
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    return original(*args, **more)
${place === 'rendezvous' ? 'train.' : ''}${place} = stopping
train.main(__file__)
`
      writeFileSync(join(folder, 'stopped.py'), script)
      const words = ['--standalone', '--nproc_per_node=2', 'stopped.py', '--device', 'cpu', '--rendezvous', '3']
      const { code, err } = await (await copies.start([...launcher, ...words], { cwd: folder })).done
      equal(code, 1)
      match(err, /rank 1 was suspended \(SIGSTOP\)\n/)
      if (place === 'rendezvous') match(err, /rank 0: rendezvous: after 3 s ranks \[1\] of 2 are missing/)
    })

  later('the rendezvous takes as long as --timeout allows, and a start', async () => {
    const ask = (...words: string[]) =>
      spawnSync(python!, ['-c', 'from runtime.options import arguments; print(arguments(".").rendezvous)', ...words], {
        cwd: folder,
        encoding: 'utf8',
      }).stdout.trim()
    deepEqual([ask(), ask('--timeout', '10'), ask('--timeout', '10', '--rendezvous', '5')], ['600', '30.0', '5.0'])
  })

  later('a line names a checkpoint when it is complete; what killed runs were writing is removed', async () => {
    mkdirSync(join(folder, 'lines', 'step-00000001.another.partial'), { recursive: true })
    const { code, err } = await run('lines', [], '--save-every', '2', '--fault', 'full-disk:step=4')
    equal(code, 0, err)
    deepEqual(
      linesOf(join(folder, 'metrics.jsonl')).flatMap(({ step, checkpoint }) =>
        checkpoint ? [[step, checkpoint]] : [],
      ),
      [
        [2, join('lines', 'step-00000002')],
        [6, join('lines', 'step-00000006')],
      ],
    )
    deepEqual(readdirSync(join(folder, 'lines')).sort(), ['step-00000002', 'step-00000006'])
  })

  later(
    'replicas differ: with --elastic back to the verified checkpoint and the same bits; without, the run fails and keeps it',
    async () => {
      const flip = ['--fault', 'flip:rank=1,step=3,parameter=embed.tokens,bit=3']
      const asked = ['--hash-every', '2', '--save-every', '1', '--keep', '1', ...flip]
      const { code, err } = await run('corrupt', ['--elastic'], '--elastic', ...asked)
      equal(code, 0, err)
      match(err, /restart: replicas differ; all 2 ranks start again from the checkpoint of step 2\n/)
      deepEqual(tensorsIn(join(folder, 'corrupt', 'step-00000006')), undisturbed)
      const lines = linesOf(join(folder, 'metrics.jsonl'))
      deepEqual(
        lines.map(({ step, event }) => event ?? step),
        [
          1,
          2,
          3,
          4,
          ...lines.flatMap(({ event }) => (event === 'replicasDiffer' ? [event] : [])),
          'restart',
          3,
          4,
          5,
          6,
        ],
      )
      match(String(lines[4].advice), /^resume from the checkpoint of step 2,/)

      const failed = await run('fails', [], ...asked)
      equal(failed.code, 1)
      equal(linesOf(join(folder, 'metrics.jsonl')).at(-1)?.event, 'failed')
      match(
        failed.err,
        /replicas differ since step 4: checkpoints after step 2 may be corrupt; resume from the checkpoint of/,
      )
      deepEqual(
        readdirSync(join(folder, 'fails'))
          .filter(name => name.startsWith('step-'))
          .sort(),
        ['step-00000002', 'step-00000003', 'step-00000006'],
      )
    },
  )
})
