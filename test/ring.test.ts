/**
 * Attention over a sequence that is split: keys go round in a ring, ranks exchange sequence for heads, or both. Every step is
 * an ordinary instruction, so laws, traffic and order can be read off a program.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { sizeOfAll } from '../src/base/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { bufferBytes } from '../src/cost/index.js'
import {
  type Instr,
  type InstrOf,
  isCollective,
  type Program,
  parse,
  print,
  SerialReplay,
  verify,
} from '../src/ir/index.js'
import { check, Job, type PlanInput } from '../src/plan/index.js'
import { family, test } from './families.js'
import { computesWhatOneRankComputes, jobOf, shallow, titleOf } from './jobs.js'

const hybrid = { ulysses: 2, ring: 2 } as const

const plans = [
  ['gpt tied', { cp: 3, attention: 'ring', zigzag: false, dp: 2, zero: 2 }, 6],
  ['gpt', { cp: 2, attention: 'ulysses', tp: 2, zero: 1 }, 4],
  ['llama tied', { cp: 4, attention: 'ring', zigzag: false, recompute: 'selective' }, 8],
  ['llama tied', { cp: 4, attention: hybrid, tp: 2, sequenceParallel: true }, 8],
  ['llama', { cp: 4, attention: 'ulysses', recompute: 'full', zero: 3, overlap: false }, 4],
  ['llama tied', { cp: 2, attention: 'ring', pp: 2, microbatches: 4, schedule: 'zb-v' }, 4],
  ['llama', { cp: 4, attention: hybrid, pp: 2, microbatches: 4, schedule: 'dualpipe', rankOrder: 'cp-tp-dp-pp' }, 4],
] as const

const tested = family('ring attention', 8)
for (const [model, plan, seq] of plans)
  tested(`${model} of ${seq} tokens with ${titleOf(plan)} computes what one rank computes`, () =>
    computesWhatOneRankComputes(shallow(jobOf(model, plan, { seq, globalBatch: 4 }))),
  )

/** Experts over the ranks that exchange heads, beside keys that go round. */
const routed = (plan: PlanInput): Job => {
  const sizes = { family: 'llama', layers: 2, embed: 12, heads: 6, kvHeads: 6, headDim: 2, ffn: 8, vocab: 8 } as const
  const model = { ...sizes, moe: { experts: 8, topK: 2, ffn: 8 } }
  return Job.parse({ model, training: { seq: 12, globalBatch: 2 }, plan: { expertCapacity: 'worst', ...plan } })
}

test('experts that cut cp where the ring begins leave it whole', () => {
  computesWhatOneRankComputes(routed({ cp: 4, attention: hybrid, ep: 2, zigzag: false }))
  const problems = (plan: PlanInput) => check(routed(plan)).map(({ message }) => message)
  deepEqual(problems({ cp: 4, attention: 'ring', ep: 2, zigzag: false }), [])
  deepEqual(problems({ cp: 6, attention: { ulysses: 3, ring: 2 }, ep: 2 }), [
    'the meshes tp 1 x cp 6 x dp 1 and etp 1 x ep 2 x 3 do not nest: each of 2, 3, 6 must divide the next',
  ])
})

const instrsOf = (program: Program, phase: string): readonly Instr[] => program.segments[`layers.${phase}`].instrs
const shifts = (program: Program, phase: string) =>
  instrsOf(program, phase).filter((instr): instr is InstrOf<'shift'> => instr.kind === 'shift')

/** Bytes that a rank sends along cp in one phase of a layer. */
function sent(program: Program, phase: string): number {
  const { buffers, instrs } = program.segments[`layers.${phase}`]
  const bytes = (refs: readonly string[]) => refs.reduce((n, ref) => n + bufferBytes(program.mesh, buffers[ref]), 0)
  return instrs.filter(isCollective).reduce((total, instr) => {
    const { kind, ins, outs, group } = instr
    if (!group.axes.every(axis => axis.startsWith('cp'))) return total
    const ranks = sizeOfAll(program.mesh, group.axes)
    const whole = bytes(kind === 'all-gather' ? outs : ins)
    return total + (kind === 'shift' ? whole : (whole * (ranks - 1)) / ranks)
  }, 0)
}

test('what a rank sends is what the formulas say', () => {
  const [batch, seq, heads, kvHeads, headDim] = [16, 8, 4, 2, 2]
  const token = 4 * batch * seq * headDim
  const jobs = [
    [{ cp: 4, attention: 'ring' }, 2 * (3 / 4) * kvHeads, 4 * (3 / 4) * kvHeads],
    [{ cp: 4, attention: 'gather' }, 2 * (3 / 4) * kvHeads, 4 * (3 / 4) * kvHeads],
    [{ cp: 2, attention: 'ulysses' }, (1 / 4) * 2 * (heads + kvHeads), (1 / 4) * 2 * (heads + kvHeads)],
    // Half of the ring's keys and values, a quarter of the sequence exchanged.
    [
      { cp: 4, attention: hybrid },
      (1 / 8) * 2 * (heads + kvHeads) + kvHeads / 2,
      (1 / 8) * 2 * (heads + kvHeads) + kvHeads,
    ],
  ] as const
  for (const [plan, forward, backward] of jobs) {
    const program = compileJob(jobOf('llama', plan, { seq }))
    deepEqual([sent(program, 'F'), sent(program, 'B')], [forward * token, backward * token], titleOf(plan))
  }
})

