/** Optimizers under plans that cut parameters in every way: lawful, and what one rank computes; in the engine too. */
import { equal, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { compareRun } from '../src/engine/index.js'
import { nativeMissing, Pool } from '../src/engine/native/index.js'
import { parse, print, verify } from '../src/ir/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { family, test } from './families.js'
import { computesWhatOneRankComputes, jobOf, optionsOf, serialOf, shallow, titleOf } from './jobs.js'
import { isWithinBounds, record } from './recorded.js'

type Plan = NonNullable<JobInput['plan']>
type Training = Partial<JobInput['training']>

const pool = new Pool()
after(() => pool.close())

const optimizers = {
  lion: { kind: 'lion', lr: 1e-3, weightDecay: 0.1 },
  lamb: { kind: 'lamb', lr: 1e-2, weightDecay: 0.1 },
  'lamb always': { kind: 'lamb', lr: 1e-2, always: true },
  muon: { kind: 'muon', lr: 1e-2, weightDecay: 0.1, adamw: { lr: 1e-3, weightDecay: 0.01 } },
  'muon by rms': { kind: 'muon', lr: 1e-2, adjust: 'rms', nesterov: false },
  adafactor: { kind: 'adafactor', lr: 1e-2, weightDecay: 0.1 },
  nesterov: { kind: 'sgd', lr: 0.05, momentum: 0.9, nesterov: true, weightDecay: 0.1 },
  amsgrad: { kind: 'adamw', lr: 1e-3, amsgrad: true, coupled: true, weightDecay: 0.1 },
} as const

const paramGroups = { norm: { weightDecay: 1 }, embedding: { lr: 0.5 }, bias: { lr: 2 } } as const

const plans: readonly Plan[] = [
  { tp: 2, sequenceParallel: true },
  { dp: 2, zero: 1, microbatches: 2 },
  { dp: 2, tp: 2, zero: 2, precision: 'bf16' },
  { dp: 3, zero: 3, precision: 'pure-bf16' },
  { dp: 2, zero: 1, precision: 'bf16-no-masters', gradients: 'bf16' },
  { pp: 2, dp: 2, zero: 1, microbatches: 2, schedule: 'zb-h1' },
  { cp: 2, tp: 2, dp: 2, zero: 3 },
]

const tested = family('optimizers under plans', 24)
for (const [name, optimizer] of Object.entries(optimizers))
  for (const plan of plans)
    tested(`${name} under ${titleOf(plan)} computes what one rank computes`, () =>
      computesWhatOneRankComputes(jobOf('gpt tied', plan, { clip: 0.5, paramGroups, globalBatch: 12, optimizer })),
    )

const ofExperts = (plan: Plan, training: Training): Job =>
  Job.parse({ model: expertModels.mixtral, training: { seq: 4, globalBatch: 8, ...training }, plan })

for (const name of ['muon', 'lamb', 'adafactor'] as const)
  for (const plan of [
    { dp: 4, ep: 2, zero: 1 },
    { dp: 2, tp: 2, ep: 2, etp: 2 },
    { dp: 2, ep: 2, zero: 3 },
  ] as const)
    tested(`${name} of experts under ${titleOf(plan)} computes what one rank computes`, () =>
      computesWhatOneRankComputes(ofExperts(plan, { optimizer: optimizers[name] })),
    )

const skip = nativeMissing() || false
for (const name of Object.keys(optimizers) as (keyof typeof optimizers)[])
  for (const kernels of ['native', 'wasm'] as const)
    tested(`${kernels}: ${name} as the reference`, { skip: kernels === 'native' && skip }, async () => {
      const job = jobOf('llama', { dp: 2, tp: 2, zero: 1 }, { clip: 0.5, paramGroups, optimizer: optimizers[name] })
      const program = compileJob(job)
      isWithinBounds(compareRun(program, await record(program, kernels, pool, optionsOf(job)), serialOf(job)))
    })

const broken = [
  ['T1', 'lamb', 'the length of a part for that of the whole', /(= lamb .*)%paramSquared'1/, '$1%paramSquared'],
  ['T1', 'muon', 'parts made orthogonal', /newtonSchulz %stack'1/, 'newtonSchulz %stack'],
  ['T1', 'muon', 'lines read as if they were of another matrix', /lines=embed:8\/1,ffn:8/, 'lines=embed:4/1,ffn:16'],
  ['T1', 'muon', 'a stack of unlike tensors', /(%dealt f32 .*)flat\/dp/, '$1'],
  ['T2', 'muon', 'a stack taken for whole lines', /(%stack f32 .*\[matrix:2 line:\d+)\/dp/, '$1'],
  ['T1', 'adafactor', 'rows of a part for those of the whole', /(= adafactor .*)%rowMeans'1/, '$1%rowMeans'],
  ['T3', 'adafactor', 'the rows of another matrix', /(factorSquares .*)rows=8/, '$1rows=4'],
  ['T3', 'adafactor', 'elements that are not there', /elements=64/, 'elements=32'],
  ['T2', 'adafactor', 'sums of rows taken for whole', /(buffer %rowMeans .*) sum:dp/, '$1'],
  ['T4', 'adafactor', 'columns kept as rows are', /(state columns f32 )\[embed:8\]/, '$1[ffn:8]'],
  ['T3', 'muon', 'no room for it', /(%room .*)\[room:\d+\]/, '$1[room:7]'],
] as const

for (const [law, name, what, from, to] of broken)
  test(`[${law}] ${name}: ${what}`, () => {
    const text = print(compileJob(shallow(jobOf('gpt', { dp: 2, zero: 1 }, { optimizer: optimizers[name] }))))
    const changed = text.replace(from, to)
    ok(changed !== text)
    const laws = verify(parse(changed)).map(found => found.law)
    ok(laws.includes(law), laws.join())
  })

// Of two layers each rank makes whole matrices orthogonal; what comes back is each parameter's own.
const lost = [
  ['I3', 'directions that come back to another parameter', /unstack( %\S+)/, 'swapped'],
  ['I1', 'fewer steps for what is dealt out', /(newtonSchulz .*)steps=5/, '$1steps=4'],
] as const

for (const [law, what, from, to] of lost)
  test(`[${law}] muon dealt out: ${what}`, () => {
    const job = jobOf('gpt', { dp: 2, zero: 1 }, { optimizer: optimizers.muon })
    const [text, serialProgram] = [print(compileJob(job)), compileJob(jobOf('gpt', {}, { optimizer: optimizers.muon }))]
    const swapped = (line: string) => line.replace(/^( *)(%\S+) (%\S+) = unstack/, '$1$3 $2 = unstack')
    const changed = to === 'swapped' ? text.split('\n').map(swapped).join('\n') : text.replace(from, to)
    ok(changed !== text)
    const laws = verify(parse(changed), serialProgram).map(found => found.law)
    ok(laws.includes(law), laws.join())
  })

test('matrices of all layers are dealt out once, and no rank makes more than its share', () => {
  const made = (plan: Plan) => {
    const { segments, streams } = compileJob(jobOf('gpt', plan, { optimizer: optimizers.muon }))
    return streams[0].steps.reduce((sum, step) => {
      if (step.kind !== 'call') return sum
      const { instrs, buffers } = segments[step.segment]
      const each = instrs.flatMap(instr => (instr.kind === 'newtonSchulz' ? [instr] : []))
      return each.reduce((n, { ins: [x], lines }) => n + (lines ? buffers[x].dims[0].size : 1), sum)
    }, 0)
  }
  const all = made({})
  equal(made({ dp: 2, zero: 1 }), all / 2)
  equal(made({ dp: 4, zero: 0 }), all / 4)
  equal(made({ tp: 2, dp: 2, zero: 3 }), all / 4)
})
