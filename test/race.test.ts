/** The race harness with contenders of our own making: who runs when, who is refused, what is counted. No times are judged. */
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Child } from '../bench/child.js'
import { digest, noise, wholeNumber } from '../bench/numbers.js'
import { Missing, unlessMissing } from '../bench/peers.js'
import { type Contender, geometricMean, median, run, speedup } from '../bench/race.js'
import { showResults } from '../bench/report.js'
import { lockstep } from './memory-io.js'

/** Answers and times as given; `log` sees every call. */
function fake(name: string, answer: number[], times: number[], log: string[]): Contender {
  let turn = 0
  return {
    name,
    answer: async () => {
      log.push(`${name}?`)
      return answer
    },
    time: async () => {
      log.push(name)
      return times[turn++ % times.length]
    },
  }
}

const race = (contenders: Contender[]) => ({ title: 'r', expected: [1, 2], tolerance: 0.01, contenders })

test('answers come first, then contenders take turns, each round another first', async () => {
  const log: string[] = []
  const contenders = ['a', 'b', 'c'].map(name => fake(name, [1, 2], [1], log))
  await run(race(contenders), { rounds: 2, warmups: 1 })
  equal(log.join(' '), 'a? b? c? a b c b c a c a b')
})

test('a wrong answer is never timed, and says what is wrong', async () => {
  const log: string[] = []
  const wrongs = { far: [1, 2.1], nan: [NaN, 2], short: [1] }
  const bad = Object.entries(wrongs).map(([name, answer]) => fake(name, answer, [0.001], log))
  const { entries } = await run(race([...bad, fake('good', [1, 2.01], [3], log)]), { rounds: 2 })
  deepEqual(
    entries.map(entry => ('wrong' in entry ? entry.wrong : entry.best)),
    ['number 1 is 2.1 instead of 2', 'number 0 is NaN instead of 1', '1 numbers instead of 2', 3],
  )
  deepEqual(
    log.filter(call => !call.endsWith('?')),
    ['good', 'good', 'good'],
  )
})

test('warm-ups are not counted; best, median and speed-ups are', async () => {
  const log: string[] = []
  const [slow, fast] = [fake('slow', [1, 2], [100, 4, 8, 6], log), fake('fast', [1, 2], [0, 2, 2, 1], log)]
  const result = await run(race([slow, fast]), { rounds: 3, warmups: 1 })
  deepEqual(
    result.entries.map(entry => 'best' in entry && [entry.best, entry.median, entry.times]),
    [
      [4, 6, [4, 8, 6]],
      [1, 2, [2, 2, 1]],
    ],
  )
  equal(speedup(result, 'fast', 'slow'), 4)
  equal(speedup(result, 'fast', 'slow', 'median'), 3)
  equal(speedup(result, 'fast', 'absent'), undefined)
  ok(showResults([result], [{ name: 'fast', peer: 'slow' }]).includes('4.00 (3.00)'))
  equal(median([4, 1, 3, 2]), 2.5)
  ok(Math.abs(geometricMean([1, 4]) - 2) < 1e-12)
})

test('numbers: noise is centred, whole numbers are small, a digest sees an exchange', () => {
  const values = noise(4096, 1)
  ok(Math.abs(values.reduce((sum, value) => sum + value, 0) / 4096) < 0.02)
  ok(values.every(value => value >= -0.5 && value < 0.5))
  ok(Array.from({ length: 999 }, (_, i) => wholeNumber(i, 2)).every(n => Number.isInteger(n) && n >= 0 && n < 64))
  ok(digest([1, 2, 3]) !== digest([2, 1, 3]))
})

const peer = `
const lines = require('node:readline').createInterface(process.stdin)
console.log('chatter')
console.log('ready 1.0')
lines.on('line', line => {
  const [word, ...rest] = line.split(' ')
  if (word === 'sum') console.log('ok', rest.reduce((a, b) => a + Number(b), 0))
  else if (word === 'die') { console.error('out of luck'); process.exit(3) }
  else console.log('failed no such word:', word)
})`

test('a peer is a child that answers line by line, refuses, and dies with its last words', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-test-'))
  const file = join(folder, 'peer.cjs')
  writeFileSync(file, peer)
  try {
    const child = await Child.start('peer', { file: process.execPath, args: [file] })
    deepEqual(await Promise.all([child.askNumbers('sum', 1, 2), child.askNumbers('sum', 5)]), [[3], [5]])
    await rejects(child.ask('hop'), /peer: no such word: hop/)
    await rejects(child.ask('die'), /peer ended with 3\n.*out of luck/s)
    await rejects(child.ask('sum'), /peer has ended/)
    const other = await Child.start('peer', { file: process.execPath, args: [file] })
    await other.stop()
    await rejects(Child.start('nobody', { file: join(folder, 'nobody'), args: [] }), /nobody/)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a missing peer is skipped with its reason; another failure is not swallowed', async () => {
  const said: string[] = []
  const missing = async () => {
    throw new Missing('x is not there: install x')
  }
  equal(await unlessMissing(missing, line => said.push(line)), undefined)
  deepEqual(said, ['skipped: x is not there: install x'])
  await rejects(
    unlessMissing(
      async () => {
        throw new Error('real')
      },
      () => {},
    ),
    /real/,
  )
})

test('bench kernels checks every kernel of the table and times it', async () => {
  const { code, out } = await lockstep(['bench', 'kernels', '--kernels', 'wasm-plain', '--ms', '0.1', '--json'])
  equal(code, 0)
  const rates = out
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  ok(rates.length > 15)
  ok(rates.every(({ wrong, seconds, gigabytes }) => wrong === undefined && seconds > 0 && gigabytes > 0))
})

test('bench kernels names what it does not know', async () => {
  const { code, err } = await lockstep(['bench', 'kernels', '--kernels', 'cuda'])
  equal(code, 2)
  ok(err.includes('must be some of native, vectors, wasm, wasm-plain'))
})
