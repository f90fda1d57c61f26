/** Emitted runs that lose a rank: they notice, start again from the newest checkpoint, and end with the bits of an undisturbed run. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test as inAll } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runTimesOf } from '../src/calibrate/index.js'
import { readCheckpoint } from '../src/checkpoint/index.js'
import { jobsOfRanks } from '../src/cli/files/other-ranks.js'
import { Job } from '../src/plan/index.js'
import { finished, ranksIn, temporaryFolder, writeEmittedJob } from './emitted.js'
import { linesOf, tensorsIn } from './emitted-runs.js'
import { later } from './families.js'
import { Forking } from './forked.js'
import { jobOf } from './jobs.js'
import { findPython, noPython } from './python.js'

const python = findPython()
const cli = fileURLToPath(new URL('../../bin/lockstep.mjs', import.meta.url))
const skip = !python ? noPython : existsSync('/proc') ? false : 'processes are looked up in /proc'
/** Too large for the rest. */
const large = process.env.LOCKSTEP_TESTS === 'all' ? inAll : ((() => {}) as unknown as typeof inAll)
const launcher = ['-c', 'from runtime.torchrun import main; main()']

describe('emitted runs that restart', { skip }, () => {
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

  later(
    'a rank that dies within a step: all start again from the newest checkpoint, and end with the same bits',
    async () => {
      const asked = ['--elastic', '--save-every', '2', '--profile-every', '5', '--fault', 'kill:rank=1,step=4,at=9']
      const { code, err } = await run('killed', ['--elastic'], ...asked)
      equal(code, 0, err)
      match(err, /rank 1 was killed by SIGKILL; all 2 ranks start again from the checkpoint of step 2\n/)
      deepEqual(tensorsIn(join(folder, 'killed', 'step-00000006')), undisturbed)
      const lines = linesOf(join(folder, 'metrics.jsonl'))
      deepEqual(
        lines.map(({ step, event }) => event ?? step),
        [1, 2, 3, 'restart', 3, 4, 5, 6],
      )
      const { rank, severity, message, numbers } = lines[3]
      deepEqual({ rank, severity }, { rank: 1, severity: 'warning' })
      equal(message, 'rank 1 was killed by SIGKILL; resumes after step 2, 1 step is repeated')
      deepEqual({ ...(numbers as object), seconds: 0 }, { restarts: 1, from: 2, lostSteps: 1, seconds: 0 })
      const { shares, ranks, collectives } = lines[6]
      deepEqual(Object.keys(shares as object), ['compute', 'communication', 'waiting', 'bubble'])
      equal((ranks as { late: number[] }).late.length, 2)
      ok((collectives as { kind: string; bytesPerSecond: number }[]).every(({ bytesPerSecond }) => bytesPerSecond > 0))
      const { format, software, world } = JSON.parse(readFileSync(join(folder, 'about.json'), 'utf8'))
      deepEqual({ format, software, world }, { format: 'lockstep-run-1', software: 'emitted', world: 2 })
      const times = runTimesOf(JSON.parse(readFileSync(join(folder, 'measured.json'), 'utf8')))
      ok(
        times?.stages?.every(({ passes, updates, network }) => Math.min(passes, updates, network.dp) > 0),
        'for replan',
      )
    },
  )

  later('every checkpoint is damaged: a run that restarts by itself begins anew, and says so', async () => {
    const faults = ['--fault', 'damage:file=rank-0*,step=2', '--fault', 'kill:rank=1,step=4,at=3']
    const { code, err } = await run('spoilt', ['--elastic'], '--elastic', '--save-every', '2', ...faults)
    equal(code, 0, err)
    match(err, /no complete checkpoint in spoilt: restarting from the first step\n/)
    deepEqual(tensorsIn(join(folder, 'spoilt', 'step-00000006')), undisturbed)
    const damaged = linesOf(join(folder, 'metrics.jsonl')).findLast(({ event }) => event === 'checkpointDamaged')
    equal(damaged?.advice, 'the first step is used instead')
  })

  later('three failures without a new checkpoint: it gives up, and says why', async () => {
    const faults = ['kill:rank=0,step=1', 'kill:rank=0,step=1,at=2', 'kill:rank=0,step=2']
    const given = faults.flatMap(fault => ['--fault', fault])
    const { code, err } = await run('never', ['--elastic'], '--elastic', '--save-every', '3', ...given)
    equal(code, 1)
    match(err, /rank 0 was killed by SIGKILL; gave up: 3 failures without a new checkpoint, .* the beginning\n/)
    equal(err.match(/start again/g)?.length, 2)
  })

  later('a rank that is suspended: it is the one that is blamed, and the run goes on', async () => {
    const asked = ['--elastic', '--timeout', '3', '--save-every', '2', '--fault', 'stall:rank=1,step=4']
    const { code, err } = await run('suspended', ['--elastic'], ...asked)
    equal(code, 0, err)
    match(err, /rank 0: nothing has moved for 3[.\d]* s at step 4: /)
    match(err, /rank 1 was suspended \(SIGSTOP\); all 2 ranks start again from the checkpoint of step 2\n/)
    deepEqual(tensorsIn(join(folder, 'suspended', 'step-00000006')), undisturbed)
    match(readFileSync(join(folder, 'metrics.jsonl'), 'utf8'), /"event": "timeout".*rank 1 was suspended/)
  })

  later(
    'other faults: a NaN is found and skipped, a flipped bit stays, a slow rank is slow, a message that is lost ends the wait',
    async () => {
      const odd = [
        'nan:rank=1,step=2',
        'slow:rank=0,factor=1.5,from=2,to=3',
        'flip:rank=1,step=5,parameter=embed.tokens,bit=3',
      ]
      const faulty = await run('odd', [], ...odd.flatMap(fault => ['--fault', fault]))
      equal(faulty.code, 0, faulty.err)
      const lines = linesOf(join(folder, 'metrics.jsonl'))
      deepEqual(
        lines.filter(({ event }) => event).map(({ step, event }) => [step, event]),
        [
          [2, 'notFinite'],
          [2, 'skipped'],
        ],
      )
      const lost = await run(
        'lost',
        ['--elastic'],
        '--elastic',
        '--timeout',
        '3',
        '--save-every',
        '2',
        '--fault',
        'lose:rank=1,step=3',
      )
      equal(lost.code, 0, lost.err)
      match(lost.err, /start again from the checkpoint of step 2\n/)
      deepEqual(tensorsIn(join(folder, 'lost', 'step-00000006')), undisturbed)
      const refused = await run('refused', [], '--fault', 'kill:rnk=1')
      match(refused.err, /--fault: kill:rnk=1: 'rnk=1' is not one of rank=, step=, at=\n/)
    },
  )
})

