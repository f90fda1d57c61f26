/** The search: pruning leaves out nothing that pricing everything would have found. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { choices } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import {
  CutPrice,
  EstimateBook,
  frameworks,
  memoryLike,
  pipelineIn,
  shapeOf,
  totalBytes,
} from '../src/estimate/index.js'
import { LlamaConfig, presets } from '../src/model/index.js'
import {
  abilitiesOf,
  bubbleBound,
  bytesBound,
  commonPrices,
  cutBound,
  type Found,
  groupsOf,
  jobOf,
  PlanSimulator,
  type Priced,
  passageBound,
  pipelinesOf,
  priceOf,
  type Request,
  ratesOfPlan,
  savingsOf,
  search,
  setupOf,
  splitFrom,
} from '../src/search/index.js'
import { kindOf } from '../src/search/kinds.js'
import { leastEndOf, unlaid } from '../src/search/laid.js'
import { meetingName } from '../src/search/space.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { family, later, test } from './families.js'
import { type Asked, requestOf } from './search-requests.js'

const find = (asked: Asked, prune: boolean, keep = 20): Found => search(requestOf(asked), { keep, prune })
const steps = (plans: readonly Priced[]) => plans.map(plan => plan.estimate.step)
const points = (plans: readonly Priced[]) => plans.map(plan => [plan.estimate.step, plan.bytes])

const tested = process.env.SEED ? test : family('search against exhaustive pricing', 3)
for (const seed of process.env.SEED ? [Number(process.env.SEED)] : [1, 2, 3, 4, 5])
  tested(`pruned and unpruned find the same (SEED=${seed})`, () => {
    const { pick, int } = choices(seed)
    const asked: Asked = {
      ...{ devices: pick([8, 16, 24]), batch: pick([8, 24, 32]), layers: 2 + int(8), memory: pick([16, 40, 80]) },
      ...{
        constraints: pick([[], ['zero<=1'], ['tp<=4', 'memory<=20GiB']]),
        software: pick(['lockstep', 'torchtitan']),
      },
    }
    const [quick, whole] = [find(asked, true), find(asked, false)]
    deepEqual(steps(quick.best), steps(whole.best))
    deepEqual(points(quick.front), points(whole.front))
    const { considered, pruned, priced } = quick.counts
    equal(considered, whole.counts.priced)
    equal(pruned.memory + pruned.time + priced, considered)
  })

function boundsHold(request: Request, { split, estimate: { step }, bytes }: Priced): void {
  const setup = setupOf(request, split)
  const { surely, ends } = pipelineIn(setup)
  const held = surely.map(rank => memoryLike(setup).least(rank))
  for (const least of [...held, ...ends.map(end => totalBytes(memoryLike(setup).of(end)))])
    ok(bytes >= least * (1 - 1e-12), `${bytes} < ${least}: ${JSON.stringify(split)}`)
  const cut = new CutPrice(setup)
  const price = cut.withPipeline(setup)
  const bounds = {
    ...{ cut: cut.least(), pipeline: price.least(), beside: price.leastBeside(), held: price.leastHeld() },
    // Chains of tasks that decided other plans with this pipeline, and then its own.
    ...{ paths: cut.leastWith(pipelineIn(setup), split), order: price.leastInOrder() },
  }
  for (const [name, least] of Object.entries(bounds))
    ok(step >= least * (1 - 1e-12), `${step} < ${least} (${name}): ${JSON.stringify(split)}`)
}

function noneIsBelowItsBounds(request: Request): void {
  let plans = 0
  const pricesIn = commonPrices(request)
  for (const group of groupsOf(request)) {
    const pipelines = unlaid(request, group.pp, pipelinesOf(request, group.pp))
    const prices = pricesIn(group)
    const ofCut = [cutBound(request, group, prices), passageBound(request, group, prices)]
    for (const saving of savingsOf(group)) {
      const bytes = bytesBound(request, group, saving)
      const bySize = prices(saving.recompute)
      const again = [
        bubbleBound(request, group, pipelines, bySize),
        leastEndOf(bySize(group.microbatch), pipelines, group.microbatches),
      ]
      const least = Math.max(...ofCut, ...again)
      for (const { bare: _, ...pipeline } of pipelines) {
        const plan = priceOf(request, splitFrom(group, pipeline, saving))
        const { step } = plan.estimate
        ok(step >= least * (1 - 1e-12), `${step} < ${[...ofCut, ...again]}: ${JSON.stringify(plan.split)}`)
        ok(plan.bytes >= bytes * (1 - 1e-12), `${plan.bytes} < ${bytes}: ${JSON.stringify(plan.split)}`)
        if (plans++ % 5 === 0) boundsHold(request, plan)
      }
    }
  }
}

for (const seed of process.env.SEED ? [Number(process.env.SEED)] : [1, 2, 3, 4, 5, 6])
  tested(`no plan is below the bounds of its group (SEED=${seed})`, () => {
    const { pick, int } = choices(seed)
    const request = requestOf({
      ...{ devices: pick([6, 8, 16]), batch: pick([8, 24]), layers: 1 + int(9) },
      ...{ software: pick(['lockstep', 'megatron-2021', 'torchtitan']) },
    })
    noneIsBelowItsBounds(request)
  })

later('no plan with experts is below the bounds of its group, be they shared or split', () =>
  noneIsBelowItsBounds(
    requestOf({ devices: 4, batch: 8, layers: 2, experts: 8, software: 'lockstep', constraints: ['etp<=2', 'dp<=2'] }),
  ),
)

const longSequences: Asked = {
  ...{ devices: 16, batch: 4, layers: 4, seq: 32_768, software: 'lockstep', memory: 40 },
  constraints: ['cp>=2', 'tp<=2', 'pp<=2', 'sequenceParallel=true'],
}

test('no plan that splits sequences is below its bounds: rings wait for what flies on their links', () =>
  noneIsBelowItsBounds(
    requestOf({ ...longSequences, constraints: [...longSequences.constraints!, 'zero>=1', 'cp<=4'] }),
  ))

test('pruned and unpruned find the same where sequences are split', () => {
  const [quick, whole] = [find(longSequences, true), find(longSequences, false)]
  deepEqual(steps(quick.best), steps(whole.best))
  deepEqual(points(quick.front), points(whole.front))
})

for (const kind of ['gather', 'ring', 'ulysses', 'ulysses+ring'])
  test(`attention=${kind}: where sequences are split no plan meets keys in another way`, () => {
    const { best } = find({ ...longSequences, constraints: ['cp>=2', 'tp<=2', `attention=${kind}`] }, true, 5)
    ok(best.length > 0)
    for (const { split } of best) equal(meetingName(split).replace(/ \d+ x ring \d+/, '+ring'), kind)
  })

test('both kinds of pruning happen', () => {
  const { pruned } = find({ devices: 64, batch: 64, layers: 32, memory: 40 }, true).counts
  ok(pruned.time > 0 && pruned.memory > 0, JSON.stringify(pruned))
})

test('the best are sorted, fit, and number as many as asked for', () => {
  const { best, capacity } = find({ memory: 40 }, true, 7)
  equal(best.length, 7)
  deepEqual(
    steps(best),
    [...steps(best)].sort((a, b) => a - b),
  )
  ok(best.every(({ bytes }) => bytes <= capacity))
})

test('of so many kinds no more are kept than it takes to list the fastest of each, and those are the same', () => {
  const all = find({ memory: 40 }, true, 100)
  const { best, front } = search(requestOf({ memory: 40 }), { keep: 100, kinds: 4 })
  const listed = [...new Set(all.best.map(kindOf))].slice(0, 4)
  deepEqual([...new Set(best.map(kindOf))], listed)
  ok(best.length < all.best.length && kindOf(best.at(-1)!) === listed[3])
  deepEqual(points(best), points(all.best.slice(0, best.length)))
  deepEqual(points(front), points(all.front))
  equal(search(requestOf({ memory: 40 }), { keep: 3, kinds: 50 }).best.length, 3)
})

test('on the front every plan is slower and lighter than the one before', () => {
  const { front } = find({ memory: 80 }, true)
  ok(front.length > 1)
  for (const [i, plan] of front.entries())
    ok(i === 0 || (plan.estimate.step > front[i - 1].estimate.step && plan.bytes < front[i - 1].bytes))
})

test('less memory, slower plans', () => {
  const best = [80, 32, 16].map(memory => find({ memory, layers: 24 }, true).best[0].estimate.step)
  ok(best[0] < best[1] && best[1] < best[2], best.join(' '))
})

test('Llama 3 405B on 16,384 H100: the plan we would choose is the one that was run', () => {
  const model = LlamaConfig.parse(presets['llama3-405b'])
  const request: Request = {
    ...{ model, shape: shapeOf(model, 8192)!, globalBatch: 2048, cluster: clusterOf('h100', 16_384) },
    ...{ precision: 'bf16', software: frameworks['meta-2024'], constraints: abilitiesOf('meta-2024') },
    book: new EstimateBook(),
  }
  const [best] = search(request, { keep: 1 }).best
  const { tp, pp, dp, microbatch, microbatches } = best.split
  deepEqual({ tp, pp, dp, microbatch, microbatches }, { tp: 8, pp: 16, dp: 128, microbatch: 1, microbatches: 16 })
  const { mfu = 0 } = ratesOfPlan(request, best)
  ok(Math.abs(mfu / 0.41 - 1) < 0.08, `MFU ${mfu}, reported 0.41`) // The Llama 3 Herd of Models, table 4
})

test('plans are simulated as what they are, also where one stands for several', () => {
  const request = requestOf({
    devices: 4,
    batch: 8,
    layers: 4,
    software: 'lockstep',
    constraints: ['pp=2', 'chunks=2'],
  })
  const { best } = search(request, { keep: 1000 })
  const inOrderOf = (name: string) => best.find(({ split }) => split.schedule === name)!
  const plans = ['zb-v', 'v-half', 'v-min', 'interleaved', 'dualpipe-v'].map(inOrderOf)
  const simulator = new PlanSimulator(request)
  const found = plans.map(plan => simulator.compile(plan)).filter(one => 'arena' in one)
  equal(found.length, plans.length)
  for (const { plan, step, arena } of found) {
    const program = compileJob(jobOf(request, plan.split))
    const alone = simulate(program, clusterPrices(program, request.cluster), { watch: [] })
    deepEqual([step, arena], [alone.step, alone.memory.arena], plan.split.schedule)
  }
  equal(found[0].parts, found[1].parts) // On two ranks these are one order.
})
