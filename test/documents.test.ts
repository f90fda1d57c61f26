/**
 * Documents packed into one sequence: attention and positions stay within each of them, under every plan, and what is learned
 * is what they teach one by one.
 */
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { choices, type Mesh, partAlong, positionIn } from '../src/base/index.js'
import { compileEvaluation, compileJob, serialJob } from '../src/compile/index.js'
import { boot } from '../src/engine/index.js'
import {
  type Buffer,
  type Instr,
  type InstrOf,
  parse,
  print,
  type Segment,
  SerialReplay,
  verify,
} from '../src/ir/index.js'
import { check, Data, Job, type JobInput, type PlanInput } from '../src/plan/index.js'
import { family, test } from './families.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, packed, titleOf } from './jobs.js'

const hybrid = { ulysses: 2, ring: 2 } as const

const plans: readonly (readonly [ModelName, PlanInput])[] = [
  ['gpt tied', { cp: 2, zero: 3, microbatches: 2 }],
  ['gpt tied', { cp: 2, tp: 2, sequenceParallel: true, attention: 'ring', recompute: 'full' }],
  ['llama', { cp: 4, attention: 'ring', zigzag: false, zero: 1 }],
  ['llama tied', { cp: 4, attention: hybrid }],
  ['llama', { cp: 4, attention: 'ulysses', recompute: 'selective', zero: 3, overlap: false }],
  ['latent', { cp: 2, tp: 2, sequenceParallel: true, attention: 'ring' }],
  ['llama tied', { cp: 2, pp: 2, microbatches: 4, schedule: 'zb-v', zero: 2 }],
]

const tested = family('packed documents', 8)
for (const [model, plan] of plans)
  tested(`${model} with ${titleOf(plan)} computes what one rank computes`, () =>
    computesWhatOneRankComputes(jobIn(model, plan)),
  )

/** As many layers as stages, of sequences of 8 tokens. */
function jobIn(name: ModelName, plan: PlanInput): Job {
  const job = packed(jobOf(name, plan, { seq: 8, globalBatch: 4 }))
  const { pp, chunks } = job.plan
  return { ...job, model: { ...job.model, layers: pp * chunks } }
}

/** The first sound plan of a seed, of any attention. */
function randomPlan(seed: number): readonly [ModelName, Job] {
  const { pick, chance, int } = choices(seed)
  for (;;) {
    const model = pick(['gpt', 'gpt tied', 'llama', 'llama tied', 'latent'] as const)
    const [cp, tp, pp] = [pick([1, 2, 2, 4]), pick([1, 2]), pick([1, 1, 2])]
    const plan: PlanInput = {
      ...{ cp, tp, pp, dp: pick([1, 1, 2]), zero: int(4), zigzag: chance(0.6), sequenceParallel: chance(0.5) },
      ...{ attention: pick(['gather', 'ring', 'ulysses', ...(cp === 4 ? [hybrid] : [])] as const) },
      ...{ microbatches: pick([1, 2]), schedule: pick(['gpipe', '1f1b', 'zb-h1'] as const), overlap: chance(0.5) },
      ...{ recompute: pick(['none', 'selective', 'full'] as const), precision: pick(['f32', 'bf16'] as const) },
    }
    const job = jobIn(model, plan)
    if (check(job).every(({ severity }) => severity === 'warning')) return [model, job]
  }
}

const seeds = process.env.SEED
  ? [Number(process.env.SEED)]
  : Array.from({ length: Number(process.env.PLANS ?? 2) }, (_, i) => i + 1)
for (const seed of seeds) {
  const [model, job] = randomPlan(seed)
  const { cp, tp, pp, dp, attention } = job.plan
  test(`${model} with ${titleOf({ cp, tp, pp, dp, attention })} computes what one rank computes (SEED=${seed})`, () =>
    computesWhatOneRankComputes(job))
}

test('experts choose for each token, whatever document it is of', () => {
  const sizes = { family: 'llama', layers: 2, embed: 8, heads: 4, kvHeads: 4, ffn: 8, vocab: 8 } as const
  const model = { ...sizes, moe: { experts: 4, topK: 2, ffn: 8, loss: { sequence: 0.1 } } }
  const plan = { dp: 2, cp: 2, ep: 4, expertCapacity: 'worst' } as const
  computesWhatOneRankComputes(packed(Job.parse({ model, training: { seq: 8, globalBatch: 4 }, plan })))
})

const lengths = [5, 1, 4, 2]
const seq = 12
const vocab = 8

