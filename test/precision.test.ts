/**
 * bf16: what belongs to a token is bf16, what belongs to a parameter and every statistic is f32.
 * f16: likewise. pure-bf16: statistics alone are f32, and there are no masters; bf16-no-masters has none either, but f32 moments.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type DType, planPrecisionFacts } from '../src/base/index.js'
import { compile, compileEvaluation, compileJob, serialJob } from '../src/compile/index.js'
import {
  boot,
  compare,
  dataFor,
  type Runner,
  roundToBf16,
  roundToF16,
  runSerial,
  worstOf,
} from '../src/engine/index.js'
import { isCompute, type Law, type Program, parse, print, showViolation, verify } from '../src/ir/index.js'
import { defineModel, normal, parametersOf } from '../src/model/index.js'
import { type Job, Plan, type PlanInput } from '../src/plan/index.js'
import { makeSchedule } from '../src/schedule/index.js'
import { jobOf, type ModelName, optionsOf, titleOf } from './jobs.js'

const bf16 = (model: ModelName, plan: PlanInput = {}) => jobOf(model, { ...plan, precision: 'bf16' })
const f16 = (model: ModelName, plan: PlanInput = {}) => jobOf(model, { ...plan, precision: 'f16' })
const bare = (model: ModelName, plan: PlanInput = {}) => jobOf(model, { ...plan, precision: 'bf16-no-masters' })
const pure = (model: ModelName, plan: PlanInput = {}) => jobOf(model, { ...plan, precision: 'pure-bf16' })

/** What the optimizer updates: what the parameter is the rounded copy of, or where there is no master, the parameter. */
const masterOf = (machine: Runner, name: string) => machine.states(name).master ?? machine.parameter(name)

/** The dtypes of a program's buffers, by segment and name. */
const dtypeIn = ({ segments }: Program, place: string) => {
  const [segment, ref] = place.split(' %')
  return segments[segment].buffers[ref]?.dtype
}

const ofTokens = [
  ...['embed.F %embedded', 'layers.F %attention', 'layers.F %mlp.up', 'layers.F %gelu', 'layers.B %d.x.out'],
  ...['layers.B %d.gelu', 'head.F %logits', 'head.B %d.logits', 'update layers.mlp.up %param'],
]
const ofParameters = [
  ...['layers.B %d.mlp.up', 'layers.B %grad.mlp.up', 'layers.B %d.norm1.weight', 'layers.B %d.mlp.up.bias'],
  ...['embed.B %d.tokens~1', 'begin layers.mlp.up %grad', 'norm layers.mlp.up %grad', 'update layers.mlp.up %grad'],
  ...['update layers.mlp.up %m', 'update layers.mlp.up %v'],
]
const statistics = [
  ...['layers.F %attention.1', 'head.F %max', 'head.F %sumExp', 'head.F %picked', 'head.F %loss', 'head.B %count~1'],
  ...['norm layers.mlp.up %normSquared', 'update layers.mlp.up %lr'],
]
const ids = ['load tokens %tokens', 'head.F %labels']
const master = 'update layers.mlp.up %master'
for (const [job, stored] of [
  [bf16('gpt'), { bf16: ofTokens, f32: [...ofParameters, master, ...statistics], i32: ids }],
  [f16('gpt'), { f16: ofTokens, f32: [...ofParameters, master, ...statistics], i32: ids }],
  [bare('gpt'), { bf16: ofTokens, f32: [...ofParameters, ...statistics], i32: ids, undefined: [master] }],
  [pure('gpt'), { bf16: [...ofTokens, ...ofParameters], f32: statistics, i32: ids, undefined: [master] }],
] as const) {
  const program = compileJob(job)
  for (const [dtype, places] of Object.entries(stored))
    for (const place of places)
      test(`${job.plan.precision}: ${place} is ${dtype}`, () => equal(String(dtypeIn(program, place)), dtype))
}

test('an f32 program knows nothing of it', () => {
  const text = print(compileJob(jobOf('gpt', { dp: 2, zero: 1 })))
  ok(!/f16|master/.test(text))
})

/** Bytes of what lives from step to step, by parameter: FACTS 7, with every size divisible by dp. */
function residentPerParameter(plan: PlanInput): number {
  const job = jobOf('llama', plan)
  const model = { ...job.model, embed: 16, ffn: 16, vocab: 16 }
  const { frames, resident } = compileJob({ ...job, model }).streams[0]
  const kinds = ['parameters', 'gradients', 'optimizer']
  const bytes = resident.map(i => frames[i]).reduce((sum, f) => sum + (kinds.includes(f.kind) ? f.bytes : 0), 0)
  return bytes / parametersOf(model, job.training.seq)
}

