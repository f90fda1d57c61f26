/** The search: pruning leaves out nothing that pricing everything would have found. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { type Found, type Priced, search } from '../src/search/index.js'
import { toyPrices } from './search-prices.js'
import { type Asked, toyRequest } from './search-requests.js'

const find = (asked: Asked, prune: boolean, keep = 20): Found => search(toyRequest(asked), toyPrices, { keep, prune })
const steps = (plans: readonly Priced[]) => plans.map(plan => plan.estimate.step)
const points = (plans: readonly Priced[]) => plans.map(plan => [plan.estimate.step, plan.bytes])

for (const seed of process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: 12 }, (_, i) => i + 1))
  test(`pruned and unpruned find the same (SEED=${seed})`, () => {
    const { pick, int } = choices(seed)
    const asked: Asked = {
      ...{
        devices: pick([4, 8, 12, 16]),
        batch: pick([8, 16, 24]),
        layers: 2 + int(12),
        memory: pick([12, 20, 32, 64]),
      },
      constraints: pick([[], ['zero<=1'], ['tp<=4', 'memory<=18B']]),
    }
    const [quick, whole] = [find(asked, true), find(asked, false)]
    deepEqual(steps(quick.best), steps(whole.best))
    deepEqual(points(quick.front), points(whole.front))
    const { considered, pruned, priced } = quick.counts
    equal(considered, whole.counts.priced)
    equal(pruned.memory + pruned.time + priced, considered)
  })

test('both kinds of pruning happen', () => {
  const { pruned } = find({ devices: 16, batch: 32, memory: 32 }, true, 5).counts
  ok(pruned.time > 0)
  ok(find({ devices: 4, batch: 8, layers: 12, memory: 30 }, true).counts.pruned.memory > 0)
})

test('the best are sorted, fit, and number as many as asked for', () => {
  const { best, capacity } = find({ memory: 20 }, true, 7)
  equal(best.length, 7)
  deepEqual(
    steps(best),
    [...steps(best)].sort((a, b) => a - b),
  )
  ok(best.every(({ bytes }) => bytes <= capacity))
})

test('on the front every plan is slower and lighter than the one before', () => {
  const { front } = find({ memory: 64 }, true)
  ok(front.length > 1)
  for (const [i, plan] of front.entries())
    ok(i === 0 || (plan.estimate.step > front[i - 1].estimate.step && plan.bytes < front[i - 1].bytes))
})

test('less memory, slower plans', () => {
  const best = [64, 20, 16].map(memory => find({ memory }, true).best[0].estimate.step)
  ok(best[0] <= best[1] && best[1] < best[2], best.join(' '))
})
