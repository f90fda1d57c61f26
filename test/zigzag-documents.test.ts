/**
 * Documents that are cut in zigzag one by one: each rank has two chunks of every document, so all have as much to do, and the
 * step is the one that any other plan makes of the same batch.
 */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { compileEvaluation, compileJob, serialJob } from '../src/compile/index.js'
import { boot } from '../src/engine/index.js'
import { orderOf } from '../src/geometry/index.js'
import {
  type Instr,
  type InstrOf,
  type Program,
  parse,
  print,
  type Segment,
  SerialReplay,
  verify,
} from '../src/ir/index.js'
import { check, Job, type JobInput, type PlanInput, rehearsalOf, rehearsalSizes } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, packed, titleOf } from './jobs.js'

interface Packed {
  readonly docs: readonly number[]
  readonly cp: number
  readonly positions: readonly (readonly number[])[]
  readonly pairs_rank: readonly number[]
}
const { packed_documents }: { packed_documents: readonly Packed[] } = JSON.parse(readFixture('cp/splits.json'))

for (const { docs, cp, positions, pairs_rank } of packed_documents)
  test(`documents of ${docs.join(', ')} tokens over cp ${cp} lie as others lay them, rank after rank, in equal shares`, () => {
    const inDocument = docs.flatMap(length => Array.from({ length }, (_, i) => i))
    const order = [...orderOf(inDocument, cp)]
    const held = inDocument.length / cp
    const ranks = Array.from({ length: cp }, (_, rank) => order.slice(rank * held, (rank + 1) * held))
    deepEqual(ranks, positions)
    deepEqual(
      ranks.map(tokens => tokens.reduce((pairs, token) => pairs + inDocument[token] + 1, 0)),
      pairs_rank,
    )
    equal(new Set(pairs_rank).size, 1)
  })

const hybrid = { ulysses: 2, ring: 2 } as const

/** `gshard`: its experts have little room. */
type Name = ModelName | 'gshard'

/** Two layers in all, or one a stage, of sequences that hold at least two documents. */
function jobIn(name: Name, given: PlanInput, pad: number): Job {
  const [plan, training] = [{ ...given, zigzag: 'documents' } as const, { seq: Math.max(8, 2 * pad), globalBatch: 4 }]
  const routed = () => Job.parse({ model: expertModels.gshard, training, plan: { ...plan, expertCapacity: 'worst' } })
  const job = packed(name === 'gshard' ? routed() : jobOf(name, plan, training), pad)
  const { pp, chunks } = job.plan
  return { ...job, model: { ...job.model, layers: pp * chunks } }
}

const plans: readonly (readonly [ModelName, PlanInput, pad: number])[] = [
  ['gpt', { cp: 2, zero: 3, microbatches: 2 }, 4],
  ['gpt tied', { cp: 2, tp: 2, sequenceParallel: true, attention: 'ring', recompute: 'full' }, 8],
  ['llama', { cp: 4, attention: 'ring', zero: 1 }, 8],
  ['llama tied', { cp: 4, attention: hybrid }, 4],
  ['latent', { cp: 2, tp: 2, sequenceParallel: true, attention: 'ring' }, 4],
  ['llama tied', { cp: 2, pp: 2, microbatches: 4, schedule: 'zb-v', zero: 2 }, 4],
]
for (const [model, plan, pad] of plans)
  test(`${model} with ${titleOf(plan)}, documents of multiples of ${pad}, computes what one rank computes`, () =>
    computesWhatOneRankComputes(jobIn(model, plan, pad)))

