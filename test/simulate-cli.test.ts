/** lockstep simulate, as a user meets it. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { lockstep } from './memory-io.js'

const files = {
  'job.yaml': `
name: small
model: { family: llama, layers: 8, embed: 1024, heads: 16, kvHeads: 8, ffn: 4096, vocab: 32000 }
training: { seq: 1024, globalBatch: 32, clip: 1 }
plan: { dp: 2, tp: 2, pp: 4, zero: 1, sequenceParallel: true, microbatches: 8, schedule: zb-h1, recompute: selective }
`,
  'wrong.yaml': 'model: { family: llama, layers: 8 }\ntraining: { seq: 8, globalBatch: 1 }\nplan: { tp: 0 }\n',
  'mine.yaml': '{ device: h100, devices: 8 }',
}

const simulate = (...argv: string[]) => lockstep(['simulate', ...argv], files)
const json = async (...argv: string[]) => {
  const { out, err } = await simulate('job.yaml', '--cluster', 'h100', '--json', ...argv)
  ok(out.startsWith('{'), err)
  return JSON.parse(out)
}

test('it says how long a step takes, where the time goes, what is needed, and draws it', async () => {
  const { code, out } = await simulate('job.yaml', '--cluster', 'h100', '--tokens', '1T', '--mtbf', '50000h')
  equal(code, 0)
  match(
    out,
    /^small on 16 x NVIDIA H100.*: [\d.]+ ms\/step, [\d.]+[kM] tokens\/s\npredicted MFU [\d.]+ % .*HFU [\d.]+ %/,
  )
  for (const part of ['compute', 'recomputation', 'tensor parallel', 'data parallel', 'pipeline bubble', 'optimizer'])
    match(out, new RegExp(`\n${part} +[\\d.]+ [mu]?s +[\\d.]+ %`))
  match(out, /Peak memory \(pp \d, the largest\): [\d.]+ GiB of [\d.]+ GiB usable, fits\n {2}parameters/)
  match(out, /Goodput 9\d\.\d %: a failure every .* days, a checkpoint every .* \(Young .*, Daly .*\)/)
  match(out, /1\.00 T tokens: 30,517,579 steps, [\d.]+ days, [\d.]+ k device-hours, \$[\d.]+ k/)
  match(out, /\nrank 12 ·+F+[FIW·]*/)
})

test('JSON: parts add up to the step, for all ranks and for each stage', async () => {
  const { step, parts, stages, tokens, tokensPerSecond, mfu, memory } = await json()
  const sum = (numbers: Record<string, number>) => Object.values(numbers).reduce((a, b) => a + b, 0)
  equal(stages.length, 4)
  for (const each of [parts, ...stages]) ok(Math.abs(sum(each) / step - 1) < 1e-9)
  equal(tokens, 32 * 1024)
  ok(Math.abs(tokensPerSecond - tokens / step) < 1e-6 * tokensPerSecond)
  ok(mfu.causal < mfu.palm && mfu.palm < 1)
  ok(memory.arena > 0 && memory.usable < 80e9)
})

test('expert traffic is a part of its own, and verify reports the capacity that would do', async () => {
  const text = `
model: { family: llama, layers: 2, embed: 32, heads: 4, kvHeads: 2, ffn: 64, vocab: 64, moe: { experts: 8, topK: 2, ffn: 32 } }
training: { seq: 16, globalBatch: 8 }
plan: { dp: 4, ep: 4, expertCapacity: 1 }
`
  const { out } = await lockstep(['simulate', 'job.yaml', '--cluster', 'h100'], { 'job.yaml': text })
  match(out, /expert parallel +[\d.]+ [mu]?s/)
  const { code, err } = await lockstep(['verify', 'job.yaml', '--steps', '1'], { 'job.yaml': text })
  equal(code, 1)
  match(
    err,
    /^error: plan\.expertCapacity: rank \d.* their capacity is 64; set `expertCapacity: 1\.\d+` \[engine\/failed\]\n$/,
  )
})

