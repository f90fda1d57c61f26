/** Scales of codes that follow the steps before: the machine of TransformerEngine, once a step, the same on every rank under every plan. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { type CodeType, codeFacts, type TrackingAlgo } from '../src/base/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, dataFor } from '../src/engine/index.js'
import { type Instr, type Law, type Program, parse, print, showViolation, verify } from '../src/ir/index.js'
import type { JobInput } from '../src/plan/index.js'
import { family, test } from './families.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, shallow, titleOf } from './jobs.js'
import { runOp } from './tiny.js'

type Number_ = number | 'inf' | 'nan'

interface Delayed {
  readonly algo: TrackingAlgo
  readonly margin: number
  readonly format: 'e4m3fn' | 'e5m2'
  readonly historyLength: number
  readonly rows: readonly (readonly [
    amax: Number_,
    scale: number,
    chosen: Number_,
    next: number,
    history: readonly Number_[],
  ])[]
}

const { delayed }: { delayed: readonly Delayed[] } = JSON.parse(
  readFixture('precision/fp8-scaling.json')
    .replace(/\bNaN\b/g, '"nan"')
    .replace(/\bInfinity\b/g, '"inf"'),
)
const numberOf = (x: Number_): number => (x === 'inf' ? Infinity : x === 'nan' ? Number.NaN : x)

/** What a step makes of a scale and its history. */
function tracked(
  op: { format: CodeType; margin: number; algo: TrackingAlgo; limit?: number },
  [amax, norm]: readonly [number, number],
  scale: number,
  history: readonly number[],
) {
  const number = (value: number) => ({ dims: [], values: [value] })
  const kept = { dims: [{ name: 'history', size: history.length }], values: [...history] }
  const made = runOp({ kind: 'track', ...op }, [number(amax), number(norm)], [number(scale), kept])
  return { scale: Math.fround(made[0][0]), history: [...made[1]].map(Math.fround) }
}

for (const { algo, margin, format, historyLength, rows } of delayed)
  test(`${format}, ${algo}, margin ${margin}: scales and histories are those of TransformerEngine`, () => {
    let [scale, history] = [1, new Array<number>(historyLength).fill(0)]
    ok(rows.length > 0)
    for (const [amax, used, , next, after] of rows) {
      equal(scale, Math.fround(used))
      const made = tracked(
        { format: format === 'e4m3fn' ? 'f8e4m3' : 'f8e5m2', margin, algo },
        [Math.fround(numberOf(amax)), 1],
        scale,
        history,
      )
      deepEqual(made, { scale: Math.fround(next), history: after.map(one => Math.fround(numberOf(one))) })
      ;({ scale, history } = made)
    }
  })

test('a step that is skipped moves nothing', () => {
  const op = { format: 'f8e4m3', margin: 0, algo: 'max', limit: 2 } as const
  const [scale, history] = [8, [0, 3, 5]]
  for (const norm of [Number.NaN, Infinity, 4.5]) deepEqual(tracked(op, [7, norm], scale, history), { scale, history })
  deepEqual(tracked(op, [7, 3.5], scale, history), { scale: 64, history: [0, 5, 7] })
})

type PlanInput = NonNullable<JobInput['plan']>
const fp8 = { precision: 'bf16', fp8: { recipe: 'delayed', history: 3 } } as const