/** Documents as one sequence, or each as the first tokens of its own; no document's last token predicts anything. */
function documents(apart: boolean) {
  const { int } = choices(3)
  const all = lengths.map(length => Array.from({ length }, () => int(vocab)))
  const rows = apart ? all.map(document => [document]) : [all]
  const row = (of: (document: number[]) => number[], blank: number) =>
    rows.flatMap(row => {
      const values = row.flatMap(of)
      return [...values, ...new Array<number>(seq - values.length).fill(blank)]
    })
  return {
    tokens: row(document => document, 0),
    labels: row(document => [...document.slice(1), -100], -100),
    positions: row(document => document.map((_, i) => i), 0),
  }
}

for (const model of ['gpt', 'llama', 'llama tied', 'latent'] as const)
  tested(`${model}: a packed sequence teaches what its documents teach one by one`, () => {
    const run = (apart: boolean, plan: PlanInput = {}) => {
      const deep = jobOf(model, plan, { seq, globalBatch: apart ? lengths.length : 1 })
      const job: Job = { ...deep, model: { ...deep.model, layers: 1 } }
      const program = compileJob(apart ? job : packed(job))
      const machine = boot(program, { seed: 1, precision: 'f64' })
      const data = documents(apart)
      const { loss, count } = machine.step({ inputs: name => data[name as keyof typeof data], lr: 0, step: 0 })
      return { loss, count, gradients: program.params.map(({ name }) => machine.gradient(name)) }
    }
    const expected = run(true)
    equal(expected.count, seq - lengths.length)
    for (const plan of [
      { cp: 2, attention: 'ring' },
      { cp: 3, zigzag: false, tp: 2 },
    ] as const) {
      const { loss, count, gradients } = run(false, plan)
      equal(count, expected.count)
      ok(Math.abs(loss - expected.loss) < 1e-12)
      const gap = gradients.flatMap((values, p) => Array.from(values, (value, i) => value - expected.gradients[p][i]))
      ok(gap.every(difference => Math.abs(difference) < 1e-12))
    }
  })

test('sequences of one document are what they are without documents', () => {
  const run = (job: Job) => {
    const program = compileJob(job)
    const machine = boot(program, { seed: 1, precision: 'f64' })
    const counted = Float64Array.from({ length: 2 * seq }, (_, i) => i % seq)
    const ids = counted.map(i => (5 * i) % vocab)
    return machine.step({ inputs: name => (name === 'positions' ? counted : ids), lr: 0, step: 0 })
  }
  for (const model of ['gpt', 'llama tied'] as const) {
    const job = jobOf(model, { cp: 2 }, { seq, globalBatch: 2 })
    deepEqual(run(packed(job)), run(job))
  }
})

interface Packed {
  readonly docs: readonly number[]
  readonly cp: number
  readonly positions: readonly (readonly number[])[]
  readonly pairs_rank: readonly number[]
}
const { packed_documents }: { packed_documents: readonly Packed[] } = JSON.parse(readFixture('cp/splits.json'))

for (const { docs, cp, positions, pairs_rank } of packed_documents.filter(({ docs }) => new Set(docs).size === 1))
  test(`documents of ${docs.join(', ')} tokens over cp ${cp}: as sequences of their own they are split by document, rank after rank`, () => {
    const [length] = docs
    const mesh: Mesh = { axes: [{ name: 'cp', size: cp }], zigzag: { dim: 'seq', axis: 'cp' } }
    const held = pairs_rank.map((_, rank) => {
      const part = partAlong(mesh, ['cp'], { name: 'seq', size: length / cp }, { cp: rank })
      return docs.flatMap((_, document) =>
        Array.from({ length: length / cp }, (_, i) => document * length + positionIn(part, i)),
      )
    })
    deepEqual(held, positions)
    deepEqual(
      held.map(places => places.reduce((pairs, place) => pairs + (place % length) + 1, 0)),
      pairs_rank,
    )
  })

const job = packed(jobOf('llama', { cp: 2, attention: 'ring', microbatches: 2 }, { seq: 4, globalBatch: 2 }))
const program = compileJob(job)
const serial = new SerialReplay(compileJob(serialJob(job, 2)))

test('a program of documents is lawful, reads positions once a microbatch, and prints and parses back', () => {
  deepEqual(verify(program, serial), [])
  deepEqual(print(parse(print(program))), print(program))
  const calls = program.streams[0].steps.filter(step => step.kind === 'call' && step.segment === 'load positions')
  equal(calls.length, 2)
  deepEqual(
    compileEvaluation(job).inputs.map(({ name }) => name),
    ['tokens', 'positions', 'labels'],
  )
})

/** Laws broken by a program of which a segment is another. */
function broken(name: string, change: (segment: Segment) => Segment): string[] {
  const segments = { ...program.segments, [name]: change(program.segments[name]) }
  return verify({ ...program, segments }, serial).map(({ law, message }) => `${law} ${message}`)
}

