/** memory --why: the tensors make up what is resident, and the textbook is near where its assumptions hold. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob, memoryWhy } from '../src/compile/index.js'
import { Job } from '../src/plan/index.js'
import { lockstep } from './memory-io.js'

const job = (plan: object) =>
  Job.parse({
    model: { family: 'gpt', layers: 4, embed: 64, heads: 4, vocab: 64 },
    training: { seq: 32, globalBatch: 16 },
    plan: { precision: 'bf16', ...plan },
  })

for (const plan of [{}, { dp: 2, zero: 1 }, { tp: 2, sequenceParallel: true }, { pp: 2, microbatches: 4 }])
  test(`${JSON.stringify(plan)}: weights and optimizer state are those of ZeRO's table to 3 %`, () => {
    const given = job(plan)
    const program = compileJob(given)
    const { kinds, tensors } = memoryWhy(given, program, 0)
    for (const { kind, exact, textbook } of kinds)
      if (kind === 'parameters' || kind === 'optimizer') ok(Math.abs(exact / (textbook ?? 0) - 1) < 0.03, kind)
    const resident = program.streams[0].resident.reduce((sum, frame) => sum + program.streams[0].frames[frame].bytes, 0)
    const listed = tensors.reduce(
      (sum, { parameters, gradients, optimizer }) => sum + parameters + gradients + optimizer,
      0,
    )
    ok(listed <= resident && listed > 0.99 * resident)
  })

const plans = [
  {},
  { recompute: 'full' },
  { recompute: 'selective', dp: 2, zero: 3 },
  { tp: 2, sequenceParallel: true, microbatches: 2 },
  { pp: 2, microbatches: 4, schedule: 'zb-h1' },
  { dp: 2, zero: 2, precision: 'f32', offload: { optimizer: 'host' } },
] as const
for (const plan of plans)
  test(`${JSON.stringify(plan)}: the terms add up to every kind, to the byte`, () => {
    const given = job(plan)
    const { kinds, terms } = memoryWhy(given, compileJob(given), 0)
    for (const { kind, exact } of kinds.filter(({ kind }) => kind !== 'data' && kind !== 'workspace'))
      equal(
        terms.reduce((sum, term) => (term.kind === kind ? sum + term.exact : sum), 0),
        exact,
        kind,
      )
  })

test('where a layer is that of the book, so are its terms; scores and masks are not kept', () => {
  const given = job({})
  const { terms, kinds } = memoryWhy(given, compileJob(given), 0)
  const term = (name: string) => terms.find(term => term.term === name)!
  for (const name of [
    'queries and keys',
    'values',
    'input of the projection',
    'input of GeLU',
    'input of the second linear',
  ])
    equal(term(name).exact, term(name).textbook, name)
  equal(term('masks of two dropouts').exact, 0)
  const scores = term('softmax, dropout mask and output')
  ok(scores.exact > 0 && scores.exact < 0.1 * scores.textbook!, `${scores.exact}`)
  const book = terms.reduce((sum, { kind, textbook = 0 }) => (kind === 'activations' ? sum + textbook : sum), 0)
  equal(book, kinds.find(({ kind }) => kind === 'activations')!.textbook)
  deepEqual(
    terms.filter(({ kind }) => kind === 'optimizer').map(({ term, exact, textbook }) => [term, exact / textbook!]),
    [
      ['state m', 1],
      ['state v', 1],
      ['master weights', 1],
    ],
  )
})

test('with nothing split a layer of GPT is 34 s b h by the book, in full recompute 2', () => {
  const of = (recompute: string) => {
    const given = job({ recompute })
    return memoryWhy(given, compileJob(given), 0).kinds.find(({ kind }) => kind === 'activations')?.textbook
  }
  const sbh = 32 * 16 * 64
  equal(of('selective'), 34 * sbh * 4)
  equal(of('full'), 2 * sbh * 4)
})

test('lockstep memory --why', async () => {
  const { out } = await lockstep(['memory', 'job.yaml', '--why'], {
    'job.yaml': JSON.stringify(job({ dp: 2, zero: 1 })),
  })
  match(
    out,
    /By term, at the peak of each category[\s\S]*input of GeLU +[\d.]+ KiB +[\d.]+ KiB +8 s b h[\s\S]*masks are regenerated/,
  )
  match(out, /optimizer .*12 x \d+ \/ tp 1 \/ dp x cp 2[\s\S]*layers\.0 to layers\.3, each +norm1\.weight/)
})
