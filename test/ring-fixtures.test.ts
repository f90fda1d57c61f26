/** Attention in a ring beside ring-flash-attention: who holds what, who computes what, what is sent, and every partial result. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Mesh, partAlong, positionIn, sizeOfAll } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { keysOfTurn } from '../src/cost/round.js'
import { close, type FixtureTensor, readAttention, readFixture, tensorOf } from './fixtures.js'
import { jobOf } from './jobs.js'
import { runOp, type Tensor } from './tiny.js'

interface RingRun {
  readonly attention: string
  readonly variant: 'ring' | 'zigzag' | 'striped' | 'llama3'
  readonly cp: number
  readonly positions: number[][]
  /** Blocks each rank computes attention of: forward or backward, queries, keys, whether a mask cuts the block. */
  readonly kernel_calls: (readonly [pass: 'F' | 'B', queries: number, keys: number, causal: boolean])[][]
  /** Those of one rank; all have the same. */
  readonly messages?: (readonly ['send' | 'recv', shape: number[]])[][]
  readonly collectives?: (readonly [how: string, given: number, made: number])[]
  readonly steps?: Step[][]
}
interface Step {
  readonly from_local: number
  readonly block_out: FixtureTensor
  readonly block_lse: FixtureTensor
  readonly merged_lse: FixtureTensor
}
const runs: readonly RingRun[] = JSON.parse(readFixture('cp/ring_runs.json'))

const meshOf = (cp: number, zigzag: boolean): Mesh => ({
  axes: [{ name: 'cp', size: cp }],
  ...(zigzag && { zigzag: { dim: 'seq', axis: 'cp' } }),
})

/** Positions that each rank holds. Striped, which Lockstep does not have, deals them out one by one. */
function heldBy({ cp, variant }: RingRun, seq: number): number[][] {
  const size = seq / cp
  const mesh = meshOf(cp, variant === 'zigzag')
  return Array.from({ length: cp }, (_, rank) => {
    const part = partAlong(mesh, ['cp'], { name: 'seq', size }, { cp: rank })
    return Array.from({ length: size }, (_, i) => (variant === 'striped' ? rank + i * cp : positionIn(part, i)))
  })
}

type Block = readonly [queries: number, keys: number, causal: boolean]

/** The block of queries that see a key, and of keys that are seen, if there is one. */
function blockOf(queries: readonly number[], keys: readonly number[]): Block[] {
  const seeing = queries.filter(query => keys.some(key => key <= query))
  const seen = keys.filter(key => queries.some(query => key <= query))
  const isCut = seeing.some(query => seen.some(key => key > query))
  return seeing.length === 0 ? [] : [[seeing.length, seen.length, isCut]]
}

const repeated = <T>(times: number, value: T): T[] => Array.from({ length: times }, () => value)

for (const run of runs)
  test(`${run.variant} of ${run.cp} ranks: positions, blocks and messages are ring-flash-attention’s`, () => {
    const { cp, variant, positions, kernel_calls, messages, collectives } = run
    const { k } = readAttention(run.attention).tensors
    const [batch, seq, kvHeads, headDim] = k.dims.map(({ size }) => size)
    const held = heldBy(run, seq)
    deepEqual(held, positions)
    const blocks = held.map((queries, rank) =>
      variant === 'llama3' // gathers all keys, a head after the other
        ? repeated(kvHeads, blockOf(queries, held.flat())).flat()
        : held.flatMap((_, turn) => blockOf(queries, held[(rank + cp - turn) % cp])),
    )
    deepEqual(
      blocks.map(calls => (['F', 'B'] as const).flatMap(pass => calls.map(call => [pass, ...call]))),
      kernel_calls,
    )
    // Keys and values go round forward and backward, their gradients a round more, home.
    const part = [batch, seq / cp, kvHeads, headDim]
    const rounds = 2 * (cp - 1) + 2 * (cp - 1) + 2 * cp
    const sent = repeated(rounds, [['send', part], ['recv', part]]).flat() // biome-ignore format: a pair
    const [own, all] = [seq / cp, seq].map(positions => batch * positions * headDim)
    const gathered = repeated(4 * kvHeads, ['all-gather', own, all])
    const scattered = repeated(2 * kvHeads, ['reduce-scatter', all, own])
    if (variant === 'llama3') deepEqual(collectives, [...gathered, ...scattered])
    else deepEqual(messages, [sent])
  })

test('keys and values make as many messages as in ring-flash-attention, their gradients a round fewer', () => {
  for (const { cp, messages } of runs.filter(({ variant }) => variant === 'zigzag')) {
    const { segments } = compileJob(jobOf('llama', { cp, attention: 'ring' }, { seq: 4 * cp }))
    const [forward, backward] = ['F', 'B'].map(phase =>
      segments[`layers.${phase}`].instrs.reduce((n, instr) => n + (instr.kind === 'shift' ? instr.ins.length : 0), 0),
    )
    deepEqual([forward, backward], [2 * (cp - 1), 4 * (cp - 1)])
    for (const theirs of messages!) equal(theirs.filter(([how]) => how === 'send').length, forward + backward + 2)
  }
})

