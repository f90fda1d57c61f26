/** Codes of problems: a closed union with a meaning each, printed in docs/problems.md. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { problemCodes, showBytes } from '../src/base/index.js'
import { parseJob } from '../src/plan/index.js'

const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts') && !/problem-(code|values)\.ts$/.test(file))
  .map(file => readFileSync(join('src', file), 'utf8'))
  .join('\n')

test('every code of the table is used', () => {
  deepEqual(
    Object.keys(problemCodes).filter(code => !sources.includes(`'${code}'`) && !sources.includes(`'${code}/`)),
    [],
  )
})

test('docs/problems.md is what the table says, in both languages', async () => {
  const { problemsPages } = await import(new URL('../../scripts/problems-page.mjs', import.meta.url).href)
  for (const [path, text] of Object.entries(problemsPages())) equal(readFileSync(path, 'utf8'), text, path)
})

const gpt = (more: object = {}) => ({ family: 'gpt', layers: 6, embed: 12, heads: 4, ffn: 24, vocab: 32, ...more })
const jobOf = (job: { readonly model?: unknown; readonly training?: object; readonly plan?: object }) => ({
  ...{ model: job.model ?? gpt(), training: { seq: 8, globalBatch: 8, ...job.training }, plan: job.plan ?? {} },
})

const broken: Readonly<Record<string, object>> = {
  'schema/key': jobOf({ plan: { wibble: 2 } }),
  'schema/name': jobOf({ plan: { schedule: '1f1c' } }),
  'schema/range': jobOf({ plan: { tp: 0 } }),
  'model/preset': jobOf({ model: 'llama9' }),
  'model/heads': jobOf({ model: gpt({ heads: 5, embed: 13 }) }),
  'model/positions': jobOf({ model: gpt({ positions: 4 }) }),
  'plan/ranks': jobOf({ plan: { dp: 2 ** 13, tp: 2 ** 13 } }),
  'plan/batch': jobOf({ plan: { dp: 2, microbatches: 3 } }),
  'plan/indivisible': jobOf({ plan: { tp: 5 } }),
  'plan/stages': jobOf({ plan: { pp: 7, microbatches: 8 } }),
  'plan/uneven': jobOf({ plan: { pp: 4, microbatches: 8 } }),
  'plan/size': jobOf({
    model: gpt({ layers: 32 }),
    training: { globalBatch: 2 ** 16 },
    plan: { microbatches: 2 ** 16 },
  }),
  'plan/memory': jobOf({ plan: { deviceMemory: '1KiB' } }),
  'plan/bubble': jobOf({ plan: { pp: 6, microbatches: 2 } }),
}

for (const [code, job] of Object.entries(broken))
  test(`${code} gives the numbers and names of its message as values`, () => {
    const problem = parseJob(JSON.stringify(job)).problems.find(one => one.code === code)
    ok(problem?.values, JSON.stringify(problem))
    for (const [name, value] of Object.entries(problem.values)) {
      const shown = [value, showBytes(Number(value)), Math.round(100 * Number(value))]
      const derived = ['is', 'copies', 'stages'].includes(name) // a word, or a product of what is written
      ok(derived || shown.some(one => problem.message.includes(String(one))), `${name} ${value}: ${problem.message}`)
    }
  })
