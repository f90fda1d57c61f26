import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Io, processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import { compileJob } from '../src/compile/index.js'
import { fastKernels, kernelNames, startTrainer } from '../src/engine/index.js'
import { flopsPerToken } from '../src/model/index.js'
import { lrAt, parseJob, Training } from '../src/plan/index.js'
import { engineFailures } from '../src/train/engine-failure.js'
import { family, test } from './families.js'
import { type Files, lockstep, memoryIo } from './memory-io.js'

const model = '{ family: llama, layers: 2, embed: 8, heads: 2, ffn: 16, vocab: 8 }'
const training = 'seq: 6, globalBatch: 8, optimizer: { kind: adamw, lr: 2e-2 }, clip: 1'
const job = (more: { plan?: string; training?: string; data?: string; model?: string } = {}) =>
  [
    `model: ${more.model ?? model}`,
    `training: { ${training}, ${more.training ?? 'steps: 4'} }`,
    ...(more.data ? [`data: ${more.data}`] : []),
    `plan: { ${more.plan ?? ''} }`,
  ].join('\n')

/** On the interpreter, whose numbers do not depend on the machine. */
const train = (argv: readonly string[], files: Files, changes: Partial<Io> = {}) =>
  lockstep(['train', '--kernels', 'reference', ...argv], files, changes)

interface Line {
  readonly step: number
  readonly loss: number
  readonly gradientNorm: number
  readonly lr: number
  readonly evalLoss?: number
  readonly tokensPerSecond: number
}

/** The steps as `--json` gives them. */
async function steps(text: string, argv: readonly string[] = [], files: Files = {}): Promise<Line[]> {
  const { code, out, err } = await train(['job.yaml', '--json', ...argv], { 'job.yaml': text, ...files })
  equal(code, 0, err)
  return out
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
}
const losses = (lines: readonly Line[]) => lines.map(({ loss }) => loss)

const byPrecision = family('training: precision', 6)
for (const [kernels, precision] of fastKernels().flatMap(k => [[k, 'bf16'] as const, [k, 'pure-bf16'] as const]))
  byPrecision(`a plan in ${precision} trains on the ${kernels} kernels as the interpreter does`, async () => {
    const text = job({
      plan: `dp: 2, zero: 1, precision: ${precision}`,
      training: 'steps: 4, evalEvery: 2, evalBatches: 1',
    })
    const [ours, theirs] = [await steps(text, ['--kernels', kernels]), await steps(text)]
    for (const [i, { loss, evalLoss }] of ours.entries()) {
      ok(Math.abs(loss / theirs[i].loss - 1) < 2e-2, `${loss} and ${theirs[i].loss}`)
      equal(evalLoss === undefined, theirs[i].evalLoss === undefined)
    }
  })

test('the interpreter trains in bf16, and says so', async () => {
  const files = { 'job.yaml': job({ plan: 'dp: 2, zero: 1, precision: bf16', training: 'steps: 24' }) }
  const { code, out } = await train(['job.yaml'], files)
  equal(code, 0)
  match(out, /reference interpreter in bf16, 2 ranks/)
  const trained = losses(await steps(files['job.yaml']))
  const wide = losses(await steps(files['job.yaml'].replace('bf16', 'f32')))
  ok(trained[23] < 0.7 * trained[0], `${trained}`)
  ok(
    trained.every((loss, i) => loss !== wide[i] && Math.abs(loss / wide[i] - 1) < 0.05),
    `${trained} against ${wide}`,
  )
})

