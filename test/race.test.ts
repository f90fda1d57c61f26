/** Which plans are simulated: those whose price does not rule out that they are listed. */
import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { seconds } from '../src/base/index.js'
import { type Priced, plainSplit, priceOf, Race } from '../src/search/index.js'
import { requestOf } from './search-requests.js'

const priced = priceOf(requestOf(), plainSplit)
const plan = (step: number, tp: number, chunks = 1): Priced => ({
  ...priced,
  split: { ...plainSplit, tp, chunks },
  estimate: { ...priced.estimate, step: seconds(step) },
})
const parts = {} as never // nobody looks at them

test('a plan is left out once enough kinds are faster, or its own kind is', () => {
  const race = new Race(2)
  const enter = (one: Priced, step: number) => race.entered({ plan: one, step, parts })
  const lost = (...plans: Priced[]) => plans.map(one => race.isLost(one))
  deepEqual(lost(plan(1, 1), plan(9, 2)), [false, false])
  enter(plan(1, 1), 1)
  deepEqual(lost(plan(9, 2), plan(9, 1, 2), plan(1.005, 1, 2)), [false, true, false])
  enter(plan(1.2, 2), 1.2)
  deepEqual(lost(plan(1.19, 4), plan(1.205, 4), plan(1.3, 4)), [false, false, true])
})

test('where simulations are shorter than prices, more of them are made', () => {
  const race = new Race(1)
  race.entered({ plan: plan(1, 1), step: 1, parts })
  const other = plan(1.1, 2)
  deepEqual(race.isLost(other), true)
  race.entered({ plan: plan(1.005, 4), step: 0.905, parts })
  deepEqual([race.isLost(other), race.isLost(plan(0.99, 2))], [true, false])
})
