/** What the planner lists is compiled and fits, whatever goes wrong with one plan, and however busy the machine is. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { finish } from '../src/base/index.js'
import { clusterOf, type Precision } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import type { Split } from '../src/estimate/index.js'
import { ModelConfig, presets } from '../src/model/index.js'
import {
  type Answer,
  capacityOf,
  findPlans,
  jobOf,
  PlanSimulator,
  type Priced,
  plainSplit,
  priceOf,
  type Request,
  rankingPlans,
  type SimulatedPlan,
  search,
  requestOf as searchRequestOf,
} from '../src/search/index.js'
import { later, test } from './families.js'
import { lockstep } from './memory-io.js'
import { requestOf } from './search-requests.js'

const options = { top: 8, simulate: 40 } as const

const arenaOf = (request: Request, { split }: Answer['listed'][number]['plan']): number =>
  Math.max(...compileJob(jobOf(request, split)).streams.map(({ arena }) => arena))

for (const [devices, memory] of [
  [4, 60],
  [6, 40],
  [12, 24],
] as const)
  (devices === 6 ? test : later)(
    `${devices} devices of ${memory} GiB: what is listed compiles to what it says, and fits`,
    () => {
      const request = requestOf({ devices, batch: 2 * devices, memory, software: 'lockstep' })
      const { listed, front } = findPlans(request, options)
      ok(listed.length > 0)
      for (const { plan, simulated } of [...listed, ...front]) {
        equal(simulated?.arena, arenaOf(request, plan))
        ok(simulated.arena <= capacityOf(request))
      }
      for (const plans of [listed, front]) {
        const steps = plans.map(({ simulated }) => simulated?.step ?? 0)
        deepEqual(
          steps,
          steps.toSorted((a, b) => a - b),
        )
      }
    },
  )

test('twins: a schedule that comes to the same order is not listed beside it, nor in its place if it does not fit', () => {
  const request = requestOf({
    devices: 2,
    batch: 8,
    layers: 4,
    software: 'lockstep',
    constraints: ['pp=2', 'chunks=2'],
  })
  const { best, ...found } = search(request, { keep: 1000 })
  const twins = best.filter(({ split }) => ['zb-v', 'v-half', 'v-min'].includes(split.schedule)).slice(0, 3)
  const { listed } = finish(rankingPlans(request, { ...found, best: twins, front: [] }, options))
  equal(listed.length, 1)
  const tight = { ...request, cluster: withMemory(request, Math.min(...twins.map(plan => arenaOf(request, plan))) - 1) }
  deepEqual(finish(rankingPlans(tight, { ...found, best: twins, front: [] }, options)).listed, [])
})

const withMemory = ({ cluster }: Request, memory: number): Request['cluster'] => ({
  ...cluster,
  device: { ...cluster.device, memory },
})

test('where nothing fits, a few programs tell that the others would not either: those are not compiled', () => {
  const request = requestOf({ devices: 4, batch: 8, software: 'lockstep' })
  const found = search(request, { keep: 40 })
  const least = Math.min(...found.best.map(({ bytes }) => bytes))
  const tight = { ...request, cluster: withMemory(request, least / 2) }
  const { listed, compiled } = finish(rankingPlans(tight, found, { ...options, simulate: 0 }))
  deepEqual([listed.length, compiled.length], [0, 4])
})

test('a plan that cannot be simulated is left out and named; the others are listed', () => {
  const request = requestOf({ devices: 4, batch: 8, software: 'lockstep' })
  const found = search(request, { keep: 20 })
  const [best] = found.best
  const bad: Priced = { ...best, split: { ...best.split, schedule: 'dualpipe', pp: 2, chunks: 3 } } // dualpipe has one chunk
  const { listed, failed } = finish(
    rankingPlans(request, { ...found, best: [bad, ...found.best], front: [bad] }, options),
  )
  equal(listed.length, options.top)
  ok(listed.every(({ plan }) => plan !== bad))
  deepEqual(
    failed.map(({ plan }) => plan),
    [bad],
  )
  match(failed[0].why, /dualpipe: chunks = 3/)
})

test('programs of very many calls are not compiled: said with what would help', () => {
  const constraints = ['microbatch=1', 'pp=64', 'schedule=1f1b']
  const request = requestOf({ devices: 64, layers: 126, batch: 4096, software: 'lockstep', constraints })
  throws(() => findPlans(request, options), /layer calls per step: they were not compiled[\s\S]*microbatches<=\d+/)
})

test('steps of very many microbatches are planned: they repeat themselves', () => {
  const constraints = ['microbatch=1', 'dp=1', 'pp=1']
  const of = (batch: number) => findPlans(requestOf({ devices: 8, batch, software: 'lockstep', constraints }), options)
  const [many, more] = [of(1024), of(65_536)].map(({ listed }) => listed[0])
  ok(Math.abs(more.simulated!.step / many.simulated!.step / 64 - 1) < 0.01)
  ok(more.simulated!.fits)
})

test('other software has no program: it is priced alone', () => {
  const { listed, compiled } = findPlans(requestOf(), options)
  ok(listed.length > 0 && listed.every(({ simulated }) => simulated === undefined))
  equal(compiled.length, 0)
})

test('DualPipe on a torus has a price, and takes it', () => {
  const request: Request = {
    ...requestOf({ devices: 16, batch: 16, software: 'lockstep' }),
    cluster: clusterOf('tpu-v5p', 16),
  }
  const split: Split = { ...plainSplit, pp: 8, dp: 2, schedule: 'dualpipe', microbatches: 8 }
  const plan = priceOf(request, split)
  const { step } = new PlanSimulator(request).compile(plan) as SimulatedPlan // a failure has no step
  ok(step > 0 && Number.isFinite(plan.estimate.step))
})

later('products in fewer bits than are stored: compiled as they are stored, and faster', () => {
  const ask = (precision: Precision) =>
    findPlans({ ...requestOf({ devices: 2, software: 'lockstep' }), precision }, options)
  const [half, eighth] = [ask('bf16').listed[0], ask('fp8').listed[0]]
  ok(eighth.simulated && half.simulated && eighth.simulated.step < half.simulated.step)
})

test('requestOf pads the vocabulary as the command does; a job has the one it says', () => {
  const asked = { model: ModelConfig.parse(presets.gpt2), seq: 1024, globalBatch: 8, cluster: clusterOf('a100', 8) }
  equal(searchRequestOf(asked).shape.vocab, 50_304)
  equal(searchRequestOf({ ...asked, padVocab: false }).shape.vocab, 50_257)
})

const command = 'plan --model gpt2 --cluster a100 --devices 6 --seq 1024 --global-batch 12 --top 5 --simulate 60'

later('two runs of plan give the same answer, also where the second is a thousand times as slow', async () => {
  const idle = await lockstep(command.split(' '))
  equal(idle.code, 0, idle.err)
  const clock = performance.now
  let late = 0
  performance.now = () => clock.call(performance) + (late += 1e4)
  try {
    deepEqual(await lockstep(command.split(' ')), idle)
  } finally {
    performance.now = clock
  }
})

test('plan --no-simulate --out: what is written was compiled', async () => {
  const { code, out, written, err } = await lockstep([
    ...command.split(' '),
    '--no-simulate',
    '--no-why',
    '--out',
    'job.yaml',
  ])
  equal(code, 0, err)
  match(out, /the plans listed are compiled/)
  equal((await lockstep(['compile', 'job.yaml'], written)).code, 0)
})