const d = 4
for (const [precision, zero, formula, bytes] of [
  ['bf16', 0, '2 + 4 + 12', 18],
  ['bf16', 1, '6 + 12/d', 6 + 12 / d],
  ['bf16', 2, '2 + 16/d', 2 + 16 / d],
  ['bf16', 3, '18/d', 18 / d],
  ['f16', 1, '6 + 12/d', 6 + 12 / d],
  ['bf16-no-masters', 0, '2 + 4 + 8', 14],
  ['bf16-no-masters', 1, '6 + 8/d', 6 + 8 / d],
  ['bf16-no-masters', 3, '14/d', 14 / d],
  ['pure-bf16', 0, '2 + 2 + 4', 8],
  ['pure-bf16', 1, '4 + 4/d', 4 + 4 / d],
  ['pure-bf16', 2, '2 + 6/d', 2 + 6 / d],
  ['pure-bf16', 3, '8/d', 8 / d],
] as const)
  test(`ZeRO ${zero}, ${precision} and AdamW: ${formula} bytes a parameter`, () =>
    equal(residentPerParameter({ dp: d, zero, precision }), bytes))

test('messages between stages and kept activations are half as large', () => {
  const plan = { pp: 2, microbatches: 2 }
  const sent = ({ streams }: Program) =>
    streams.flatMap(({ steps, frames }) =>
      steps.flatMap(step => (step.kind === 'send' ? frames[step.frame].bytes : [])),
    )
  const [wide, narrow] = [compileJob(jobOf('llama', plan)), compileJob(bf16('llama', plan))]
  deepEqual(
    sent(narrow),
    sent(wide).map(bytes => bytes / 2),
  )
  ok(narrow.streams[0].peak.activations < 0.6 * wide.streams[0].peak.activations)
})

for (const [model, plan] of [
  ['gpt tied', { dp: 2, tp: 2, pp: 2, microbatches: 2, schedule: 'zb-h1', zero: 1, precision: 'bf16' }],
  ['mlp', { dp: 2, zero: 3, precision: 'bf16' }],
  ['llama', { dp: 2, zero: 2, precision: 'pure-bf16' }],
  ['llama', { dp: 2, zero: 2, precision: 'bf16-no-masters' }],
  ['llama', { dp: 2, zero: 2, precision: 'f16' }],
] as const)
  test(`${model} ${titleOf(plan)} prints and parses back, and so does its evaluation`, () => {
    const job = jobOf(model, plan)
    const [program, evaluation] = [compileJob(job), compileEvaluation(job)]
    for (const each of [program, evaluation]) deepEqual(parse(print(each)), each)
    deepEqual(verify(evaluation, compileEvaluation(serialJob(job, job.plan.pp))), [])
    equal(evaluation.params[0].frames[0].states.master, undefined)
  })

// A parameter handed on to the next block has a gradient that belongs to a token there.
for (const [precision, copies] of [
  ['bf16', true],
  ['pure-bf16', false],
] as const)
  test(`a parameter that is also an activation is trained from ${copies ? 'an f32 copy of ' : ''}its gradient: ${precision}`, () => {
    const model = defineModel('own', { batch: 4, seq: 4, embed: 4 }, m => {
      m.block('first', b => {
        const shift = b.param('shift', ['seq', 'embed'], normal(0.1))
        const x = b.input('x', ['batch', 'seq', 'embed'])
        return { x: b.add(x, shift), shift }
      })
      m.block('last', (b, { x, shift }) => {
        b.meanSquare(b.add(b.gelu(x), shift), b.input('target', ['batch', 'seq', 'embed']))
        return {}
      })
    })
    const training = { optimizer: { kind: 'sgd', lr: 0.1, momentum: 0, weightDecay: 0 } } as const
    const options = { steps: 2, seed: 1, lr: 0.1, vocab: 1 }
    const [one, many] = [{}, { dp: 2, pp: 2, zero: 2 } as const].map(plan => {
      const full = Plan.parse({ ...plan, precision })
      const schedule = makeSchedule('1f1b', { ranks: full.pp, chunks: 1, microbatches: 1 })
      return compile({ model, plan: full, training, schedule })
    })
    deepEqual(verify(many, one).map(showViolation), [])
    ok(worstOf(compare(many, runSerial(one, options), options)) <= 1e-12)
    equal(print(many).includes('.f32 = scale '), copies)
  })

const roundTo: Partial<Record<DType, (value: number) => number>> = { bf16: roundToBf16, f16: roundToF16 }
const tokensOf = ({ precision }: PlanInput) => roundTo[planPrecisionFacts[precision ?? 'f32'].token]!

