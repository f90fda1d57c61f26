/**
 * Context parallelism: the sequence is split over ranks, in order or in zigzag, and keys and values are gathered. Positions
 * are those others give, and every plan computes what one rank computes.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { type Mesh, partAlong, positionIn, worldOf } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { bufferBytes } from '../src/cost/index.js'
import { isCollective, parse, print, verifyStructure } from '../src/ir/index.js'
import { check } from '../src/plan/index.js'
import { family, later, test } from './families.js'
import { fixtureNames, readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, shallow, titleOf } from './jobs.js'
import { runOp, type Tensor } from './tiny.js'

/** The positions each rank holds of a sequence split over cp, and maybe over tp within. */
function held(mesh: Mesh, seq: number): number[][] {
  const axes = mesh.axes.map(({ name }) => name).toReversed()
  const size = seq / worldOf(mesh)
  return Array.from({ length: worldOf(mesh) }, (_, rank) => {
    const minor = mesh.axes.length > 1 ? mesh.axes[0].size : 1
    const part = partAlong(mesh, axes, { name: 'seq', size }, { cp: Math.floor(rank / minor), tp: rank % minor })
    return Array.from({ length: size }, (_, i) => positionIn(part, i))
  })
}

const zigzag = { dim: 'seq', axis: 'cp' } as const

interface Splits {
  readonly maps: readonly { cp: number; seq: number; contiguous: Positions; zigzag: Positions }[]
  readonly usp: readonly { ring: number; ulysses: number; seq: number; zigzag: number[][] }[]
}
interface Positions {
  readonly positions: number[][]
}
const splits: Splits = JSON.parse(readFixture('cp/splits.json'))

for (const { cp, seq, ...split } of splits.maps)
  test(`cp ${cp} of ${seq} tokens: the positions of Megatron, PyTorch and yunchang`, () => {
    const axes = [{ name: 'cp', size: cp }] as const
    deepEqual(held({ axes }, seq), split.contiguous.positions)
    deepEqual(held({ axes, zigzag }, seq), split.zigzag.positions)
  })

for (const { ring, ulysses, seq, zigzag: positions } of splits.usp)
  test(`a zigzag over ${ring} ranks, cut over ${ulysses} in the order of what a rank holds`, () =>
    deepEqual(
      held(
        {
          axes: [
            { name: 'tp', size: ulysses },
            { name: 'cp', size: ring },
          ],
          zigzag,
        },
        seq,
      ),
      positions,
    ))

const plans = [
  ['gpt', { cp: 2 }],
  ['gpt', { cp: 4, zigzag: false }],
  ['gpt tied', { cp: 2, dp: 2, zero: 3, microbatches: 2 }],
  ['llama', { cp: 2, tp: 4, recompute: 'full' }],
  ['llama tied', { cp: 2, tp: 2, sequenceParallel: true, zero: 1 }],
  ['llama tied', { cp: 2, pp: 2, microbatches: 4, schedule: 'zb-v', zero: 2 }],
  ['llama', { cp: 2, dp: 2, pp: 2, microbatches: 4, schedule: 'dualpipe', order: 'cp-tp-dp-pp' }],
] as const

const tested = family('context parallelism', 8)
for (const [model, plan] of plans)
  tested(`${model} with ${titleOf(plan)} computes what one rank computes`, () =>
    computesWhatOneRankComputes(shallow(jobOf(model, plan))),
  )

later('a longer sequence, cut twelve ways in zigzag', () =>
  computesWhatOneRankComputes(jobOf('gpt tied', { cp: 6, tp: 2, sequenceParallel: true }, { seq: 24 })),
)

interface Case {
  readonly window: number | null
  readonly [tensor: string]: unknown
}

