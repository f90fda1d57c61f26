/** What a long command shows while it works, and what Ctrl-C does to it. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { asPart, finish, type Work } from '../src/base/index.js'
import { Interrupted, lineOf, withProgress } from '../src/cli/text/progress.js'
import { compilingJob } from '../src/compile/index.js'
import { bpeTokenizer, encodingAll, trainingMerges, trainMerges } from '../src/data/index.js'
import { parseJob } from '../src/plan/index.js'
import { lockstep, memoryIo } from './memory-io.js'

function* counting(to: number): Work<string> {
  for (let i = 0; i < to; i++) yield i / to
  return `counted to ${to}`
}

describe('work', () => {
  test('finishes with its result', () => equal(finish(counting(3)), 'counted to 3'))

  test('is a part of larger work', () => {
    const part = asPart(0.5, 1, counting(4))
    deepEqual([...part], [0.5, 0.625, 0.75, 0.875])
  })
})

describe('the line of progress', () => {
  const lines: [phase: string, share: number | undefined, elapsed: number, line: string][] = [
    ['reading', undefined, 9, 'reading ...'],
    ['laws', 0, 9, 'laws ...'],
    ['laws', 0.25, 0.5, '━━━━━─────────────── 25 %: laws'],
    ['laws', 0.25, 30, '━━━━━─────────────── 25 %, 1 min 30 s left: laws'],
    ['laws', 1, 30, '━━━━━━━━━━━━━━━━━━━━ 100 %, 0 s left: laws'],
  ]
  for (const [phase, share, elapsed, line] of lines)
    test(`${elapsed} s: ${line}`, () => equal(lineOf(phase, share, elapsed), line))

  const shown = async (columns: number | undefined) => {
    const { io, said } = memoryIo({}, { progressColumns: () => columns })
    const result = await withProgress(io, async progress => {
      progress.expect({ one: 1, three: 3 })
      await progress.run('one', counting(2))
      progress.say('something else')
      return progress.run('three', counting(2))
    })
    equal(result, 'counted to 2')
    deepEqual(said.out, '')
    return said.err.split('\r\x1b[2K')
  }

  test('counts the phases that were expected, names the others, and is gone at the end', async t => {
    t.mock.method(performance, 'now', () => 0) // a phase that takes a tenth of a second is drawn again
    deepEqual(await shown(80), ['', 'one ...', 'something else ...', '━━━━━─────────────── 25 %: three', ''])
  })

  test('is cut to the screen', async () => {
    for (const line of await shown(20)) ok(line.length < 20)
  })

  test('is not written where nobody sees it pass', async () => deepEqual(await shown(undefined), ['']))
})

const small = '{ model: gpt-tiny, training: { seq: 8, globalBatch: 4 }, plan: { dp: 2 } }'
const request = ['--model', 'llama3-8b', '--cluster', 'h100', '--seq', '2048', '--global-batch', '32']
const longOnes: string[][] = [
  ['verify', 'job.yaml'],
  ['dry-run', 'job.yaml'],
  ['plan', ...request, '--devices', '8'],
  ['scale', ...request, '--devices', '8,16'],
  ['explain', 'job.yaml', '--cluster', 'h100'],
  ['compare', 'job.yaml'],
  ['calibrate', '--quick'],
  ['demo'],
  ['compile', 'job.yaml'],
  ['memory', 'job.yaml'],
  ['simulate', 'job.yaml', '--cluster', 'h100'],
  ['emit', 'job.yaml', '--out', 'emitted'],
  ['launch', 'job.yaml'],
  ['train', 'job.yaml'],
  ['bench', 'kernels'],
  ['bench', 'collectives'],
  ['schedule', 'zb-auto', '--pp', '4', '--microbatches', '8'],
]

for (const argv of longOnes) {
  test(`${argv.slice(0, 2).join(' ')} hears Ctrl-C: one line, exit code 130`, async () => {
    const onInterrupt = (stop: (code: number) => void) => {
      stop(130)
      return () => {}
    }
    const { code, err } = await lockstep(argv, { 'job.yaml': small }, { onInterrupt })
    deepEqual([code, err], [130, `${argv[0]}: interrupted before there was a result\n`])
  })
}

for (const argv of [longOnes[0], longOnes[3]]) {
  test(`${argv[0]} shows progress on a terminal, and none beside JSON`, async () => {
    const screen = { progressColumns: () => 80 }
    const shown = await lockstep(argv, { 'job.yaml': small }, screen)
    match(shown.err, /─ \d+ %(, \d+ s left)?: /)
    ok(shown.err.endsWith('\r\x1b[2K'))
    const json = await lockstep([...argv, '--json'], { 'job.yaml': small }, screen)
    deepEqual([json.code, json.err], [0, ''])
    JSON.parse(json.out)
  })
}

test('the shares of a long set-up never fall, and the result is that of the call', () => {
  const texts = ['the cat sat on the mat ', 'a cat is a cat '].map(text => new TextEncoder().encode(text.repeat(9)))
  const merges = [...sharesOf(trainingMerges(texts, 270))]
  const encoded = [...sharesOf(encodingAll(bpeTokenizer(trainMerges(texts, 270)), texts))]
  const job = parseJob(small).job!
  for (const shares of [merges, encoded, [...sharesOf(compilingJob(job))]]) {
    ok(shares.length > 3)
    for (const [i, share] of shares.entries()) ok(share >= (shares[i - 1] ?? 0) && share <= 1, `${shares}`)
  }
})

const sharesOf = (work: Work<unknown>): Iterable<number> => work

test('a program of many stages is compiled with a pause for each of them, in every pass over streams', () => {
  const { job } = parseJob(
    '{ model: gpt-tiny, training: { seq: 8, globalBatch: 8 }, plan: { pp: 4, microbatches: 8 } }',
  )
  const shares = [...compilingJob(job!)]
  const between = (from: number, to: number) => shares.filter(share => share > from && share <= to).length
  ok(between(0.1, 0.25) >= 4, 'flights')
  ok(between(0.35, 0.85) >= 4, 'drafts')
  ok(between(0.84, 1) >= 4, 'places')
})

test('work that is interrupted closes what it has opened', async () => {
  let open = true
  async function* closing(): AsyncGenerator<number, void, void> {
    try {
      for (;;) yield 0
    } finally {
      open = false
    }
  }
  const { io, interrupts } = memoryIo({})
  const running = withProgress(io, progress => progress.run('for ever', closing()))
  for (const stop of interrupts) stop(143)
  await running.then(
    () => ok(false, 'it went on'),
    e => ok(e instanceof Interrupted && e.code === 143),
  )
  deepEqual([open, interrupts.size], [false, 0])
})
