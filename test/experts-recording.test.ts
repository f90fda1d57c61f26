/** Choices of experts, recorded under one plan and repeated under another. */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import { printChoices, readReplay } from '../src/data/index.js'
import { fastKernels } from '../src/engine/index.js'
import { later, test } from './families.js'
import { Forking } from './forked.js'
import { memoryIo } from './memory-io.js'
import { findPython, noPython } from './python.js'

const folder = mkdtempSync(join(tmpdir(), 'lockstep-choices-'))
let copies: Forking | undefined
after(async () => {
  await copies?.close()
  rmSync(folder, { recursive: true })
})
const at = (name: string) => join(folder, name)

const moe = 'moe: { experts: 8, topK: 2, ffn: 8, dense: 1, bias: 0.01, loss: { sequence: 0.1 } }'
const jobOf = (plan: string, data = '') =>
  [
    `model: { family: llama, layers: 3, embed: 16, heads: 4, ffn: 16, vocab: 16, ${moe} }`,
    'training: { seq: 8, globalBatch: 8, steps: 3, optimizer: { kind: adamw, lr: 1e-2 } }',
    `plan: { expertCapacity: worst, ${plan} }`,
    ...(data ? [`data: { ${data} }`] : []),
  ].join('\n')

const python = findPython()
const { out, err, control } = memoryIo({}).io
const quiet = { ...processIo(), out, err, control, progressColumns: () => undefined }

let runs = 0

/** What a command says; files are real, so that they can be resumed. */
async function train(job: string, ...argv: string[]) {
  const path = at(`job-${runs++}.yaml`)
  writeFileSync(path, job)
  const { io, said } = memoryIo({})
  const { out, err, control } = io
  const code = await run(['train', path, '--json', '--out', at(`run-${runs}`), ...argv], {
    ...processIo(),
    ...{ out, err, control, terminal: () => undefined, progressColumns: () => undefined, colors: false },
  })
  return { code, ...said }
}

async function losses(job: string, ...argv: string[]): Promise<number[]> {
  const { code, out, err } = await train(job, ...argv)
  equal(code, 0, out + err)
  return out
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line).loss)
}

const near = (a: readonly number[], b: readonly number[], within: number) =>
  ok(a.length === b.length && a.every((loss, i) => Math.abs(loss / b[i] - 1) < within), `losses differ: ${a} and ${b}`)

const plans = ['', 'dp: 2, ep: 2, microbatches: 2', 'pp: 2, cp: 2, tp: 2, ep: 4, zero: 1, recompute: full']
const reference = ['--kernels', 'reference']

for (const [i, plan] of plans.entries())
  test(`recorded on { ${plan} }, repeated on { ${plans[(i + 1) % plans.length]} }`, async () => {
    const file = at(`choices-${i}.jsonl`)
    const made = await losses(jobOf(plan), ...reference, '--record-routing', file)
    equal(readFileSync(file, 'utf8').trimEnd().split('\n').length, 3)
    near(await losses(jobOf(plans[(i + 1) % plans.length], `routing: ${file}`), ...reference), made, 1e-12)
    deepEqual(readFileSync(file, 'utf8'), readFileSync(at('choices-0.jsonl'), 'utf8'), 'every plan chooses alike')
  })

const documents = 'documents: { eod: 3, pad: 4 }'

later('where documents are cut one by one, choices are those of tokens that follow each other', async () => {
  const [one, several] = [at('documents-one.jsonl'), at('documents.jsonl')]
  const made = await losses(jobOf('', documents), ...reference, '--record-routing', one)
  const cut = 'dp: 2, cp: 2, ep: 2, zigzag: documents'
  near(await losses(jobOf(cut, documents), ...reference, '--record-routing', several), made, 1e-12)
  deepEqual(readFileSync(several, 'utf8'), readFileSync(one, 'utf8'))
  const ring = 'cp: 2, attention: ring, zigzag: documents'
  near(await losses(jobOf(ring, `${documents}, routing: ${several}`), ...reference), made, 1e-12)
})

for (const kernels of fastKernels().slice(0, 2))
  later(`the ${kernels} kernels record, and the interpreter repeats`, async () => {
    const file = at(`choices-${kernels}.jsonl`)
    const made = await losses(jobOf('dp: 2, cp: 2, tp: 2, ep: 4'), '--kernels', kernels, '--record-routing', file)
    near(await losses(jobOf('', `routing: ${file}`), ...reference), made, 1e-5)
  })

