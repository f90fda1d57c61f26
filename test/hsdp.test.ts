/** HSDP: ZeRO shards over groups of data-parallel ranks, and the groups are replicas. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { choices } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob, memoryWhy, serialJob, tallyOf } from '../src/compile/index.js'
import { estimate, placedOf, splitOf, totalBytes } from '../src/estimate/index.js'
import { exportJob, importConfig } from '../src/interop/index.js'
import { type Program, parse, print, verify } from '../src/ir/index.js'
import { presets } from '../src/model/index.js'
import {
  check,
  Job,
  type JobInput,
  jobsFor,
  Plan,
  parseJob,
  planTitle,
  rehearsalOf,
  rehearsalSizes,
  shrink,
} from '../src/plan/index.js'
import { differencesOf } from '../src/search/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { expertModels } from './expert-models.js'
import { later, test } from './families.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, models } from './jobs.js'

type PlanInput = NonNullable<JobInput['plan']>

const random = (seed: number) => {
  const { pick, chance } = choices(seed)
  const [dp, shard] = pick([
    [4, 2],
    [4, 1],
    [6, 3],
    [6, 2],
    [8, 2],
    [8, 4],
  ] as const)
  const cp = shard === 1 ? 2 : pick([1, 1, 2])
  const pp = pick([1, 1, 2])
  const plan: PlanInput = {
    ...{ dp, shard, cp, pp, tp: pick([1, 1, 2]), zero: pick([1, 2, 3]), microbatches: pick([1, 2, 4]) },
    ...{ reduce: pick(['step', 'microbatch'] as const), gather: pick(['use', 'step'] as const) },
    ...{ overlap: chance(0.8), bucket: pick([64, 2 ** 20]), prefetch: pick([0, 1, 2]) },
    ...{ schedule: pick(['1f1b', 'gpipe', 'zb-h1'] as const), rankOrder: pick(['tp-cp-ep-dp-pp', 'dp-pp-tp-cp-ep']) },
  }
  const name: ModelName = cp > 1 ? 'llama' : pick(Object.keys(models) as ModelName[])
  return jobOf(name, plan, { seq: 8, globalBatch: 2 * dp * plan.microbatches! })
}

const seed = Number(process.env.SEED ?? 3)
const each = (count: number, test: (job: Job) => void) => {
  for (let i = 0; i < count; i++) test(random(1000 * seed + i))
}

test(`random plans compute what one rank computes (seed ${seed})`, () =>
  each(10, job => computesWhatOneRankComputes(job, 2)))
later(`more random plans compute what one rank computes (seed ${seed + 1})`, () => {
  for (let i = 0; i < 60; i++) computesWhatOneRankComputes(random(1000 * (seed + 1) + i), 2)
})

test('experts, every optimizer that must know whole tensors, and narrow wires', () => {
  const routed = (plan: PlanInput) =>
    Job.parse({
      model: { ...models.llama, moe: expertModels.gshard.moe },
      training: { seq: 4, globalBatch: 16, clip: 0.5 },
      plan,
    })
  computesWhatOneRankComputes(routed({ dp: 4, shard: 2, zero: 3, ep: 2, expertCapacity: 'worst' }))
  computesWhatOneRankComputes(routed({ dp: 4, shard: 2, zero: 2, ep: 4, microbatches: 2, expertCapacity: 'worst' }))
  for (const kind of ['lamb', 'adafactor', 'muon'] as const)
    computesWhatOneRankComputes(jobOf('llama', { dp: 4, shard: 2, zero: 1 }, { optimizer: { kind, lr: 1e-2 } }))
  computesWhatOneRankComputes(
    jobOf('llama', { dp: 4, shard: 2, zero: 3, compress: { reduce: 'bf16', gather: 'int8' } }),
  )
  computesWhatOneRankComputes(
    jobOf('gpt tied', {
      dp: 4,
      shard: 2,
      zero: 3,
      pp: 2,
      microbatches: 2,
      offload: { optimizer: 'host', parameters: 'host' },
    }),
  )
})

const grouped = jobOf('llama', { dp: 4, shard: 2, zero: 3, microbatches: 2 })

/** Calls of a step whose segment has this collective over these axes. */
const calls = (program: Program, what: string): number =>
  [...tallyOf(program).segments.values()]
    .filter(({ name, instrs }) => name.endsWith('of buckets') && instrs.includes(what))
    .reduce((sum, { calls }) => sum + calls, 0)

