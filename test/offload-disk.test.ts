/**
 * Optimizer state on a disk: files that are gone with their run, checkpoints that know nothing of them, and disks that are full, slow
 * or fail, which is said before a run or ends it without harm to what was saved.
 */
import { deepEqual, doesNotMatch, equal, match, ok, rejects } from 'node:assert/strict'
import {
  closeSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, mock } from 'node:test'
import { type Io, processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { dataFor } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import { parse, print, roomIn, verify } from '../src/ir/index.js'
import { platform, type RoomFile } from '../src/platform/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { later, test } from './families.js'
import { jobOf, optionsOf } from './jobs.js'

const folder = mkdtempSync(join(tmpdir(), 'lockstep-disk-'))
const at = (...names: string[]) => join(folder, ...names)
const pool = new Pool()
after(async () => {
  await pool.close()
  rmSync(folder, { recursive: true })
})

const disk = platform.disk!
const offload = { optimizer: 'disk' } as const
const job = jobOf('mlp', { dp: 2, zero: 1, offload, precision: 'bf16' }, { clip: 0.5 })
const program = compileJob(job)
const start = () => startEngine(program, { seed: 1, pool, offloadFolder: at('files'), timeoutMs: 20_000 })
const given = { inputs: dataFor(program, optionsOf(job))(0), lr: 1e-2, step: 0 }

/** What happens while files are opened in another way. */
async function withOpen(open: (real: RoomFile, bytes: number) => RoomFile, during: () => Promise<void>): Promise<void> {
  const real = disk.open
  const mocked = mock.method(disk, 'open', (where: string, bytes: number) => open(real(where, bytes), bytes))
  try {
    await during()
  } finally {
    mocked.mock.restore()
  }
}

test('every state is on the disk, on pages of its own, and files have no names', async () => {
  for (const { frames, resident, peak, elsewhere } of program.streams) {
    equal(peak.optimizer, 0)
    const states = resident.map(frame => frames[frame]).filter(({ kind }) => kind === 'optimizer')
    ok(states.length > 0 && states.every(({ space, offset }) => space === 'disk' && offset % 4096 === 0))
    equal(
      elsewhere?.disk?.peak.optimizer,
      states.reduce((sum, { bytes }) => sum + bytes, 0),
    )
  }
  const engine = await start()
  await engine.step(given)
  deepEqual(readdirSync(at('files')), [])
  await engine.stop()
})

const broken = [
  [
    'L9',
    'a state that begins within a page',
    /(optimizer \d+ @)4096 disk/,
    '$14160 disk',
    /at disk offset 4160, not at a page boundary/,
  ],
  ['T8', 'an update of what is on the disk', /(segment "update [\s\S]*?role m optimizer \d+) host/, '$1 disk', /disk/],
  [
    'L10',
    'a state that is not written back',
    /(segment "up [\s\S]*?)\n {2}%m.moved = move %m\n/,
    '$1\n',
    /is stale at the end of the step: .* was written after the copy/,
  ],
  ['L4', 'a state that is used before it has come', /\n {2}wait tag="down (?!scalars)[^\n]*/, '', /in flight/],
] as const

for (const [law, what, from, to, says] of broken)
  test(`[${law}] ${what}`, () => {
    const text = print(compileJob({ ...job, plan: { ...job.plan, dp: 1, zero: 0 } }))
    const changed = text.replace(from, to)
    ok(changed !== text, 'nothing was changed')
    const found = verify(parse(changed)).filter(violation => violation.law === law)
    ok(found.length > 0, JSON.stringify(verify(parse(changed)).slice(0, 3)))
    match(found[0].message, says)
  })

const paramsThere = jobOf('mlp', { dp: 2, zero: 3, offload: { parameters: 'disk' } }, { clip: 0.5 })
const carriesThere = jobOf('mlp', { recompute: 'full', offload: { activations: 'layer-inputs', layerInputs: 'disk' } })

const brokenThere = [
  [
    'L9',
    'a parameter that begins within a page',
    paramsThere,
    /(parameters \d+ @)4096 disk/,
    '$14160 disk',
    /at disk offset 4160, not at a page boundary/,
  ],
  [
    'T8',
    'a gather from the disk',
    paramsThere,
    /(segment "gather [\s\S]*?role param\.\S+ parameters \d+)\n/,
    '$1 disk\n',
    /disk/,
  ],
  [
    'L10',
    'a parameter that is not written back',
    paramsThere,
    /\n {2}call "up [^\n]*\n/,
    '\n',
    /disk\.\S+ is stale at the end of the step/,
  ],
  ['L4', 'a part that is gathered before it was read', paramsThere, /\n {2}wait tag="lift gather 1"/, '', /in flight/],
  [
    'L9',
    'a carry that begins within a page',
    carriesThere,
    /(activations \d+ @)4096 disk/,
    '$14160 disk',
    /at disk offset 4160, not at a page boundary/,
  ],
  ['L4', 'a carry that is read before it has come', carriesThere, /\n {2}wait tag="back [^\n]*/, '', /in flight/],
] as const

for (const [law, what, job, from, to, says] of brokenThere)
  test(`[${law}] ${what}`, () => {
    const text = print(compileJob(job))
    const changed = text.replace(from, to)
    ok(changed !== text, 'nothing was changed')
    const found = verify(parse(changed)).filter(violation => violation.law === law)
    ok(found.length > 0, JSON.stringify(verify(parse(changed)).slice(0, 3)))
    match(found[0].message, says)
  })

test('a disk that is too full is a problem before anything starts', async () => {
  const free = mock.method(disk, 'free', () => 1000)
  await rejects(start(), ({ message }: Error) => {
    match(message, /is to keep 2 ranks of up to .* = .*KiB, but has 1000 B free; free space there, set a folder/)
    return true
  })
  free.mock.restore()
  await withOpen(
    () => {
      throw new Error('no space left on device (ENOSPC) after 4096 of 8192 bytes')
    },
    () => rejects(start(), /there cannot be .* in .*: no space left on device/),
  )
  await rejects(
    startEngine(program, { seed: 1, pool, offloadFolder: '/dev/null/x' }),
    /there cannot be .* in \/dev\/null\/x/,
  )
})

for (const kernels of ['native', 'wasm'] as const)
  test(`${kernels}: a disk that runs full in the middle of a step ends it, and says so`, {
    skip: (kernels === 'native' && nativeMissing()) || process.platform !== 'linux',
  }, async () => {
    const full = openSync('/dev/full', 'r+')
    await withOpen(
      real => ({ ...real, moved: full, direct: false }),
      async () => {
        const close = mock.method(disk, 'close', ({ edited }: RoomFile) => closeSync(edited))
        const engine = await startEngine(program, { seed: 1, pool, kernels, offloadFolder: folder, timeoutMs: 20_000 })
        const says = /an offload file could not be read or written: no space left on device \(ENOSPC\)/
        await rejects(engine.step(given), says)
        await rejects(engine.step(given), says, 'it stays failed')
        await engine.stop()
        close.mock.restore()
      },
    )
    closeSync(full)
  })

const yaml = (offloaded: string, zero = 1) =>
  [
    'model: { family: gpt, layers: 1, embed: 8, heads: 2, ffn: 8, vocab: 8 }',
    'training: { seq: 4, globalBatch: 4, steps: 4, optimizer: { kind: adamw, lr: 2e-2 } }',
    `plan: { dp: 2, zero: ${zero}, precision: bf16${offloaded} }`,
  ].join('\n')
writeFileSync(at('plain.yaml'), yaml(''))
writeFileSync(at('disk.yaml'), yaml(', offload: { optimizer: disk }'))
writeFileSync(at('parts.yaml'), yaml('', 3))
writeFileSync(at('files.yaml'), yaml(', offload: { optimizer: disk, parameters: disk }', 3))

let ran = 0
async function train(name: string, args: readonly string[], changes: Partial<Io> = {}) {
  const said = { out: '', err: '' }
  const io: Io = {
    ...{ ...processIo(), colors: false },
    out: text => void (said.out += text),
    err: text => void (said.err += text),
    ...changes,
  }
  return { code: await run(['train', at(`${name}.yaml`), '--out', at(`run${ran++}`), ...args], io), ...said }
}

/** The tensors of a checkpoint, as they lie in its files behind what says where. */
const tensorsIn = (saved: string) =>
  readdirSync(saved)
    .filter(name => name.endsWith('.safetensors'))
    .map(name => {
      const bytes = readFileSync(join(saved, name))
      return [name, bytes.subarray(8 + Number(bytes.readBigUInt64LE())).toString('base64')]
    })

for (const [plain, offloaded] of [
  ['plain', 'disk'],
  ['parts', 'files'],
])
  later(
    `${offloaded}: checkpoints are those of the same plan without offload, to the byte, and each resumes the other`,
    async () => {
      const every = ['--save-every', '2']
      for (const name of [plain, offloaded]) equal((await train(name, ['--save', at(`of ${name}`), ...every])).code, 0)
      const last = tensorsIn(at(`of ${plain}`, 'step-00000004'))
      ok(last.length > 0)
      deepEqual(tensorsIn(at(`of ${offloaded}`, 'step-00000004')), last)
      const [from, to] = [at(`of ${plain}`, 'step-00000002'), at(`${offloaded} resumed`)]
      equal((await train(offloaded, ['--resume', from, '--save', to, '--offload-dir', folder])).code, 0)
      deepEqual(tensorsIn(join(to, 'step-00000004')), last)
    },
  )

later('a disk that fails between two checkpoints leaves the last one good', async () => {
  const files: RoomFile[] = []
  let steps = 0
  await withOpen(
    real => {
      files.push(real)
      return real
    },
    async () => {
      const { code, err } = await train('disk', ['--save', at('cut'), '--save-every', '2'], {
        append: (path, text) => {
          processIo().append(path, text)
          if (path.endsWith('metrics.jsonl') && ++steps === 3) for (const { edited } of files) ftruncateSync(edited, 0)
        },
      })
      equal(code, 1)
      match(err, /an offload file could not be read or written: i\/o error \(EIO\)/)
      doesNotMatch(err, /\n\s+at /)
    },
  )
  deepEqual(readdirSync(at('cut')), ['step-00000002'])
  equal((await train('disk', ['--resume', at('cut'), '--save', at('mended')])).code, 0)
  deepEqual(tensorsIn(at('mended', 'step-00000004')), tensorsIn(at('of plain', 'step-00000004')))
})

test('what goes from the disk to the device and back takes as long as the slower of the two links', () => {
  const lamb = jobOf('mlp', { offload }, { optimizer: { kind: 'lamb', lr: 1e-3 } })
  const program = compileJob(lamb)
  const cluster = clusterOf('h100', 1)
  const seconds = (disk: number, link: number) => {
    const host = {
      ...cluster.host!,
      link: { ...cluster.host!.link, bandwidth: link, efficiency: 1, half: 0, latency: 0 },
    }
    const priced = { ...cluster, host, disk: { read: disk, write: disk, latency: 0 } }
    return simulate(program, clusterPrices(program, priced)).step
  }
  ok(seconds(1e6, 1e12) > seconds(1e12, 1e12) + 1e-4)
  ok(seconds(1e12, 1e6) > seconds(1e6, 1e12), 'inputs take that link as well')
  equal(Math.round(1e6 * seconds(1e6, 1e6)), Math.round(1e6 * seconds(1e12, 1e6)))
})

test('a simulated step waits for a slow disk, and is told so', async () => {
  const cluster = clusterOf('h100', 2)
  const seconds = (bandwidth: number) =>
    simulate(program, clusterPrices(program, { ...cluster, disk: { read: bandwidth, write: bandwidth, latency: 0 } }))
      .step
  const { arena, peak } = roomIn(program.streams[0], 'disk')
  ok(arena >= peak.optimizer)
  // So slow that the first reads, which begin while the norm is taken, hide next to nothing behind it.
  const difference = seconds(1e5) - seconds(1e12)
  ok(difference > peak.optimizer / 1e5 && difference < (2.1 * peak.optimizer) / 1e5, `${difference}`)
  const said = { out: '' }
  const io: Io = { ...processIo(), colors: false, out: text => void (said.out += text), err: () => {} }
  equal(await run(['simulate', at('disk.yaml'), '--cluster', 'h100'], io), 0)
  match(said.out, /Peak disk memory per rank: .*KiB/)
  match(said.out, /The disk is too slow: ranks wait .* of .* for it\. Try plan\.offload\.optimizer: host/)
})
