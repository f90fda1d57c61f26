/**
 * A ring whose ranks the experts cut in two: keys go round along several axes of the mesh, read as one. Random plans of such
 * meshes compute what one rank computes (PLANS=100 draws more, SEED=2 others), and the laws name what is wrong with a turn.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { type Instr, type InstrOf, parse, print, SerialReplay, verify } from '../src/ir/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { computesWhatOneRankComputes, titleOf } from './jobs.js'

type PlanInput = NonNullable<JobInput['plan']>

const jobOf = (model: keyof typeof expertModels, plan: PlanInput): Job =>
  Job.parse({ model: expertModels[model], training: { seq: 16, globalBatch: 4, clip: 0.5 }, plan })

const shiftsIn = (job: Job) =>
  Object.values(compileJob(job).segments).flatMap(({ instrs }) => instrs.filter(({ kind }) => kind === 'shift'))

const isCut = (job: Job): boolean =>
  check(job).every(({ severity }) => severity !== 'error') &&
  shiftsIn(job).some(instr => instr.kind === 'shift' && instr.group.axes.length > 1)

const grid = {
  model: Object.keys(expertModels) as (keyof typeof expertModels)[],
  cp: [4, 4, 8],
  attention: ['ring', 'ring', 'ring', { ulysses: 2, ring: 4 }],
  ...{ dp: [1, 1, 2], tp: [1, 1, 2], pp: [1, 1, 2], ep: [2, 4, 8], etp: [1, 1, 2, 4] },
  ...{ zigzag: [undefined, false], sequenceParallel: [false, true], zero: [0, 1, 2, 3], rows: ['worst', 4] },
  ...{ recompute: ['none', 'selective', 'full'], microbatches: [1, 2], schedule: ['1f1b', 'zb-h1', 'gpipe'] },
} as const

const seed = Number(process.env.SEED ?? 1)
const { pick } = choices(seed)

function drawn(): { readonly title: string; readonly job: Job } {
  for (;;) {
    const { model, ...plan } = Object.fromEntries(
      Object.entries(grid).map(([name, values]) => [name, pick(values as readonly unknown[])]),
    ) as { model: keyof typeof expertModels } & PlanInput // one of each
    const { dp = 1, cp = 1, tp = 1, pp = 1 } = plan
    const job = dp * cp * tp * pp <= 16 ? jobOf(model, plan) : undefined
    if (job && isCut(job)) return { title: `${model} ${titleOf(plan)}`, job }
  }
}

for (let n = 0; n < Number(process.env.PLANS ?? 5); n++) {
  const { title, job } = drawn()
  test(`${title} (SEED=${seed} #${n})`, () => computesWhatOneRankComputes(job))
}

test('a ring of three factors: one splits experts, one shares them, one repeats them', () => {
  const job = jobOf('mixtral', { cp: 8, ep: 2, etp: 2, attention: 'ring', expertCapacity: 'worst' })
  deepEqual(
    compileJob(job).mesh.axes.filter(({ size }) => size > 1),
    [
      { name: 'cp.0.2', size: 2 },
      { name: 'cp.0.1', size: 2 },
      { name: 'cp.0.0', size: 2 },
    ],
  )
  computesWhatOneRankComputes(job)
})

const job = jobOf('mixtral', { cp: 4, ep: 2, attention: 'ring', expertCapacity: 'worst' })
const ring = compileJob(job)
const serial = new SerialReplay(compileJob(serialJob(job, 1)))

/** Laws broken by a program in which some instructions of the forward, or of the backward, are others. */
function broken(segment: string, change: (instr: Instr, all: readonly Instr[]) => Instr | readonly Instr[]): string[] {
  const { instrs, ...rest } = ring.segments[segment]
  const segments = { ...ring.segments, [segment]: { ...rest, instrs: instrs.flatMap(i => change(i, instrs)) } }
  return verify({ ...ring, segments }, serial).map(({ law, message }) => `${law} ${message}`)
}