describe('emitted folders with several plans', { skip }, () => {
  const folder = temporaryFolder()
  let copies: Forking
  const job = Job.parse({
    model: { family: 'llama', layers: 4, embed: 24, heads: 6, ffn: 24, vocab: 24 },
    training: { seq: 8, globalBatch: 24, steps: 9 },
    plan: { pp: 2, tp: 2, dp: 2, zero: 1, microbatches: 2 },
  })
  const run = async (ranks: number, own: readonly string[], ...args: string[]) => {
    const words = [
      ...own,
      '--standalone',
      `--nproc_per_node=${ranks}`,
      'train.py',
      '--device',
      'cpu',
      '--save-sync',
      ...args,
    ]
    const { code, out, err } = await (await copies.start([...launcher, ...words], { cwd: folder })).done
    equal(code, 0, err)
    return { out, err }
  }
  const saved = (name: string) => {
    const at = join(folder, name, 'step-00000009')
    return readCheckpoint((file, begin, end) => readFileSync(join(at, file)).subarray(begin, end))
  }
  /** The largest difference, relative to the largest number of a tensor. */
  const apart = (a: string, b: string): number => {
    const [one, other] = [saved(a), saved(b)]
    const errors = [...one.tensors.keys()].map(name => {
      const [x, y] = [one.tensor(name), other.tensor(name)]
      const largest = x.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1
      return x.reduce((most, value, i) => Math.max(most, Math.abs(value - y[i])), 0) / largest
    })
    return Math.max(...errors)
  }
  before(() => {
    copies = new Forking(python!)
    writeEmittedJob(folder, job, jobsOfRanks(job, { numbers: [4, 6], each: true }))
  })
  after(async () => {
    await copies.close()
    rmSync(folder, { recursive: true, force: true })
  })

  for (const [precision, tolerance] of [
    ['f64', 1e-12],
    ['plan', 1e-6],
  ] as const)
    large(`8 -> 4 -> 6 ranks under torchrun, ${precision}: what 8 ranks train, to ${tolerance}`, async () => {
      const asked = ['--precision', precision, '--elastic', '--save-every', '3']
      await run(8, [], ...asked, '--save', `whole-${precision}`)
      for (const [ranks, steps] of [
        [8, '3'],
        [4, '6'],
        [6, '9'],
      ] as const)
        await run(ranks, ['--elastic'], ...asked, '--steps', steps, '--save', `parts-${precision}`)
      const error = apart(`whole-${precision}`, `parts-${precision}`)
      ok(error < tolerance, `${error}`)
    })

  large('--shrink: a rank that is lost is not replaced, the largest plan that is left goes on', async () => {
    rmSync(join(folder, 'metrics.jsonl'), { force: true })
    const faults = ['kill:rank=7,step=4', 'kill:rank=5,step=7'].flatMap(fault => ['--fault', fault])
    const asked = ['--precision', 'f64', '--elastic', '--save-every', '3', '--save', 'shrunk']
    const { err } = await run(8, ['--elastic', '--shrink'], ...asked, ...faults)
    match(err, /rank 7 was killed by SIGKILL; 6 ranks continue from the checkpoint of step 3\n/)
    match(err, /rank 5 was killed by SIGKILL; 4 ranks continue from the checkpoint of step 6\n/)
    await run(8, [], '--precision', 'f64', '--save', 'unshrunk')
    ok(apart('unshrunk', 'shrunk') < 1e-12)
    deepEqual(
      linesOf(join(folder, 'metrics.jsonl')).flatMap(({ event }) => (event ? [event] : [])),
      ['restart', 'replanned', 'restart', 'replanned'],
    )
  })
})

