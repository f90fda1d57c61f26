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

const edited = (edit: (instr: Instr) => Instr | readonly Instr[], of: RegExp): Program => ({
  ...program,
  segments: Object.fromEntries(
    Object.entries(program.segments).map(([name, segment]) => [
      name,
      of.test(name) ? { ...segment, instrs: segment.instrs.flatMap(edit) } : segment,
    ]),
  ),
})

const caught = (law: Law, what: string, broken: Program) =>
  test(`[${law}] ${what}, in a compiled program`, () => {
    const found = verify(broken, serial)
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
