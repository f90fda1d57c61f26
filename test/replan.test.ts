/** What a run measures is enough to correct a cluster that was said wrongly, and to find the plan that is better there. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { predictedStep, refit, runTimesOf, timesObserver } from '../src/calibrate/index.js'
import { type Cluster, clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { doneBy, type Span } from '../src/trace/index.js'
import { family, later, test } from './families.js'
import { lockstep } from './memory-io.js'

const job = (plan: JobInput['plan']): Job =>
  Job.parse({
    model: { family: 'llama', layers: 8, embed: 1024, heads: 16, kvHeads: 8, ffn: 2816, vocab: 8192 },
    training: { seq: 1024, globalBatch: 64, steps: 50 },
    plan: { precision: 'bf16', ...plan },
  })

/** What a run on this cluster would have written: the spans of a simulated step. */
function timesOn(cluster: Cluster, of: Job) {
  const program = compileJob(of)
  const ranks = Array.from({ length: cluster.devices }, (_, rank) => rank)
  const { spansOf } = simulate(program, clusterPrices(program, cluster), { watch: ranks })
  const seen = timesObserver(program)
  for (let step = 0; step < 3; step++) seen.add(ranks.flatMap(spansOf))
  const times = runTimesOf(JSON.parse(JSON.stringify(seen.times())))
  ok(times)
  return { program, times }
}

const said = clusterOf('h100', 16)

/** The cluster as it is: slower between nodes, or within memory. */
const slowNetwork = (by: number): Cluster => ({
  ...said,
  topology:
    said.topology.kind === 'torus'
      ? said.topology
      : {
          ...said.topology,
          levels: said.topology.levels.map((level, i) =>
            i === 0 ? level : { ...level, link: { ...level.link, bandwidth: level.link.bandwidth / by } },
          ),
        },
})
const slowMemory = (by: number): Cluster => ({
  ...said,
  device: {
    ...said.device,
    bandwidth: said.device.bandwidth / by,
    curves: { ...said.device.curves, memory: { ...said.device.curves.memory, kernels: undefined as never } },
  },
})

const cases: readonly (readonly [string, Cluster, JobInput['plan'], Readonly<Record<string, number>>])[] = [
  ['a network of a tenth', slowNetwork(10), { dp: 16, zero: 1 }, { 'infiniband bandwidth': 0.1 }],
  ['as it was said', said, { tp: 2, dp: 8 }, {}],
  ['its messages too', slowNetwork(10), { pp: 2, dp: 8, microbatches: 8 }, { 'infiniband bandwidth': 0.1 }],
  ['memory of a third', slowMemory(3), { tp: 2, dp: 8 }, { 'memory bandwidth': 1 / 3 }],
]

const fitted = family('replanning', cases.length)
for (const [what, real, plan, expected] of cases)
  fitted(`${what}: the rates are found, and with them the step`, () => {
    const { program, times } = timesOn(real, job(plan))
    const { cluster, changes } = refit(program, said, times)
    deepEqual(
      changes.map(({ what }) => what),
      Object.keys(expected),
    )
    for (const { what, given, measured } of changes) ok(Math.abs(measured / given / expected[what] - 1) < 0.03, what)
    equal(refit(program, said, { ...times, memory: 2e9 }).cluster.device.memory, 2e9)
    const off = predictedStep(program, cluster) / times.step - 1
    ok(Math.abs(off) < 0.03, `predicted ${off}`)
  })

/** The same as an emitted run writes it: sums over the stages, of what a rank computes and of its collectives. */
function stagesOn(cluster: Cluster, of: Job) {
  const program = compileJob(of)
  const { spansOf, step } = simulate(program, clusterPrices(program, cluster), { watch: [0] })
  const phaseOf = (span: Span) => {
    const { step } = doneBy(program, span)
    return step.kind === 'call' ? program.segments[step.segment].phase : undefined
  }
  const spent = (wanted: (span: Span) => boolean) =>
    spansOf(0)
      .filter(wanted)
      .reduce((sum, { start, end }) => sum + end - start, 0)
  const passes = spent(span => span.lane === 'compute' && 'FIWB'.includes(phaseOf(span) ?? '-'))
  const updates = spent(span => span.lane === 'compute' && phaseOf(span) === 'update')
  const dp = spent(span => span.lane === 'network' && phaseOf(span) === 'reduce' && span.end - span.start > 1e-4)
  const stages = [{ pp: 0, passes, updates, network: { dp } }]
  const times = { format: 'lockstep-times-1', steps: 3, step, instructions: [], messages: [], stages }
  return { program, times: runTimesOf(JSON.parse(JSON.stringify(times)))! }
}

