/** The 405B example beside the run that its authors published (Dubey et al. 2024, table 4): it fits, and is about as fast. */
import { equal, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { defaultOrder, finish } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { capacityOf, splitOf } from '../src/estimate/index.js'
import { flopsPerToken } from '../src/model/index.js'
import { type Job, layersPerStage, parseJob, worldOfPlan } from '../src/plan/index.js'
import { findingOrder, plainSplit, planOf, priceOf, requestOfJob } from '../src/search/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'

const text = readFileSync(new URL('../../examples/jobs/llama3-405b.yaml', import.meta.url), 'utf8')
const example = parseJob(text).job!

/** What a device does in a second, in TFLOP/s, and the other figures of a step. */
function figuresOf(job: Job) {
  const { model, training, plan } = job
  const devices = worldOfPlan(plan)
  const cluster = clusterOf('h100', devices)
  const program = compileJob(job)
  const { step, parts } = simulate(program, clusterPrices(program, cluster), { watch: [] })
  const flops = (flopsPerToken(model, training.seq) * training.globalBatch * training.seq) / devices / step
  const free = capacityOf(cluster.device) - Math.max(...program.streams.map(({ arena }) => arena))
  return { tera: flops / 1e12, mfu: flops / cluster.device.peak.bf16!, bubble: parts.bubble / step, free }
}

const published: readonly [dp: number, microbatches: number, tera: number, mfu: number][] = [
  [64, 32, 430, 0.43],
  [128, 16, 400, 0.41],
]

for (const [dp, microbatches, tera, mfu] of published)
  test(`405B on ${128 * dp} H100: ${tera} TFLOP/s a GPU were measured`, () => {
    const job: Job = { ...example, plan: { ...example.plan, dp, microbatches } }
    const ours = figuresOf(job)
    ok(ours.free >= 0, `${ours.free} bytes are left`)
    ok(Math.abs(ours.tera / tera - 1) < 0.1, `${ours.tera} TFLOP/s`)
    ok(Math.abs(ours.mfu - mfu) < 0.05, `MFU ${ours.mfu}`)
    const { pp, chunks } = job.plan
    const ideal = (pp - 1) / (chunks * microbatches + pp - 1)
    ok(ours.bubble > ideal && ours.bubble < 1.5 * ideal, `bubble ${ours.bubble}, ideal ${ideal}`)
  })

test('it fits on an H100 of 80 GB', () => ok(figuresOf(example).free >= 0))

test('the example is the job of the report: 126 layers, none in the first and the last of 128 chunks, 16M tokens', () => {
  const { model, training, plan } = example
  const layers = layersPerStage(plan, model.layers)
  equal(layers.length, 128)
  equal(layers.join(''), `0${'1'.repeat(126)}0`)
  equal(training.globalBatch * training.seq, 2 ** 24)
  equal(worldOfPlan(plan), 16384)
  equal(plan.precision, 'bf16')
})

test('what the example says of itself is what is simulated, to a tenth', () => {
  const { tera, mfu, bubble } = figuresOf(example)
  const said = (row: string) => Number(text.match(new RegExp(`#\\s+${row}.*\\s{3}([\\d.]+)( %)?$`, 'm'))?.[1])
  const near = (a: number, b: number) => ok(Math.abs(a / b - 1) < 0.1, `${a} is said, ${b} is simulated`)
  near(said('TFLOP/s per GPU'), tera)
  near(said('MFU'), 100 * mfu)
  near(said('bubble'), 100 * bubble)
})

test('on pods of 3,072 GPUs at 1:7 the order of the report is found for the example without one', () => {
  const plan = { ...example.plan, rankOrder: defaultOrder }
  const request = requestOfJob({ ...example, plan }, clusterOf('h100', 16384, { pod: 3072, oversubscription: 7 }))
  const found = finish(findingOrder(request, priceOf(request, splitOf({ ...example, plan }, '1f1b'))))
  equal(found?.rankOrder, 'tp-cp-ep-pp-dp')
  equal(found?.rankOrder, example.plan.rankOrder)
  ok(found!.gain > 0.1 && found!.gain < 0.2, `${found?.gain}`)
  const kept = requestOfJob(example, request.cluster)
  equal(planOf(kept, plainSplit).rankOrder, 'tp-cp-ep-pp-dp')
  equal(finish(findingOrder(kept, priceOf(kept, splitOf(example, '1f1b')))), undefined)
})
