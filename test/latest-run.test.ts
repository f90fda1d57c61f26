/** Run folders by date, and runs/latest, which commands take that are given no run. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type Io, processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'

const home = process.cwd()
process.chdir(mkdtempSync(join(tmpdir(), 'lockstep-latest-')))
after(() => process.chdir(home))
writeFileSync(
  'job.yaml',
  '{ name: tiny, model: gpt-tiny, training: { seq: 8, globalBatch: 4, steps: 2 }, plan: { dp: 2 } }',
)

async function lockstep(...words: string[]) {
  const said = { out: '', err: '' }
  const add = (stream: 'out' | 'err') => (text: string) => void (said[stream] += text)
  const quiet = { terminal: () => undefined, progressColumns: () => undefined, colors: false }
  const io: Io = { ...processIo(), ...quiet, out: add('out'), err: add('err'), now: () => new Date(2026, 10, 18) }
  return { code: await run(words, io), ...said }
}
const train = (...more: string[]) => lockstep('train', 'job.yaml', '--kernels', 'reference', ...more)

test('without a run, commands that need one say so', async () => {
  for (const command of ['watch', 'doctor', 'report', 'replan']) {
    const { code, out, err } = await lockstep(command)
    equal(code, 1, command)
    match(out + err, /runs\/latest/)
  }
})

test('a run goes to a folder with its date, runs/latest leads to the newest, and --out leaves it alone', async () => {
  equal((await train()).code, 0)
  equal(readlinkSync('runs/latest'), '2026-11-18-tiny')
  equal((await train()).code, 0)
  equal(readlinkSync('runs/latest'), '2026-11-18-tiny-2')
  equal((await train('--out', 'elsewhere')).code, 0)
  deepEqual([readlinkSync('runs/latest'), existsSync('elsewhere/metrics.jsonl')], ['2026-11-18-tiny-2', true])
})

test('watch, doctor and report take the newest run', async () => {
  match((await lockstep('watch', '--once')).out, /^runs\/latest: done, step 2 of 2/)
  const { code, out } = await lockstep('doctor')
  equal(code, 0)
  match(out, /^2 steps/)
  equal((await lockstep('report', '--out', 'page.html')).code, 0)
  match(readFileSync('page.html', 'utf8'), /^<!doctype html>/i)
})