test('the synthetic task is learned, in training and held out, over dp, tp and pp', async () => {
  const text = job({ plan: 'dp: 2, tp: 2, pp: 2, microbatches: 2, zero: 1', training: 'steps: 24, evalEvery: 12' })
  const lines = await steps(text)
  deepEqual(
    lines.map(({ step }) => step),
    Array.from({ length: 24 }, (_, i) => i + 1),
  )
  ok(Math.abs(lines[0].loss - Math.log(8)) < 0.05, 'it begins knowing nothing')
  ok(lines[23].loss < 1.2 && lines[23].loss < lines[11].loss, `${losses(lines)}`)
  deepEqual(
    lines.flatMap(({ step, evalLoss }) => (evalLoss === undefined ? [] : [step])),
    [12, 24],
  )
  ok(lines[23].evalLoss! < lines[11].evalLoss!)
  ok(lines.every(({ gradientNorm, tokensPerSecond }) => gradientNorm > 0 && tokensPerSecond > 0))
})

test('the same seed gives the same bits, another seed another run', async () => {
  const [a, b, c] = [await steps(job()), await steps(job()), await steps(job(), ['--seed', '2'])]
  deepEqual(losses(a), losses(b))
  ok(a.every(({ loss }, i) => loss !== c[i].loss))
  equal((await steps(job(), ['--steps', '2'])).length, 2)
})

test('two plans have the same losses, norms and evaluations to 1e-10', async () => {
  const one = await steps(job({ training: 'steps: 4, evalEvery: 2' }))
  for (const plan of ['dp: 2, zero: 3, microbatches: 2', 'pp: 2, tp: 2, microbatches: 4, schedule: zb-h1']) {
    const other = await steps(job({ plan, training: 'steps: 4, evalEvery: 2' }))
    for (const [i, line] of other.entries())
      for (const key of ['loss', 'gradientNorm', 'evalLoss'] as const)
        ok(Math.abs((line[key] ?? 0) - (one[i][key] ?? 0)) < 1e-10, `${plan}: ${key} of step ${i + 1}`)
  }
})

const byKernels = family('training: kernels', 3)
for (const kernels of fastKernels())
  byKernels(`${kernels} kernels train as the interpreter does, to 1e-5, and give the same bits twice`, async () => {
    const text = job({ plan: 'dp: 2, tp: 2, pp: 2, microbatches: 2', training: 'steps: 4, evalEvery: 2' })
    const [exact, a, b] = [await steps(text), ...(await both(() => steps(text, ['--kernels', kernels])))]
    deepEqual(losses(a), losses(b))
    for (const [i, line] of a.entries())
      for (const key of ['loss', 'gradientNorm', 'evalLoss'] as const)
        ok(Math.abs((line[key] ?? 0) - (exact[i][key] ?? 0)) < 1e-5, `${key} of step ${i + 1}`)
  })

const both = async <T>(work: () => Promise<T>): Promise<[T, T]> => [await work(), await work()]

test('learning rates, by numbers', () => {
  const rates = (kind: string, warmup: number, minLr = 0, steps = 8) => {
    const parsed = Training.parse({
      ...{ seq: 1, globalBatch: 1, steps, lrSchedule: { kind, warmup, minLr } },
      optimizer: { kind: 'sgd', lr: 1 },
    })
    return Array.from({ length: steps }, (_, step) => Number(lrAt(parsed, step).toFixed(4)))
  }
  deepEqual(rates('constant', 0), [1, 1, 1, 1, 1, 1, 1, 1])
  deepEqual(rates('constant', 4), [0.25, 0.5, 0.75, 1, 1, 1, 1, 1])
  deepEqual(rates('linear', 0), [1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])
  deepEqual(rates('linear', 4, 0.2), [0.25, 0.5, 0.75, 1, 1, 0.8, 0.6, 0.4])
  deepEqual(rates('cosine', 0, 0, 4), [1, 0.8536, 0.5, 0.1464])
  deepEqual(rates('cosine', 2, 0.1, 6), [0.5, 1, 1, 0.8682, 0.55, 0.2318])
  deepEqual(rates('cosine', 99, 0, 2), [0.0101, 0.0202])
})

