/** Emitted folders as people start them: lockstep launch, launch.sh, and two nodes that meet over a network. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test as inBoth } from 'node:test'
import { fileURLToPath } from 'node:url'
import { expectedOf, finished, processesIn, ranksIn, temporaryFolder, writeEmittedJob } from './emitted.js'
import { later, test } from './families.js'
import { jobOf } from './jobs.js'
import { findPython, noPython } from './python.js'

const python = findPython()
const cli = fileURLToPath(new URL('../../bin/lockstep.mjs', import.meta.url))

const near = (actual: readonly number[], expected: readonly number[]) => {
  equal(actual.length, expected.length)
  for (const [i, loss] of actual.entries()) ok(Math.abs(loss / expected[i] - 1) < 1e-5, `${actual} is not ${expected}`)
}
const recordsIn = (out: string) =>
  out
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line))
const lossesIn = (out: string): number[] => recordsIn(out).map(({ loss }) => loss)

const skip = !python ? noPython : existsSync('/proc') ? false : 'processes are looked up in /proc'

describe('lockstep launch', { skip }, () => {
  const root = temporaryFolder()
  /** 80 of 400 tokens are held out: 19 sequences, in two batches of 16 of which the second is mostly blank. */
  const data = { source: 'tokens.bin', evalFraction: 0.2 }
  const ids = Uint16Array.from({ length: 400 }, (_, i) => (i * i) % 7)
  const lockstep = (command: string, ...args: string[]) =>
    finished(process.execPath, [cli, command, 'job.json', ...args], { cwd: root, env: { LOCKSTEP_PYTHON: python! } })
  const launch = (...args: string[]) => lockstep('launch', ...args)
  const train = async (...args: string[]) => {
    const { code, out, err } = await lockstep('train', '--kernels', 'reference', '--json', ...args).done
    equal(code, 0, err)
    return recordsIn(out)
  }
  before(() => {
    writeFileSync(
      join(root, 'job.json'),
      JSON.stringify({ ...jobOf('gpt', { dp: 2 }, { steps: 3, evalEvery: 2 }), data }),
    )
    writeFileSync(join(root, 'tokens.bin'), ids)
  })
  after(() => rmSync(root, { recursive: true, force: true }))

  // What it saves is resumed from by tests of the rest.
  inBoth('emits, trains, evaluates and saves, and streams what train streams', async () => {
    const { code, out, err } = await launch('--json', '--save-every', '2', '--out', 'run').done
    equal(code, 0, err)
    doesNotMatch(readFileSync(join(root, 'run', 'torchrun.log'), { encoding: 'utf8', flag: 'a+' }), /SYNTHETIC/)
    const [launched, trained] = [recordsIn(out), await train('--save-every', '2', '--out', 'trained')]
    /** What only the engine's runs know of their data and of the machine. */
    const own = ['loading', 'repeated', 'cpu']
    const fields = (record: object) => Object.keys(record).filter(key => !own.includes(key))
    deepEqual(launched.map(fields), trained.map(fields), 'the same fields')
    for (const key of ['loss', 'gradientNorm', 'lr', 'counted'])
      near(
        launched.map(record => record[key]),
        trained.map(record => record[key]),
      )
    const held = (records: typeof launched) => records.slice(1).map(({ evalLoss }) => evalLoss)
    near(held(launched), held(trained))
    const [logged, other] = ['run', 'trained'].map(folder =>
      recordsIn(readFileSync(join(root, folder, 'metrics.jsonl'), 'utf8')),
    )
    deepEqual(
      logged.map(({ cursor: _, ...record }) => record),
      launched,
    )
    deepEqual(
      logged.map(({ cursor }) => cursor),
      other.map(({ cursor }) => cursor),
    )
    deepEqual(readdirSync(join(root, 'run', 'checkpoints')), ['step-00000002', 'step-00000003'])
  })

  later(
    'goes on from the last checkpoint of train; one that does not fit is refused before torch is started',
    async () => {
      const resumed = await launch('--resume', join('trained', 'checkpoints'), '--steps', '4', '--out', 'resumed').done
      equal(resumed.code, 0, resumed.err)
      match(resumed.out, /Resumes from trained\/checkpoints\/step-00000003, after step 3\.\n/)
      match(resumed.out, /trained 4 to 4 of 4 steps in .*, validation loss \d/)
      const [expected] = await train('--resume', 'trained', '--steps', '4', '--out', 'expected')
      near(lossesIn(readFileSync(join(root, 'resumed', 'metrics.jsonl'), 'utf8')), [expected.loss])
      const refused = await launch('--resume', 'trained', '--seed', '9', '--out', 'refused').done
      equal(refused.code, 1)
      match(refused.err, /training\.seed: .*: the seed of the checkpoint is 1, the job’s 9; try --seed 1/)
    },
  )

  later('Ctrl-C ends every rank', async () => {
    const { child, done } = launch('--json', '--steps', '100000', '--out', 'long')
    await new Promise(resolve => child.stdout.once('data', resolve))
    child.kill('SIGINT')
    const { code } = await done
    equal(code, 130)
    deepEqual(processesIn(join(root, 'long')), [])
  })

  later('Ctrl-C with --save: all ranks stop after one step, it is saved and can be resumed', async () => {
    const { child, done } = launch('--json', '--steps', '100000', '--save', 'saved', '--out', 'stopped')
    await new Promise(resolve => child.stdout.once('data', resolve))
    child.kill('SIGINT')
    const { code, out, err } = await done
    equal(code, 130, err)
    deepEqual(processesIn(join(root, 'stopped')), [])
    const { step, checkpoint } = recordsIn(out).at(-1)
    const name = `step-${String(step).padStart(8, '0')}`
    equal(checkpoint, join(root, 'saved', name))
    deepEqual(readdirSync(join(root, 'saved')), [name], 'whole, and no lock is left')
    equal(err, 'stopping after a step, when it is saved; Ctrl-C again stops at once\n')
    const [next] = await train('--resume', 'saved', '--steps', String(step + 1), '--out', 'stopped-resumed')
    equal(next.step, step + 1)
  })

  later('launch.sh with --save: SIGTERM to it alone saves, and its exit code says so', async () => {
    const out = join(root, 'by-hand')
    equal((await lockstep('emit', '--steps', '100000', '--out', out).done).code, 0)
    const { child, done } = finished('sh', [join(out, 'launch.sh'), '--device', 'cpu', '--save', 'kept'], {
      env: { PYTHON: python! },
    })
    await new Promise(resolve => child.stdout.once('data', resolve))
    child.kill('SIGTERM')
    const { code, out: told, err } = await done
    equal(code, 143, err)
    equal(recordsIn(told).at(-1).checkpoint, join('kept', readdirSync(join(out, 'kept'))[0]))
    doesNotMatch(err, /Traceback|fail/)
  })

  inBoth('launch.sh --help starts nothing; without enough GPUs it refuses, and names --device cpu', async () => {
    const out = join(root, 'asked')
    writeEmittedJob(out, jobOf('gpt', { dp: 2 }, { steps: 3 }))
    const start = (...args: string[]) =>
      finished('sh', [join(out, 'launch.sh'), ...args], { env: { PYTHON: python!, CUDA_VISIBLE_DEVICES: '' } }).done
    const help = await start('--steps', '1', '--help')
    equal(help.code, 0, help.err)
    match(help.out, /^Starts the 2 ranks of this folder[\s\S]*NODE_RANK[\s\S]*--save-every/)
    equal(help.out.match(/--save-every SAVE_EVERY/g)!.length, 2, 'once in the usage, once in the list')
    const refused = await start()
    equal(refused.code, 2)
    match(refused.err, /^lockstep: 2 ranks on this node, which has no GPU: NNODES .*--device cpu/)
    equal(existsSync(join(out, 'metrics.jsonl')), false)
    const allowed = await start('--device', 'cpu', '--steps', '1')
    equal(allowed.code, 0, allowed.err)
    equal(allowed.err.match(/data: SYNTHETIC/g)?.length, 1, 'by one rank, once')
  })

  test('a rank that is killed: who and by what signal comes first, then its peer and its instruction', async () => {
    const { child, done } = launch('--steps', '100000', '--save', 'never', '--out', 'killed')
    await new Promise(resolve => child.stdout.on('data', data => String(data).includes('step ') && resolve(0)))
    process.kill(ranksIn(join(root, 'killed'))[0], 'SIGKILL')
    const { code, err } = await done
    equal(code, 1)
    match(err, /torchrun ended with exit code 1\n +rank \d was killed by SIGKILL\n +rank \d: [\s\S]* step \d+: \w+/)
  })

  later('a shard that is damaged is refused before any rank starts, with file, rank and tensor', async () => {
    const folder = join(root, 'run', 'checkpoints', 'step-00000003')
    const shard = join(folder, 'rank-00000.safetensors')
    const bytes = readFileSync(shard)
    bytes[bytes.length - 1] ^= 1
    mkdirSync(join(root, 'damaged'))
    for (const name of readdirSync(folder)) writeFileSync(join(root, 'damaged', name), readFileSync(join(folder, name)))
    writeFileSync(join(root, 'damaged', 'rank-00000.safetensors'), bytes)
    const { code, err } = await launch('--resume', 'damaged', '--steps', '4', '--out', 'resumed-damaged').done
    equal(code, 1)
    match(err, /damaged: rank-00000\.safetensors \(written by rank 0\): tensor \S+ is corrupt/)
    deepEqual(processesIn(join(root, 'resumed-damaged')), [])
  })

  later('--timeout: a rank that is stopped while it starts does not keep the others for long', async () => {
    const { child, done, said } = launch('--timeout', '4', '--steps', '100000', '--out', 'suspended')
    const folder = join(root, 'suspended')
    while (ranksIn(folder).length < 2 && child.exitCode === null) await new Promise(resolve => setTimeout(resolve, 20))
    process.kill(ranksIn(folder)[1], 'SIGSTOP')
    const { code, err } = await done
    equal(code, 1, said.out)
    match(err, /rendezvous: after 24 s ranks \[\d\] of 2 are missing|nothing has moved for \d+ s at/)
    deepEqual(processesIn(folder), [])
  })
})

