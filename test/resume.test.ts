/** Checkpoints of train: a run that goes on from one is the run that was never interrupted, under any plan. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { printManifest } from '../src/checkpoint/index.js'
import { type Io, processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import { fastKernels } from '../src/engine/index.js'
import type { StepRecord } from '../src/train/session.js'
import { family, later, test } from './families.js'

const root = mkdtempSync(join(tmpdir(), 'lockstep-resume-'))
after(() => rmSync(root, { recursive: true, force: true }))
const at = (...names: string[]) => join(root, ...names)

const adamw = 'optimizer: { kind: adamw, lr: 2e-2 }'
const gpt = '{ family: gpt, layers: 2, embed: 8, heads: 2, ffn: 8, vocab: 8, dropout: 0.1 }'
/** Masks, a schedule of rates and an evaluation: all that must not notice. */
const jobOf = (plan: string, { optimizer = adamw, model = gpt, more = '', data = '{}' } = {}) =>
  [
    `model: ${model}`,
    `training: { seq: 4, globalBatch: 8, ${optimizer}, clip: 1, steps: 4, evalEvery: 2, evalBatches: 1, lrSchedule: { kind: cosine, warmup: 1 }${more} }`,
    `data: ${data}`,
    `plan: { ${plan} }`,
  ].join('\n')

let ran = 0

/** `lockstep train` of a job on a real disk; a folder of its own unless --out names one. */
async function train(job: string, args: readonly string[] = [], changes: Partial<Io> = {}) {
  const path = at(`job${ran++}.yaml`)
  writeFileSync(path, job)
  const said = { out: '', err: '' }
  const io: Io = {
    ...processIo(),
    out: text => void (said.out += text),
    err: text => void (said.err += text),
    colors: false,
    ...changes,
  }
  const code = await run(['train', path, '--kernels', 'reference', '--json', '--out', at(`run${ran}`), ...args], io)
  return { code, ...said }
}

async function steps(job: string, ...args: string[]): Promise<StepRecord[]> {
  const { code, out, err } = await train(job, args)
  equal(code, 0, `${out}${err}`)
  return out
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
}

const numbers = (records: readonly StepRecord[]) =>
  records.map(({ step, loss, gradientNorm, lr, evalLoss }) => ({ step, loss, gradientNorm, lr, evalLoss }))

function near(actual: readonly StepRecord[], expected: readonly StepRecord[], bound: number): void {
  deepEqual(
    actual.map(({ step, lr }) => [step, lr]),
    expected.map(({ step, lr }) => [step, lr]),
  )
  for (const [i, record] of actual.entries())
    for (const key of ['loss', 'gradientNorm', 'evalLoss'] as const)
      ok(Math.abs((record[key] ?? 0) - (expected[i][key] ?? 0)) <= bound, `${key} of step ${record.step}`)
}

const pairs: readonly (readonly [from: string, to: string, bound: number, more?: Parameters<typeof jobOf>[1]])[] = [
  ['', '', 0],
  ['dp: 2, zero: 3, microbatches: 2', 'dp: 2, zero: 3, microbatches: 2', 0],
  ['dp: 2, zero: 3, microbatches: 2', 'tp: 2, pp: 2, microbatches: 4, schedule: zb-h1', 1e-10],
  ['tp: 2, pp: 2, microbatches: 4, schedule: zb-h1', 'dp: 4, zero: 1', 1e-10],
  ['dp: 2, tp: 2, zero: 2, sequenceParallel: true', '', 1e-10],
  ['pp: 2, microbatches: 4, schedule: dualpipe', 'pp: 2, dp: 2, microbatches: 2', 1e-10],
  ['dp: 2, zero: 1, precision: bf16', 'dp: 2, zero: 1, precision: bf16', 0],
  ['precision: pure-bf16', 'precision: pure-bf16', 0],
  ['dp: 2, zero: 1', 'tp: 2', 1e-10, { optimizer: 'optimizer: { kind: sgd, lr: 0.05, momentum: 0.9 }' }],
  ['dp: 2', 'pp: 2, microbatches: 2', 1e-10, { optimizer: 'optimizer: { kind: sgd, lr: 0.05 }' }],
  ['dp: 2, zero: 3', 'tp: 2', 1e-10, { model: '{ family: mlp, layers: 2, embed: 4 }' }],
  ['cp: 2, attention: ring', 'tp: 2', 1e-10, { data: '{ documents: { eod: 0, eodMaskLoss: true } }' }],
]
const tested = family('resume', 4)
for (const [from, to, bound, more] of pairs)
  tested(
    `${from || 'one rank'} -> ${to || 'one rank'}${more ? ` ${Object.values(more)}` : ''}: ${bound ? `as never interrupted to ${bound}` : 'the same bits'}`,
    async () => {
      const saved = at(`saved${ran}`)
      const all = await steps(jobOf(from, more), '--save', saved, '--save-every', '2', '--save-sync')
      deepEqual(
        all.map(({ checkpoint }) => checkpoint?.slice(saved.length + 1)),
        [undefined, 'step-00000002', undefined, 'step-00000004'],
      )
      const resumed = await steps(jobOf(to, more), '--resume', join(saved, 'step-00000002'))
      if (bound === 0) deepEqual(numbers(resumed), numbers(all.slice(2)))
      else near(resumed, all.slice(2), bound)
    },
  )

