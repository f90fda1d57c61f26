/** The text form of a program: what is printed parses back to the same value; what cannot be read names its line. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { ProblemsError } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import {
  type Instr,
  type Program,
  parse,
  print,
  printInstr,
  printRank,
  type RoleName,
  readRole,
  type Step,
  showRole,
  showShaped,
  verify,
} from '../src/ir/index.js'
import { damaged } from './damage.js'
import { later, test } from './families.js'
import { jobOf } from './jobs.js'
import { toy, toyText } from './toy.js'

const back = (program: Program) => assert.deepStrictEqual(parse(print(program)), program)

test('a program by hand prints and parses back', () => back(toy({ dp: 2, tp: 2, pp: 2, tied: true })))

for (const [model, plan, training] of [
  ['gpt tied', { dp: 2, tp: 2, pp: 2, microbatches: 2, schedule: 'zb-h1', zero: 1 }],
  ['llama', { tp: 4, pp: 2, microbatches: 4, schedule: 'interleaved', sequenceParallel: true }],
  ['llama tied', { dp: 2, pp: 2, microbatches: 4, schedule: 'dualpipe', zero: 3, recompute: 'full' }],
  ['llama', {}, { optimizer: { kind: 'muon', lr: 1e-3 } }],
] as const)
  test(`the program of ${model} ${JSON.stringify({ ...plan, ...training })} prints and parses back`, () =>
    back(compileJob(jobOf(model, plan, training))))

test('layouts and instructions read as they are written in the manual', () => {
  const dims = [
    { name: 'batch', size: 2 },
    { name: 'seq', size: 16 },
    { name: 'embed', size: 64 },
  ]
  const layout = { splits: { batch: ['dp'], seq: ['cp', 'tp'] }, partial: { ep: 'sum' } } as const
  assert.equal(showShaped({ dims, layout }), '[batch:2/dp seq:16/cp,tp embed:64] sum:ep')
  const lines: [Instr, string][] = [
    [{ kind: 'rmsNorm', eps: 1e-5, ins: ['x', 'gain'], outs: ['y'] }, '%y = rmsNorm %x %gain eps=1e-5'],
    [
      { kind: 'all-gather', ins: ['y'], outs: ['z'], dim: 'seq', group: { axes: ['tp'] } },
      '%z = all-gather %y dim=seq over=tp',
    ],
    [{ kind: 'wait', on: 'z' }, 'wait %z'],
    [
      { kind: 'reduce-scatter', ins: ['g', 'h'], outs: ['x', 'y'], group: { axes: ['dp', 'ep'] } },
      '%x %y = reduce-scatter %g %h over=dp,ep',
    ],
    [{ kind: 'slice', in: 'g', out: 'x', axes: ['dp'] }, '%x = slice %g axes=dp'],
    [
      { kind: 'all-reduce', ins: ['g'], outs: ['h'], combine: 'sum', group: { axes: ['pp'], stages: [0, 3] } },
      '%h = all-reduce %g combine=sum over=pp@0,3',
    ],
    [
      { kind: 'dropout', dropout: { rate: 0.1, key: 'after attention' }, ins: ['x'], outs: ['y'] },
      '%y = dropout %x dropout=0.1:"after attention"',
    ],
  ]
  for (const [instr, text] of lines) assert.equal(printInstr(instr), text)
})

test('flat layouts, views, several pairs and calls that only start survive', () => {
  const program = toy({ dp: 2 })
  const [stream] = program.streams
  const dims = [
    { name: 'flat', size: 3 },
    { name: 'embed', size: 5 },
  ]
  const part = { splits: { embed: ['tp'] }, partial: {}, flat: ['dp', 'cp'] } as const
  const addend = { splits: { embed: ['tp'] }, partial: { dp: 'sum' } } as const
  const at = { dtype: 'f32', dims, role: 0, offset: 64 } as const
  const segment = {
    name: 'reduce',
    phase: 'reduce',
    roles: [{ name: { is: 'grad' }, kind: 'gradients', bytes: 256 }],
    buffers: { whole: { ...at, layout: addend }, own: { ...at, layout: part, inside: true } },
    instrs: [{ kind: 'reduce-scatter', ins: ['whole', 'whole'], outs: ['own', 'own'], group: { axes: ['dp'] } }],
  } as const
  const call: Step = { kind: 'call', segment: 'reduce', block: -1, microbatch: -1, bind: [0], tag: 'bucket 0' }
  back({
    ...program,
    params: program.params.map(param => ({ ...param, kept: part, keptInside: true })),
    segments: { ...program.segments, reduce: segment },
    streams: [{ ...stream, steps: [...stream.steps, call, { kind: 'wait', tag: 'bucket 0' }] }],
  })
})

test('a role is read back from its name', () => {
  const roles: [RoleName, string][] = [
    [{ is: 'param', of: 'attn.q' }, 'param.attn.q'],
    [{ is: 'grad' }, 'grad'],
    [{ is: 'din', of: 'x' }, 'din.x'],
    [{ is: 'keep', of: 'I' }, 'keep.I'],
    [{ is: 'scratch', of: 'workspace' }, 'scratch.workspace'],
    [{ is: 'result', of: 'normSquared' }, 'normSquared'],
    [{ is: 'state', of: 'master' }, 'master'],
    [{ is: 'named', of: 'lr' }, 'lr'],
    [{ is: 'named', of: 'keep.V' }, 'keep.V'],
    [{ is: 'named', of: 'in' }, 'in'],
    [{ is: 'named', of: 'toString.x' }, 'toString.x'],
  ]
  for (const [role, text] of roles) {
    assert.equal(showRole(role), text)
    assert.deepEqual(readRole(text), role)
  }
})

/** Any name at all: spaces, quotes, brackets, and the separators of the format. */
const anyName = fc.string({ unit: fc.constantFrom(...'ab1.:/,@%=+"\\[] #\''), minLength: 1, maxLength: 6 })
const anyNumber = fc.oneof(fc.nat(), fc.double({ noNaN: true, noDefaultInfinity: true, min: 1e-9 }))