test('the run folder has the job as it was run, and a line of metrics for every step', async () => {
  const files = { 'jobs/a.yaml': job({ data: '{ source: text }', model: model.replace('vocab: 8', 'vocab: 256') }) }
  const text = { 'jobs/text/a.txt': 'abc '.repeat(60), 'jobs/text/b.bin': Uint8Array.of(0, 1, 2) }
  const { code, out, written } = await train(['jobs/a.yaml', '--steps', '3'], { ...files, ...text })
  equal(code, 0, out)
  deepEqual(Object.keys(written).sort(), [
    'runs/2026-01-02-a/about.json',
    'runs/2026-01-02-a/job.json',
    'runs/2026-01-02-a/metrics.jsonl',
    'runs/2026-01-02-a/report.html',
  ])
  const lines = written['runs/2026-01-02-a/metrics.jsonl']
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  deepEqual(
    lines.map(({ step, cursor }) => [step, cursor.samples]),
    [
      [1, 8],
      [2, 16],
      [3, 24],
    ],
  )
  const again = parseJob(written['runs/2026-01-02-a/job.json']).job!
  equal(again.training.steps, 3)
  match(again.data!.source, /^\/.*jobs\/text$/)
  match(
    out,
    /Data: text \(bytes\): 241 tokens, 38 training sequences, 1 validation sequences\.\nKernels: reference interpreter/,
  )
  match(out, /step 3\/3 {2}loss \d\.\d{4} {2}val \d\.\d{4} {2}grad_norm \S+ {2}lr 2\.00e-2 {2}\S+ tok\/s\n/)
  match(out, /peak memory per rank: parameters [\s\S]* \(equal to the prediction, to the byte, on every rank\)/)
})

test('a tokenizer is trained on the text, saved, and read back for another run', async () => {
  const text = { 'text.txt': 'the cat sat on the mat. '.repeat(40) }
  const wide = model.replace('vocab: 8', 'vocab: 264')
  const first = await train(['j.yaml', '--steps', '1', '--out', 'o'], {
    ...{ 'j.yaml': job({ data: '{ source: text.txt, tokenizer: bpe }', model: wide }), ...text },
  })
  equal(first.code, 0, first.err)
  const saved = first.written['o/tokenizer.json']
  const data = '{ source: text.txt, tokenizer: tokenizer.json }'
  const [a, b] = [
    JSON.parse(first.written['o/metrics.jsonl'].split('\n')[0]).loss,
    await steps(job({ data, model: wide }), ['--steps', '1'], { ...text, 'tokenizer.json': saved }),
  ]
  equal(b[0].loss, a)
})

test('token files and vectors are trained on too', async () => {
  const ids = new Uint8Array(Uint16Array.from({ length: 400 }, (_, i) => i % 7).buffer)
  const lines = await steps(job({ data: '{ source: a.bin, evalFraction: 0.2 }' }), [], { 'a.bin': ids })
  ok(lines[3].loss < lines[0].loss && lines[3].evalLoss! > 0)
  const mlp = await steps(job({ model: '{ family: mlp, layers: 2, embed: 4 }', training: 'steps: 4' }))
  ok(mlp[3].loss < mlp[0].loss)
})

test('data that cannot be used is refused in one line, and nothing is written', async () => {
  const wide = model.replace('vocab: 8', 'vocab: 256')
  const rows: readonly (readonly [string, Files, RegExp])[] = [
    [job({ data: '{ source: no.txt }', model: wide }), {}, /data\.source: cannot read no\.txt: no such file/],
    [
      job({ data: '{ source: a.txt }', model: wide }),
      { 'a.txt': 'abc' },
      /4 tokens, but one training sequence needs seq 6 \+ 1 = 7/,
    ],
    [job({ data: '{ source: a.bin }' }), { 'a.bin': new Uint8Array(3) }, /a\.bin: 3 bytes are not a multiple of u16/],
    [
      job({ data: '{ source: a.bin }' }),
      { 'a.bin': new Uint8Array(99).fill(9).subarray(1) },
      /model\.vocab 8 < 2314 tokens of a\.bin; try vocab 2314/,
    ],
    [job({ data: '{ source: d }', model: wide }), { 'd/x': Uint8Array.of(0) }, /there is no text file in d/],
    [
      job({ data: '{ source: a.txt, tokenizer: t.json }' }),
      { 'a.txt': 'abc', 't.json': '[]' },
      /t\.json is not a tokenizer\.json: it has no model/,
    ],
    [
      job({ data: '{ source: a.txt, tokenizer: bpe }', model: wide.replace('256', '300') }),
      { 'a.txt': 'a\0b' },
      /a\.txt is not text; try tokenizer bytes/,
    ],
  ]
  for (const [text, files, expected] of rows) {
    const { code, err, written } = await train(['job.yaml'], { 'job.yaml': text, ...files })
    equal(code, 1)
    match(err, expected)
    ok(!err.includes('internal:'), err)
    deepEqual(written, {})
  }
})