test('documents that ended elsewhere are other data; without documents the weights are the same', async () => {
  const documents = (separator: number) => jobOf('', { data: `{ documents: { eod: ${separator} } }` })
  const saved = at(`saved${ran}`)
  await steps(documents(0), '--save', saved)
  const { code, out, err } = await train(documents(1), ['--resume', saved])
  equal(code, 1)
  match(`${out}${err}`, /the checkpoint was trained on different data/)
  equal((await steps(jobOf(''), '--init', saved)).length, 4)
})

const byKernels = family('resume: kernels', 3)
for (const kernels of fastKernels())
  byKernels(`${kernels} kernels go on with the same bits, and under another plan to 1e-5`, async () => {
    const [job, saved] = [jobOf('dp: 2, zero: 2, microbatches: 2'), at(`saved${ran}`)]
    const all = await steps(job, '--kernels', kernels, '--save', saved, '--save-every', '2')
    const begin = ['--kernels', kernels, '--resume', join(saved, 'step-00000002')]
    deepEqual(numbers(await steps(job, ...begin)), numbers(all.slice(2)))
    near(await steps(jobOf('tp: 2, pp: 2, microbatches: 2'), ...begin), all.slice(2), 1e-5)
  })

for (const precision of ['bf16', 'pure-bf16'])
  later(`native kernels in ${precision} go on with the same bits, and under another plan to 2e-2`, async () => {
    const [job, saved] = [jobOf(`dp: 2, zero: 2, microbatches: 2, precision: ${precision}`), at(`saved${ran}`)]
    const all = await steps(job, '--kernels', 'auto', '--save', saved, '--save-every', '2')
    const begin = ['--kernels', 'auto', '--resume', join(saved, 'step-00000002')]
    deepEqual(numbers(await steps(job, ...begin)), numbers(all.slice(2)))
    near(await steps(jobOf(`tp: 2, microbatches: 2, precision: ${precision}`), ...begin), all.slice(2), 2e-2)
  })