test('names and numbers of any kind survive', () => {
  fc.assert(
    fc.property(fc.uniqueArray(anyName, { minLength: 8, maxLength: 8 }), anyNumber, ([a, b, c, d, e, f, g, h], n) => {
      const program = toy({ pp: 2 })
      const buffer = {
        dtype: 'f32',
        dims: [{ name: a, size: 1 }],
        layout: { splits: { [a]: [], [b]: ['tp'] }, partial: {} },
        role: 0,
        offset: 0,
      } as const
      const instrs: Instr[] = [
        { kind: 'scale', by: n, ins: [c], outs: [d] },
        { kind: 'load', out: c, input: e },
        { kind: 'slice', in: c, out: d, dim: a, axes: ['tp.0', 'tp.1'] },
      ]
      const segment = {
        name: f,
        phase: 'F',
        roles: [{ name: readRole(g), kind: 'data', bytes: 4 }],
        buffers: { [c]: buffer, [d]: buffer },
        instrs,
      } as const
      const block = { name: h, kind: g, stage: 0 }
      back({ ...program, name: a, blocks: [block], segments: { ...program.segments, [f]: segment } })
    }),
    { seed: 7, numRuns: 60 },
  )
})

function refuses(what: string, from: string | RegExp, to: string, message: RegExp) {
  test(`${what} is refused with its line`, () => {
    const lines = toyText({}).split('\n')
    const at = lines.findIndex(line => (typeof from === 'string' ? line.includes(from) : from.test(line)))
    lines[at] = lines[at].replace(from, to)
    assert.throws(
      () => parse(lines.join('\n')),
      (error: unknown) => {
        assert.ok(error instanceof ProblemsError)
        assert.equal(error.problems[0].line, at + 1)
        assert.match(error.message, message)
        return true
      },
    )
  })
}

