/** Runs of others, watched: lines that are cut, files that begin anew, steps that are taken again, and silence. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { notBegun, paceOf, tailOf, withLines } from '../src/monitor/index.js'
import { lockstep } from './memory-io.js'

const line = (step: number, more: object = {}) =>
  JSON.stringify({ step, loss: 5 / step, seconds: 2, lr: 1e-3, gradientNorm: 1, tokensPerSecond: 2e4, ...more })
const straggler = JSON.stringify({
  ...{ step: 2, event: 'straggler', severity: 'warning', rank: 3, message: 'computes 1.3 times as long', numbers: {} },
})
const job = JSON.stringify({ training: { steps: 300 } })

describe('the tail of a file', () => {
  const bytes = (text: string) => new TextEncoder().encode(text)
  const tail = (contents: readonly (string | undefined)[]) => {
    let text: string | undefined
    const read = tailOf('metrics.jsonl', {
      readBytes: (_, begin, end) => {
        if (text === undefined) throw new Error('no such file')
        return bytes(text).subarray(begin, end)
      },
    })
    return contents.map(content => {
      text = content
      const { lines, anew } = read()
      return `${anew ? 'anew ' : ''}${lines.join(' ')}`
    })
  }
  test('whole lines as they come; the rest of a cut one later', () =>
    deepEqual(tail([undefined, 'a\nb', 'a\nb', 'a\nbé\nc', 'a\nbé\nc\n']), ['', 'a', '', 'bé', 'c']))
  test('a file that vanishes for a moment is read on', () =>
    deepEqual(tail(['a\n', undefined, 'a\nb\n']), ['a', '', 'b']))
  test('a shorter or another file is read from its start', () =>
    deepEqual(tail(['a\nb\n', 'a\n', 'x\ny\nz\n']), ['a b', 'anew a', 'anew x y z']))
})

describe('what lines tell', () => {
  test('lines of others and cut ones are skipped; steps that come again drop what followed them', () => {
    const run = withLines(notBegun, [
      line(1),
      '{"step":2,"lo',
      '[]',
      straggler,
      line(2),
      line(3),
      line(2, { loss: null }),
    ])
    deepEqual(
      run.steps.map(({ step, loss }) => [step, loss]),
      [
        [1, 5],
        [2, Number.NaN],
      ],
    )
    deepEqual([run.restarts, run.events.length], [1, 1])
  })
  const run = withLines(notBegun, [line(1), line(2)])
  // biome-ignore format: a table
  const cases: readonly [steps: number | undefined, age: number, status: string][] = [
    [300, 3, 'running'], [300, 43, 'silent'], [2, 43, 'done'], [undefined, 1, 'running'],
  ]
  for (const [steps, age, status] of cases)
    test(`2 of ${steps} steps, ${age} s ago: ${status}`, () => equal(paceOf(run, steps, age).status, status))
})

const folder = (metrics: string) => ({ 'run/job.json': job, 'run/metrics.jsonl': metrics })
const past = { modified: () => Date.now() / 1000 - 43 }

describe('lockstep watch', () => {
  test('--once shows loss, rates, checkpoints, events and silence, without colours', async () => {
    const metrics = `${[line(1), line(2, { evalLoss: 2.25, checkpoint: 'saved/step-2' }), straggler, line(3)].join('\n')}\n{"st`
    const { code, out } = await lockstep(['watch', 'run', '--once'], folder(metrics), past)
    equal(code, 0)
    match(out, /^run: no step for 4[34] s, usually 2\.000 s; step 3 of 300\nloss 1\.6667 {2}val 2\.2500\n/)
    match(
      out,
      /20\.0k tok\/s[\s\S]* 3\/300 {2}9 min 54 s left\n1 checkpoint, latest saved\/step-2\nwarning at step 2, rank 3: /,
    )
    ok(!out.includes('\x1b'))
  })
  test('--once --json is one object', async () => {
    const { out } = await lockstep(['watch', 'run', '--once', '--json'], folder(`${line(1)}\n`), past)
    const { status, step, steps, secondsPerStep, counts } = JSON.parse(out)
    deepEqual([status, step, steps, secondsPerStep, counts], ['silent', 1, 300, 2, {}])
  })
  test('a run that went beyond the steps of its job is done', async () => {
    const { code, out, err } = await lockstep(['watch', 'run', '--once'], folder(`${line(299)}\n${line(450)}\n`), past)
    equal(code, 0, err)
    match(out, /━ 450\/300 {2}done\n/)
  })
  test('it ends when its reader has left', async () => {
    let readers = 1
    const out = () => void readers--
    const ran = await lockstep(['watch', 'run', '--every', '1ms'], folder(`${line(1)}\n`), {
      ...{ out, isRead: () => readers > 0 },
    })
    equal(ran.code, 0)
  })
  test('a run that has not begun, and none at all', async () => {
    match((await lockstep(['watch', 'run', '--once'], { 'run/job.json': job })).out, /^run: no step yet\n$/)
    match((await lockstep(['watch', 'gone'])).err, /gone does not exist/)
  })
  test('a live run is followed to its end', async () => {
    const steps = [line(298), `${line(298)}\n${line(299)}`, `${line(298)}\n${line(299)}\n${straggler}\n${line(300)}`]
    let looks = 0
    const readBytes = (_: string, begin?: number, end?: number) =>
      new TextEncoder().encode(`${steps[Math.min(2, Math.floor(looks++ / 4))]}\n`).subarray(begin, end)
    const { code, out } = await lockstep(['watch', 'run', '--every', '1ms'], folder(''), { readBytes })
    equal(code, 0)
    deepEqual(out.match(/step \d+\/300|straggler/g), ['step 298/300', 'step 299/300', 'straggler', 'step 300/300'])
  })
  test('Ctrl-C ends it', async () => {
    const onInterrupt = (stop: (code: number) => void) => {
      setTimeout(stop, 5, 130)
      return () => {}
    }
    equal((await lockstep(['watch', 'run', '--every', '1h'], folder(''), { onInterrupt })).code, 130)
  })
})
