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
import { close, fixtureNames, readAttention, readFixture } from './fixtures.js'
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
  readonly maps: readonly ({ cp: number; seq: number; torch_restore: number[] } & Record<Split, Positions>)[]
  readonly usp: readonly ({ ring: number; ulysses: number; seq: number } & Record<Split, number[][]>)[]
}
interface Positions {
  readonly positions: number[][]
  /** Per rank and step of a ring, how many pairs of a query and a key that it sees meet. */
  readonly pairs_rank_step: number[][]
  readonly pairs_rank: number[]
  readonly rank_efficiency: number
}
type Split = 'contiguous' | 'zigzag'
const splits: Splits = JSON.parse(readFixture('cp/splits.json'))

for (const { cp, seq, torch_restore, ...split } of splits.maps)
  test(`cp ${cp} of ${seq} tokens: the positions of Megatron, PyTorch and yunchang`, () => {
    const axes = [{ name: 'cp', size: cp }] as const
    for (const [how, mesh] of Object.entries({ contiguous: { axes }, zigzag: { axes, zigzag } })) {
      const { positions, pairs_rank_step, pairs_rank, rank_efficiency } = split[how as Split]
      const ours = held(mesh, seq)
      deepEqual(ours, positions)
      const pairs = ours.map((queries, rank) => ours.map((_, step) => pairsOf(queries, ours[(rank + cp - step) % cp])))
      deepEqual(pairs, pairs_rank_step)
      const sums = pairs.map(steps => steps.reduce((a, b) => a + b))
      deepEqual(sums, pairs_rank)
      close([(seq * (seq + 1)) / 2 / cp / Math.max(...sums)], [rank_efficiency], 'efficiency')
    }
    const order = held({ axes, zigzag }, seq).flat()
    deepEqual(
      order.map((_, position) => order.indexOf(position)),
      torch_restore,
    )
  })

/** Causal pairs of queries and keys. */
const pairsOf = (queries: readonly number[], keys: readonly number[]): number =>
  queries.reduce((sum, query) => sum + keys.filter(key => key <= query).length, 0)

for (const { ring, ulysses, seq, ...positions } of splits.usp)
  test(`${seq} tokens over a ring of ${ring} ranks, cut over ${ulysses} in the order of what a rank holds`, () => {
    const axes = [
      { name: 'tp', size: ulysses },
      { name: 'cp', size: ring },
    ] as const
    deepEqual(held({ axes }, seq), positions.contiguous)
    deepEqual(held({ axes, zigzag }, seq), positions.zigzag)
  })

const plans = [
  ['gpt', { cp: 2 }],
  ['gpt', { cp: 4, zigzag: false }],
  ['gpt tied', { cp: 2, dp: 2, zero: 3, microbatches: 2 }],
  ['llama', { cp: 2, tp: 4, recompute: 'full' }],
  ['llama tied', { cp: 2, tp: 2, sequenceParallel: true, zero: 1 }],
  ['llama tied', { cp: 2, pp: 2, microbatches: 4, schedule: 'zb-v', zero: 2 }],
  ['llama', { cp: 2, dp: 2, pp: 2, microbatches: 4, schedule: 'dualpipe', rankOrder: 'cp-tp-dp-pp' }],
] as const

const tested = family('context parallelism', 8)
for (const [model, plan] of plans)
  tested(`${model} with ${titleOf(plan)} computes what one rank computes`, () =>
    computesWhatOneRankComputes(shallow(jobOf(model, plan))),
  )

later('a longer sequence, cut twelve ways in zigzag', () =>
  computesWhatOneRankComputes(jobOf('gpt tied', { cp: 6, tp: 2, sequenceParallel: true }, { seq: 24 })),
)

for (const name of fixtureNames('cp', /^attention_.*\.json$/))
  test(`${name}: queries in zigzag parts against all keys are torch’s attention, and so are gradients`, () => {
    const { window: last, tensors } = readAttention(name)
    const { q, k, v, dout, out, lse, dq, dk, dv } = tensors
    const seq = q.dims[1].size
    const parts = [4, 3, 2].find(count => seq % (2 * count) === 0) ?? 1
    const mesh: Mesh = { axes: [{ name: 'cp', size: parts }], ...(parts > 1 && { zigzag }) }
    const window = last === null ? {} : { window: last }
    const sums = [dk, dv].map(({ values }) => new Float64Array(values.length))
    for (let cp = 0; cp < parts; cp++) {
      const part = partAlong(mesh, ['cp'], { name: 'seq', size: seq / parts }, { cp })
      const cut = (of: Tensor): Tensor => partOf(of, seq / parts, i => positionIn(part, i))
      const place = { origin: { seq: part.origin }, whole: { seq }, gap: { dim: 'seq', ...part } }
      const queries = { ...cut(q), ...place }
      const results = runOp({ kind: 'attention', ...window }, [queries, k, v], [cut(out), cut(lse)])
      for (const [i, expected] of [cut(out), cut(lse)].entries()) close(results[i], expected.values, `${i}`)
      const saved = [cut(out), cut(lse)]
      const grads = runOp({ kind: 'attentionGrad', ...window }, [cut(dout), queries, k, v, ...saved], [queries, k, v])
      close(grads[0], cut(dq).values, 'dq')
      for (const [i, sum] of sums.entries()) for (const e of sum.keys()) sum[e] += grads[i + 1][e]
    }
    for (const [i, { values }] of [dk, dv].entries()) close(sums[i], values, 'dk and dv')
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
  deepEqual(problems('mlp', { cp: 2 }), ['plan.cp cp 2 shards sequences, but an mlp has none'])
  deepEqual(problems('gpt', { cp: 2, tp: 4, sequenceParallel: true }), [
    'plan.sequenceParallel seq 4 cannot be split cp 2 x tp 4 = 8 ways',
  ])
  deepEqual(problems('gpt', { zigzag: true }), ['plan.zigzag has no effect with cp 1'])
})
