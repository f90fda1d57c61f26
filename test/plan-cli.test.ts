/** lockstep plan, explain and scale: what they find, what they write, and what they say when nothing works. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { makeSchedule, printSchedule } from '../src/schedule/index.js'
import { later, test } from './families.js'
import { lockstep } from './memory-io.js'

const asked = ['--model', 'llama3-8b', '--cluster', 'h100', '--seq', '4096']
const plan = (...more: string[]) => lockstep(['plan', ...asked, '--no-simulate', ...more])
const small = ['--devices', '8', '--global-batch', '8']

test('plan: ranked plans, the front, counts and reasons', async () => {
  const { code, out, err } = await plan(...small)
  equal(code, 0, err)
  for (const words of ['8.03 B parameters', 'Pareto frontier', 'Why this plan', 'Time breakdown'])
    ok(out.includes(words), words)
  for (const words of ['With one decision changed', '% slower', 'What would change it', 'network x2'])
    ok(out.includes(words), words)
  match(out, /[\d,]+ candidates: [\d,]+ pruned \(do not fit\)/)
  for (const line of out.split('\n')) ok(line.length <= 110, `${line.length}: ${line}`)
})

test('plan --json: best first, all within what was asked', async () => {
  const { code, out } = await plan(...small, '--no-why', '--json', '--constraint', 'tp<=2', 'zero!=3', '--top', '5')
  equal(code, 0)
  const { best, front, counts } = JSON.parse(out)
  equal(best.length, 5)
  const steps = best.map((one: { step: number }) => one.step)
  deepEqual(
    steps,
    [...steps].sort((a: number, b: number) => a - b),
  )
  for (const { plan } of [...best, ...front]) ok((plan.tp ?? 1) <= 2 && plan.zero !== 3)
  equal(counts.pruned.memory + counts.pruned.time + counts.priced, counts.considered)
})

test('plan --quick: the first of what the whole search lists, alone, or as many as are asked for', async () => {
  const within = [...small, '--json', '--constraint', 'tp<=2', 'zero!=3']
  const steps = async (...more: string[]): Promise<number[]> => {
    const { code, out } = await plan(...within, ...more)
    equal(code, 0)
    return JSON.parse(out).best.map((one: { step: number }) => one.step)
  }
  const all = await steps('--no-why', '--top', '5')
  deepEqual(await steps('--quick'), all.slice(0, 1))
  deepEqual(await steps('--quick', '--top', '3'), all.slice(0, 3))
  match((await plan(...within, '--top', '0')).err, /--top: `0`: expected an integer >= 1/)
})

later('plan --simulate: the best are compiled, and the program has the last word', async () => {
  const cut = ['--constraint', 'pp<=2', 'zero<=1', 'schedule=1f1b', 'layers=even']
  const request = ['plan', '--model', 'gpt2', '--cluster', 'a100', '--seq', '1024', '--global-batch', '8']
  const { code, out, err } = await lockstep([
    ...request,
    '--devices',
    '2',
    '--simulate',
    '1',
    '--no-why',
    '--json',
    ...cut,
  ])
  equal(code, 0, err)
  const { best, counts } = JSON.parse(out)
  ok(counts.simulated > 0)
  equal(best[0].basis, 'simulated')
  ok(best[0].step > 0 && best[0].bytes > 0 && best[0].estimated.step > 0)
})

for (const precision of ['tf32'])
  test(`plan --out with products in ${precision}, which no job can say, is refused before the search`, async () => {
    const { written, code, err } = await plan(...small, '--precision', precision, '--out', 'job.yaml')
    deepEqual([code, written], [1, {}])
    match(err, new RegExp(`--out: a job file has no field for ${precision} matmuls: .* leave out --out`))
  })

test('plan --out: a job that check accepts and explain reads', async () => {
  const { written, code } = await plan(...small, '--no-why', '--out', 'job.yaml')
  equal(code, 0)
  const checked = await lockstep(['check', 'job.yaml'], written)
  equal(checked.code, 0, checked.out)
  match(checked.out, /8 ranks = dp 8/)
  const explained = await lockstep(['explain', 'job.yaml', '--cluster', 'h100'], written)
  equal(explained.code, 0, explained.err)
  match(explained.out, /Best plan found/)
})

later('plan --precision f16 --out: a job in f16, with the scale that it needs', async () => {
  const { written, code, err } = await plan(...small, '--no-why', '--precision', 'f16', '--out', 'job.yaml')
  equal(code, 0, err)
  match(written['job.yaml'], /precision: f16/)
  match(written['job.yaml'], /lossScale:/)
  const checked = await lockstep(['check', 'job.yaml'], written)
  equal(checked.code, 0, checked.out)
})

test('plan: a vocabulary that nothing divides is padded, in the job too', async () => {
  const request = ['--model', 'gpt2', '--cluster', 'a100', '--seq', '1024', '--devices', '2', '--global-batch', '4']
  const { out, written } = await lockstep(['plan', ...request, '--no-simulate', '--no-why', '--out', 'job.yaml'])
  match(out, /vocab 50257 is padded to 50304/)
  match(written['job.yaml'], /preset: gpt2\n {2}vocab: 50304/)
})

test('plan: other software gets what it can run', async () => {
  const { out } = await plan(...small, '--no-why', '--json', '--software', 'megatron-2022')
  const { best } = JSON.parse(out)
  for (const { plan } of best) ok((plan.zero ?? 0) === 0 && ['1f1b', 'interleaved', undefined].includes(plan.schedule))
})

const impossible: readonly [title: string, argv: readonly string[], said: readonly RegExp[]][] = [
  [
    '7 devices for tp 8',
    ['--devices', '7', '--global-batch', '16', '--constraint', 'tp=8'],
    [/no tp divides 7 devices/, /without tp=8/, /--devices 8 /],
  ],
  [
    'a batch smaller than dp',
    ['--devices', '64', '--global-batch', '6', '--constraint', 'dp=32'],
    [/none divides a batch of 6/, /--global-batch 32 /, /without dp=32/],
  ],
  [
    'nothing fits',
    ['--devices', '8', '--global-batch', '8', '--constraint', 'memory<=2GiB'],
    [/nothing fits: the smallest plan needs/, /recompute full/, /without memory<=2GiB/],
  ],
  ['too few devices', ['--devices', '1', '--global-batch', '8'], [/nothing fits/, /more memory/, /--devices [2-8] /]],
]
for (const [title, argv, said] of impossible) {
  const tested = title === 'nothing fits' ? later : test
  tested(`plan: ${title}: why, and what would work`, async () => {
    const { code, err, out } = await plan(...argv)
    equal(code, 1)
    equal(out, '')
    for (const words of said) match(err, words)
  })
}

test('plan: every problem of a request at once', async () => {
  const request = ['--model', 'lama3-8b', '--cluster', 'h100', '--seq', '4096', '--devices', '8', '--global-batch', '8']
  const { code, err } = await lockstep(['plan', ...request, '--constraint', 'tpp<=8', 'zero=many'])
  equal(code, 1)
  for (const words of [/unknown model `lama3-8b`/, /did you mean tp/, /many is not an integer/]) match(err, words)
})

const job = `
model: llama3-8b
training: { seq: 4096, globalBatch: 16 }
plan: { tp: 8, dp: 1, microbatches: 16, recompute: full, precision: bf16 }
`

test('explain: what limits a plan, what to try, what not, and the best of all', async () => {
  const { code, out, err } = await lockstep(['explain', 'job.yaml', '--cluster', 'h100'], { 'job.yaml': job })
  equal(code, 0, err)
  for (const words of ['What limits it', 'What to try next', 'What does not help', 'Best plan found'])
    ok(out.includes(words), words)
  match(out, /recompute none +[\d.]+ % faster/)
})

later('explain: a list of ops to recompute has the time and the memory of its program, as simulate does', async () => {
  const job =
    '{ model: llama3-8b, training: { seq: 4096, globalBatch: 32 }, plan: { tp: 4, dp: 2, microbatches: 16, precision: bf16, recompute: [swiglu, rmsNorm] } }'
  const told = async (command: string) =>
    JSON.parse((await lockstep([command, 'job.yaml', '--cluster', 'h100', '--json'], { 'job.yaml': job })).out)
  const [explained, simulated] = [await told('explain'), await told('simulate')]
  equal(explained.bytes, simulated.memory.arena)
  ok(Math.abs(explained.step / simulated.step - 1) < 1e-9)
})

later('explain: a schedule from a file takes the time of its program, as simulate does', async () => {
  const csv = printSchedule(makeSchedule('zb-h1', { ranks: 2, chunks: 1, microbatches: 4 }))
  const model = 'model: { family: llama, layers: 8, embed: 1024, heads: 8, kvHeads: 8, ffn: 4096, vocab: 32000 }'
  const given =
    'training: { seq: 1024, globalBatch: 8 }\nplan: { pp: 2, dp: 2, microbatches: 4, precision: bf16, schedule: '
  const files = {
    'a.csv': csv,
    'file.yaml': `${model}\n${given}{ file: a.csv } }`,
    'named.yaml': `${model}\n${given}zb-h1 }`,
  }
  const explained = await lockstep(['explain', 'file.yaml', '--cluster', 'h100', '--json'], files)
  const simulated = await lockstep(['simulate', 'named.yaml', '--cluster', 'h100', '--json'], files)
  equal(explained.code, 0, explained.err)
  const [one, other] = [JSON.parse(explained.out), JSON.parse(simulated.out)]
  ok(Math.abs(one.step / other.step - 1) < 1e-9, `${one.step} s, ${other.step} s`)
  match((await lockstep(['explain', 'file.yaml', '--cluster', 'h100'], files)).out, /note: a.csv is simulated/)
})

later('explain --measured-step: one scalar for everything', async () => {
  const run = async (...more: string[]) =>
    JSON.parse(
      (await lockstep(['explain', 'job.yaml', '--cluster', 'h100', '--json', ...more], { 'job.yaml': job })).out,
    )
  const [priced, measured] = [await run(), await run('--measured-step', '10s')]
  equal(measured.step, 10)
  const ratio = 10 / priced.step
  ok(Math.abs(measured.scale / ratio - 1) < 1e-12)
  for (const [i, { step, verdict }] of measured.neighbours.entries())
    if (verdict.kind === 'timed') ok(Math.abs(step / (priced.neighbours[i].step * ratio) - 1) < 1e-12)
})

test('explain: a plan that does not fit says by how much', async () => {
  const heavy = job.replace('tp: 8', 'tp: 1').replace('recompute: full', 'recompute: none')
  const { out } = await lockstep(['explain', 'job.yaml', '--cluster', 'h100'], { 'job.yaml': heavy })
  match(out, /does not fit: [\d.]+ GiB more than/)
  match(out, /memory +[\d.]+ GiB per rank, [\d.]+ [GM]iB too much;/)
})

test('scale: strong, weak, and the limit', async () => {
  const devices = ['--devices', '8,16,32', '--global-batch', '32']
  const { code, out } = await lockstep(['scale', ...asked, ...devices, '--software', 'megatron-2024'])
  equal(code, 0)
  for (const words of ['Strong scaling', 'Weak scaling', "Amdahl's limit"]) ok(out.includes(words), words)
  const { strong, weak } = JSON.parse((await lockstep(['scale', ...asked, ...devices, '--json'])).out)
  deepEqual(
    strong.map((point: { globalBatch: number }) => point.globalBatch),
    [32, 32, 32],
  )
  deepEqual(
    weak.map((point: { globalBatch: number }) => point.globalBatch),
    [32, 64, 128],
  )
})

test('scale: devices must be numbers', async () => {
  const { code, err } = await lockstep(['scale', ...asked, '--devices', '8,many', '--global-batch', '32'])
  equal(code, 2)
  match(err, /expected numbers such as 8,16,1k/)
})