describe('a folder of checkpoints', () => {
  const job = jobOf('dp: 2, zero: 1')
  const saved = at('saved')
  let all: readonly StepRecord[]
  before(async () => {
    all = await steps(job, '--save', saved, '--save-every', '3')
  })

  test('its last one that is whole is found, also in a run folder; what was being written is not', async () => {
    deepEqual(readdirSync(saved), ['step-00000003', 'step-00000004'])
    const folder = at('as-a-run', 'checkpoints')
    cpSync(join(saved, 'step-00000003'), join(folder, 'step-00000003'), { recursive: true })
    cpSync(join(saved, 'step-00000004'), join(folder, 'step-00000004.partial'), { recursive: true })
    rmSync(join(folder, 'step-00000004.partial', 'manifest.json'))
    deepEqual(numbers(await steps(job, '--resume', at('as-a-run'))), numbers(all.slice(3)))
  })

  test('without --save they lie in the run folder; more steps than the job had can be asked for', async () => {
    await steps(job, '--save-every', '4', '--out', at('own'))
    deepEqual(readdirSync(at('own', 'checkpoints')), ['step-00000004'])
    const longer = await steps(job, '--resume', at('own'), '--steps', '6')
    deepEqual(
      longer.map(({ step }) => step),
      [5, 6],
    )
  })

  test('--init takes the weights and nothing else: step 1, another optimizer, another seed', async () => {
    const other = jobOf('tp: 2', { optimizer: 'optimizer: { kind: sgd, lr: 0.05 }', more: ', seed: 7' })
    const [fresh, begun] = [await steps(other), await steps(other, '--init', saved)]
    equal(begun[0].step, 1)
    ok(begun[0].loss < fresh[0].loss, 'it has learned something')
  })

  test('nothing left to train is said, and is no failure', async () => {
    const { code, err } = await train(job, ['--resume', saved])
    equal(code, 0)
    match(err, /the checkpoint is at step 4 and the job has 4 steps: nothing left to train; try --steps/)
  })

  test('two beginnings, or a checkpoint every 0 steps, are usage errors', async () => {
    for (const args of [
      ['--resume', saved, '--init', saved],
      ['--save-every', '0'],
    ])
      equal((await train(job, args)).code, 2)
  })

  /** What it says when a copy of the last checkpoint was tampered with. */
  async function refused(job: string, tamper: (folder: string) => void, args: readonly string[] = []): Promise<string> {
    const folder = at(`copy${ran}`)
    cpSync(join(saved, 'step-00000003'), folder, { recursive: true })
    tamper(folder)
    const out = at(`refused${ran}`)
    const { code, out: said } = await train(job, ['--resume', folder, '--out', out, ...args])
    equal(code, 1, said)
    ok(!existsSync(out), 'nothing is written')
    const { problems } = JSON.parse(said) as { problems: { path: string; message: string; suggestion?: string }[] }
    const text = problems.map(({ path, message, suggestion }) => `${path}: ${message}; ${suggestion ?? ''}`).join('\n')
    doesNotMatch(text, /internal|undefined|NaN/)
    return text
  }
  const rewritten = (name: string, change: (bytes: Buffer) => Uint8Array) => (folder: string) =>
    writeFileSync(join(folder, name), change(readFileSync(join(folder, name))))
  const manifest = (change: (manifest: Record<string, unknown>) => void) =>
    rewritten('manifest.json', bytes => {
      const value = JSON.parse(bytes.toString())
      change(value)
      const { checksum: _, ...rest } = value
      return Buffer.from(printManifest(rest))
    })
  const untouched = () => {}
  const [first, second] = ['rank-00000.safetensors', 'rank-00001.safetensors']
  const flipped = (bytes: Buffer) => bytes.map((byte, i) => (i === bytes.length - 1 ? byte ^ 1 : byte))
  // biome-ignore format: a fault a line
  const faults: readonly (readonly [string, string, (folder: string) => void, RegExp, string[]?])[] = [
    ['a bit is wrong', job, rewritten(second, flipped), /rank-00001.safetensors \(written by rank 1\): tensor v\.\S+ is corrupt: its CRC-32/],
    ['a shard is cut short', job, rewritten(first, bytes => bytes.subarray(0, -40)), /rank-00000.safetensors \(written by rank 0\): tensor \S+ is truncated: \d+ of \d+ bytes/],
    ['a shard is missing', job, folder => rmSync(join(folder, second)), /rank-00001.safetensors \(written by rank 1\), tensor param\.embed\.tokens: no such file, and of \d+ more tensors/],
    ['the manifest is cut short', job, rewritten('manifest.json', bytes => bytes.subarray(0, -9)), /manifest.json is not JSON/],
    ['the manifest is missing', job, folder => rmSync(join(folder, 'manifest.json')), /holds no checkpoint; `train --save FOLDER` writes one/],
    ['a tensor is not in the manifest', job, manifest(value => delete (value.tensors as Record<string, unknown>)['v.embed.tokens']), /the checkpoint holds no v\.embed\.tokens/],
    ['another model', jobOf('', { model: gpt.replace('ffn: 8', 'ffn: 16') }), untouched, /parameter layers\.0\.mlp\.up is 8 x 8 in the checkpoint, but 8 x 16 in the job/],
    ['a padded vocabulary', jobOf('', { model: gpt.replace('vocab: 8', 'vocab: 16') }), untouched, /embed\.tokens is 8 x 8 in the checkpoint, but 16 x 8 in the job; weights are not padded, .*: set vocab 8 and a tp that divides it/],
    ['fewer layers', jobOf('', { model: gpt.replace('layers: 2', 'layers: 1') }), untouched, /the checkpoint has parameter layers\.1\.\S+, which is not in the job’s model/],
    ['another optimizer', jobOf('', { optimizer: 'optimizer: { kind: sgd, lr: 1 }' }), untouched, /training.optimizer: .* the optimizer of the checkpoint keeps m and v, the job’s nothing; start from its weights with --init/],
    ['another seed', job, untouched, /training.seed: .* the seed of the checkpoint is 1, the job’s 2; try --seed 1, or start a new run/, ['--seed', '2']],
    ['other data', jobOf('', { more: ', seed: 1' }).replace('seq: 4', 'seq: 2'), untouched, /data: .* was trained on different data, or on different sequences/],
    ['another batch', jobOf('').replace('globalBatch: 8', 'globalBatch: 16'), untouched, /has seen 24 sequences in 3 steps, but 3 steps x globalBatch 16 = 48/],
  ]
  for (const [what, text, tamper, expected, args] of faults)
    test(`refused in plain words, and nothing is written: ${what}`, async () =>
      match(await refused(text, tamper, args), expected))

  test('every damaged tensor is named, not only the first', async () => {
    const both = (folder: string) => {
      for (const name of [first, second]) rewritten(name, flipped)(folder)
    }
    const text = await refused(job, both)
    for (const name of [first, second]) ok(text.includes(name), text)
  })

  test('no folder, a file, a folder without a checkpoint: one line each', async () => {
    writeFileSync(at('file'), '')
    mkdirSync(at('empty'))
    for (const [name, expected] of [
      ['nowhere', /nowhere: no such file or directory/],
      ['file', /file holds no checkpoint$/],
      ['empty', /empty holds no checkpoint$/],
    ] as const) {
      const { code, out } = await train(job, ['--resume', at(name)])
      equal(code, 1)
      match(JSON.parse(out).problems[0].message, expected)
    }
  })
})