const changed =
  <K extends Instr['kind']>(kind: K, change: (instr: InstrOf<K>) => Instr | readonly Instr[]) =>
  (segment: Segment): Segment => ({
    ...segment,
    instrs: segment.instrs.flatMap(instr => (instr.kind === kind ? change(instr as InstrOf<K>) : [instr])),
  })

/** Positions that have gone round with the keys: those of another rank. */
function turned(segment: Segment): Segment {
  const { positions } = segment.buffers
  const role = segment.roles.findIndex(({ name }) => name.is === 'scratch')
  const other: Buffer = { ...positions, role, layout: { ...positions.layout, turn: { axes: ['cp'], by: 1 } } }
  const attends = segment.instrs.findIndex(({ kind }) => kind === 'attention')
  const shift: Instr[] = [
    { kind: 'shift', ins: ['positions'], outs: ['turned'], by: 1, group: { axes: ['cp'] } },
    { kind: 'wait', on: 'turned' },
  ]
  const instrs = segment.instrs.toSpliced(attends, 0, ...shift)
  const given = { ...segment, instrs, buffers: { ...segment.buffers, turned: other } }
  return changed('attention', instr => ({ ...instr, ins: [...instr.ins.slice(0, 3), 'turned'] }))(given)
}

// biome-ignore format: a slip a line
const slips: readonly (readonly [what: string, segment: string, RegExp, (segment: Segment) => Segment])[] = [
  ['attention looks beyond its document', 'layers.F', /^I1 /, changed('attention', instr => ({ ...instr, ins: instr.ins.slice(0, 3) }))],
  ['its gradient does', 'layers.B', /^I[12] /, changed('attentionGrad', instr => ({ ...instr, ins: instr.ins.slice(0, 6) }))],
  ['positions are those of the sequence', 'layers.F', /^I1 /, changed('rope', instr => ({ ...instr, ins: instr.ins.slice(0, 1) }))],
  ['positions are those of another rank', 'layers.F', /^T1 attention: %turned .*it is rotated along cp/, turned],
  ['positions are real numbers', 'layers.F', /^T3 rope: /, changed('rope', ({ ins: [x], ...instr }) => ({ ...instr, ins: [x, x] }))],
]
for (const [what, segment, law, change] of slips)
  test(`${what}: a law says so`, () => {
    const found = broken(segment, change)
    ok(
      found.some(line => law.test(line)),
      found.slice(0, 3).join('\n') || 'nothing',
    )
  })

test('a microbatch with the documents of another is found', () => {
  const [stream] = program.streams
  const steps = stream.steps.map(step =>
    step.kind === 'call' && step.segment === 'load positions' ? { ...step, microbatch: 0 } : step,
  )
  const found = verify({ ...program, streams: [{ ...stream, steps }] }, serial).map(({ law }) => law)
  ok(found.includes('P6'), found.join())
})

test('positions that are none of documents are refused', () => {
  const machine = boot(program, { seed: 1 })
  const step = (positions: number[]) =>
    machine.step({ inputs: name => (name === 'positions' ? positions : new Array(8).fill(1)), lr: 0, step: 0 })
  throws(() => step([0, 1, 0, 2, 0, 1, 2, 3]), /2 at 3 is neither 1, the next in its document, nor 0/)
  throws(() => step([0, 1, 2, 3, 4, 5, 6, 7]), /4 at 4 is neither 0, the next/)
  ok(Number.isFinite(step([0, 1, 0, 1, 0, 0, 0, 0]).loss))
})

const problemsOf = (model: JobInput['model'], data: NonNullable<JobInput['data']>) =>
  check(Job.parse({ model, training: { seq: 4, globalBatch: 1 }, data })).map(
    p => `${p.path}: ${p.message}; ${p.suggestion}`,
  )

test('documents that cannot be told apart are refused', () => {
  const gpt = { family: 'gpt', layers: 1, embed: 8, heads: 2, vocab: 300 } as const
  deepEqual(problemsOf({ family: 'mlp', layers: 1, embed: 4, ffn: 4 }, { documents: { eod: 0 } }), [
    'data.documents: an mlp trains on vectors, not on documents; leave it out',
  ])
  deepEqual(problemsOf(gpt, { documents: {} }), [
    'data.documents.eod: no tokenizer defines an EOS token for source `synthetic`; set eod to the token id',
  ])
  deepEqual(problemsOf(gpt, { documents: { eod: 300 } }), [
    'data.documents.eod: eod 300 >= model.vocab 300: no document would end; try 299',
  ])
  deepEqual(problemsOf(gpt, { source: 'a.txt', documents: {} }), [])
  equal(Data.safeParse({ documents: { eod: -1 } }).success, false)
})
