/**
 * Collectives on real threads, every type, every combination and odd sizes, equal to the bit to sums made here in member
 * order: f32 and f64 rounded after each step, 16-bit numbers added up in f32 and rounded once.
 */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { Worker } from 'node:worker_threads'
import { uniform } from '../src/base/index.js'
import { openGroup } from '../src/engine/native/group/group.js'
import { exchange } from '../src/engine/native/group/heap.js'
import {
  createGroup,
  type ElementType,
  elementTypes,
  type Group,
  type GroupCombine,
  nativeMissing,
  Pool,
  type Tensor,
} from '../src/engine/native/index.js'
import { decode, encode } from '../src/engine/native/kernels/dtypes.js'
import { family, test } from './families.js'

const pool = new Pool()
after(() => pool.close())

const combines = ['sum', 'mean', 'max', 'min', 'product'] as const
const sizes = [0, 1, 33, 4097]

/** How a type rounds what is added up. */
const rounding: Readonly<Record<ElementType, (x: number) => number>> = {
  f32: Math.fround,
  f64: x => x,
  bf16: Math.fround,
  f16: Math.fround,
  i32: x => x | 0,
  i8: x => (x << 24) >> 24,
}

const steps: Readonly<Record<GroupCombine, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  mean: (a, b) => a + b,
  max: Math.max,
  min: Math.min,
  product: (a, b) => a * b,
}

function combined(parts: readonly (readonly number[])[], dtype: ElementType, combine: GroupCombine): number[] {
  const round = rounding[dtype]
  return parts[0].map((_, i) => {
    const total = parts.map(part => part[i]).reduce((a, b) => round(steps[combine](a, b)))
    const value = combine === 'mean' ? round(total / parts.length) : total
    return decode(dtype, encode(dtype, value))
  })
}

/** Small integers for i32, numbers of both signs for the rest, as the type holds them. */
function fill(group: Group, x: Tensor, seed: number): number[][] {
  return Array.from({ length: group.ranks }, (_, rank) => {
    const draw = uniform({ seed, name: `${x.dtype} ${rank}` })
    const values = Array.from({ length: x.length }, (_, i) => {
      const value = (draw(i) - 0.5) * 8
      return x.dtype === 'i32' || x.dtype === 'i8'
        ? Math.round(value) | 0
        : decode(x.dtype, encode(x.dtype, Math.fround(value)))
    })
    group.write(rank, x, values)
    return values
  })
}

const each = (group: Group, out: Tensor): number[][] =>
  Array.from({ length: group.ranks }, (_, rank) => group.read(rank, out).map(value => value + 0))

const cut = (values: readonly number[], parts: number, i: number): number[] =>
  values.slice((i * values.length) / parts, ((i + 1) * values.length) / parts)

/** One collective of every kind for a type and a size. */
async function checkMoves(group: Group, dtype: ElementType, size: number): Promise<void> {
  const n = group.ranks
  const [x, wide, wider] = [size, size * n, size * n].map(length => group.tensor(dtype, length))
  const root = n - 1
  const parts = fill(group, x, size + 1)
  await group.allGather(x, wide)
  assert.deepEqual(
    each(group, wide),
    parts.map(() => parts.flat()),
    'allGather',
  )
  const wholes = fill(group, wide, size + 2)
  await group.allToAll(wide, wider)
  assert.deepEqual(
    each(group, wider),
    parts.map((_, i) => wholes.flatMap(whole => cut(whole, n, i))),
    'allToAll',
  )
  await group.scatter(wide, x, { root })
  assert.deepEqual(
    each(group, x),
    parts.map((_, i) => cut(wholes[root], n, i)),
    'scatter',
  )
  await group.gather(x, wider, { root })
  assert.deepEqual(group.read(root, wider), wholes[root], 'gather')
  await group.broadcast(wide, { root })
  assert.deepEqual(
    each(group, wide),
    parts.map(() => wholes[root]),
    'broadcast',
  )
  if (n > 1) {
    const [from, to] = [0, n - 1]
    await group.sendRecv(x, wide.length === x.length ? wide : x, { from, to })
    assert.deepEqual(group.read(to, x), cut(wholes[root], n, from), 'send and recv')
  }
}

