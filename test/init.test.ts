/** Jobs to begin with: each passes check as it is written, and nothing is written over. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { templateChoices } from '../src/cli/words/init.js'
import { parseJob, templateNames, worldOfPlan } from '../src/plan/index.js'
import { draftJob } from '../src/search/index.js'
import { lockstep } from './memory-io.js'

for (const template of templateNames)
  test(`${template}: its job is one without a word of complaint, and every line says what it means`, () => {
    const { text, next } = draftJob({ template }, 'job.yaml')
    const { job, problems } = parseJob(text)
    deepEqual(
      problems.filter(({ severity }) => severity === 'error'),
      [],
    )
    ok(job && next.length >= 2)
    match(text, /globalBatch: \d+ +# sequences per step/)
    match(text, /# Next:\n# {3}lockstep check job\.yaml/)
  })

test('the command line knows the templates', () => deepEqual([...templateChoices], templateNames))

test('data and ranks of this machine', () => {
  const { text } = draftJob({ template: 'first-run', data: 'book.txt', devices: 4 }, 'job.yaml')
  const { job } = parseJob(text)
  equal(job?.data?.source, 'book.txt')
  equal(job && worldOfPlan(job.plan), 4)
})

test('lockstep init: written, not written over, with force, on a terminal', async () => {
  const first = await lockstep(['init', '--yes'])
  match(first.out, /written: job\.yaml[\s\S]*lockstep train job\.yaml/)
  equal((await lockstep(['check', 'job.yaml'], first.written)).code, 0)
  const again = await lockstep(['init', '--yes'], { 'job.yaml': 'mine' })
  equal(again.code, 1)
  match(again.err, /job\.yaml is there already; give another --out, or --force/)
  deepEqual(again.written, {})
  equal((await lockstep(['init', '--yes', '--force'], { 'job.yaml': 'mine' })).code, 0)
  const answers = ['5', '', 'book.txt', '']
  const asked = await lockstep(['init', '--out', 'a.yaml'], {}, { ask: async () => answers.shift() })
  match(asked.written['a.yaml'], /^# GPT-2 fine-tuned[\s\S]*source: book\.txt/)
})
