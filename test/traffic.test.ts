/** What goes over the network in a step, by axis and link. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { elementsOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { linkUseOf } from '../src/metrics/index.js'
import { Job } from '../src/plan/index.js'
import { clusterPrices, kernelLoads, linkTraffic, rankTraffic, ridgeOf, simulate } from '../src/simulate/index.js'
import { jobOf } from './jobs.js'
import { lockstep } from './memory-io.js'

test('messages and collectives are counted by axis, with the price of one', () => {
  const program = compileJob(jobOf('mlp', { pp: 2, tp: 2, microbatches: 2 }))
  const prices = clusterPrices(program, clusterOf('h100', 4))
  const sent = rankTraffic(program, prices, 0)
  const messages = sent.find(({ what }) => what === 'messages pp')!
  const sends = program.streams[0].steps.filter(({ kind }) => kind === 'send')
  deepEqual([messages.count, messages.link], [sends.length, 'nvlink'])
  ok(sent.some(({ what }) => what === 'all-reduce tp'))
  for (const { count, bytes, seconds } of sent) ok(count > 0 && bytes > 0 && seconds > 0)
  deepEqual(rankTraffic(compileJob(jobOf('mlp', {})), prices, 0), [])
})

test('links carry what their collectives send: 2 (n - 1) / n of an all-reduce inside a node, a share of it outside', () => {
  const program = compileJob(jobOf('mlp', { tp: 2, dp: 8, zero: 0 }))
  const cluster = clusterOf('h100', 16)
  const rows = linkTraffic(program, cluster, 0)
  const prices = clusterPrices(program, cluster)
  const whole = (axis: string) => rankTraffic(program, prices, 0).find(({ what }) => what === `all-reduce ${axis}`)!
  const [tp, ...others] = rows.filter(({ axis }) => axis === 'tp')
  deepEqual([tp.op, tp.level, tp.link, tp.bytes, others], ['all-reduce', 'node', 'nvlink', whole('tp').bytes, []])
  const dp = rows.filter(({ axis, op }) => axis === 'dp' && op === 'all-reduce')
  deepEqual(dp.map(({ link }) => link).sort(), ['infiniband', 'nvlink'])
  for (const { bytes } of dp) ok(bytes > 0 && bytes <= (2 * 7 * whole('dp').bytes) / 8)
  const all = linkTraffic(program, cluster)
  for (const row of rows) {
    const same = all.find(({ axis, op, link }) => axis === row.axis && op === row.op && link === row.link)!
    ok(Math.abs(same.bytes - 16 * row.bytes) < 1e-6 * same.bytes)
  }
})

test('a rank sends (n - 1) / n of what it gathers, twice that of what it reduces, on however many links', () => {
  const sentIn = (plan: Parameters<typeof jobOf>[1], kind: string) => {
    const program = compileJob(jobOf('mlp', plan))
    const rows = rankTraffic(program, clusterPrices(program, clusterOf('h100', 16)), 0)
    return rows.filter(({ what }) => what.startsWith(kind)).map(({ what, sent, bytes }) => `${what} ${sent / bytes}`)
  }
  const each = 15 / 16
  ok(sentIn({ dp: 16, zero: 0 }, 'all-reduce dp').every(row => row === `all-reduce dp ${2 * each}`))
  ok(sentIn({ dp: 16, zero: 3 }, 'all-gather dp').every(row => row === `all-gather dp ${each}`))
})

test('a collective that crosses two links is busy on both', () => {
  const program = compileJob(jobOf('mlp', { dp: 16, zero: 0 }))
  const uses = linkUseOf(linkTraffic(program, clusterOf('h100', 16), 0), 1)
  deepEqual(uses.map(({ level, utilization }) => [level, utilization > 0]).sort(), [
    ['fabric', true],
    ['node', true],
  ])
})

test('rows go to experts along ep, whatever axes hold them', () => {
  const model = { family: 'llama', layers: 1, embed: 32, heads: 4, kvHeads: 4, ffn: 64, vocab: 64 } as const
  const job = Job.parse({
    model: { ...model, moe: { experts: 8, topK: 2, ffn: 32 } },
    training: { seq: 16, globalBatch: 2 },
    plan: { tp: 4, dp: 2, ep: 8, sequenceParallel: true },
  })
  const program = compileJob(job)
  const names = rankTraffic(program, clusterPrices(program, clusterOf('h100', 8)), 0).map(({ what }) => what)
  ok(names.includes('all-dispatch ep') && names.includes('all-combine ep'), names.join())
  ok(
    names.every(name => !name.includes('.')),
    names.join(),
  )
})

test('messages take the links between their stages, and no others', () => {
  const program = compileJob(jobOf('mlp', { pp: 2, dp: 8, microbatches: 2 }))
  const rows = linkTraffic(program, clusterOf('h100', 16), 0).filter(({ op }) => op === 'send')
  const { frames, steps } = program.streams[0]
  const sent = steps.reduce((sum, step) => (step.kind === 'send' ? sum + frames[step.frame].bytes : sum), 0)
  deepEqual(
    rows.map(({ axis, link, bytes }) => [axis, link, bytes]),
    [['pp', 'infiniband', sent]],
  )
})

test('kernels have all FLOPs of the step, and the intensity of a product is 2mnk over its three matrices', () => {
  const cluster = clusterOf('h100', 1)
  const program = compileJob(jobOf('mlp', {}))
  const prices = clusterPrices(program, cluster)
  const loads = kernelLoads(program, prices, 0)
  equal(
    loads.reduce((sum, { flops }) => sum + flops, 0),
    simulate(program, prices).flops.executed,
  )
  const segment = (name: string) => program.segments[name]
  const calls = program.streams[0].steps.flatMap(step => (step.kind === 'call' ? [segment(step.segment)] : []))
  const sizes = calls.flatMap(({ phase, instrs, buffers }) =>
    instrs.flatMap(instr =>
      phase === 'F' && instr.kind === 'contract'
        ? [[...instr.ins, ...instr.outs].map(ref => elementsOf(buffers[ref].dims))]
        : [],
    ),
  )
  const { count, flops, bytes } = loads.find(({ what }) => what === 'matmul, forward')!
  const sum = (of: (elements: readonly number[]) => number) => sizes.reduce((all, elements) => all + of(elements), 0)
  deepEqual([count, bytes], [sizes.length, sum(([a, b, out]) => 4 * (a + b + out))])
  equal(
    flops,
    sum(([a, b, out]) => 2 * Math.sqrt(a * b * out)),
  )
  equal(ridgeOf(cluster.device, 'bf16'), cluster.device.peak.bf16! / cluster.device.bandwidth)
})

for (const command of ['simulate', 'explain'])
  test(`${command} prints both, within 80 columns`, async () => {
    const job = '{ model: gpt-tiny, training: { seq: 8, globalBatch: 8 }, plan: { dp: 2, tp: 2 } }'
    const { out, code } = await lockstep([command, 'job.yaml', '--cluster', 'h100'], { 'job.yaml': job })
    equal(code, 0)
    match(out, /network \(a rank of pp 0\) +link +calls +bytes +per call +total\n.*nvlink/)
    match(out, /kernels \(a rank of pp 0\) +calls +FLOP\/byte +per call +total +bound\n/)
    match(out, /ridge point \d+\.?\d* FLOP\/byte: kernels above it are compute-bound/)
    const tables = out.split('\n').filter(line => /total|nvlink|memory$|(?<!re)compute$/.test(line))
    for (const line of tables) ok(line.length <= 80, line)
  })

test('memory prints what a block keeps for its backward, term by term', async () => {
  const job = '{ model: gpt-tiny, training: { seq: 8, globalBatch: 8 }, plan: { tp: 2 } }'
  const told = async (...more: string[]) => (await lockstep(['memory', 'job.yaml', ...more], { 'job.yaml': job })).out
  ok(
    /Activations saved for backward, per microbatch and rank[\s\S]*layers\.F +gelu +batch 8 x seq 8 x ffn 32 +f32 +8\.00 KiB/.test(
      await told(),
    ),
  )
  const { kept } = JSON.parse(await told('--json')) as { kept: { term: string; bytes: number }[] }
  equal(kept.find(({ term }) => term === 'gelu')!.bytes, 8 * 8 * 32 * 4)
})