/** Of a tensor [batch seq ...], some positions, and where they lie. */
function partOf(of: Tensor, mesh: Mesh, cp: number): Tensor {
  const [batch, seq, ...rest] = of.dims
  const size = seq.size / sizeOfAll(mesh, ['cp'])
  const part = partAlong(mesh, ['cp'], { name: 'seq', size }, { cp })
  const row = rest.reduce((n, dim) => n * dim.size, 1)
  const values = Array.from({ length: batch.size * size * row }, (_, e) => {
    const [b, s] = [Math.floor(e / (size * row)), Math.floor(e / row) % size]
    return of.values[(b * seq.size + positionIn(part, s)) * row + (e % row)]
  })
  const place = { origin: { seq: part.origin }, whole: { seq: seq.size }, gap: { dim: 'seq', ...part } }
  return { dims: [batch, { ...seq, size }, ...rest], values, ...place }
}

/** In a tensor [batch seq ...], at which of its positions an element is. */
const positionOf = (i: number, { dims: [, seq, ...rest] }: Tensor): number =>
  Math.floor(i / rest.reduce((n, dim) => n * dim.size, 1)) % seq.size

/** Of results, those from a position on. */
const from = (values: ArrayLike<number>, shape: Tensor, first: number): number[] =>
  Array.from(values).filter((_, i) => positionOf(i, shape) >= first)

const namesOf = ({ dims }: Tensor): string => dims.map(({ name }) => name).join(' ')

for (const { attention, variant, cp, steps } of runs.filter(run => run.steps !== undefined))
  test(`${variant} of ${cp} ranks: every share and every merge is ring-flash-attention’s`, () => {
    const mesh = meshOf(cp, variant === 'zigzag')
    const { q, k, v, out } = readAttention(attention).tensors
    for (let rank = 0; rank < cp; rank++) {
      const queries = partOf(q, mesh, rank)
      const results = [queries, { ...queries, dims: queries.dims.slice(0, -1) }].map(of => ({ ...of, values: [] }))
      const [shape, rows] = results.map(namesOf)
      const theirs = [...steps![rank]]
      let sum: Tensor[] | undefined
      for (let turn = 0; turn < cp; turn++) {
        const keys = [k, v].map(of => partOf(of, mesh, (rank + cp - turn) % cp))
        const made = runOp({ kind: 'attention' }, [queries, ...keys], results)
        const share = made.map((values, i) => ({ ...results[i], values }))
        if (made[1].every(lse => lse === -Infinity)) continue // theirs leaves out what nobody sees
        const merged = sum && runOp({ kind: 'attentionMerge' }, [...sum, ...share], results)
        sum = merged ? merged.map((values, i) => ({ ...results[i], values })) : share
        const { from_local: first, block_out, block_lse, merged_lse } = theirs.shift()!
        ok(made[1].every((lse, i) => (lse === -Infinity) === positionOf(i, results[1]) < first))
        close(from(share[0].values, results[0], first), tensorOf(block_out, shape).values, 'out')
        close(from(share[1].values, results[1], first), tensorOf(block_lse, rows).values, 'lse')
        close(sum[1].values, tensorOf(merged_lse, rows).values, 'merged')
      }
      deepEqual(theirs, [])
      close(sum![0].values, partOf(out, mesh, rank).values, 'whole')
    }
  })

interface Split {
  readonly pairs_rank_step: number[][]
  readonly lockstep_efficiency: number
}
const { maps }: { maps: { cp: number; seq: number; contiguous: Split; zigzag: Split }[] } = JSON.parse(
  readFixture('cp/splits.json'),
)

for (const { cp, seq, ...splits } of maps)
  test(`a ring of ${cp} ranks and ${seq} tokens is priced by the pairs of the rank that has most`, () => {
    for (const how of ['contiguous', 'zigzag'] as const) {
      const { pairs_rank_step, lockstep_efficiency } = splits[how]
      const mesh = meshOf(cp, how === 'zigzag')
      const dims = [{ name: 'seq', size: seq / cp }]
      const held = (turn: number) => {
        const turned = turn > 0 && { turn: { axes: ['cp' as const], by: turn } }
        const layout = { splits: { seq: ['cp' as const] }, partial: {}, ...turned }
        return { dtype: 'f32' as const, dims, layout, role: 0, offset: 0 }
      }
      const most = Array.from({ length: cp }, (_, turn) => (keysOfTurn(mesh, held(0), held(turn)) ?? 0) * (seq / cp))
      deepEqual(
        most,
        most.map((_, turn) => Math.max(...pairs_rank_step.map(steps => steps[turn]))),
      )
      const busy = most.reduce((a, b) => a + b, 0)
      close([(seq * (seq + 1)) / 2 / cp / busy], [lockstep_efficiency], how)
    }
  })