/** KILLS=50 kills so many, at random moments from the first step on. */
const kills = Number(process.env.KILLS ?? 1)

describe('lockstep launch --elastic', { skip }, () => {
  const root = temporaryFolder()
  before(() => {
    mkdirSync(root, { recursive: true })
    writeFileSync(join(root, 'job.json'), JSON.stringify(jobOf('gpt', { dp: 2 }, { steps: 40 })))
  })
  after(() => rmSync(root, { recursive: true, force: true }))

  const launch = (out: string, ...args: string[]) =>
    finished(process.execPath, [cli, 'launch', 'job.json', '--out', out, ...args], {
      cwd: root,
      env: { LOCKSTEP_PYTHON: python! },
    })
  const last = (out: string) => tensorsIn(join(root, out, 'checkpoints', 'step-00000040'))

  /** Until this was printed so often; false: the run ended before. */
  const printed = async ({ child, said }: ReturnType<typeof launch>, text: RegExp, times = 1): Promise<boolean> => {
    while ((said.out.match(text)?.length ?? 0) < times) {
      if (child.exitCode !== null) return false
      await setTimeout(5)
    }
    return true
  }

  const checkpointsIn = (out: string): number => {
    const folder = join(root, out, 'checkpoints')
    return existsSync(folder) ? readdirSync(folder).filter(name => /^step-\d+$/.test(name)).length : 0
  }
  /** Until there are so many checkpoints: one that is being written is lost with its ranks. */
  const written = async ({ child }: ReturnType<typeof launch>, out: string, checkpoints: number): Promise<boolean> => {
    while (checkpointsIn(out) < checkpoints) {
      if (child.exitCode !== null) return false
      await setTimeout(5)
    }
    return true
  }

  large(`kill -9 of a rank, ${kills} times: noticed, started again, and the same bits at the end`, async () => {
    equal((await launch('plain', '--save-every', '40').done).code, 0)
    const expected = last('plain')
    const noticed: number[] = []
    for (let done = 0, i = 0; done < kills; i++) {
      const out = `killed-${i}`
      const started = launch(out, '--elastic', '--save-every', '3')
      // Several in one run, the next when the one before is forgotten: a checkpoint was written since.
      while (done < kills && (await written(started, out, checkpointsIn(out) + 1))) {
        await setTimeout(Math.random() * 200)
        const ranks = ranksIn(join(root, out))
        const restarts = started.said.out.match(/start again/g)?.length ?? 0
        if (ranks.length < 2 || started.said.out.includes('step 40/40')) break
        const at = performance.now()
        process.kill(ranks[Math.floor(Math.random() * ranks.length)], 'SIGKILL')
        if (!(await printed(started, /start again/g, restarts + 1))) break
        noticed.push(performance.now() - at)
        done++
      }
      const { code, err } = await started.done
      equal(code, 0, err)
      deepEqual(last(out), expected)
      rmSync(join(root, out), { recursive: true })
    }
    if (process.env.KILLS) {
      const sorted = noticed.toSorted((a, b) => a - b)
      console.log(
        `noticed ${noticed.length} deaths: median ${sorted[sorted.length >> 1]} ms, longest ${sorted.at(-1)} ms`,
      )
      ok(Math.max(...noticed) < 2000)
    }
  })

  later('SIGTERM while the ranks start again: they end, and the newest checkpoint is whole', async () => {
    const started = launch(
      'stopped',
      '--elastic',
      '--save-sync',
      '--save-every',
      '2',
      '--fault',
      'kill:rank=1,step=5',
      '--steps',
      '100000',
    )
    ok(await printed(started, /start again/g))
    started.child.kill('SIGTERM')
    const { code, err } = await started.done
    equal(code, 143, err)
    deepEqual(ranksIn(join(root, 'stopped')), [])
    ok(readdirSync(join(root, 'stopped', 'checkpoints')).includes('step-00000004'))
  })
})
