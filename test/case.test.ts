/** Published runs by name: each has its rows, and they are as near as validation/README.md says. */
import { equal, match, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { caseNames, cases, compareCase, rowsOf } from '../src/validate/index.js'
import { lockstep } from './memory-io.js'

test('every case has rows, priced within 30 % of what was published; Megatron and Llama 3 within 15 %', () => {
  for (const name of caseNames) {
    const { timed } = compareCase(cases[name], rowsOf(readFileSync(`validation/${cases[name].file}`, 'utf8')))
    ok(timed.length > 0, name)
    for (const { error } of timed) ok(Math.abs(error) < (name === 'deepseek-v3' ? 0.3 : 0.15), `${name} ${error}`)
  }
})

test('lockstep case: the list, one of them, one that is none', async () => {
  match((await lockstep(['case'])).out, /llama3-405b-128k +Llama 3 405B at 128k/)
  const { code, err } = await lockstep(['case', 'megatron-2t'])
  equal(code, 1)
  match(err, /did you mean `megatron-1t`/)
})