test('fewer key-value heads than ranks that exchange: queries are exchanged by groups, keys gathered', () => {
  const program = compileJob(jobOf('llama tied', { cp: 4, attention: 'ulysses' }))
  deepEqual(
    program.mesh.axes.filter(({ size }) => size > 1),
    [{ name: 'cp.1', size: 4 }],
  )
  const kinds = instrsOf(program, 'F').filter(isCollective)
  deepEqual(kinds.map(({ kind }) => kind).sort(), ['all-gather', 'all-gather', 'all-to-all', 'all-to-all'])
})

test('a window over a sequence that is cut in order needs the keys of few ranks', () => {
  const turns = (window: number, zigzag: boolean) => {
    const job = jobOf('llama tied', { cp: 8, attention: 'ring', zigzag }, { seq: 32 })
    return shifts(compileJob({ ...job, model: { ...job.model, window } as typeof job.model }), 'F').map(({ by }) => by)
  }
  // Of 4 tokens a rank: windows of 1, of 5 and of 6 reach no, one and two ranks back.
  deepEqual(
    [1, 2, 5, 6, 9, 10].map(window => turns(window, false).length),
    [0, 1, 1, 2, 2, 3],
  )
  // In zigzag the neighbours of a late chunk are on the next rank.
  deepEqual(turns(3, true), [1, 6])
})

test('the next keys are under way while these are used, gradients while the next are made', () => {
  const program = compileJob(jobOf('gpt', { cp: 4, attention: 'ring' }, { seq: 8 }))
  const order = (phase: string) => {
    const instrs = instrsOf(program, phase)
    const first = instrs.findIndex(({ kind }) => kind === 'shift')
    const ofRing = new Set(shifts(program, phase).map(({ outs }) => outs[0]))
    return instrs
      .slice(first)
      .flatMap(instr =>
        instr.kind === 'shift'
          ? [instr.by > 0 ? 'send' : 'home']
          : instr.kind === 'wait' && ofRing.has(instr.on)
            ? ['wait']
            : instr.kind === 'attention' || instr.kind === 'attentionGrad'
              ? ['attend']
              : [],
      )
      .join(' ')
  }
  equal(order('F'), 'send attend wait send attend wait send attend wait attend')
  equal(order('B'), 'send attend wait send attend home wait send attend home wait wait attend home wait wait')
})

const job = jobOf('gpt', { cp: 4, attention: 'ring', recompute: 'selective' }, { seq: 8, globalBatch: 2 })
const ring = compileJob(job)
const serial = new SerialReplay(compileJob(serialJob(job)))

/** Laws broken by a program in which some instructions of a segment are others. */
function broken(segment: string, change: (instr: Instr, all: readonly Instr[]) => Instr | readonly Instr[]): string[] {
  const program = ring
  const { instrs } = program.segments[segment]
  const segments = {
    ...program.segments,
    [segment]: { ...program.segments[segment], instrs: instrs.flatMap(i => change(i, instrs)) },
  }
  return verify({ ...program, segments }, serial).map(({ law, message }) => `${law} ${message}`)
}

const merges = (instrs: readonly Instr[]) =>
  instrs.filter((instr): instr is InstrOf<'attentionMerge'> => instr.kind === 'attentionMerge')

const names = (lines: readonly string[], pattern: RegExp) =>
  ok(
    lines.some(line => pattern.test(line)),
    lines.slice(0, 4).join('\n') || 'nothing',
  )

