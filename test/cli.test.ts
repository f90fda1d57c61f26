/** The commands as a user meets them: what they print, and with which exit code. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { commands, groups } from '../src/cli/table.js'
import * as api from '../src/index.js'
import { parse } from '../src/ir/index.js'
import { family, test } from './families.js'
import { lockstep } from './memory-io.js'

const job = `
model: { family: llama, layers: 4, embed: 8, heads: 4, kvHeads: 2, ffn: 8, vocab: 8 }
training: { seq: 4, globalBatch: 8, clip: 1 }
plan: { dp: 2, tp: 2, pp: 2, zero: 3, sequenceParallel: true, microbatches: 4, schedule: zb-h1, recompute: selective }
`
const files = { 'job.yaml': job }
const withExamples = [
  'check',
  'config',
  'init',
  'case',
  'models',
  'cost',
  'import',
  'compile',
  'verify',
  'memory',
  'simulate',
  'schedule',
  'groups',
  'cluster',
  'calibrate',
  'compare',
  'demo',
]

for (const command of withExamples)
  test(`${command} --help has an example and the exit codes`, async () => {
    const { code, out } = await lockstep([command, '--help'])
    equal(code, 0)
    match(out, new RegExp(`Examples?:\\n\\s+lockstep ${command}`))
    match(out, /--json/)
    match(out, /[Ee]xit codes?/)
  })

test('the help lists every command in its group, within 100 columns, and begins with where to start', async () => {
  const { out } = await lockstep(['--help'])
  for (const [name, { group, summary }] of Object.entries(commands)) {
    const section = out.split(`\n${groups[group]}\n`)[1].split('\n\n')[0]
    match(section, new RegExp(`^  ${name} +${summary.replace(/[.+]/g, '\\$&')}$`, 'm'))
  }
  ok(out.indexOf(groups.start) < out.indexOf(groups.plan))
  for (const line of out.split('\n')) ok(line.length <= 100, line)
})

for (const command of Object.keys(commands))
  test(`${command} --help fits 100 columns`, async () => {
    const { out } = await lockstep([command, '--help'])
    deepEqual(
      out.split('\n').filter(line => line.length > 100),
      [],
    )
  })

test('the example of the help works in an empty folder', async () => {
  const { out } = await lockstep(['--help'])
  const [, example] = out.match(/Example:\n {2}lockstep (.*)\n/)!
  const ran = await lockstep(example.split(' '))
  equal(ran.code, 0)
  match(ran.out, /MFU/)
})

for (const argv of [
  ['simulate'],
  ['verify', 'job.yaml', '--steps', 'few'],
  ['memory', 'job.yaml', '--tp', '2'],
  ['compile', 'job.yaml', '--rank', '8'],
  ['train it'],
])
  test(`lockstep ${argv.join(' ')}: usage error, exit code 2`, async () => {
    const { code, err } = await lockstep(argv, files)
    equal(code, 2)
    ok(err.length > 0)
  })

for (const command of ['check', 'compile', 'verify', 'memory'])
  test(`${command} of a job with problems prints them all, exit code 1`, async () => {
    const bad = { 'job.yaml': job.replace('tp: 2', 'tp: 3').replace('globalBatch: 8', 'globalBatch: 7') }
    const text = await lockstep([command, 'job.yaml'], bad)
    equal(text.code, 1)
    match(text.out + text.err, /plan\.tp/)
    match(text.out + text.err, /training\.globalBatch/)
    const { code, out } = await lockstep([command, 'job.yaml', '--json'], bad)
    equal(code, 1)
    ok(JSON.parse(out).problems.length >= 2)
  })

const taken = family('command line', 2)
for (const precision of ['bf16', 'pure-bf16'])
  taken(`check, compile, verify and memory take a plan in ${precision}`, async () => {
    const narrow = { 'job.yaml': job.replace('dp: 2', `dp: 2, precision: ${precision}`) }
    const outputs = {
      check: new RegExp(`selective recompute, ${precision};`),
      compile: /./,
      verify: /static checks passed[\s\S]*numeric check passed: 8 ranks/,
      memory: /optimizer/,
    }
    for (const [command, expected] of Object.entries(outputs)) {
      const { code, out } = await lockstep([command, 'job.yaml'], narrow)
      equal(code, 0, command)
      match(out, expected)
    }
  })

test('verify passes both checks in words, and the same as JSON', async () => {
  const text = await lockstep(['verify', 'job.yaml'], files)
  equal(text.code, 0)
  match(
    text.out,
    /^static checks passed \(8 ranks, full size\)\n[\s\S]*numeric check passed: 8 ranks match the single-rank reference/,
  )
  const verdict = JSON.parse((await lockstep(['verify', 'job.yaml', '--json'], files)).out)
  deepEqual([verdict.ok, verdict.violations, verdict.numbers.memory, verdict.numbers.steps.length], [true, [], [], 3])
  ok(verdict.numbers.worst <= 1e-12)
})

test('verify runs a model that is too large narrower, under the same plan', async () => {
  const large = {
    'job.yaml': job
      .replace('embed: 8', 'embed: 1024')
      .replace('seq: 4', 'seq: 512')
      .replace('vocab: 8', 'vocab: 32000'),
  }
  const { ok: fine, numbers } = JSON.parse((await lockstep(['verify', 'job.yaml', '--json'], large)).out)
  equal(fine, true)
  deepEqual(
    numbers.shrunk.map((change: { path: string }) => change.path).filter((path: string) => path.startsWith('plan')),
    [],
  )
  ok(numbers.shrunk.some((change: { path: string }) => change.path === 'model.embed'))
})

test('compile --text prints a program that parses back to itself', async () => {
  const { out } = await lockstep(['compile', 'job.yaml', '--text'], files)
  const { job: parsed } = api.parseJob(job)
  deepEqual(parse(out), api.compileJob(parsed!))
})

test('compile --text --json is JSON with the text in it, of all ranks or of one', async () => {
  const { out } = await lockstep(['compile', 'job.yaml', '--text', '--json'], files)
  const { text, ranks } = JSON.parse(out)
  equal(text, (await lockstep(['compile', 'job.yaml', '--text'], files)).out)
  ok(ranks > 1)
  const one = ['compile', 'job.yaml', '--text', '--rank', '1']
  equal(JSON.parse((await lockstep([...one, '--json'], files)).out).text, (await lockstep(one, files)).out)
})

test('compile --out writes the text form', async () => {
  const { written, code } = await lockstep(['compile', 'job.yaml', '--out', 'program.txt', '--json'], files)
  equal(code, 0)
  equal(parse(written['program.txt']).streams.length, 2)
})

test('compile --rank 5 --text is about rank 5 alone', async () => {
  const { out } = await lockstep(['compile', 'job.yaml', '--rank', '5', '--text'], files)
  match(out, /^rank 5 of 8: tp 1\/2 .*dp 0\/2 pp 1\/2/)
})

test('a schedule from a file beside the job', async () => {
  const own = job.replace('microbatches: 4', 'microbatches: 2').replace('schedule: zb-h1', 'schedule: mine.csv')
  const csv = '0F0,0F1,0I0,0W0,0B1\n1F0,1I0,1F1,1I1,1W0,1W1\n'
  equal((await lockstep(['verify', 'job.yaml'], { 'job.yaml': own, 'mine.csv': csv })).code, 0)
  for (const [bad, says] of [
    [csv.replace('1W1', '1W0'), /1|W/],
    ['0F0,0B0\n', /rows, but plan\.pp is 2/],
    [csv.replaceAll(/,(0F1|0B1|1F1|1I1|1W1)/g, ''), /1 microbatches, but plan\.microbatches is 2/],
  ] as const) {
    const { code, err } = await lockstep(['compile', 'job.yaml'], { 'job.yaml': own, 'mine.csv': bad })
    equal(code, 1)
    match(err, says)
  }
  match((await lockstep(['check', 'job.yaml'], { 'job.yaml': own })).out, /cannot read mine\.csv: no such file/)
})

test('a job on standard input is read once, also where check must compile it', async () => {
  let reads = 0
  const once = (text: string) => ({ read: () => (reads++ === 0 ? text : '') })
  equal((await lockstep(['check', '-'], {}, once(job.replace('dp: 2', 'deviceMemory: 1GiB, dp: 2')))).code, 0)
  equal(reads, 1)
})
