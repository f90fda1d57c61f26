/** Each law, on a program written by hand: lawful as it stands, and caught by number and place when broken. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Frame, type Program, showViolation, verify } from '../src/ir/index.js'
import { all, before, breaks, drop, frameOf, later, swap, variant } from './broken.js'
import { type Toy, toy } from './toy.js'

const plans: readonly Toy[] = [1, 2].flatMap(dp =>
  [1, 2].flatMap(tp => ([1, 2] as const).flatMap(pp => [false, true].map(tied => ({ dp, tp, pp, tied })))),
)

for (const plan of plans)
  test(`${JSON.stringify(plan)} is lawful`, () => {
    assert.deepEqual(verify(toy(plan), toy({ tied: plan.tied ?? false })).map(showViolation), [])
  })

breaks('W1', 'a segment nobody wrote', swap('call up.F', 'call up.G'), { pipeline: 0 })
breaks('W1', 'a buffer nobody declared', swap('%y = gelu %h', '%y = gelu %q'), { segment: 'up.F' })
breaks('W1', 'a result where there is no frame', swap(/^result loss 1:\d+/, 'result loss 1:99'), { pipeline: 1 })
breaks('W1', 'a microbatch too many', swap('call up.F block=0 microbatch=1', 'call up.F block=0 microbatch=2'))
breaks('W1', 'a parameter declared twice', text => text.replace(/^param w [\s\S]*?(?=^param)/m, '$&$&'))
breaks('W1', 'an input declared twice', swap('input lr f32 []', 'input x f32 []'))
breaks('W1', 'an axis the mesh has twice', swap('mesh tp:2 dp:2 pp:2', 'mesh tp:2 dp:2 pp:2 dp:1'))
breaks('W1', 'more microbatches than steps', swap('microbatches 2', 'microbatches 2000000000'))
breaks('W2', 'an operand too few', swap('%h = contract %x %w', '%h = contract %x'), { segment: 'up.F' })

breaks('W3', 'a dim split over the pipeline', swap('  kept [ffn/tp]', '  kept [ffn/pp]'))
breaks('W3', 'an axis that splits two dims', swap('[embed:6 ffn:4/tp]', '[embed:6/tp ffn:4/tp]'), { segment: 'begin' })

breaks('W5', 'a dim without elements', swap('ffn:8]', 'ffn:0]'))

const odd = (program: Program, what: string) =>
  test(`[W5] ${what}, in a program that was never text`, () => {
    assert.deepEqual(
      verify(program).map(({ law }) => law),
      ['W5'],
    )
  })
const serial = toy()
const withFrame = (change: Partial<Frame>): Program => {
  const [stream] = serial.streams
  return {
    ...serial,
    streams: [{ ...stream, frames: [{ ...stream.frames[0], ...change }, ...stream.frames.slice(1)] }],
  }
}
odd({ ...serial, microbatches: 1.5 }, 'half a microbatch')
odd(withFrame({ offset: -64 }), 'a frame before the arena')
odd(withFrame({ bytes: Number.NaN }), 'a frame of NaN bytes')
odd(withFrame({ offset: 2 ** 60 }), 'a frame beyond what can be counted')

breaks('M1', 'a send is missing', text => drop('wait tag=B0', 1)(drop(/^ {2}send \d+ to=0 tag=B0\n/)(text)))
breaks(
  'M1',
  'two sends change places',
  text => swap('tag=Z', 'tag=F1')(swap('to=1 tag=F1', 'to=1 tag=F0')(swap('to=1 tag=F0', 'to=1 tag=Z')(text))),
  { pipeline: 1 },
)
breaks('M1', 'a message to the wrong stage', swap('to=0 tag=B0', 'to=1 tag=B0'))
breaks('M2', 'a smaller receive', swap(/^ {2}frame (\d+) y0 activations 32/, '  frame $1 y0 activations 16', 1))
breaks('M3', 'a receive nobody waits for', drop('wait tag=F1', 1), { pipeline: 1 })
breaks('M3', 'waiting twice', swap('  wait tag=F1\n', '  wait tag=F1\n  wait tag=F1\n', 1), { pipeline: 1 })
breaks('M4', 'one tag for two messages', text => text.replace(/tag=F1$/gm, 'tag=F0'))

breaks('G1', 'one stage leaves the norm out', swap(/^ {2}call norm.reduce .*\n/, '', 1))
breaks('G1', 'another combine on one stage', variant('norm.reduce', swap('combine=sum', 'combine=max')))
breaks(
  'G2',
  'a tied weight reduced with a stage that is not there',
  text => text.replaceAll('over=dp@0,1', 'over=dp@0,2'),
  { plan: { ...all, tied: true }, segment: 'reduce' },
)
breaks('G2', 'a stage joins a group that is not its own', text => text.replaceAll('over=dp@0,1', 'over=dp@1'), {
  plan: { ...all, tied: true },
  segment: 'reduce',
  pipeline: 0,
})

breaks('S1', 'both stages wait for what the other sends later', before(/^ {2}wait tag=B0\n/, /^ {2}call up.F/), {
  pipeline: 0,
})
breaks(
  'S2',
  'receives posted after the sends they should meet',
  text =>
    [
      before(/^ {2}recv \d+ from=1 tag=B0\n/, /^ {2}wait tag=F0\n/),
      before(/^ {2}recv \d+ from=1 tag=B1\n/, /^ {2}wait tag=F0\n/),
      before(/^ {2}recv \d+ from=0 tag=F1\n/, /^ {2}wait tag=F1\n(?= {2}alloc)/),
    ].reduce((edited, edit) => edit(edited), text),
  { pipeline: 0 },
)

breaks(
  'L1',
  'freed before its last use',
  text => before(new RegExp(`^ {2}free ${frameOf(text, 0, 'a0')}\\n`), /^ {2}call up.B block=0 microbatch=0/)(text),
  { pipeline: 0 },
)
breaks('L1', 'never freed', drop(/^ {2}free \d+\n/), {})
breaks('L2', 'two live frames in one place', swap(/^( {2}frame \d+ gw gradients 96) @\d+/, '$1 @16'), { pipeline: 0 })
breaks('L2', 'outside the arena', swap(/^stream 1 arena=\d+/, 'stream 1 arena=512'), { pipeline: 1 })
breaks('L3', 'another peak', swap('gradients:96', 'gradients:64'), { pipeline: 0 })
breaks(
  'L4',
  'written while it is sent',
  before(/^ {2}send \d+ to=1 tag=F0\n/, /^ {2}call up.F block=0 microbatch=0 /),
  { pipeline: 0 },
)
breaks('L5', 'a buffer over the edge of its role', swap('buffer %dw f32 @work+32', 'buffer %dw f32 @work+64'), {
  segment: 'up.B',
})
breaks('L6', 'a gradient that was never cleared', drop(/^ {2}call begin block=-1 microbatch=-1 bind=\d+\n/), {
  segment: 'up.B',
})
breaks('L6', 'a stash at another offset', swap('buffer %h f32 @stash+48', 'buffer %h f32 @stash+32', 1), {
  segment: 'up.B',
})
breaks('L7', 'bytes that went to another buffer', swap('buffer %dw f32 @work+48', 'buffer %dw f32 @work+0'), {
  segment: 'head.B',
})
breaks('L8', 'read before the wait', later('wait %z'), { segment: 'head.F' })
breaks('L8', 'never waited for', drop('wait %z'), { segment: 'head.F' })

breaks('L9', 'a frame at an odd byte', swap('ub0 workspace 128 @452', 'ub0 workspace 128 @453'), { segment: 'up.B' })
breaks('L9', 'a buffer at an odd byte', swap('buffer %h f32 @stash+48', 'buffer %h f32 @stash+46'), { segment: 'up.F' })

breaks('P1', 'blocks out of order', text =>
  swap(
    'block head kind=head stage=1',
    'block head kind=head stage=0',
  )(swap('block up kind=up stage=0', 'block up kind=up stage=1')(text)),
)
breaks('P1', 'not the model’s blocks', text => text.replaceAll('block head kind=head', 'block foot kind=head'))
breaks('P2', 'a forward pass too many', swap(/^( {2}call up.F block=0 microbatch=1 .*\n)/, '$1$1'), {
  pipeline: 0,
  segment: 'up.F',
})
breaks('P2', 'a backward pass that is missing', drop(/^ {2}call up.B block=0 microbatch=1 .*\n/), { pipeline: 0 })
breaks('P3', 'updated twice', swap(/^( {2}call update .*\n)/, '$1$1'), { pipeline: 0, segment: 'update' })
breaks('P3', 'the gradient said to lie where the parameter lies', swap(/param=(\d+) grad=\d+/, 'param=$1 grad=$1'), {
  pipeline: 0,
})
breaks('P3', 'not updated', drop(/^ {2}call update .*\n/, 1), { pipeline: 1 })
breaks(
  'P4',
  'a loss counted twice',
  swap('  %loss = accumulate %l', '  %loss = accumulate %l\n  %loss = accumulate %l'),
  { segment: 'head.F' },
)
breaks('P4', 'a loss that is lost', drop('%loss = accumulate %l'), { segment: 'head.F' })
breaks(
  'P5',
  'a tied weight counted by both holders',
  text => {
    const call = `  call norm block=-1 microbatch=-1 bind=${frameOf(text, 1, 'gw')},${frameOf(text, 1, 'normSquared')}\n`
    return swap(/^( {2}call norm.reduce)/, `${call}$1`, 1)(text)
  },
  { plan: { ...all, tied: true }, segment: 'norm' },
)

breaks(
  'T1',
  'a partial sum into a nonlinear op',
  text => swap('%l = squaredError %z %t', '%l = squaredError %p %t')(text),
  { segment: 'head.F' },
)
breaks(
  'T1',
  'a sum over a group that has the whole',
  swap('%z = all-reduce %p combine=sum over=tp', '%z = all-reduce %p combine=sum over=dp'),
  { segment: 'head.F' },
)
breaks('T2', 'a partial sum marked as whole', swap(/(buffer %p f32 @work\+0 .*) sum:tp/, '$1'), { segment: 'head.F' })
breaks(
  'T2',
  'a collective that is missing',
  text => swap('%z = all-reduce %p combine=sum over=tp', '%z = scale %p by=1')(drop('wait %z')(text)),
  { segment: 'head.F' },
)
breaks(
  'T3',
  'a dim of another size',
  swap('buffer %dy f32 @dy+0 [batch:2/dp ffn:4/tp]', 'buffer %dy f32 @dy+0 [batch:1/dp ffn:4/tp]'),
  { segment: 'head.B' },
)
breaks(
  'T4',
  'read in another layout',
  swap('buffer %h f32 @stash+48 [batch:2/dp ffn:4/tp]', 'buffer %h f32 @stash+48 [batch:2/dp ffn:4]', 1),
  { segment: 'up.B' },
)
breaks('T4', 'a gradient that was not reduced', drop(/^ {2}call reduce .*\n/), { segment: 'norm' })
breaks('T5', 'a partial gradient in the optimizer', swap(/(segment update[\s\S]*?buffer %g f32 .*)/, '$1 sum:dp'), {
  segment: 'update',
})
breaks('T6', 'the norm counts replicas', swap('once=dp', 'once='), { segment: 'norm' })

breaks('I1', 'a wrong operand of the same type', swap('%dw = contract %x %dh', '%dw = contract %x %dy'), {
  segment: 'up.B',
})
breaks('I1', 'no 1/count', swap(/squaredErrorGrad %z %t %count/, 'squaredErrorGrad %t %z %count'), {
  segment: 'head.B',
})
breaks(
  'I1',
  'the data of another microbatch',
  swap('call up.F block=0 microbatch=1', 'call up.F block=0 microbatch=0'),
  {},
)
breaks('I2', 'an addend that is lost', drop('%g = accumulate %dw', 1), { segment: 'up.B' })
breaks(
  'I2',
  'an addend counted twice',
  swap('  %g = accumulate %dw', '  %g = accumulate %dw\n  %g = accumulate %dw', 1),
  { segment: 'up.B' },
)
breaks('I2', 'tied gradients that do not meet', text => text.replaceAll('over=dp@0,1', 'over=dp'), {
  plan: { ...all, tied: true },
})
breaks('I3', 'another step size', swap('momentum=0.9', 'momentum=0.8'), { segment: 'update' })
breaks('I4', 'another spread of the initial values', swap('init normal 0.02', 'init normal 0.03'))
breaks('I4', 'a parameter that starts from zeros', swap('init normal 0.02', 'init zeros', 1))
breaks('I4', 'a parameter of another name', text => text.replaceAll(/\b(param[ =])v\b/g, '$1u'))