/** The first sound plan of a seed. */
function randomPlan(seed: number): readonly [Name, Job] {
  const { pick, chance, int } = choices(seed)
  for (;;) {
    const model = pick(['gpt tied', 'llama', 'llama tied', 'latent', 'gshard'] as const)
    const [cp, tp, pp] = [pick([2, 2, 3, 4]), pick([1, 2]), pick([1, 1, 2])]
    const plan: PlanInput = {
      ...{ cp, tp, pp, dp: pick([1, 1, 2]), zero: int(4), sequenceParallel: chance(0.5) },
      ...{ attention: pick(['gather', 'ring', ...(cp === 4 ? [hybrid] : [])] as const), overlap: chance(0.5) },
      ...{ microbatches: pick([1, 2]), schedule: pick(['gpipe', '1f1b', 'zb-h1'] as const) },
      ...{ recompute: pick(['none', 'selective', 'full'] as const), precision: pick(['f32', 'bf16'] as const) },
      ...(model === 'gshard' && { ep: pick([1, 2, 4]), etp: pick([1, 1, 2]) }),
    }
    const job = jobIn(model, plan, 2 * cp * pick([1, 1, 2]))
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

const sizes = { family: 'llama', layers: 1, embed: 8, heads: 4, kvHeads: 4, ffn: 8, vocab: 8 } as const
const moe = { experts: 4, topK: 2, ffn: 8, loss: { sequence: 0.1, microbatch: 0.1 }, bias: 0.01 } as const

test('experts choose for each token, wherever it lies', () => {
  const plan = { dp: 2, cp: 2, ep: 4, expertCapacity: 'worst', zigzag: 'documents' } as const
  const training = { seq: 8, globalBatch: 4 }
  computesWhatOneRankComputes(packed(Job.parse({ model: { ...sizes, moe }, training, plan }), 4))
})

const scarce = (order: 'choice' | 'token' | 'probability', plan: PlanInput): Job => {
  const capacity = { factor: 0.5, order, group: order === 'choice' ? ('sequence' as const) : 4, renormalize: true }
  const training = { seq: 16, globalBatch: 2 }
  const model = { ...sizes, moe: { ...moe, capacity } }
  return packed(Job.parse({ model, training, plan: { expertCapacity: 'worst', ...plan, zigzag: 'documents' } }), 4)
}

for (const [order, plan] of [
  ['choice', { cp: 2, dp: 2, ep: 4 }],
  ['token', { cp: 2, attention: 'ring', ep: 2, microbatches: 2 }],
  ['probability', { cp: 2, tp: 2, sequenceParallel: true, ep: 2, recompute: 'full' }],
] as const)
  test(`where experts have little room, it goes to tokens as they follow each other (${order}, ${titleOf(plan)})`, () =>
    computesWhatOneRankComputes(scarce(order, plan)))

test('room that goes by slots, or by another table, is found', () => {
  const program = compileJob(scarce('choice', { cp: 2 }))
  const brokenBy = (change: (ins: readonly string[]) => readonly string[]) => {
    const slip = changed('assign', instr => ({ ...instr, ins: change(instr.ins) }))
    const segments = { ...program.segments, 'routed.F': slip(program.segments['routed.F']) }
    return verify({ ...program, segments }).map(({ law, message }) => `${law} ${message}`)
  }
  const [slots] = brokenBy(ins => ins.slice(0, 2))
  equal(slots, 'T1 assign: each document is sharded separately, but the instruction lacks the order')
  const [table] = brokenBy(ins => ins.with(2, 'positions'))
  match(table, /^T3 assign: the order has dims \[batch seq\]/)
})

test('a batch is the same under every plan: data comes as tokens follow each other', () => {
  const { int } = choices(5)
  const tokens = Array.from({ length: 32 }, () => int(8))
  const positions = Array.from({ length: 32 }, (_, i) => (i < 16 ? i % 8 : i < 20 ? i - 16 : i - 20))
  const data = { tokens, labels: [...tokens.slice(1), -100], positions }
  const lossOf = (plan: PlanInput) => {
    const job = packed(jobOf('llama tied', plan, { seq: 16, globalBatch: 2 }), 4)
    return boot(compileJob(job), { seed: 1, precision: 'f64' }).step({
      ...{ inputs: (name: string) => data[name as keyof typeof data], lr: 0, step: 0 },
    })
  }
  const one = lossOf({})
  for (const plan of [
    { cp: 2, zigzag: 'documents' },
    { cp: 2, zigzag: 'documents', attention: 'ring' },
    { cp: 2, zigzag: true },
  ] as const) {
    const { loss, count } = lossOf(plan)
    equal(count, one.count)
    ok(Math.abs(loss - one.loss) < 1e-12, `${loss} and ${one.loss}`)
  }
})

test('a rehearsal keeps what is cut, in sequences of two documents', () => {
  const long = { seq: 4096, globalBatch: 8 }
  const job = packed(jobOf('llama', { cp: 4, attention: 'ring', tp: 2, zigzag: 'documents' }, long), 64)
  const { job: small, changes } = rehearsalOf(job, rehearsalSizes[0])
  deepEqual([small.plan.zigzag, small.data?.documents?.pad, small.training.seq], ['documents', 8, 32])
  ok(changes.some(({ path }) => path === 'data.documents.pad'))
  computesWhatOneRankComputes(small)
})

const job = packed(
  jobOf('llama', { cp: 2, attention: 'ring', zigzag: 'documents', microbatches: 2 }, { seq: 8, globalBatch: 2 }),
  4,
)
const program = compileJob(job)
const serial = new SerialReplay(compileJob(serialJob(job, 2)))

test('a program says how documents lie, moves no order, and prints and parses back', () => {
  deepEqual(verify(program, serial), [])
  deepEqual(parse(print(program)), program)
  const lines = print(program).split('\n')
  ok(lines.includes('zigzag seq/cp documents'))
  ok(lines.includes('input positions i32 [batch:1 seq:8/cp] every=4'))
  ok(lines.includes('input order i32 [batch:1 slot:8]'))
  const moved = Object.values(program.segments).flatMap(({ instrs }) =>
    instrs.flatMap(instr => (instr.kind === 'shift' || instr.kind === 'all-gather' ? instr.ins : [])),
  )
  ok(moved.every(ref => ref !== 'order' && ref !== 'positions'))
  deepEqual(
    compileEvaluation(job).inputs.map(({ name }) => name),
    ['tokens', 'positions', 'order', 'labels'],
  )
})

const brokenBy = (change: Partial<Program>): string[] =>
  verify({ ...program, ...change }, serial).map(({ law, message }) => `${law} ${message}`)

const changed =
  <K extends Instr['kind']>(kind: K, change: (instr: InstrOf<K>) => Instr) =>
  (segment: Segment): Segment => ({
    ...segment,
    instrs: segment.instrs.map(instr => (instr.kind === kind ? change(instr as InstrOf<K>) : instr)),
  })

/** Another table of the same size, in the place of the order. */
const swapped = (kind: 'attention' | 'attentionGrad', at: number) => (segment: Segment) =>
  changed(kind, instr => ({ ...instr, ins: instr.ins.with(at, 'positions') }))(segment)

// biome-ignore format: a slip a line
const slips: readonly (readonly [what: string, segment: string, RegExp, (segment: Segment) => Segment])[] = [
  ['attention takes slots for places', 'layers.F', /^T1 attention: each document is sharded separately, but the instruction lacks the order/, changed('attention', instr => ({ ...instr, ins: instr.ins.slice(0, 4) }))],
  ['its gradient does', 'layers.B', /^T1 attentionGrad: .* the instruction lacks the order/, changed('attentionGrad', instr => ({ ...instr, ins: instr.ins.slice(0, 7) }))],
  ['rotary positions are those of slots', 'layers.F', /^T1 rope: .* the instruction lacks the positions/, changed('rope', instr => ({ ...instr, ins: instr.ins.slice(0, 1) }))],
  ['another table is taken for the order', 'layers.F', /^T3 attention: the order has dims \[batch seq\]/, swapped('attention', 4)],
  ['the order is a table of real numbers', 'layers.F', /^T3 attention: /, changed('attention', instr => ({ ...instr, ins: instr.ins.with(4, instr.ins[0]) }))],
]
for (const [what, name, law, change] of slips)
  test(`${what}: a law says so`, () => {
    const found = brokenBy({ segments: { ...program.segments, [name]: change(program.segments[name]) } })
    ok(
      found.some(line => law.test(line)),
      found.slice(0, 3).join('\n') || 'nothing',
    )
  })

test('dropout that takes slots for places is found', () => {
  const program = compileJob(jobIn('gpt tied', { cp: 2 }, 4))
  const alone = changed('dropout', instr => ({ ...instr, ins: instr.ins.slice(0, 1) }))
  const segments = { ...program.segments, 'layers.F': alone(program.segments['layers.F']) }
  const [first] = verify({ ...program, segments })
  equal(
    `${first.law} ${first.message}`,
    'T1 dropout: each document is sharded separately, but the instruction lacks the order',
  )
})

test('documents that cannot be cut so, or whose tokens have no order, are found', () => {
  const inputs = program.inputs.map(({ every: _, ...input }) => input)
  deepEqual(brokenBy({ inputs }), ['W1 documents are sharded in 2 x 2 chunks, but start at multiples of 1'])
  const others = program.inputs.filter(({ name }) => name !== 'order')
  ok(brokenBy({ inputs: others }).includes('W1 each document is sharded separately, but tokens have no order'))
})

test('a microbatch in the order of another is found', () => {
  const [stream] = program.streams
  const steps = stream.steps.map(step =>
    step.kind === 'call' && step.segment === 'load order' ? { ...step, microbatch: 0 } : step,
  )
  ok(brokenBy({ streams: [{ ...stream, steps }] }).some(line => line.startsWith('P6')))
})

test('documents that do not begin where they may are refused with the data of the step', () => {
  const machine = boot(program, { seed: 1 })
  const step = (positions: number[]) =>
    machine.step({ inputs: name => (name === 'positions' ? positions : new Array(16).fill(1)), lr: 0, step: 0 })
  throws(
    () => step([0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3]),
    /a document begins at 6, but they begin at multiples of 4/,
  )
  ok(Number.isFinite(step([0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7]).loss))
})

const problemsOfJob = (job: Job) => check(job).map(p => `${p.code} ${p.path}: ${p.message}; ${p.suggestion}`)
const problemsOf = (job: Partial<JobInput>) =>
  problemsOfJob(
    Job.parse({ model: sizes, training: { seq: 16, globalBatch: 1 }, plan: { cp: 2, zigzag: 'documents' }, ...job }),
  )

/** The job with each number that is suggested for a path: `seq 24`, `pad 8`. */
const mendings = (job: Job, path: RegExp): Job[] =>
  check(job)
    .filter(problem => path.test(problem.path))
    .flatMap(({ suggestion }) => [...(suggestion ?? '').matchAll(/\b(seq|pad) (\d+)/g)])
    .map(([, field, digits]) =>
      field === 'seq'
        ? { ...job, training: { ...job.training, seq: Number(digits) } }
        : { ...job, data: { ...job.data!, documents: { ...job.data!.documents!, pad: Number(digits) } } },
    )

test('a pad that is suggested is one that both sequences and ranks take', () => {
  for (const attention of [undefined, { ulysses: 2, ring: 2 }] as const)
    for (const cp of attention ? [4] : [2, 3])
      for (const seq of [14, 24, 30, 48])
        for (const pad of [1, 9, 12, 16, 20]) {
          const job = Job.parse({
            ...{ model: sizes, training: { seq, globalBatch: 1 }, data: { documents: { eod: 0, pad } } },
            plan: { cp, zigzag: 'documents', attention },
          })
          const [divisible = job] = mendings(job, /^plan\.(cp|zigzag)$/)
          for (const mended of mendings(divisible, /pad$/))
            deepEqual(problemsOfJob(mended), [], `cp ${cp}, seq ${seq}, pad ${pad}`)
        }
})

test('documents that ranks cannot share equally are refused', () => {
  const documents = { eod: 0, pad: 4 }
  deepEqual(problemsOf({ data: { documents } }), [])
  deepEqual(problemsOf({}), [
    'plan/documents plan.zigzag: the data has no document boundaries; try data: { documents: { pad: 4 } }, or zigzag: true',
  ])
  deepEqual(problemsOf({ data: { documents: { eod: 0 } } }), [
    'plan/documents data.documents.pad: pad 1 % (2 x cp 2) = 1, must be 0; try pad 4 or zigzag: true',
  ])
  deepEqual(problemsOf({ data: { documents: { eod: 0, pad: 12 } } }), [
    'data/documents data.documents.pad: seq 16 % pad 12 = 4, must be 0; try seq 24, pad 8 or pad 16',
  ])
  const pairs = { source: 'pairs.jsonl', pairs: { prompt: 'q', answer: 'a' }, documents: { eod: 0 } } as const
  deepEqual(problemsOf({ model: { ...sizes, vocab: 256 }, data: { ...pairs, tokenizer: 'bytes' } }), [
    'plan/documents plan.zigzag: prompt/completion pairs are never split, and have any number of tokens; try zigzag: true',
  ])
  deepEqual(problemsOf({ model: { ...sizes, moe: { ...moe, capacity: { factor: 1 } } }, data: { documents } }), [])
})
