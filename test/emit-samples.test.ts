/** Golden samples: what is emitted for each feature, to be read in review. UPDATE=1 writes them anew. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parseJob } from '../src/plan/index.js'
import { emittedFiles } from './emitted.js'

const samples = fileURLToPath(new URL('../../test/emit', import.meta.url))
/** What every sample shows; schedules and evaluations only where one lies there already. */
const code = /^stage\d+\.py$/
const more = /^stage\d+\.json$|^evaluation\/stage\d+\.py$/

for (const sample of readdirSync(samples).sort())
  test(`emit/${sample}`, () => {
    const folder = join(samples, sample)
    const { job, problems } = parseJob(readFileSync(join(folder, 'job.yaml'), 'utf8'))
    assert.ok(job, JSON.stringify(problems))
    const shown = (name: string) => code.test(name) || (more.test(name) && existsSync(join(folder, name)))
    const files = Object.entries(emittedFiles(job)).filter(([name]) => shown(name))
    for (const [name, text] of files) {
      const path = join(folder, name)
      if (process.env.UPDATE) writeFileSync(path, text)
      assert.ok(existsSync(path), `${path} is missing: run with UPDATE=1`)
      assert.equal(text, readFileSync(path, 'utf8'), `${name} differs from test/emit/${sample}/${name}`)
    }
    const expected = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(shown)
    assert.deepEqual(files.map(([name]) => name).sort(), expected.sort())
  })

test('what docs/emitted.md shows stands in the samples, line by line', () => {
  const page = readFileSync(fileURLToPath(new URL('../../docs/emitted.md', import.meta.url)), 'utf8')
  const files = readdirSync(samples).flatMap(sample =>
    readdirSync(join(samples, sample), { withFileTypes: true })
      .filter(entry => entry.isFile())
      .map(({ name }) => readFileSync(join(samples, sample, name), 'utf8')),
  )
  const lines = new Set(files.flatMap(text => text.split('\n').map(line => line.trim())))
  const blocks = [...page.matchAll(/^```(?:python|json)\n([\s\S]*?)^```/gm)].map(([, block]) => block)
  assert.ok(blocks.length >= 4)
  for (const line of blocks.flatMap(block => block.split('\n')).map(line => line.trim()))
    assert.ok(lines.has(line), `no sample has the line ${line}`)
})