test('a loss that is no number, a full disk, kernels that are not there: one line each, and exit code 1', async () => {
  const wild = job({ training: 'steps: 30', model: '{ family: mlp, layers: 2, embed: 4 }' })
    .replace('kind: adamw, lr: 2e-2', 'kind: sgd, lr: 1000')
    .replace(', clip: 1', '')
  const failing = async (text: string, argv: readonly string[], changes = {}) => {
    const { code, err } = await train(['job.yaml', ...argv], { 'job.yaml': text }, changes)
    equal(code, 1)
    ok(!err.includes('internal:'), err)
    return err
  }
  match(
    await failing(wild, []),
    /steps \d+ to \d+ were skipped: grad norm is NaN or Inf; .* try a smaller lr, a warmup, or clip/,
  )
  const full = () => {
    throw new Error('no space left on the disk')
  }
  const forbidden = () => {
    throw new Error('permission denied')
  }
  match(
    await failing(job(), [], { append: forbidden }),
    /cannot write runs\/2026-01-02-job\/metrics\.jsonl: permission denied/,
  )
  match(await failing(job(), [], { makeFolder: full }), /cannot write runs\/2026-01-02-job: no space left/)
  match(
    await failing(job(), ['--trace', 's.json'], { write: (path: string) => path === 's.json' && full() }),
    /cannot write s\.json/,
  )
  for (const absent of kernelNames.filter(name => name !== 'reference' && !fastKernels().includes(name)))
    match(await failing(job(), ['--kernels', absent]), /this build has no \w+ kernels; try --kernels .*reference/)
  equal((await train(['job.yaml', '--kernels', 'gpu'], { 'job.yaml': job() })).code, 2)
  equal((await lockstep(['train'])).code, 2)
  equal((await train(['job.yaml', '--steps', '0'], { 'job.yaml': job() })).code, 2)
  const taken = { 'job.yaml': job(), 'o/metrics.jsonl': '' }
  match((await train(['job.yaml', '--out', 'o'], taken)).err, /o holds the metrics of another run/)
})

test('what an engine says when it fails is what is told, with the step', async () => {
  const failing = (e: Error) => engineFailures(['step', 3], () => Promise.reject(e))
  await rejects(failing(new Error('rank 2 died')), /error step 3: rank 2 died \[engine\/failed\]/)
  await rejects(failing(new TypeError('x is undefined')), TypeError, 'a bug stays a bug')
})

test('an interrupt ends the run after the step, with its summary', async () => {
  const { io, said, written, interrupts } = memoryIo({ 'job.yaml': job({ training: 'steps: 50' }) })
  const out = (text: string) => {
    said.out += text
    if (text.startsWith('step  3/')) for (const stop of interrupts) stop(130)
  }
  equal(await run(['train', '--kernels', 'reference', 'job.yaml'], { ...io, out }), 130)
  equal(written['runs/2026-01-02-job/metrics.jsonl'].trimEnd().split('\n').length, 3)
  match(said.out, /stopping after this step; Ctrl-C again stops at once\nstopped after 3 of 50 steps in \d+ s/)
  equal(interrupts.size, 0)
})