for (const name of fixtureNames('cp', /^attention_.*\.json$/))
  test(`${name}: queries in zigzag parts against all keys are torch’s attention`, () => {
    const given: Case = JSON.parse(readFixture(`cp/${name}`))
    const tensor = (of: string): Tensor => {
      const { dims, data } = given[of] as { dims: [string, number][]; data: number[] }
      return { dims: dims.map(([name, size]) => ({ name, size })), values: data }
    }
    const [q, k, v, out, lse] = ['q', 'k', 'v', 'out', 'lse'].map(tensor)
    const seq = q.dims.find(dim => dim.name === 'seq')!.size
    const parts = [4, 3, 2].find(count => seq % (2 * count) === 0) ?? 1
    const mesh: Mesh = { axes: [{ name: 'cp', size: parts }], ...(parts > 1 && { zigzag }) }
    for (let cp = 0; cp < parts; cp++) {
      const part = partAlong(mesh, ['cp'], { name: 'seq', size: seq / parts }, { cp })
      const cut = (of: Tensor): Tensor => partOf(of, seq / parts, i => positionIn(part, i))
      const place = { origin: { seq: part.origin }, whole: { seq }, gap: { dim: 'seq', ...part } }
      const window = given.window === null ? {} : { window: given.window }
      const results = runOp({ kind: 'attention', ...window }, [{ ...cut(q), ...place }, k, v], [cut(out), cut(lse)])
      for (const [i, expected] of [cut(out), cut(lse)].entries())
        for (const [e, value] of Array.from(expected.values).entries()) ok(Math.abs(results[i][e] - value) < 1e-12)
    }
  })

/** Of a tensor [batch seq ...], some of the positions. */
function partOf({ dims, values }: Tensor, size: number, position: (i: number) => number): Tensor {
  const [batch, seq, ...rest] = dims
  const row = rest.reduce((n, dim) => n * dim.size, 1)
  const taken: number[] = []
  for (let b = 0; b < batch.size; b++)
    for (let s = 0; s < size; s++)
      for (let e = 0; e < row; e++) taken.push(values[(b * seq.size + position(s)) * row + e])
  return { dims: [batch, { ...seq, size }, ...rest], values: taken }
}

test('keys and values are gathered once forward and once backward, their gradients scattered', () => {
  const program = compileJob(jobOf('llama', { cp: 2, recompute: 'none' }))
  const bytes = (segment: string) =>
    program.segments[segment].instrs
      .filter(isCollective)
      .filter(({ group }) => group.axes.join() === 'cp')
      .map(({ kind, ins, outs }) => {
        const { buffers } = program.segments[segment]
        const wide = Math.max(...[ins[0], outs[0]].map(ref => bufferBytes(program.mesh, buffers[ref])))
        return `${kind} ${wide}`
      })
      .sort()
  const keys = 16 * 4 * 2 * 2 * 4 // batch x seq x kvHeads x headDim, in f32
  deepEqual(bytes('layers.F'), [`all-gather ${keys}`, `all-gather ${keys}`])
  deepEqual(
    bytes('layers.B').filter(line => line.startsWith('reduce-scatter')),
    [`reduce-scatter ${keys}`, `reduce-scatter ${keys}`],
  )
})

test('a program says once that its sequence is split in zigzag, and text keeps it', () => {
  const text = print(compileJob(jobOf('gpt', { cp: 2 })))
  equal(text.match(/zigzag/g)?.length, 1)
  equal(print(parse(text)), text)
  const broken = parse(text.replace('zigzag seq/cp', 'zigzag seq/cp.1'))
  ok(verifyStructure(broken).some(({ law, message }) => law === 'W1' && /zigzag/.test(message)))
})

test('what cp cannot split is said with the equation', () => {
  const problems = (...args: Parameters<typeof jobOf>) =>
    check(jobOf(...args)).map(({ path, message }) => `${path} ${message}`)
  deepEqual(problems('gpt', { cp: 3 }), ['plan.cp seq 4 % cp 3 = 1, must be 0'])
  deepEqual(problems('gpt', { cp: 4, zigzag: true }), ['plan.zigzag seq 4 % (2 x cp 4) = 4, must be 0'])
  deepEqual(problems('mlp', { cp: 2 }), ['plan.cp cp 2 splits a sequence, an mlp has none'])
  deepEqual(problems('gpt', { cp: 2, tp: 4, sequenceParallel: true }), [
    'plan.sequenceParallel seq 4 cannot be split cp 2 x tp 4 = 8 ways',
  ])
  deepEqual(problems('gpt', { zigzag: true }), ['plan.zigzag has no effect with cp 1'])
})
