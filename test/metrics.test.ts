/** One definition per quantity: what two commands print of the same job is the same number. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { bubbleOf, linkUseOf, quantities, ratesOf } from '../src/metrics/index.js'
import { family } from './families.js'
import { lockstep } from './memory-io.js'

const work = { devices: 4, tokens: 1000, modelFlops: 8e12, peak: 1e12, price: 2 }

test('HFU is MFU with recomputation, by the same count', () => {
  const { mfu, hfu, flopsPerDevice, tokensPerSecond, dollars } = ratesOf(4, { ...work, recomputedFlops: 2e12 })
  deepEqual([mfu, hfu, flopsPerDevice, tokensPerSecond], [0.5, 0.625, 5e11, 250])
  equal(ratesOf(4, work).hfu, 0.5)
  // 4 million seconds on 4 devices at $2 per hour.
  equal(dollars, (4e6 / 3600) * 4 * 2)
})

test('the bubble of uneven stages: 20 % is the mean over ranks, 10 % is on the critical path', () => {
  const { mean, criticalPath } = bubbleOf([{ bubble: 1 }, { bubble: 3 }], 10)
  deepEqual([mean, criticalPath], [0.2, 0.1])
})

test('a link is busy for the bytes of every collective that crosses it', () => {
  const row = (level: string, link: string, bytes: number, seconds: number) => ({ level, link, bytes, seconds })
  const rows = [row('node', 'nvlink', 8, 2), row('fabric', 'infiniband', 1, 2), row('node', 'nvlink', 4, 0.5)]
  deepEqual(linkUseOf(rows, 10), [
    { level: 'node', link: 'nvlink', bytes: 12, utilization: 0.25 },
    { level: 'fabric', link: 'infiniband', bytes: 1, utilization: 0.2 },
  ])
})

test('docs/guides/metrics.md has the definition of every quantity', () => {
  const rows = readFileSync('docs/guides/metrics.md', 'utf8')
    .split('\n')
    .filter(line => line.startsWith('| ') && !line.startsWith('| quantity'))
  deepEqual(
    rows,
    Object.values(quantities).map(({ title, unit, definition }) => `| ${title} | ${unit} | ${definition} |`),
  )
})

interface Case {
  readonly model: string
  readonly seq: number
  readonly batch: number
  readonly plan: string
  readonly on: string
}

const jobs: readonly Case[] = [
  { model: 'llama3-8b', seq: 8192, batch: 128, plan: 'tp: 2, pp: 4, dp: 8, microbatches: 16, zero: 1', on: 'h100' },
  { model: 'llama3-8b', seq: 8192, batch: 32, plan: 'dp: 32, zero: 3, overlap: false', on: 'h100' },
  { model: 'gpt2', seq: 1024, batch: 64, plan: 'dp: 8, zero: 3, microbatches: 2, recompute: full', on: 'a100-80' },
  { model: 'mixtral-8x7b', seq: 4096, batch: 32, plan: 'pp: 2, dp: 8, ep: 8, zero: 1, microbatches: 4', on: 'h100' },
  {
    ...{ model: 'llama3-8b', seq: 8192, batch: 32, on: 'h200' },
    plan: 'tp: 2, pp: 2, dp: 4, microbatches: 8, schedule: interleaved, chunks: 4, recompute: selective',
  },
  {
    model: 'llama2-13b',
    seq: 4096,
    batch: 32,
    plan: 'tp: 2, pp: 4, dp: 2, microbatches: 16, schedule: zb-h1',
    on: 'h100',
  },
  { model: 'llama3-8b', seq: 4096, batch: 64, plan: 'dp: 8, zero: 2, fp8: { recipe: delayed }', on: 'h100' },
]

const fileOf = ({ model, seq, batch, plan }: Case): string =>
  `model: ${model}\ntraining: { seq: ${seq}, globalBatch: ${batch} }\nplan: { ${plan}, precision: bf16 }\n`

async function told(command: readonly string[], file: string) {
  const { code, out, err } = await lockstep([...command, '--json'], { 'job.yaml': file })
  equal(code, 0, err)
  return JSON.parse(out)
}

const near = (one: number, other: number, what: string) =>
  ok(Math.abs(one - other) <= 1e-9 * Math.abs(other), `${what}: ${one} and ${other}`)

type Numbers = Readonly<Record<string, number>>

/** The sums of two walks of a program differ in their last bits. */
function nearEach(one: Numbers, other: Numbers, { of, within }: { of: string; within: number }): void {
  deepEqual(Object.keys(one), Object.keys(other))
  for (const name of Object.keys(one))
    ok(Math.abs(one[name] - other[name]) <= within, `${of} ${name}: ${one[name]} and ${other[name]}`)
}

