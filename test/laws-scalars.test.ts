/** Laws of what is decided once for a whole step, and of numbers that live from step to step: broken, and caught. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob, serialJob } from '../src/compile/index.js'
import { type Instr, type Law, type Program, parse, print, type Step, showViolation, verify } from '../src/ir/index.js'
import { breaks, drop, frameOf, swap, variant } from './broken.js'
import { jobOf } from './jobs.js'

const update = 'clip=1'
breaks('P8', 'one update has a limit', variant('update', swap(update, `${update} limit=3`)), { segment: 'update' })
breaks('P8', 'the step is counted below another limit', swap('take %norm', 'take %norm limit=3'), { segment: 'take' })
breaks('P8', 'an update goes by the loss', text => {
  const [norm, count] = ['normSquared', 'count'].map(name => frameOf(text, 1, name))
  return text.replace(
    new RegExp(`(stream 1[^]*?call update .* bind=\\d+,)${norm},`),
    (_, head: string) => `${head}${count},`,
  )
})
breaks('P9', 'a step that is not counted', drop(/^ {2}call take .*\n/), { pipeline: 0 })
breaks('P9', 'a step that is counted twice', swap(/^( {2}call take .*\n)/, '$1$1'), { pipeline: 0 })
breaks(
  'P9',
  'what is counted is forgotten',
  swap(/^( {2}call take .* bind=\d+,(\d+)\n)/, '$1  call begin.loss block=-1 microbatch=-1 bind=$2\n'),
)
breaks('P9', 'something else is counted', text =>
  text.replace(/^scalar taken .*$/m, line => line.replace(/ 0:\d+/, ` 0:${frameOf(text, 0, 'normSquared')}`)),
)
breaks('P10', 'a stream without the count', swap(/^(scalar taken .*) 1:\d+/, '$1'), { pipeline: 1 })
breaks('W1', 'a scalar where there is no frame', swap(/^(scalar taken .*) 1:\d+/, '$1 1:99'), { pipeline: 1 })
breaks('W1', 'a scalar that starts as nothing', swap('scalar taken 0', 'scalar taken -Infinity'))
breaks('L5', 'a scalar without room', swap(/^( {2}frame \d+ taken workspace) 4/, '$1 2'), { pipeline: 0 })
breaks(
  'T1',
  'a norm that is not summed decides',
  swap('buffer %norm f32 @norm+0 []', 'buffer %norm f32 @norm+0 [] sum:dp', 4),
)
breaks('I4', 'a scalar that starts elsewhere', swap('scalar taken 0', 'scalar taken 1'))

const adamw = { optimizer: { kind: 'adamw', lr: 1e-3 }, skipAbove: 5 } as const
const trained = jobOf('gpt', { pp: 2, dp: 2 }, adamw)
const [program, serial] = [compileJob(trained), compileJob(serialJob(trained))]

const edited = (edit: (instr: Instr) => Instr | readonly Instr[], of: RegExp, given = program): Program => ({
  ...given,
  segments: Object.fromEntries(
    Object.entries(given.segments).map(([name, segment]) => [
      name,
      of.test(name) ? { ...segment, instrs: segment.instrs.flatMap(edit) } : segment,
    ]),
  ),
})

const caught = (law: Law, what: string, broken: Program, beside = serial) =>
  test(`[${law}] ${what}, in a compiled program`, () => {
    const found = verify(broken, beside)
    assert.ok(
      found.some(violation => violation.law === law),
      `not caught; instead: ${found.map(showViolation).join('\n')}`,
    )
  })

test('a compiled program says its limit everywhere, and its text has its scalars', () => {
  assert.deepEqual(verify(program, serial).map(showViolation), [])
  const text = print(program)
  assert.match(text, /^scalar taken 0 0:\d+ 1:\d+$/m)
  assert.match(text, /%\S+ = take %\S+ limit=5/)
  assert.deepEqual(parse(text), program)
})

caught(
  'P8',
  'one parameter is updated whatever its norm',
  edited(instr => (instr.kind === 'adamw' ? (({ limit: _, ...free }) => free)(instr) : instr), /^update .*norm/),
)
const counting = program.streams[0].steps.findIndex(step => step.kind === 'call' && step.segment === 'take')
const [stream, ...others] = program.streams
const updating = stream.steps.findIndex(step => step.kind === 'call' && step.segment.startsWith('update'))
const early = stream.steps.toSpliced(counting, 1).toSpliced(updating, 0, stream.steps[counting])
caught('P9', 'the step is counted before parameters are updated', {
  ...program,
  streams: [{ ...stream, steps: early }, ...others],
})
const isTake = (step: Step) => step.kind === 'call' && step.segment === 'take'
const [last] = others
const otherwise = last.steps.map(step => (isTake(step) ? { ...step, segment: 'other' } : step))
const { take } = program.segments
const further = take.instrs.map(instr => (instr.kind === 'take' ? { ...instr, limit: 6 } : instr))
caught('P10', 'the count moves by something else on one stream', {
  ...program,
  streams: [stream, { ...last, steps: otherwise }],
  segments: { ...program.segments, other: { ...take, name: 'other', instrs: further } },
})

const weighedJob = jobOf('gpt', { pp: 2, dp: 2 }, { spikes: 'skip' })
const [weighed, weighedSerial] = [compileJob(weighedJob), compileJob(serialJob(weighedJob))]
const frameNamed = (name: string, of = 1) => weighed.streams[of].frames.findIndex(frame => frame.name === name)
const rebound = (from: string, to: string, segment: RegExp): Program => ({
  ...weighed,
  streams: weighed.streams.map((stream, pp) => ({
    ...stream,
    steps: stream.steps.map(step =>
      pp === 1 && step.kind === 'call' && segment.test(step.segment)
        ? { ...step, bind: step.bind.map(frame => (frame === frameNamed(from) ? frameNamed(to) : frame)) }
        : step,
    ),
  })),
})
test('a program whose run skips spikes is right, weighs its norm once a stream, and its text says so', () => {
  assert.deepEqual(verify(weighed, weighedSerial).map(showViolation), [])
  assert.deepEqual(parse(print(weighed)), weighed)
  const weighs = weighed.streams.map(
    ({ steps }) => steps.filter(s => s.kind === 'call' && s.segment === 'weigh').length,
  )
  assert.deepEqual(weighs, [1, 1])
})
caught(
  'P8',
  'updates of one stream by a norm that nobody weighed',
  rebound('weighed', 'normSquared', /^update/),
  weighedSerial,
)
caught('P8', 'a stream that weighs something else', rebound('normSquared', 'taken', /^weigh/), weighedSerial)
caught(
  'P8',
  'no limit for what is too large',
  edited(
    instr =>
      instr.kind === 'load' ? instr : (({ limit: _, ...free }: Instr & { limit?: number }) => free as Instr)(instr),
    /^(update|take)/,
    weighed,
  ),
  weighedSerial,
)

const scaledJob = jobOf('gpt', { pp: 2, dp: 2 }, { lossScale: { kind: 'torch' } })
const [scaled, scaledSerial] = [compileJob(scaledJob), compileJob(serialJob(scaledJob))]
const caughtScaled = (law: Law, what: string, broken: Program) => caught(law, what, broken, scaledSerial)
const unscales = (edit: (instr: Instr) => readonly Instr[]) =>
  edited(instr => (instr.kind === 'unscale' ? edit(instr) : instr), /^reduce .*norm1.weight/, scaled)
const takes = (edit: (instr: Extract<Instr, { kind: 'take' }>) => Instr) =>
  edited(instr => (instr.kind === 'take' ? edit(instr) : instr), /^take$/, scaled)

test('a scaled program breaks no law, without the serial program too', () => {
  assert.deepEqual(verify(scaled, scaledSerial).map(showViolation), [])
  assert.deepEqual(verify(scaled).map(showViolation), [])
})
caughtScaled(
  'P8',
  'a gradient that is not divided by the scale',
  unscales(() => []),
)
caughtScaled(
  'P8',
  'a gradient that is divided twice',
  unscales(instr => [instr, instr]),
)
caughtScaled(
  'P9',
  'a scale that does not move',
  takes(({ scaler: _, ...take }) => ({ ...take, outs: take.outs.slice(0, 1) })),
)
caughtScaled(
  'P9',
  'growth that moves as the scale',
  takes(({ outs: [taken, scale, growth], ...take }) => ({ ...take, outs: [taken, growth, scale] })),
)
caughtScaled(
  'P9',
  'a scaler with numbers that it has no results for',
  takes(take => ({
    ...take,
    scaler: { kind: 'deepspeed', growth: 2, interval: 1, min: 1, hysteresis: 1, consecutive: 0 },
  })),
)
const [head, ...tail] = scaled.streams
const ending = head.steps.findIndex(isTake)
const dividing = head.steps.findIndex(step => step.kind === 'call' && step.segment.startsWith('reduce'))
const soon = head.steps.toSpliced(ending, 1).toSpliced(dividing, 0, head.steps[ending])
caughtScaled('P9', 'the scale moves before gradients are divided by it', {
  ...scaled,
  streams: [{ ...head, steps: soon }, ...tail],
})
const { take: taking } = scaled.segments
const sooner = taking.instrs.map(instr =>
  instr.kind === 'take'
    ? { ...instr, scaler: { kind: 'torch' as const, growth: 2, backoff: 0.5, interval: 7 } }
    : instr,
)
caughtScaled('P10', 'the scale moves otherwise on one stream', {
  ...scaled,
  segments: { ...scaled.segments, other: { ...taking, name: 'other', instrs: sooner } },
  streams: [
    head,
    ...tail.map(each => ({
      ...each,
      steps: each.steps.map(step => (isTake(step) ? { ...step, segment: 'other' } : step)),
    })),
  ],
})
const text = print(scaled)
const slipped = (from: string | RegExp, to: string) => parse(text.replace(from, to))
caughtScaled('I1', 'a loss that is not scaled', slipped('  %divisor = unscale %scale\n', ''))
caughtScaled('I4', 'a scale that starts elsewhere', slipped('scalar scale 65536', 'scalar scale 1024'))
caughtScaled(
  'T1',
  'a scale that is a part of a sum',
  slipped('buffer %scale f32 @scale+0 []', 'buffer %scale f32 @scale+0 [] sum:dp'),
)
caughtScaled('T3', 'a scale of 16 bits', slipped('buffer %scale f32 @scale+0 []', 'buffer %scale f16 @scale+0 []'))