/** Two network namespaces joined by a cable: as two machines see each other. */
const nodes = [`lockstep-test-${process.pid}-a`, `lockstep-test-${process.pid}-b`] as const
const addresses = ['10.231.7.1', '10.231.7.2'] as const
const ip = (...args: string[]) => spawnSync('ip', args, { encoding: 'utf8' })

const parted = () => {
  for (const node of nodes) ip('netns', 'del', node)
}

/** Those of a test that was killed. */
function removeDeserted(): void {
  for (const [node, pid] of (ip('netns', 'list').stdout ?? '').matchAll(/^lockstep-test-(\d+)-\w/gm))
    if (!existsSync(`/proc/${pid}`)) ip('netns', 'del', node)
}

function joinNodes(): string | undefined {
  removeDeserted()
  const commands = [
    ...nodes.map(node => ['netns', 'add', node]),
    ['link', 'add', 'ls-veth-a', 'netns', nodes[0], 'type', 'veth', 'peer', 'name', 'ls-veth-b', 'netns', nodes[1]],
    ...nodes.flatMap((node, i) => [
      ['-n', node, 'addr', 'add', `${addresses[i]}/24`, 'dev', `ls-veth-${'ab'[i]}`],
      ['-n', node, 'link', 'set', `ls-veth-${'ab'[i]}`, 'up'],
      ['-n', node, 'link', 'set', 'lo', 'up'],
    ]),
  ]
  for (const command of commands) {
    const { status, stderr, error } = ip(...command)
    if (status !== 0) return `network namespaces cannot be made here: ${(error?.message ?? stderr).trim()}`
  }
  return undefined
}