const flown = (program: Program): string[] =>
  [
    ...new Set(
      [...tallyOf(program).segments.values()].flatMap(({ name, instrs }) =>
        name.endsWith('of buckets') ? instrs : [],
      ),
    ),
  ].sort()

test('parameters are gathered within a group, gradients scattered within it, and their parts summed over groups', () => {
  const program = compileJob(grouped)
  deepEqual(flown(program), ['all-gather dp.1', 'all-reduce dp.0', 'reduce-scatter dp.1'])
  deepEqual(flown(compileJob(jobOf('llama', { dp: 4, zero: 3, microbatches: 2 }))), [
    'all-gather dp',
    'reduce-scatter dp',
  ])
  deepEqual(flown(compileJob(jobOf('llama', { dp: 4, shard: 4, zero: 3, microbatches: 2 }))), [
    'all-gather dp',
    'reduce-scatter dp',
  ])
  ok(calls(program, 'all-gather dp.1') > 0)
})

test('parts are summed over groups once a step, whatever the number of microbatches', () => {
  const sums = (microbatches: number) =>
    Object.entries(compileJob(jobOf('llama', { dp: 4, shard: 2, zero: 3, microbatches })).segments)
      .filter(([, { instrs }]) => instrs.some(i => i.kind === 'all-reduce' && i.group.axes.join() === 'dp.0'))
      .map(([name]) => name)
  const called = (microbatches: number) => {
    const { streams } = compileJob(jobOf('llama', { dp: 4, shard: 2, zero: 3, microbatches }))
    const names = new Set(sums(microbatches))
    return streams[0].steps.filter(step => step.kind === 'call' && names.has(step.segment)).length
  }
  ok(called(1) > 0)
  equal(called(4), called(1))
})

test('a program that leaves out the sum over groups breaks an invariant', () => {
  const program = compileJob(grouped)
  const serial = compileJob(serialJob(grouped, grouped.plan.microbatches))
  deepEqual(verify(program, serial), [])
  deepEqual(parse(print(program)), program)
  const sums = new Set(Object.entries(program.segments).flatMap(([name]) => (name.startsWith('sum ') ? [name] : [])))
  ok(sums.size > 0)
  const tags = new Set<string>()
  const streams = program.streams.map(stream => ({
    ...stream,
    steps: stream.steps.filter(step => {
      if (step.kind === 'call' && sums.has(step.segment)) tags.add(step.tag!)
      return !(step.kind === 'call' && sums.has(step.segment)) && !(step.kind === 'wait' && tags.has(step.tag))
    }),
  }))
  const segments = Object.fromEntries(Object.entries(program.segments).filter(([name]) => !sums.has(name)))
  ok(verify({ ...program, streams, segments }, serial).length > 0)
})

test('a rank keeps what it would keep with dp as large as a group', () => {
  const plan = { zero: 3, precision: 'bf16' } as const
  const at = (of: PlanInput, globalBatch: number) =>
    compileJob(
      Job.parse({
        model: { family: 'llama', layers: 2, embed: 64, heads: 4, ffn: 128, vocab: 64 },
        training: { seq: 16, globalBatch },
        plan: { ...plan, ...of },
      }),
    ).streams[0].peak
  const [groups, alone, all] = [at({ dp: 8, shard: 2 }, 8), at({ dp: 2 }, 2), at({ dp: 8 }, 8)]
  equal(groups.optimizer, alone.optimizer)
  equal(groups.parameters, alone.parameters)
  ok(all.optimizer < groups.optimizer / 3)
})

const codes = (plan: string): string[] =>
  parseJob(`model: gpt2\ntraining: { seq: 64, globalBatch: 16 }\nplan: ${plan}`).problems.map(
    ({ code, path }) => `${code} ${path}`,
  )

test('what a plan cannot mean is refused', () => {
  deepEqual(codes('{ dp: 4, shard: 3, zero: 3 }'), ['plan/indivisible plan.shard'])
  deepEqual(codes('{ dp: 4, shard: 2 }').slice(0, 1), ['plan/no-effect plan.shard'])
  ok(codes('{ dp: 4, shard: 2, zero: 3, compress: { reduce: int8 } }').includes('plan/compress plan.compress.reduce'))
  deepEqual(codes('{ dp: 4, shard: 1, zero: 3 }'), ['plan/no-effect plan.shard'])
  const { problems } = parseJob(
    'model: gpt2\ntraining: { seq: 64, globalBatch: 16 }\nplan: { dp_replicate: 2, dp_shard: 8 }',
  )
  match(problems[0].suggestion ?? '', /write `dp: 16` and `shard: 8`/)
})