const tested = family('fp8: delayed scales', 10)
const plans: readonly (readonly [ModelName, PlanInput])[] = [
  ['llama', { tp: 2, sequenceParallel: true, dp: 2, microbatches: 2 }],
  ['mlp', { dp: 2, tp: 2 }],
  ['gpt', { pp: 2, microbatches: 4, schedule: 'zb-h1' }],
  ['llama tied', { cp: 2, dp: 2, zero: 3, microbatches: 2 }],
  ['gpt tied', { recompute: 'full', tp: 2 }],
  ['latent', { tp: 2, recompute: 'cheap' }],
  ['llama', { cp: 2, attention: 'ring', zero: 1, dp: 2, offload: { optimizer: 'host' } }],
  ['gpt', { dp: 2, tp: 2, pp: 2, zero: 2, microbatches: 2, recompute: 'selective' }],
  ['llama', { pp: 2, schedule: 'dualpipe-v', microbatches: 4 }],
  ['mlp', { pp: 2, schedule: 'dualpipe', microbatches: 4 }],
]
for (const [model, plan] of plans)
  tested(`${model}: ${titleOf(plan)} with scales of the steps before computes what one rank computes`, () =>
    computesWhatOneRankComputes(shallow(jobOf(model, { ...plan, ...fp8 }))),
  )

/** What scales and their histories are after two steps. */
function scalesAfter(plan: PlanInput): Map<string, number[]> {
  const job = shallow(jobOf('mlp', { ...plan, ...fp8 }))
  const program = compileJob(job)
  const machine = boot(program, { seed: 1 })
  const data = dataFor(program, optionsOf(job))
  for (const step of [0, 1]) machine.step({ inputs: data(step), lr: 1e-3, step })
  const scales = program.params.filter(({ name }) => name.endsWith('.scale'))
  return new Map(
    scales.map(({ name }) => [name, [...machine.parameter(name), ...machine.states(name).history!]] as const),
  )
}

test('microbatches and ranks change no scale: it follows what is greatest in the whole step', () => {
  const one = scalesAfter({})
  ok(one.size >= 6 && [...one.values()].every(([scale, ...history]) => scale !== 1 && history.length === 3))
  for (const plan of [{ microbatches: 4 }, { dp: 2, tp: 2, microbatches: 2 }] as const)
    for (const [name, values] of scalesAfter(plan))
      for (const [i, value] of values.entries()) {
        const expected = one.get(name)![i]
        ok(Math.abs(value - expected) <= 1e-12 * Math.abs(expected), `${titleOf(plan)} ${name} ${value} ${expected}`)
      }
  const [scale, , before, now] = one.get('layers.0.up.scale')!
  ok(Math.abs((scale * Math.max(before, now)) / codeFacts.f8e4m3.greatest - 1) < 1e-6)
})

test('a change of plan keeps scales and histories, and goes on from them', () => {
  const [one, many] = [{}, { dp: 2, tp: 2, microbatches: 2, zero: 1 }].map(plan => {
    const of = shallow(jobOf('mlp', { ...plan, ...fp8 } as PlanInput))
    const compiled = compileJob(of)
    return { machine: boot(compiled, { seed: 1 }), data: dataFor(compiled, optionsOf(of)), params: compiled.params }
  })
  one.machine.step({ inputs: one.data(0), lr: 1e-3, step: 0 })
  for (const { name } of one.params) {
    many.machine.setParameter(name, one.machine.parameter(name))
    many.machine.setStates(name, one.machine.states(name))
  }
  many.machine.setScalars(one.machine.scalars())
  const scales = one.params.filter(({ name }) => name.endsWith('.scale'))
  for (const { machine, data } of [one, many]) machine.step({ inputs: data(1), lr: 1e-3, step: 1 })
  for (const { name } of scales) {
    const [ours, theirs] = [one, many].map(({ machine }) => [
      ...machine.parameter(name),
      ...machine.states(name).history!,
    ])
    ok(
      ours.every((value, i) => Math.abs(value - theirs[i]) <= 1e-12 * Math.abs(value)),
      `${name} ${ours} ${theirs}`,
    )
    ok(ours.filter(value => value !== 0).length === 3, `${name} has a scale and two steps: ${ours}`)
  }
})

const job = shallow(jobOf('mlp', { tp: 2, dp: 2, microbatches: 2, ...fp8 }))
const [program, serial] = [compileJob(job), compileJob(serialJob(job, job.plan.microbatches))]

