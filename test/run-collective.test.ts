/** A collective without threads leaves on every rank what a group of threads leaves, to the bit. */
import { deepEqual, equal, throws } from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { choices, type ElementType, elementTypes } from '../src/base/index.js'
import { type CollectiveCall, createGroup, type Group, runCollective, runCollectives } from '../src/engine/index.js'

const ranks = 3
let group: Group
before(async () => {
  group = await createGroup(ranks, { bytes: 2 ** 16 })
})
after(() => group.stop())

const lengths: Readonly<Record<CollectiveCall['kind'], (length: number) => number>> = {
  broadcast: length => length,
  scatter: length => length / ranks,
  gather: length => length * ranks,
  reduce: length => length,
  'all-gather': length => length * ranks,
  'reduce-scatter': length => length / ranks,
  'all-reduce': length => length,
  'all-to-all': length => length,
  'all-to-all-uneven': length => length * ranks,
}

/** The same by threads; what a rank is not given stays as it was, and is left out here. */
async function byThreads(call: Required<CollectiveCall>): Promise<number[][]> {
  const { kind, inputs, dtype, combine, root, counts } = call
  const length = inputs[0].length
  const [x, out] = [group.tensor(dtype, length), group.tensor(dtype, lengths[kind](length))]
  for (const [rank, values] of inputs.entries()) group.write(rank, x, values)
  const calls: Readonly<Record<CollectiveCall['kind'], () => Promise<void>>> = {
    broadcast: () => group.broadcast(x, { root }),
    scatter: () => group.scatter(x, out, { root }),
    gather: () => group.gather(x, out, { root }),
    reduce: () => group.reduce(x, out, { root, combine }),
    'all-gather': () => group.allGather(x, out),
    'reduce-scatter': () => group.reduceScatter(x, out, { combine }),
    'all-reduce': () => group.allReduce(x, { combine, out }),
    'all-to-all': () => group.allToAll(x, out),
    'all-to-all-uneven': () => group.allToAllUneven(x, out, counts),
  }
  await calls[kind]()
  const received = (rank: number) => counts.reduce((sum, row) => sum + row[rank], 0)
  return inputs.map((_, rank) => {
    if ((kind === 'gather' || kind === 'reduce') && rank !== root) return []
    const values = group.read(rank, kind === 'broadcast' ? x : out)
    return kind === 'all-to-all-uneven' ? values.slice(0, received(rank)) : values
  })
}

const seed = Number(process.env.SEED ?? 1)
const { int, pick } = choices(seed)
const numberOf = (dtype: ElementType) => (dtype.startsWith('i') ? int(300) - 150 : Math.fround((int(2001) - 1000) / 37))
const length = 2 * ranks

for (const kind of runCollectives)
  test(`${kind} of every dtype (SEED=${seed})`, async () => {
    for (const dtype of elementTypes) {
      const inputs = Array.from({ length: ranks }, () => Array.from({ length }, () => numberOf(dtype)))
      const counts = Array.from({ length: ranks }, () => Array.from({ length: ranks }, () => int(3)))
      for (const combine of ['sum', 'max', 'product', 'min', 'mean'] as const) {
        const call = { kind, inputs, dtype, combine, root: pick([0, 1, 2]), counts }
        deepEqual(runCollective(call), await byThreads(call), `${dtype} ${combine}`)
        if (!kind.includes('reduce')) break
      }
    }
  })

test('an all-reduce is a reduce-scatter and an all-gather, to the bit', () => {
  const inputs = Array.from({ length: ranks }, () => Array.from({ length }, () => numberOf('f32')))
  const scattered = runCollective({ kind: 'reduce-scatter', inputs })
  deepEqual(runCollective({ kind: 'all-gather', inputs: scattered }), runCollective({ kind: 'all-reduce', inputs }))
})

test('all that is wrong with a call is said', () => {
  throws(
    () => runCollective({ kind: 'scatter', inputs: [[1, 2, 3], [1]], root: 2 }),
    ({ problems }) => {
      equal(problems.length, 3)
      return true
    },
  )
  throws(() => runCollective({ kind: 'all-to-all-uneven', inputs: [[1], [2]], counts: [[2, 0.5]] }), /2 rows of 2/)
})