async function checkSums(group: Group, dtype: ElementType, size: number, combine: GroupCombine): Promise<void> {
  const n = group.ranks
  const [x, out, part] = [size * n, size * n, size].map(length => group.tensor(dtype, length))
  const parts = fill(group, x, size + 3)
  const expected = combined(parts, dtype, combine)
  const plain = expected.map(value => value + 0)
  await group.reduceScatter(x, part, { combine })
  assert.deepEqual(
    each(group, part),
    parts.map((_, i) => cut(plain, n, i)),
    'reduceScatter',
  )
  await group.reduce(x, out, { combine, root: 0 })
  assert.deepEqual(each(group, out)[0], plain, 'reduce')
  await group.allReduce(x, { combine, out })
  assert.deepEqual(
    each(group, out),
    parts.map(() => plain),
    'allReduce',
  )
  await group.allReduce(x, { combine })
  assert.deepEqual(
    each(group, x),
    parts.map(() => plain),
    'allReduce in place',
  )
}

const tested = family('native collectives', 3)
for (const kernels of ['native', 'wasm'] as const)
  for (const ranks of [4, 3, 2, 1])
    tested(
      `${kernels}, ${ranks} ranks: every collective, type and combination`,
      {
        skip: (kernels === 'native' && nativeMissing()) || false,
      },
      async () => {
        const group = await createGroup(ranks, { kernels, pool, bytes: 64 << 20, timeoutMs: 20_000 })
        for (const dtype of elementTypes)
          for (const size of sizes) {
            await checkMoves(group, dtype, size)
            if (size === 33) for (const combine of combines) await checkSums(group, dtype, size, combine)
            else await checkSums(group, dtype, size, 'sum')
          }
        await group.stop()
      },
    )

/** Whole numbers that sums keep exactly; which rank and place they come from can be told. */
const numbered = (rank: number, i: number): number => ((i * 7919 + rank * 104729) % 65536) + rank * 65536

for (const kernels of ['native', 'wasm'] as const)
  for (const part of [32_771, 270_001])
    tested(
      `${kernels}: parts of ${part} elements, many pieces each, by 4 ranks`,
      {
        skip: (kernels === 'native' && nativeMissing()) || false,
      },
      async () => {
        const n = 4
        const group = await createGroup(n, { kernels, pool, bytes: 24 << 20, timeoutMs: 20_000 })
        const [x, out, small] = [part * n, part * n, part].map(length => group.tensor('f32', length))
        const holds = (tensor: Tensor, expected: (rank: number, i: number) => number, what: string) => {
          for (let rank = 0; rank < n; rank++) {
            const wrong = group.view(rank, tensor).findIndex((value, i) => value !== expected(rank, i))
            assert.equal(wrong, -1, `${what} at rank ${rank}`)
          }
        }
        const set = (tensor: Tensor) => {
          for (let rank = 0; rank < n; rank++) {
            const values = group.view(rank, tensor)
            for (let i = 0; i < values.length; i++) values[i] = numbered(rank, i)
          }
        }
        const total = (i: number) => numbered(0, i) + numbered(1, i) + numbered(2, i) + numbered(3, i)
        set(x)
        await group.allToAll(x, out)
        holds(out, (rank, i) => numbered(Math.floor(i / part), rank * part + (i % part)), 'allToAll')
        await group.reduceScatter(x, small)
        holds(small, (rank, i) => total(rank * part + i), 'reduceScatter')
        await group.allReduce(x)
        holds(x, (_, i) => total(i), 'allReduce')
        set(small)
        await group.allGather(small, out)
        holds(out, (_, i) => numbered(Math.floor(i / part), i % part), 'allGather')
        await group.sendRecv(out, x, { from: 0, to: 3 })
        assert.deepEqual(group.view(3, x), group.view(0, out), 'send and recv')
        await group.stop()
      },
    )

