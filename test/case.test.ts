/** Published runs by name: each has its rows, and they are as near as validation/README.md says. */
import { equal, match, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { caseNames, cases, compareCase, rowsOf } from '../src/validate/index.js'
import { later, test } from './families.js'
import { lockstep } from './memory-io.js'

test('every case has rows, priced within 30 % of what was published; Megatron and Llama 3 within 15 %', () => {
  for (const name of caseNames) {
    const { timed } = compareCase(cases[name], rowsOf(readFileSync(`validation/${cases[name].file}`, 'utf8')))
    ok(timed.length > 0, name)
    for (const { error } of timed) ok(Math.abs(error) < (name === 'deepseek-v3' ? 0.3 : 0.15), `${name} ${error}`)
  }
})

/** What it says as JSON, of the rows of validation/. */
const told = async (...words: string[]) => {
  const { out } = await lockstep(['case', ...words, '--json'], {}, { read: path => readFileSync(path, 'utf8') })
  return JSON.parse(out)
}

test('our plan is no slower than the published one, which is among those that are searched, and keeps to what the software can do', async () => {
  for (const name of ['megatron-1.7b', 'megatron-7.5b'])
    for (const { predicted, best } of (await told(name)).rows) {
      ok(best.faster >= -1e-9 && Math.abs(predicted / best.step - 1 - best.faster) < 1e-9, `${name} ${best.faster}`)
      equal(best.plan.zero, undefined)
      equal(best.plan.sequenceParallel, undefined)
    }
  ok(!('best' in (await told('megatron-1.7b', '--no-best')).rows[0]))
})

later('Yi, of which no times are published: what was said, a plan of that kind, and the best of all', async () => {
  const { times, ours, best } = await told('yi-34b')
  equal(times, 'none were published')
  equal(ours.plan.zero, 1)
  ok(ours.plan.tp > 1 && ours.plan.pp > 1)
  ok(best.step <= ours.step && Math.abs(ours.step / best.step - 1 - best.faster) < 1e-9)
})

test('lockstep case says how FLOPs are counted, and flags an estimate above the memory of the device', async () => {
  const said = async (...args: string[]) =>
    (await lockstep(['case', ...args], {}, { read: path => readFileSync(path, 'utf8') })).out
  match(await said('megatron-1t', '--no-best'), /FLOPs counted as by the source: .*\(SC21\)/)
  const llama = await said('llama3-405b-8k')
  match(llama, /as by the source: .*\(Llama 3\)[\s\S]*MFU counts .*\(PaLM\)/)
  match(llama, /88\.4 ![\s\S]*! more than the 7\d\.\d GiB usable: the published run did fit/)
})

test('lockstep case: the list, one of them, one that is none', async () => {
  match((await lockstep(['case'])).out, /llama3-405b-128k +Llama 3 405B at 128k[\s\S]*yi-34b +Yi 34B/)
  const { code, err } = await lockstep(['case', 'megatron-2t'])
  equal(code, 1)
  match(err, /did you mean `megatron-1t`/)
})