test('a resumed run goes on with the file it wrote, behind half a line too', async () => {
  const [file, saved] = [at('resumed.jsonl'), at('saved')]
  const whole = await losses(jobOf('dp: 2'), ...reference, '--record-routing', at('whole.jsonl'))
  await losses(jobOf('dp: 2'), ...reference, '--steps', '2', '--save', saved, '--record-routing', file)
  const first = readFileSync(file, 'utf8')
  writeFileSync(file, `${first}{"step":3,"layers.1":[[[0,`)
  await losses(jobOf('ep: 2, dp: 2'), ...reference, '--resume', saved, '--record-routing', file)
  ok(readFileSync(file, 'utf8').startsWith(first), 'what was there stays')
  near(await losses(jobOf('', `routing: ${file}`), ...reference), whole, 1e-12)
})

/** What takes long, when somebody asks for it, and one time for all of them. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make()
    return made
  }
}

/** A job as PyTorch on two ranks, in f64: what the first of them says. */
async function emittedRun(name: string, job: string, ...argv: string[]) {
  const [folder, path] = [at(name), at(`${name}.yaml`)]
  writeFileSync(path, job)
  equal(await run(['emit', path, '--out', folder], quiet), 0)
  copies ??= new Forking(python!)
  const ranks = await copies.ranks(2, ['train.py', '--device', 'cpu', '--precision', 'f64', ...argv], folder)
  return (await Promise.all(ranks.map(({ done }) => done)))[0]
}

const lossesIn = (out: string): number[] =>
  out
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line).loss)

const emitted = { skip: python ? false : noPython, timeout: 240_000 }
const zigzag = 'cp: 2, ep: 2, zigzag: documents'

const own = at('by-engine.jsonl')
const made = once(() => losses(jobOf('pp: 2, microbatches: 2', documents), ...reference, '--record-routing', own))

later('emitted PyTorch repeats them, each rank its own part', emitted, async () => {
  const expected = await made()
  const { code, out, err } = await emittedRun('emitted', jobOf(zigzag, `${documents}, routing: ${own}`))
  equal(code, 0, err)
  near(lossesIn(out), expected, 1e-10)
})

later('emitted PyTorch records them as the engine does, and the engine repeats what it recorded', emitted, async () => {
  const [expected, theirs] = [await made(), at('by-torch.jsonl')]
  const { code, out, err } = await emittedRun('records', jobOf(zigzag, documents), '--record-choices', theirs)
  equal(code, 0, err)
  near(lossesIn(out), expected, 1e-10)
  equal(readFileSync(theirs, 'utf8'), readFileSync(own, 'utf8'))
  near(await losses(jobOf('dp: 2, ep: 2', `${documents}, routing: ${theirs}`), ...reference), expected, 1e-12)
  const again = await emittedRun('again', jobOf('dp: 2', documents), '--record-choices', theirs)
  notEqual(again.code, 0)
  match(again.err, /by-torch\.jsonl exists already; name another file/)
  equal(readFileSync(theirs, 'utf8'), readFileSync(own, 'utf8'))
})

test('what cannot be recorded is refused, with what to do', async () => {
  const there = at('there.jsonl')
  writeFileSync(there, 'kept\n')
  const refused = async (job: string, file: string, message: RegExp, ...more: string[]) => {
    const { code, out, err } = await train(job, ...reference, '--record-routing', file, ...more)
    equal(code, 1)
    match(out + err, message)
  }
  await refused(jobOf(''), there, /there\.jsonl already exists/)
  equal(readFileSync(there, 'utf8'), 'kept\n')
  await refused(jobOf(''), at('no/such/folder'), /cannot write .*no\/such\/folder: no such file/)
  await refused(jobOf(''), folder, /already exists/)
  const file = at('choices-0.jsonl')
  await refused(jobOf('', `routing: ${file}`), at('new.jsonl'), /routing is replayed from .*: nothing is chosen/)
  await refused(jobOf('').replace(`, ${moe}`, ''), at('new.jsonl'), /the model has no experts to route to/)
  // Checkpoints that cannot be saved: the file is not there when the run is tried again.
  await refused(jobOf(''), at('new.jsonl'), /there\.jsonl/, '--save', there)
  ok(!existsSync(at('new.jsonl')))
})

test('the last line of a step counts, whatever stands before it', () => {
  const choices = (value: number) =>
    new Map([['layers.0', { dims: [{ size: 1 }, { size: 2 }], values: Int32Array.of(value, 7) }]])
  const file = [0, 1, 1, 4].map((step, i) => printChoices(step, choices(i))).join('\n')
  const replay = readReplay(new TextEncoder().encode(file))
  deepEqual(
    [0, 1, 4, 0].map(step => replay(step, 'layers.0')),
    [
      [0, 7],
      [2, 7],
      [3, 7],
      [0, 7],
    ],
  )
})