const unjoined = python ? joinNodes() : noPython

describe('two nodes with a network between them', { skip: unjoined ?? false }, () => {
  const root = temporaryFolder()
  const job = jobOf('gpt', { dp: 2 }, { steps: 3 })
  before(() => writeEmittedJob(root, job))
  after(() => {
    parted()
    rmSync(root, { recursive: true, force: true })
  })

  const onNode = (i: number, more: object = {}, ...args: string[]) => {
    const env = { NNODES: '2', NODE_RANK: String(i), MASTER_ADDR: addresses[0], PYTHON: python! }
    const network = { GLOO_SOCKET_IFNAME: `ls-veth-${'ab'[i]}`, TP_SOCKET_IFNAME: `ls-veth-${'ab'[i]}` }
    const asked = ['--device', 'cpu', ...args]
    return finished('ip', ['netns', 'exec', nodes[i], 'sh', join(root, 'launch.sh'), ...asked], {
      env: { ...env, ...network, ...more },
    })
  }

  later('launch.sh on each: torchrun meets, and trains what the reference trains', async () => {
    const [first, second] = await Promise.all([onNode(0).done, onNode(1).done])
    equal(first.code, 0, first.err)
    equal(second.code, 0, second.err)
    near(lossesIn(first.out), expectedOf(job, 3).losses)
  })

  later('a node that never comes: the other says so, and ends', async () => {
    const { code, err } = await onNode(0, { RENDEZVOUS: '4' }).done
    equal(code, 1)
    match(err, /lockstep: node 0 \(ranks 0 to 0\): .* a node of 2 did not arrive at 10\.231\.7\.1:29400 within 4 s/)
    doesNotMatch(err, /Traceback/)
  })

  later('the cable is cut mid-run: both nodes end, and each says where', async () => {
    rmSync(join(root, 'metrics.jsonl'), { force: true })
    const both = [0, 1].map(i => onNode(i, {}, '--steps', '100000', '--timeout', '10'))
    await new Promise(resolve => both[0].child.stdout.once('data', resolve))
    ip('-n', nodes[1], 'link', 'set', 'ls-veth-b', 'down')
    for (const { code, err } of await Promise.all(both.map(({ done }) => done))) {
      doesNotMatch(err, /Traceback/)
      equal(code, 1)
      match(err, /lockstep: rank \d: [\s\S]* step \d+: \w+/)
    }
  })
})