describe('interrupts and full disks', () => {
  const job = jobOf('dp: 2').replace('steps: 4', 'steps: 50')

  for (const when of ['while a step is shown', 'before it is shown'])
    test(`Ctrl-C with --save, ${when}: the step is saved, and can be gone on from`, async () => {
      const saved = at(`stopped${ran}`)
      const stops = new Set<(code: number) => void>()
      let shown = ''
      const io = processIo()
      const interrupt = () => {
        for (const stop of stops) stop(130)
      }
      const changes: Partial<Io> = {
        onInterrupt: stop => {
          stops.add(stop)
          return () => stops.delete(stop)
        },
        out: text => {
          shown += text
          if (when.startsWith('while') && text.startsWith('{"step":3,')) interrupt()
        },
        append: (path, text) => {
          io.append(path, text)
          if (when.startsWith('before') && String(text).startsWith('{"step":2,')) interrupt()
        },
      }
      equal((await train(job, ['--save', saved], changes)).code, 130)
      const [name] = readdirSync(saved)
      const losses = shown.trim().split('\n')
      equal(name, `step-0000000${losses.length}`)
      const [next] = await steps(job, '--resume', saved, '--steps', '50', '--seed', '1')
      equal(next.step, losses.length + 1)
    })

  test('a full disk: one line, the run goes on, and the checkpoint before is as it was; of the last one it is an error', async () => {
    const saved = at('full')
    const io = processIo()
    const full = (step: string): Partial<Io> => ({
      startWriter: undefined,
      write(path, content) {
        if (path.includes(step) && path.endsWith('manifest.json')) throw new Error('no space left on the disk')
        io.write(path, content)
      },
    })
    const args = ['--save', saved, '--save-every', '1', '--steps', '3']
    const { code, out } = await train(job, args, full('step-00000002'))
    equal(code, 0, out)
    match(out, /"event":"saveFailed".*cannot write .*step-00000002\.[\w-]+\.partial\/manifest\.json: no space left/)
    deepEqual(readdirSync(saved), ['step-00000001', 'step-00000003'])
    const more = await train(job, ['--resume', saved, '--save', saved, '--steps', '4'], full('step-00000004'))
    equal(more.code, 1)
    match(more.out, /cannot write .*no space left on the disk/)
    deepEqual(readdirSync(saved), ['step-00000001', 'step-00000003'])
    equal((await steps(job, '--steps', '5', '--resume', saved))[0].step, 4)
  })

  test('a folder that cannot be made is refused before the first step', async () => {
    const { code, out } = await train(job, ['--save', join(at('job0.yaml'), 'saved')])
    equal(code, 1)
    match(out, /cannot write .*job0\.yaml\/saved: /)
    doesNotMatch(out, /"step":1/)
  })
})
