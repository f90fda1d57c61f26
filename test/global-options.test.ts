/** Options that every command takes. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { wantsColors } from '../src/cli/io.js'
import { lockstep } from './memory-io.js'

const job = `
model: { family: gpt, layers: 2, embed: 16, heads: 2, vocab: 32 }
training: { seq: 8, globalBatch: 4, steps: 60 }
data: { source: count, tokenizer: none }
plan: { dp: 2 }
`.replace(/data:.*\n/, '')

test('--version, -V and -v print the version', async () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
  for (const flag of ['--version', '-V', '-v']) equal((await lockstep([flag])).out, `${version}\n`)
})

test('--quiet, --verbose and --no-color are taken anywhere, and are arguments after --', async () => {
  for (const line of ['--quiet check job.yaml', 'check --verbose job.yaml', 'check job.yaml --no-color'])
    equal((await lockstep(line.split(' '), { 'job.yaml': job })).code, 0)
  const { code, out } = await lockstep('check -- --quiet'.split(' '))
  equal(code, 1)
  match(out, /^--quiet: error: cannot read the job/)
})

test('--no-color has no colors where there would be some', async () => {
  const colored = await lockstep(['check', 'bad.yaml'], { 'bad.yaml': '{}' }, { colors: true })
  const plain = await lockstep(['check', 'bad.yaml', '--no-color'], { 'bad.yaml': '{}' }, { colors: true })
  ok(colored.out.includes('\x1b['))
  ok(!plain.out.includes('\x1b['))
})

test('FORCE_COLOR goes before NO_COLOR, and both before the terminal', () => {
  const cases: [env: Record<string, string>, isTerminal: boolean, colors: boolean][] = [
    [{}, true, true],
    [{}, false, false],
    [{ TERM: 'dumb' }, true, false],
    [{ NO_COLOR: '1' }, true, false],
    [{ NO_COLOR: '' }, true, true],
    [{ FORCE_COLOR: '1' }, false, true],
    [{ FORCE_COLOR: '0' }, true, false],
    [{ FORCE_COLOR: '1', NO_COLOR: '1' }, false, true],
  ]
  for (const [env, isTerminal, colors] of cases) deepEqual([env, wantsColors(env, isTerminal)], [env, colors])
})

test('--quiet trains without a line per step, --verbose with one for each', async () => {
  const train = async (...more: string[]) =>
    (await lockstep(['train', 'job.yaml', '--kernels', 'reference', ...more], { 'job.yaml': job })).out
  const steps = (text: string) => text.split('\n').filter(line => /^step +\d+\/60/.test(line)).length
  const [usual, quiet, verbose] = [await train(), await train('--quiet'), await train('--verbose')]
  equal(steps(quiet), 0)
  equal(steps(verbose), 60)
  ok(steps(usual) > 1 && steps(usual) < 60)
  match(quiet, /trained 60 of 60 steps/)
  doesNotMatch(quiet, /step +1\/60/)
})