const tested = family('two commands, one number', 3)

for (const job of jobs)
  tested(`${job.model}, ${job.plan} on ${job.on}: explain and simulate say the same`, async () => {
    const [explained, simulated] = [
      await told(['explain', 'job.yaml', '--cluster', job.on], fileOf(job)),
      await told(['simulate', 'job.yaml', '--cluster', job.on], fileOf(job)),
    ]
    equal(explained.basis, 'simulated')
    near(explained.step, simulated.step, 'step')
    near(explained.tokensPerSecond, simulated.tokensPerSecond, 'tokens/s')
    near(explained.mfu, simulated.mfu.palm, 'MFU')
    near(explained.hfu, simulated.hfu, 'HFU')
    near(explained.dollars, simulated.dollars, 'cost')
    ok(simulated.hfu >= simulated.mfu.palm)
    equal(job.plan.includes('recompute'), simulated.hfu > simulated.mfu.palm)
    equal(explained.bytes, simulated.memory.arena)
    equal(explained.headroom, simulated.memory.headroom)
    for (const what of ['bubble', 'parts', 'exposed'])
      nearEach(explained[what], simulated[what], { of: what, within: 1e-9 * simulated.step })
    near(simulated.bubble.mean, simulated.parts.bubble / simulated.step, 'bubble')
    ok(simulated.bubble.criticalPath <= simulated.bubble.mean + 1e-12)
    const parts = Object.values<number>(simulated.parts)
    near(
      parts.reduce((sum, part) => sum + part, 0),
      simulated.step,
      'parts of the step',
    )
  })

tested('llama3-8b on 16 h100: what plan lists is what simulate and explain say of its job file', async () => {
  const asked = ['plan', '--model', 'llama3-8b', '--cluster', 'h100', '--devices', '16', '--seq', '8192']
  const given = [...asked, '--global-batch', '32', '--constraint', 'pp=2', '--out', 'best.yaml']
  const { code, err, out, written } = await lockstep([...given, '--json'], {})
  equal(code, 0, err)
  const [best] = JSON.parse(out).best
  const file = written['best.yaml']
  const simulated = await told(['simulate', 'job.yaml', '--cluster', 'h100'], file)
  const explained = await told(['explain', 'job.yaml', '--cluster', 'h100'], file)
  for (const other of [{ ...simulated, mfu: simulated.mfu.palm, bytes: simulated.memory.arena }, explained])
    for (const what of ['step', 'tokensPerSecond', 'mfu', 'hfu', 'bytes', 'dollars'])
      near(best[what], other[what], what)
})

test('a number says whether it is simulated or estimated, and MFU that it is predicted', async () => {
  const file = fileOf({ model: 'gpt2', seq: 1024, batch: 16, plan: 'dp: 4', on: 'h100' })
  const said = async (...args: string[]) => (await lockstep([...args, '--cluster', 'h100'], { 'job.yaml': file })).out
  match(await said('explain', 'job.yaml'), /\/step \(simulated\)/)
  match(await said('explain', 'job.yaml', '--software', 'megatron-2025'), /\/step \(estimated\)/)
  match(await said('simulate', 'job.yaml'), /predicted MFU/)
})
