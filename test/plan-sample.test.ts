/** What a search shows of its plans while it runs. */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { clusterOf } from '../src/cluster/index.js'
import { ModelConfig, presets } from '../src/model/index.js'
import { PlanSample, type Priced, requestOf, searching } from '../src/search/index.js'

const model = ModelConfig.parse(presets['llama3-8b'])
const request = requestOf({ model, seq: 4096, globalBatch: 64, cluster: clusterOf('h100', 16) })

test('priced plans come while the search runs, no more than there is room for, and can be left at any time', () => {
  const sample = new PlanSample(32)
  const work = searching(request, { keep: 8, sample })
  let [next, during] = [work.next(), 0]
  for (; !next.done; next = work.next()) {
    if (sample.seen > 0) during++
    ok(next.value >= 0 && next.value <= 1)
  }
  const { counts, best, capacity } = next.value
  ok(during > 0)
  equal(sample.seen, counts.priced - counts.unfit)
  ok(sample.plans.length > 8 && sample.plans.length <= 32)
  for (const { estimate, bytes } of sample.plans) ok(estimate.step >= best[0].estimate.step && bytes <= capacity)
  const left = searching(request, { keep: 8 })
  left.next()
  equal(left.return(next.value).done, true)
})

test('what is kept lies evenly among all that came', () => {
  const sample = new PlanSample(8)
  for (let i = 0; i < 1000; i++) sample.add({ bytes: i } as Priced) // nothing else is looked at
  const kept = sample.plans.map(({ bytes }) => bytes)
  const gaps = new Set(kept.slice(1).map((at, i) => at - kept[i]))
  equal(gaps.size, 1)
  ok(kept.length >= 4 && kept.length <= 8 && kept[0] === 0)
})