test('nobody meets before a product, and the text is read back', () => {
  deepEqual(verify(program, serial).map(showViolation), [])
  const text = print(program)
  match(text, /%x.codes = quantize %x %x.scale format=f8e4m3 by=scale/)
  match(text, /accumulate %x.amax\S* combine=max/)
  match(text, /track %grad\S* %normSquared format=f8e4m3 margin=0 algo=max/)
  for (const name of ['layers.F', 'layers.B'])
    deepEqual(
      program.segments[name].instrs.filter(
        ({ kind, ...of }) => kind === 'all-reduce' && JSON.stringify(of).includes('amax'),
      ),
      [],
    )
  deepEqual(parse(text), program)
})

test('ranks agree on all numbers that lie alike at once, when a step ends', () => {
  const { steps } = program.streams[0]
  const calls = steps.flatMap(step => (step.kind === 'call' && step.segment.startsWith('agree') ? [step.segment] : []))
  const scales = program.params.filter(({ name }) => name.endsWith('.scale'))
  const agreed = calls.map(name => program.segments[name].instrs[0]).flatMap(instr => ('ins' in instr ? instr.ins : []))
  ok(calls.length <= 3 && new Set(calls).size === calls.length, calls.join())
  equal(agreed.length, scales.length)
})

const edited = (
  test: (name: string) => boolean,
  edit: (instr: Instr) => Instr | readonly Instr[],
  of: Program = program,
): Program => ({
  ...of,
  segments: Object.fromEntries(
    Object.entries(of.segments).map(([name, of]) => [
      name,
      test(name) ? { ...of, instrs: of.instrs.flatMap(edit) } : of,
    ]),
  ),
})

function caught(law: Law, what: string, broken: Program, says: RegExp): void {
  test(`[${law}] ${what}`, () => {
    const found = verify(broken, serial).filter(violation => violation.law === law)
    match(found.map(showViolation).join('\n'), says)
  })
}

caught(
  'T1',
  'what is greatest in microbatches is added up',
  edited(
    name => name === 'layers.F',
    instr => {
      if (instr.kind !== 'accumulate') return instr
      const { combine: _, ...sum } = instr
      return sum
    },
  ),
  /is a partial max, but the instruction reduces with sum/,
)
caught(
  'T4',
  'every rank follows the greatest of its own part',
  edited(
    name => name.startsWith('agree'),
    instr => (instr.kind === 'all-reduce' || instr.kind === 'wait' ? [] : instr),
  ),
  /scale/,
)
caught(
  'T7',
  'a scale is taken for what was greatest',
  edited(
    name => name === 'layers.F',
    instr => {
      if (instr.kind !== 'scaledContract') return instr
      const { by: _, ...other } = instr
      return other
    },
  ),
  /was scaled by %\S+ as scale, but is read with it as amax/,
)
caught(
  'I3',
  'another margin than the serial program has',
  edited(
    name => name.startsWith('update') && name.endsWith('.scale'),
    instr => (instr.kind === 'track' ? { ...instr, margin: 1 } : instr),
  ),
  /the update of .* differs from the single-rank reference/,
)
caught(
  'P3',
  'a scale that does not move',
  {
    ...program,
    streams: program.streams.map(stream => ({
      ...stream,
      steps: stream.steps.filter(step => !(step.kind === 'call' && /^update .*x\.scale/.test(step.segment))),
    })),
  },
  /x\.scale/,
)

test('[I2] what is greatest on the two holders of a stage is added up', () => {
  const twice = shallow(jobOf('mlp', { pp: 2, schedule: 'dualpipe', microbatches: 4, ...fp8 }))
  const [held, one] = [compileJob(twice), compileJob(serialJob(twice, 4))]
  deepEqual(verify(held, one).map(showViolation), [])
  const summed = edited(
    name => name.startsWith('agree'),
    instr => (instr.kind === 'all-reduce' ? { ...instr, combine: 'sum' } : instr),
    held,
  )
  match(verify(summed, one).map(showViolation).join('\n'), /I2.*scale/)
})