const mutations: readonly [string, string, Parameters<typeof broken>[1], RegExp][] = [
  [
    'a step that is lost',
    'layers.F',
    (instr, all) => {
      const [lost, next] = merges(all)
      if (instr === lost) return []
      return instr === next ? { ...next, ins: [...lost.ins.slice(0, 2), ...next.ins.slice(2)] } : instr
    },
    /T2 attentionMerge: .*share:cp=0,2\/0,1,2,3/,
  ],
  [
    'a step that counts twice',
    'layers.F',
    (instr, all) => {
      const [first, next] = merges(all)
      return instr === next ? { ...next, ins: [...next.ins.slice(0, 2), ...first.ins.slice(2)] } : instr
    },
    /T1 attentionMerge: the partial output of ring step 1 is merged twice/,
  ],
  [
    'keys of one rank with the values of another',
    'layers.F',
    (instr, all) => {
      if (instr.kind !== 'attention') return instr
      const steps = all.filter(other => other.kind === 'attention')
      return instr === steps[2] ? { ...instr, ins: [...instr.ins.slice(0, 2), steps[1].ins[2]] } : instr
    },
    /T1 attention: keys and values come from different ranks/,
  ],
  [
    'keys that go too far',
    'layers.F',
    (instr, all) =>
      instr === all.find(({ kind }) => kind === 'shift') ? { ...(instr as InstrOf<'shift'>), by: 2 } : instr,
    /T2 shift: .*seq:2\/cp\+2.*by its instruction/,
  ],
  [
    'gradients that come home to another rank',
    'layers.B',
    instr => (instr.kind === 'shift' && instr.by === -2 ? { ...instr, by: -1 } : instr),
    /T2 shift: .*seq:2\/cp\+1.*by its instruction/,
  ],
  [
    'a gradient of attention to some of the keys',
    'layers.B',
    (instr, all) =>
      instr.kind === 'attentionGrad' ? { ...instr, ins: [...instr.ins.slice(0, 4), ...merges(all)[0].outs] } : instr,
    /T1 attentionGrad: .*it has the partial outputs of ring steps 0,1 of 0,1,2,3/,
  ],
  [
    'a share that is taken for the value',
    'layers.F',
    (instr, all) =>
      instr.kind === 'contract' && instr.ins.includes(merges(all)[2].outs[0])
        ? { ...instr, ins: instr.ins.map(ref => (ref === merges(all)[2].outs[0] ? merges(all)[1].outs[0] : ref)) }
        : instr,
    /T1 contract: .*it has the partial outputs of ring steps 0,1,2 of 0,1,2,3/,
  ],
]

test('as it is, the program breaks no law', () =>
  deepEqual(
    broken('layers.F', instr => instr),
    [],
  ))

for (const [what, segment, change, pattern] of mutations)
  test(`the laws name ${what}`, () => {
    names(broken(segment, change), pattern)
  })

test('a program whose layouts agree and whose numbers do not is named by what it computes', () => {
  const text = print(ring)
  // Nobody says any more that there are shares, and one is left out of the sum.
  const forged = parse(text.replaceAll(/ share:\S+/g, ''))
  const segment = forged.segments['layers.F']
  const [first] = merges(segment.instrs)
  const attends = segment.instrs.find(instr => instr.kind === 'attention')!
  ok('ins' in attends && first.ins[0] === ('outs' in attends ? attends.outs[0] : ''))
  names(
    verify(forged, serial).map(({ law }) => law),
    /T2/,
  )
})

test('turns and shares are written down and read back', () => {
  const text = print(ring)
  ok(
    / \[batch:2 seq:2\/cp\+3 /.test(text) &&
      / share:cp=0,1\/0,1,2,3/.test(text) &&
      / = shift .* by=1 over=cp/.test(text),
  )
  equal(print(parse(text)), text)
  names(
    verify(parse(text.replace('seq:2/cp+3', 'seq:2/cp+4')), serial).map(({ law, message }) => `${law} ${message}`),
    /W3 .*4 is not a ring step along cp/,
  )
  names(
    verify(parse(text.replace('share:cp=0/0,1,2,3', 'share:cp=5/0,1,2,3')), serial).map(
      ({ law, message }) => `${law} ${message}`,
    ),
    /W3 .*it cannot have the partial outputs 5 of 0,1,2,3 along cp/,
  )
})

test('kinds that do not fit are told with the equation', () => {
  const problems = (...args: Parameters<typeof jobOf>) =>
    check(jobOf(...args)).map(({ path, message, suggestion }) => `${path} ${message} | ${suggestion}`)
  deepEqual(problems('gpt', { cp: 4, attention: { ulysses: 2, ring: 4 } }), [
    'plan.attention ulysses 2 x ring 4 = 8, must be cp 4 | try ring 2 or cp 8',
  ])
  deepEqual(problems('gpt', { cp: 8, attention: 'ulysses' }, { seq: 8 }), [
    'plan.attention heads 4 cannot be split ulysses 8 ways | try attention { ulysses: 4, ring: 2 }, ring or gather',
  ])
  deepEqual(problems('llama', { cp: 4, tp: 2, attention: { ulysses: 4, ring: 1 } }), [
    'plan.attention.ulysses ulysses 4 = 1 x 4: kvHeads 1 per rank (tp 2) can be split 1 ways, but heads / kvHeads = 2 not 4 ways | try attention { ulysses: 2, ring: 2 }, ring or gather',
  ])
  deepEqual(problems('gpt', { attention: 'ring' }), ['plan.attention has no effect with cp 1 | undefined'])
  deepEqual(problems('gpt', { cp: 2, attention: 'ulysses', zigzag: true }), [
    'plan.zigzag has no effect with ulysses, whose ranks attend to the full sequence | undefined',
  ])
  deepEqual(problems('gpt', { cp: 4, attention: { ulysses: 1, ring: 4 }, zigzag: true }), [
    'plan.zigzag seq 4 % (2 x cp 4) = 4, must be 0 | try seq 8, cp 2 or zigzag: false',
  ])
})