test('a terminal gets a picture that is drawn over, and no line wraps', async () => {
  const terminal = () => ({ columns: 60, rows: 12 })
  const files = { 'job.yaml': job({ training: 'steps: 3, evalEvery: 1' }) }
  const { code, out } = await train(['job.yaml', '--single-rank', '2'], files, { terminal })
  equal(code, 0)
  match(out, /loss \d\.\d{4} {2}val \d\.\d{4}\n *\d\.\d+ │[\u2800-\u28ff]+\n/)
  match(out, /━+ 3\/3 {2}done\n/)
  ok(
    out
      .slice(out.indexOf('loss '), out.indexOf('trained 3 of 3'))
      .split('\x1b[')
      .every(piece => piece.split('\n').length <= 12),
    'no picture is higher than the screen',
  )
  const drawn = out.split('\n').filter(line => /│|━|─/.test(line))
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what moves the cursor takes no room
  ok(drawn.every(line => line.replace(/\x1b\[\d*[A-Z]/g, '').length < 60))
  match(out, /single rank on the same data: losses of the first 2 steps differ by at most \d/)
})

test('spans become a trace that names ranks, lanes and instructions', async () => {
  const files = { 'job.yaml': job({ plan: 'pp: 2, dp: 2, microbatches: 2' }) }
  const { written } = await train(['job.yaml', '--steps', '1', '--trace', 'trace.json'], files)
  const { traceEvents } = JSON.parse(written['trace.json'])
  const named = (name: string) => traceEvents.filter((e: { name: string }) => e.name === name)
  deepEqual(
    named('process_name').map((e: { args: { name: string } }) => e.args.name),
    ['rank 0 (dp 0, pp 0)', 'rank 1 (dp 1, pp 0)', 'rank 2 (dp 0, pp 1)', 'rank 3 (dp 1, pp 1)'],
  )
  const doing = (op: string) => traceEvents.filter((e: { args?: { op?: string } }) => e.args?.op === op)
  equal(doing('attention').length, 2 * 2 * 2, 'one for each rank, layer and microbatch')
  ok(named('layers.0.F attn.q').length > 0 && named('layers.0.B attn.q').length > 0)
  ok(doing('adamw').length > 0 && named('memory (MiB)').length > 0)
  const times = doing('contract').map((e: { ts: number }) => e.ts)
  ok(Math.min(...times) >= 0 && Math.max(...times) < 60e6, 'from the start of the step')
})

test('on a real disk: folders are made and found, and are not used twice', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-'))
  const out = join(folder, 'deep', 'run')
  const io = { ...processIo(), out: () => {}, err: () => {}, read: () => job() }
  equal(await run(['train', '--kernels', 'reference', 'job.yaml', '--steps', '1', '--out', out], io), 0)
  deepEqual(readdirSync(out).sort(), ['about.json', 'job.json', 'metrics.jsonl', 'report.html'])
  equal(JSON.parse(readFileSync(join(out, 'metrics.jsonl'), 'utf8')).step, 1)
  equal(await run(['train', '--kernels', 'reference', 'job.yaml', '--steps', '1', '--out', out], io), 1)
  rmSync(folder, { recursive: true })
})

test('a trainer without an evaluation program says so; FLOPs are counted as PaLM counts them', async () => {
  const small = parseJob(job()).job!
  const trainer = await startTrainer(compileJob(small), { kernels: 'reference', seed: 1, measure: false })
  await trainer.evaluate([]).then(
    () => ok(false),
    e => match(String(e), /without an evaluation program/),
  )
  await trainer.stop()
  const gpt3 = parseJob('model: gpt3-175b\ntraining: { seq: 2048, globalBatch: 1 }').job!.model
  ok(Math.abs(flopsPerToken(gpt3, 2048) / (6 * 174.6e9 + 12 * 96 * 12288 * 2048) - 1) < 1e-3)
})