test('smaller jobs keep groups, other numbers of ranks where they divide', () => {
  const large = Job.parse({
    model: presets['llama3-8b'],
    training: { seq: 8192, globalBatch: 256 },
    plan: { dp: 64, shard: 8, zero: 3 },
  })
  for (const { job } of [shrink(large), rehearsalOf(large, rehearsalSizes[0])]) {
    ok(
      job.plan.shard !== undefined &&
        job.plan.shard > 1 &&
        job.plan.dp % job.plan.shard === 0 &&
        job.plan.shard < job.plan.dp,
    )
    deepEqual(
      check(job).filter(({ severity }) => severity === 'error'),
      [],
    )
  }
  match(planTitle(large.plan), /zero 3, shard 8/)
  const fewer = jobsFor(jobOf('llama', { dp: 4, shard: 2, zero: 3 }), 3)
  ok(fewer.length > 0)
  ok(fewer.every(({ plan: { dp, shard } }) => shard === undefined || (dp % shard === 0 && shard < dp)))
})

test('other frameworks: written and read again', () => {
  const job = (zero: number) =>
    Job.parse({
      model: presets['llama3-8b'],
      training: { seq: 8192, globalBatch: 128, clip: 1 },
      plan: { dp: 16, shard: 8, zero, precision: 'bf16' },
    })
  for (const [to, zero, line] of [
    ['torchtitan', 3, /data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 8/],
    ['megatron', 1, /--num-distributed-optimizer-instances 2 /],
    ['deepspeed', 3, /"mics_shard_size": 8/],
  ] as const) {
    const { files, refused, unsaid } = exportJob(job(zero), to)
    deepEqual(refused, [])
    ok(!unsaid.some(({ path }) => path === 'plan.shard'), to)
    match([...files.values()].join('\n'), line)
  }
})

test('FSDP of Accelerate: HYBRID_SHARD shards within a node', () => {
  const text =
    'distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nfsdp_config:\n  fsdp_version: 1\n  fsdp_sharding_strategy: HYBRID_SHARD\n'
  const imported = importConfig(text, {}, 'accelerate')
  equal((imported.job as { plan: { shard: number } }).plan.shard, 8)
})

test('a change that gives groups up names it', () => {
  const split = (shard: number | undefined) =>
    splitOf(
      Job.parse({
        model: presets['llama3-8b'],
        training: { seq: 8192, globalBatch: 64 },
        plan: { dp: 64, zero: 3, shard },
      }),
      '1f1b',
    )
  deepEqual(differencesOf(split(8), split(undefined)), [{ field: 'shard', from: '8', to: '64' }])
  deepEqual(differencesOf(split(8), split(8)), [])
})

test('the estimate agrees with the compiled program', () => {
  for (const plan of [
    { dp: 64, shard: 8, zero: 3, microbatches: 2 },
    { dp: 16, tp: 2, pp: 2, shard: 4, zero: 1, microbatches: 4, sequenceParallel: true },
  ] as const) {
    const job = Job.parse({
      model: presets['llama3-8b'],
      training: { seq: 8192, globalBatch: 128 },
      plan: { ...plan, precision: 'bf16' },
    })
    const cluster = clusterOf('h100', 64)
    const program = compileJob(job)
    const estimated = estimate({ ...placedOf(job)!, cluster })
    const bytes = Math.max(...program.streams.map(({ arena }) => arena))
    ok(Math.abs(totalBytes(estimated.memory) / bytes - 1) < 0.01, `memory of ${planTitle(job.plan)}`)
    const { step } = simulate(program, clusterPrices(program, cluster))
    ok(Math.abs(estimated.step / step - 1) < 0.03, `${planTitle(job.plan)}: ${estimated.step} and ${step}`)
  }
})

test('memory --why divides by the ranks of a group, and the check before compiling does too', () => {
  const job = Job.parse({
    model: presets['llama3-8b'],
    training: { seq: 8192, globalBatch: 64 },
    plan: { dp: 64, shard: 8, zero: 3, precision: 'bf16', deviceMemory: '4GiB' },
  })
  match(JSON.stringify(memoryWhy(job, compileJob(job), 0)), /shard x cp 8/)
  ok(check(job).some(({ code }) => code === 'plan/memory'))
  const all = { ...job, plan: Plan.parse({ dp: 64, zero: 3, precision: 'bf16', deviceMemory: '4GiB' }) }
  ok(!check(all).some(({ code }) => code === 'plan/memory'))
})