const merges = (instrs: readonly Instr[]) => instrs.filter(instr => instr.kind === 'attentionMerge')
const shifts = (instrs: readonly Instr[]) => instrs.filter(instr => instr.kind === 'shift')
const another = (instr: Instr, which: InstrOf<'shift'>, change: Partial<InstrOf<'shift'>>) =>
  instr === which ? { ...which, ...change } : instr

const mutations: readonly [string, string, Parameters<typeof broken>[1], RegExp][] = [
  [
    'a step that is lost',
    'routed.F',
    (instr, all) => {
      const [lost, next] = merges(all)
      if (instr === lost) return []
      return instr === next ? { ...next, ins: [...lost.ins.slice(0, 2), ...next.ins.slice(2)] } : instr
    },
    /T2 attentionMerge: .*share:cp\.0\.0,cp\.0\.1=0,2\/0,1,2,3/,
  ],
  [
    'a step that counts twice',
    'routed.F',
    (instr, all) => {
      const [first, next] = merges(all)
      return instr === next ? { ...next, ins: [...next.ins.slice(0, 2), ...first.ins.slice(2)] } : instr
    },
    /T1 attentionMerge: the partial output of ring step 1 is merged twice/,
  ],
  [
    'two steps that are swapped',
    'routed.F',
    (instr, all) => {
      const [, second, third] = all.filter(other => other.kind === 'attention')
      if (instr === second) return { ...second, ins: third.ins }
      return instr === third ? { ...third, ins: second.ins } : instr
    },
    /L6|T2 attention/,
  ],
  [
    'keys that go round within a part of the ring',
    'routed.F',
    (instr, all) => another(instr, shifts(all)[0], { group: { axes: ['cp.0.1'] } }),
    /T1 shift: .*it is not rotated along cp\.0\.1/,
  ],
  [
    'keys that go round between the parts only',
    'routed.F',
    (instr, all) => another(instr, shifts(all)[0], { group: { axes: ['cp.0.0'] } }),
    /T2 shift: .*seq:4\/cp\.0\.0\+1,cp\.0\.1.*by its instruction/,
  ],
  [
    'keys that go round in another order of the ranks',
    'routed.F',
    (instr, all) => another(instr, shifts(all)[0], { group: { axes: ['cp.0.1', 'cp.0.0'] } }),
    /T1 shift: .*it is not rotated along cp\.0\.1,cp\.0\.0/,
  ],
  [
    'gradients that come home to another rank',
    'routed.B',
    instr => (instr.kind === 'shift' && instr.by === -2 ? { ...instr, by: -3 } : instr),
    /T2 shift: .*cp\.0\.1\+3.*by its instruction/,
  ],
]

test('as it is, the program breaks no law', () =>
  deepEqual(
    broken('routed.F', instr => instr),
    [],
  ))

for (const [what, segment, change, pattern] of mutations)
  test(`the laws name ${what}`, () => {
    const lines = broken(segment, change)
    ok(
      lines.some(line => pattern.test(line)),
      lines.slice(0, 4).join('\n') || 'nothing',
    )
  })

test('a turn along several axes is written down and read back', () => {
  const text = print(ring)
  ok(/ seq:4\/cp\.0\.0,cp\.0\.1\+3 /.test(text) && / share:cp\.0\.0,cp\.0\.1=0,1\/0,1,2,3/.test(text))
  equal(print(parse(text)), text)
  const said = (from: string, to: string) => {
    const program = parse(text.replaceAll(from, to))
    return verify(program, serial).map(({ law, message }) => `${law} ${message}`)
  }
  ok(
    said('cp.0.0,cp.0.1+3', 'cp.0.0,cp.0.1+4').some(line =>
      /W3 .*4 is not a ring step along cp\.0\.0,cp\.0\.1/.test(line),
    ),
  )
})

for (const model of Object.keys(expertModels) as (keyof typeof expertModels)[])
  test(`a program of ${model} is written down and read back`, () => {
    const text = print(compileJob(jobOf(model, { cp: 4, ep: 2, attention: 'ring', expertCapacity: 4 })))
    equal(print(parse(text)), text)
  })