test('who has come but does not wait yet is not waited for: others do its share', async () => {
  const { heap, everyone, runAll, stop } = await openGroup(3, { pool, timeoutMs: 5000 })
  const x = heap.tensor('f32', 100_000)
  for (const rank of everyone.members) heap.view(rank, x).fill(rank + 1)
  await runAll((rank, list) => {
    const collective = { sync: everyone.sync, me: rank, members: 3, collective: 1 }
    const frames = everyone.members.map(member => heap.at(member, x))
    const wait = () =>
      list.write('waitAllReduce', { ...collective, n: x.length, combine: 0, dtype: 0, x: frames, out: frames })
    list.write('start', collective)
    // Rank 1 waits for the collective only after rank 0 says that it is done: its result is there by then.
    if (rank !== 1) wait()
    if (rank !== 2) exchange(heap, list, heap.tensor('f32', 0), { rank, from: 0, to: 1 })
    if (rank === 1) wait()
  })
  for (const rank of everyone.members)
    assert.ok(
      heap.view(rank, x).every(sum => sum === 6),
      `rank ${rank}`,
    )
  await stop()
})

test('parts of any size go from everyone to everyone', async () => {
  const group = await createGroup(3, { pool })
  const [x, out] = [group.tensor('i32', 6), group.tensor('i32', 6)]
  for (let rank = 0; rank < 3; rank++)
    group.write(
      rank,
      x,
      [0, 1, 2, 3, 4, 5].map(i => 10 * rank + i),
    )
  await group.allToAllUneven(x, out, [
    [1, 2, 3],
    [0, 0, 0],
    [4, 0, 2],
  ])
  assert.deepEqual(group.read(0, out).slice(0, 5), [0, 20, 21, 22, 23])
  assert.deepEqual(group.read(1, out).slice(0, 2), [1, 2])
  assert.deepEqual(group.read(2, out).slice(0, 5), [3, 4, 5, 24, 25])
  await group.stop()
})

test('subgroups meet among themselves, in the order given', async () => {
  const group = await createGroup(4, { pool })
  const [x, out] = [group.tensor('f32', 1), group.tensor('f32', 2)]
  for (let rank = 0; rank < 4; rank++) group.write(rank, x, [rank])
  await group.subgroup([3, 1]).allGather(x, out)
  await group.subgroup([0, 2]).allGather(x, out)
  assert.deepEqual(each(group, out), [
    [0, 2],
    [3, 1],
    [0, 2],
    [3, 1],
  ])
  await group.stop()
})

test('what does not fit is refused in words', async () => {
  const group = await createGroup(2, { threads: false, bytes: 1024 })
  const [x, y, z] = [group.tensor('f32', 3), group.tensor('f32', 4), group.tensor('f64', 6)]
  assert.throws(() => group.allGather(x, y), /allGather: x of 3 elements asks for an out of 6, not 4/)
  assert.throws(() => group.allGather(x, z), /allGather: x is f32, but out is f64/)
  assert.throws(() => group.allToAll(x, x), /3 elements cannot be cut into 2 parts/)
  assert.throws(() => group.broadcast(x, { root: 2 }), /there is no member 2 in a group of 2/)
  assert.throws(() => group.tensor('f32', 1000), /no room for 4000 more/)
})

test("threads of one's own join a group and block until a collective is done", async () => {
  const { token, ...group } = await createGroup(3, { threads: false, timeoutMs: 20_000 })
  const said = await Promise.all(
    [0, 1, 2].map(
      rank =>
        new Promise((resolve, reject) => {
          const worker = new Worker(new URL('./member.js', import.meta.url), { workerData: { token, rank } })
          worker.on('message', resolve)
          worker.on('error', reject)
        }),
    ),
  )
  assert.deepEqual(
    said,
    [0, 1, 2].map(rank => ({ sum: [3, 6], gathered: [0, 1, 2], passed: (rank + 2) % 3 })),
  )
  await group.stop()
})