test('an emitted run, measured by stage: a network of a tenth is found, and with it the step', () => {
  const { program, times } = stagesOn(slowNetwork(10), job({ dp: 16 }))
  const { cluster, changes } = refit(program, said, times)
  const { measured, given } = changes.find(({ what }) => what === 'infiniband bandwidth')!
  ok(Math.abs(measured / given / 0.1 - 1) < 0.1, JSON.stringify(changes))
  const off = predictedStep(program, cluster) / times.step - 1
  ok(Math.abs(off) < 0.1, `predicted ${off}`)
})

later('replan finds the plan that a slow network wants, and its step is within 10 %', async () => {
  const real = slowNetwork(20)
  const present = job({ dp: 16, zero: 1, microbatches: 1 })
  const { times } = timesOn(real, present)
  const files = {
    'run/job.json': JSON.stringify(present),
    'run/metrics.jsonl': `${JSON.stringify({ step: 1, loss: 1, seconds: times.step })}\n`,
    'run/measured.json': JSON.stringify(times),
    'said.json': JSON.stringify(said),
  }
  const args = ['replan', 'run', '--cluster', 'said.json', '--out', 'better.yaml', '--json']
  const { code, out, err, written } = await lockstep(args, files)
  equal(code, 0, err)
  const { better, best, saved, changes } = JSON.parse(out)
  ok(better && saved > 0.1, out)
  deepEqual(
    changes.map(({ what }: { what: string }) => what),
    ['infiniband bandwidth'],
  )
  const found = Job.parse({ ...present, plan: best.plan })
  const program = compileJob(found)
  const real16 = simulate(program, clusterPrices(program, real), { watch: [] }).step
  ok(Math.abs(best.predicted / real16 - 1) < 0.1, `${best.predicted} against ${real16}`)
  ok(real16 < times.step, 'it is better')
  match(written['better.yaml'], /^# run with another plan[\s\S]*\nplan:/)
  const text = await lockstep(['replan', 'run', '--cluster', 'said.json'], files)
  match(text.out, /infiniband bandwidth[\s\S]*\nbetter: [\s\S]* expected: \d+\.\d % less than now\n/)
})

/** The same machine with another amount of memory. */
const withMemory = (memory: number): Cluster => ({
  ...said,
  device: { ...said.device, memory, reserve: { bytes: 0, fraction: 0 } },
})

for (const [what, given, real, present] of [
  ['more', 1.5e9, 80e9, { tp: 2, dp: 8, recompute: 'full', microbatches: 4 }],
  ['less', 80e9, 1.5e9, { tp: 2, dp: 8, recompute: 'full', microbatches: 4 }],
] as const)
  later(`replan on a machine that has ${what} memory than was said finds the plan that this memory wants`, async () => {
    const { program, times } = timesOn(withMemory(real), job(present))
    const files = {
      'run/job.json': JSON.stringify(job(present)),
      'run/metrics.jsonl': `${JSON.stringify({ step: 1, loss: 1, seconds: times.step })}\n`,
      'run/measured.json': JSON.stringify({ ...times, memory: real }),
      'said.json': JSON.stringify(withMemory(given)),
    }
    const { code, out, err } = await lockstep(['replan', 'run', '--cluster', 'said.json', '--json'], files)
    equal(code, 0, err)
    const { better, best, changes } = JSON.parse(out)
    deepEqual(changes, [{ what: 'memory of a device', given, measured: real }])
    const found = compileJob(Job.parse({ ...job({}), plan: best.plan }))
    const most = (of: typeof program) => Math.max(...of.streams.map(({ arena }) => arena))
    ok(most(found) <= real && most(program) <= 1.5e9, `${most(found)} of ${real}, ${most(program)}`)
    if (what === 'less') return
    ok(better && most(found) > given, out)
    const step = simulate(found, clusterPrices(found, withMemory(real)), { watch: [] }).step
    ok(step < times.step && Math.abs(best.predicted / step - 1) < 0.1, `${best.predicted} against ${step}`)
  })

test('a run that measured nothing is told so', async () => {
  const files = { 'run/job.json': JSON.stringify(job({})), 'run/metrics.jsonl': '' }
  match((await lockstep(['replan', 'run'], files)).err, /run has no measured\.json/)
  match((await lockstep(['replan', 'gone'], files)).err, /gone does not exist/)
})