refuses('an unknown instruction', '%y = gelu', '%y = gela', /unknown instruction 'gela'; did you mean 'gelu'/)
refuses('an unknown attribute', 'approximate=', 'aproximate=', /unknown attribute of gelu 'aproximate'; did you mean/)
refuses('a missing attribute', ' approximate=false', '', /gelu needs approximate/)
refuses('a size that is no number', 'ffn:8', 'ffn:many', /'many' is not a number/)
refuses('an axis that is none', 'ffn/tp', 'ffn/up', /'up' is not an axis/)
refuses('a step that is none', /^ {2}alloc/, '  aloc', /unknown line 'aloc'/)
refuses('a call without a microbatch', / microbatch=-1/, '', /microbatch= is missing/)
refuses('a buffer in a role that is none', '@stash+0', '@stach+0', /unknown role 'stach'/)
refuses('a line of noise', 'stages 1', '~~~', /unknown line/)
refuses('a line without its words', /^input x .*/, 'input', /a name is missing/)
refuses('an input without a dtype', /^input x .*/, 'input x', /expected one of f32, bf16, f16, i32, i8, f8e4m3, f8e5m2/)
refuses('a buffer without a place', ' @stash+0', '', /expected an offset such as @stash\+128/)
refuses('a frame without a place', / @0$/, '', /expected an offset such as @128/)
refuses('half a microbatch', 'microbatches 2', 'microbatches 2.5', /'2.5' is not an integer/)
refuses('a segment written twice', 'segment up.B ', 'segment up.F ', /segment up.F is written twice/)
refuses('a buffer declared twice', 'buffer %h ', 'buffer %x ', /%x is declared twice/)
refuses('a quote that is never closed', 'program toy', 'program "toy', /" is never closed/)
refuses('a name every record inherits', 'input x ', 'input constructor ', /'constructor' cannot be a name/)

test('a word too many at the end of a line is refused with its line, whatever the line is', () => {
  const text = print(compileJob(jobOf('gpt', { pp: 2, dp: 2, zero: 1, microbatches: 2 })))
  const lines = text.split('\n')
  const kinds = new Map(lines.map((line, i) => [line.trim().split(' ')[line.includes(' = ') ? 2 : 0], i]))
  for (const [kind, at] of kinds) {
    if (kind === '') continue
    // A list of operands may be longer, which the laws judge.
    for (const extra of ['more', ...(lines[at].includes(' = ') ? [] : ['7'])]) {
      const longer = lines.with(at, `${lines[at]} ${extra}`)
      assert.equal(readOrRefused(longer.join('\n')), at + 1, longer[at])
    }
  }
})

test('what is no program: the first line that cannot be read is named', () => {
  for (const [text, line] of [
    ['program x\ninput', 2],
    ['program x\n\nblock', 3],
    ['toString', 1],
    ['segment', 1],
    ['stream', 1],
    ['program x\nsegment s phase=F\n  role', 3],
    ['program x\nsegment s phase=F\n  %y = constructor %x', 3],
    ['program x\nstream 0 arena=0\n  peak data', 3],
    ['program x\nstream 0 arena=0\n  call', 3],
  ] as const)
    assert.equal(readOrRefused(text), line, text)
})

/** The program, or the first line that cannot be read. */
function readOrRefused(text: string): Program | number {
  try {
    return parse(text)
  } catch (error) {
    assert.ok(error instanceof ProblemsError, `${error} for\n${text}`)
    return error.problems[0].line ?? assert.fail(error.message)
  }
}

for (const [what, text] of [
  ['the toy', toyText({ dp: 2, tp: 2, pp: 2, tied: true })],
  ['a compiled program', print(compileJob(jobOf('gpt', { dp: 2, zero: 1, precision: 'bf16' })))],
] as const)
  later(`${what} with slips in it (seed 3) is read, or refused with a line, and the laws can judge it`, () => {
    let refused = 0
    fc.assert(
      fc.property(damaged(text), slipped => {
        const read = readOrRefused(slipped)
        if (typeof read === 'number') refused++
        else verify(read)
      }),
      { seed: 3, numRuns: 100 },
    )
    assert.ok(refused > 30, `only ${refused} refused`)
  })

test('one rank of many reads on a page: its place, its groups, each segment once, its stream', () => {
  const text = printRank(toy({ dp: 2, tp: 2, pp: 2 }), 5)
  assert.match(text, /^rank 5 of 8: tp 1\/2 dp 0\/2 pp 1\/2\n/)
  assert.match(text, /^ {2}dp: 5 7$/m)
  assert.match(text, /^ {2}dp x tp x pp: 0 4 1 5 2 6 3 7$/m)
  assert.match(text, /head\.F \(head, microbatch 1\): y=y1@\d+ stash=b1@\d+/)
  assert.match(text, /send dy0@\d+ to rank 1, B0/)
  assert.equal(text.match(/^segment head\.F /gm)?.length, 1)
  assert.doesNotMatch(text, /up\.F/)
  assert.match(printRank(toy({ dp: 2, zero: 1 }), 0), /start v\.sum: reduce\n[\s\S]* wait v\.sum\n/)
})