/** Three steps on a machine that rounds. */
function rounded(model: ModelName, plan: PlanInput, lr: number) {
  const job = jobOf(model, plan)
  const program = compileJob(job)
  const seen = new Set<number>()
  const machine = boot(program, {
    seed: 1,
    precision: 'f32',
    observe: ({ call, instr, read }) => {
      const { buffers } = program.segments[call.segment]
      const written = isCompute(instr) ? instr.outs : instr.kind === 'wait' ? [instr.on] : []
      for (const ref of written)
        for (const value of read(ref)) if (value !== (roundTo[buffers[ref].dtype]?.(value) ?? value)) seen.add(value)
    },
  })
  const data = dataFor(program, optionsOf(job))
  const before = program.params.map(({ name }) => machine.parameter(name))
  const losses = [0, 1, 2].map(step => machine.step({ inputs: data(step), lr, step }).loss)
  return { program, machine, before, losses, odd: [...seen] }
}

for (const [model, plan] of [
  ['gpt', { precision: 'bf16' }],
  ['llama', { dp: 2, tp: 2, zero: 1, sequenceParallel: true, precision: 'bf16' }],
  ['mlp', { dp: 2, pp: 2, zero: 3, microbatches: 2, precision: 'bf16' }],
  ['llama', { dp: 2, tp: 2, zero: 1, sequenceParallel: true, precision: 'f16' }],
  ['llama', { dp: 2, tp: 2, zero: 1, sequenceParallel: true, precision: 'bf16-no-masters' }],
  ['gpt', { dp: 2, zero: 1, microbatches: 2, precision: 'pure-bf16' }],
  ['llama', { dp: 2, tp: 2, zero: 2, precision: 'pure-bf16' }],
] as const)
  test(`in f32, ${model} ${titleOf(plan)} stores 16-bit numbers in 16-bit buffers and rounds its masters into parameters`, () => {
    const { program, machine, losses, odd } = rounded(model, plan, 1e-2)
    deepEqual(odd, [])
    ok(losses.every(Number.isFinite), String(losses))
    for (const { name } of program.params) {
      deepEqual(machine.parameter(name), masterOf(machine, name).map(tokensOf(plan)), name)
      equal(machine.spread(name), 0, name)
    }
    // The optimizer's own numbers have more digits than parameters, unless all is in bf16.
    const state = program.params.flatMap(({ name }) => [
      masterOf(machine, name),
      ...Object.values(machine.states(name)),
    ])
    equal(
      state.some(values => values.some(value => value !== tokensOf(plan)(value))),
      plan.precision !== 'pure-bf16',
    )
  })

test('bf16 is near f32, and not equal', () => {
  const { losses } = rounded('llama', { dp: 2, precision: 'bf16' }, 1e-2)
  const job = jobOf('llama', { dp: 2 })
  const program = compileJob(job)
  const data = dataFor(program, optionsOf(job))
  const exact = boot(program, { seed: 1, precision: 'f32' }).step({ inputs: data(0), lr: 1e-2, step: 0 }).loss
  ok(losses[0] !== exact && Math.abs(losses[0] / exact - 1) < 2 ** -8, `${losses[0]} against ${exact}`)
})

for (const [precision, outcome] of [
  ['bf16', 'add up in the master'],
  ['bf16-no-masters', 'are lost'],
  ['pure-bf16', 'are lost'],
] as const)
  test(`${precision}: steps too small for bf16 ${outcome}`, () => {
    const { program, machine, before } = rounded('gpt', { precision }, 1e-6)
    const gains = program.params.findIndex(({ name }) => name.endsWith('norm1.weight'))
    const { name } = program.params[gains]
    deepEqual(machine.parameter(name), before[gains])
    equal(masterOf(machine, name)[0] === 1, precision !== 'bf16')
  })

const compiled = (job: Job) => ({ text: print(compileJob(job)), serial: compileJob(serialJob(job)) })
const sgd = { optimizer: { kind: 'sgd', lr: 0.1 } } as const
const programs = {
  plain: compiled(bf16('gpt', { dp: 2 })),
  sharded: compiled(bf16('gpt', { dp: 2, zero: 1 })),
  tied: compiled(bf16('gpt tied', { pp: 2 })),
  plainSgd: compiled(jobOf('gpt', { precision: 'bf16' }, sgd)),
  bare: compiled(bare('gpt', { dp: 2 })),
  pure: compiled(pure('gpt', { dp: 2 })),
  pureSgd: compiled(jobOf('gpt', { precision: 'pure-bf16' }, sgd)),
}

type Edit = (text: string) => string
const segmentOf = (name: string) => new RegExp(`^segment "?${name}"? [^]*?^$`, 'm')
const within =
  (segment: string, edit: Edit): Edit =>
  text =>
    text.replace(segmentOf(segment), edit)

/** A program by its text, changed: the law is broken at a segment. */
function changed(law: Law, what: string, of: keyof typeof programs, edit: Edit, at: string) {
  test(`[${law}] ${what}`, () => {
    const { text, serial } = programs[of]
    const slipped = edit(text)
    ok(slipped !== text, 'nothing to change')
    const found = verify(parse(slipped), serial)
    ok(
      found.some(violation => violation.law === law && violation.segment === at),
      found.map(showViolation).join('\n') || 'not caught',
    )
  })
}

