/** Memory by lifetimes: what is alive together never overlaps, and what is not shares bytes. */
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { type Lease, pack } from '../src/compile/pack.js'

test('leases that never meet share their bytes', () => {
  const leases = [0, 1, 2].map(start => ({ bytes: 64, start, end: start + 1 }))
  deepEqual(pack(leases), { offsets: [0, 0, 0], bytes: 64 })
})

test('leases that meet lie side by side, the largest at the bottom', () => {
  deepEqual(
    pack([
      { bytes: 64, start: 0, end: 2 },
      { bytes: 128, start: 1, end: 3 },
    ]).offsets,
    [128, 0],
  )
})

test('where largest first wastes memory, another size goes first', () => {
  const lease = (bytes: number, start: number, end: number): Lease => ({ bytes, start, end })
  deepEqual(pack([lease(256, 0, 2), lease(256, 1, 4), lease(256, 4, 6), lease(192, 2, 5)]).bytes, 512)
})

const meet = (a: Lease, b: Lease) => a.start < b.end && b.start < a.end
const liveAt = (leases: readonly Lease[], at: number) =>
  leases.filter(l => l.start <= at && at < l.end).reduce((sum, l) => sum + l.bytes, 0)

for (let seed = 1; seed <= 20; seed++)
  test(`no two live leases overlap, and little is wasted (SEED=${seed})`, () => {
    const { int } = choices(seed)
    const leases = Array.from({ length: 200 }, () => {
      const start = int(300)
      return { bytes: 64 * (1 + int(20)), start, end: start + 1 + int(40) }
    })
    const { offsets, bytes } = pack(leases)
    for (const [i, a] of leases.entries())
      for (const [j, b] of leases.entries())
        if (i < j && meet(a, b))
          ok(offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i], `${i} and ${j}`)
    const peak = Math.max(...leases.map(({ start }) => liveAt(leases, start)))
    ok(bytes <= 1.06 * peak, `${bytes} bytes for a live peak of ${peak}`)
  })