test('a measured step is reproduced, and its scale serves other plans', async () => {
  const plain = await json()
  const measured = await json('--measured-step', '1.5s')
  ok(Math.abs(measured.step - 1.5) < 1e-9)
  ok(Math.abs(measured.scale - 1.5 / plain.step) < 1e-9 * measured.scale)
  const scaled = await json('--scale', String(measured.scale))
  ok(Math.abs(scaled.step - 1.5) < 1e-9)
})

test('slow ranks and jitter cost time', async () => {
  const [plain, slow, jitter] = [await json(), await json('--slow', '3:1.5,4-5:1.1'), await json('--jitter', '0.05')]
  ok(slow.step > plain.step && slow.parts.stragglers > 0)
  ok(jitter.step > plain.step)
  deepEqual([plain.roles, jitter.roles], [4, 16])
})

test('multiplying in bf16 is faster than in f32', async () =>
  ok((await json('--multiply', 'bf16')).parts.compute < (await json()).parts.compute / 2))

test('--svg and --trace write the timeline of a pipeline', async () => {
  const { code, written } = await simulate('job.yaml', '--cluster', 'h100', '--svg', 'a.svg', '--trace', 'a.json')
  equal(code, 0)
  match(written['a.svg'], /^<svg [\s\S]*<\/svg>\n$/)
  ok(!/="[^"]*(NaN|undefined|Infinity)/.test(written['a.svg']))
  for (const word of ['rank 0', 'rank 12', 'input gradient', 'weight gradient', 'optimizer', 'over nvlink'])
    ok(written['a.svg'].includes(word), word)
  // 8 microbatches forward, input and weight gradient, on 4 ranks.
  for (const kind of ['F', 'I', 'W']) equal(written['a.svg'].match(new RegExp(`class="k${kind}" x`, 'g'))?.length, 33)
  const { traceEvents } = JSON.parse(written['a.json'])
  const threads = traceEvents.filter(({ name }: { name: string }) => name === 'thread_name')
  ok(threads.some(({ args }: { args: { name: string } }) => args.name === 'network: nvlink'))
})

const refused: [title: string, argv: string[], code: number, says: RegExp][] = [
  ['no cluster', ['job.yaml'], 2, /--cluster/],
  ['an unknown device', ['job.yaml', '--cluster', 'h1000'], 1, /unknown device `h1000`; did you mean `?h100/],
  [
    'too few devices',
    ['job.yaml', '--cluster', 'h100', '--devices', '8'],
    1,
    /tp 2 x dp 2 x pp 4 = 16 ranks, but the cluster has 8 devices/,
  ],
  ['a cluster file too small', ['job.yaml', '--cluster', 'mine.yaml'], 1, /= 16 ranks, but the cluster has 8 devices/],
  [
    'a rank that is not there',
    ['job.yaml', '--cluster', 'h100', '--slow', '16:2'],
    1,
    /there is no rank 16: the plan has ranks 0 to 15/,
  ],
  ['a slowdown that is none', ['job.yaml', '--cluster', 'h100', '--slow', '3'], 2, /'3' is not rank:factor/],
  [
    'a time that is none',
    ['job.yaml', '--cluster', 'h100', '--measured-step', 'fast'],
    2,
    /expected a time, such as 4\.2s/,
  ],
  ['a count that is none', ['job.yaml', '--cluster', 'h100', '--tokens', 'many'], 2, /expected a count, such as 15T/],
  ['a precision that is none', ['job.yaml', '--cluster', 'h100', '--multiply', 'fp4'], 2, /fp4/],
  ['a job with problems', ['wrong.yaml', '--cluster', 'h100'], 1, /wrong\.yaml:3:\d+: error: plan\.tp/],
]
for (const [title, argv, expected, says] of refused)
  test(`${title} is refused in a sentence`, async () => {
    const { code, err } = await simulate(...argv)
    equal(code, expected, err)
    match(err, says)
    ok(!/ at .*\.js:\d/.test(err))
  })