/** Changed in one segment, and broken there. */
const breaks = (law: Law, what: string, segment: string, edit: Edit, of: keyof typeof programs = 'plain') =>
  changed(law, what, of, within(segment, edit), segment)

const as =
  (ref: string, dtype: DType): Edit =>
  body =>
    body.replace(new RegExp(`(buffer %${ref} )\\w+`), `$1${dtype}`)
const below =
  (line: RegExp, added: string): Edit =>
  body =>
    body.replace(line, found => `${found}  ${added}\n`)
const without =
  (line: RegExp): Edit =>
  body =>
    body.replace(line, '')
const [adamw, round] = [/^.*= adamw .*\n/m, /^ {2}%param = scale .*\n/m]
const up = 'update layers.mlp.up'

breaks('T3', 'an activation in another dtype than the weight it meets', 'layers.F', as('norm1', 'f32'))
breaks('T3', 'a weight gradient accumulated from bf16', 'layers.B', as('d.mlp.up', 'bf16'))
breaks('T3', 'a statistic in bf16', 'layers.F', as('attention.1', 'bf16'))
breaks('T3', 'labels that are no integers', 'head.F', as('labels', 'f32'))
breaks('T3', 'moments in bf16', up, as('m', 'bf16'))
breaks('P3', 'an optimizer that updates the rounded copy', up, body =>
  body.replace('%master %m %v =', '%param %m %v ='),
)
breaks(
  'T3',
  'a gather that changes the dtype',
  'gather embed, 4 layers, head',
  as('layers.mlp.up.whole', 'f32'),
  'sharded',
)
breaks('T4', 'a value read in another dtype than it was left in', 'layers.B', as('attention.1', 'bf16'))
breaks('P3', 'a parameter that is not rounded from its master', up, without(round))
breaks('P3', 'a master that keeps its rounded copy only', up, below(round, '%master = scale %param by=1'))
breaks('P3', 'an update of the rounded copy', up, body =>
  body.replace(adamw, found => `  %master = scale %param by=1\n${found}`),
)

const unheld = without(/ master=\d+/)
changed('T4', 'f32 moments of a bf16 parameter without a master', 'plain', unheld, 'update embed.tokens')
changed('L6', 'an update of a master that nobody holds', 'plainSgd', unheld, 'update embed.tokens')
changed('P3', 'one of two holders without a master', 'tied', unheld, 'update embed.tokens@0.1')
breaks(
  'P3',
  'an update of a bf16 parameter beside its master',
  up,
  body => body.replace('%master = sgd', '%param = sgd'),
  'plainSgd',
)
breaks('T3', 'moments of two widths, f32 and bf16', up, as('m', 'bf16'), 'bare')
breaks('T3', 'pure: one of two moments wider than their parameter', up, as('m', 'f32'), 'pure')
breaks('L5', 'pure: a gradient read wider than it was summed', up, as('grad', 'f32'), 'pureSgd')
breaks('T3', 'pure: a weight gradient wider than the sum it is added to', 'layers.B', as('d.mlp.up', 'f32'), 'pure')
breaks('T3', 'pure: a loss in bf16', 'head.F', as('total', 'bf16'), 'pure')
breaks('T3', 'pure: a norm in bf16', 'norm layers.mlp.up', as('normSquared', 'bf16'), 'pure')
changed('T4', 'zeros of half the width', 'plain', within('begin layers.mlp.up', as('grad', 'bf16')), 'layers.B')

const summedInBf16: readonly Edit[] = [
  within('begin layers.mlp.up', as('grad', 'bf16')),
  within('layers.B', as('d.mlp.up', 'bf16')),
  within('layers.B', as('grad.mlp.up', 'bf16')),
  within('reduce head, 4 layers, embed', body =>
    body.replace(/(buffer %layers\.mlp\.up(\.\d)?(\.sum)? )f32/g, '$1bf16'),
  ),
]
changed(
  'T3',
  'one gradient of a bucket summed in bf16',
  'sharded',
  text => summedInBf16.reduce((t, edit) => edit(t), text),
  'reduce head, 4 layers, embed',
)

for (const [one, other] of [
  ['plain', 'pure'],
  ['pure', 'plain'],
] as const)
  test(`[I1] a ${other} program for a ${one} one`, () => {
    const found = verify(parse(programs[other].text), programs[one].serial)
    ok(
      found.some(({ law }) => law === 'I1'),
      found.map(showViolation).join('\n'),
    )
  })

test('[W1] a master in a frame that is not there', () => {
  const found = verify(parse(programs.plain.text.replace(/master=\d+/, 'master=9999')))
  deepEqual(
    found.map(({ law }) => law),
    ['W1'],
  )
})
