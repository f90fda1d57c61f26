/** Golden samples: what is emitted for each feature, to be read in review. UPDATE=1 writes them anew. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parseJob } from '../src/plan/index.js'
import { emittedFiles } from './emitted.js'

const samples = fileURLToPath(new URL('../../test/emit', import.meta.url))
/** What every sample shows; schedules only where one lies there already. */
const code = /^stage\d+\.py$/
const schedule = /^stage\d+\.json$/

for (const sample of readdirSync(samples).sort())
  test(`emit/${sample}`, () => {
    const folder = join(samples, sample)
    const { job, problems } = parseJob(readFileSync(join(folder, 'job.yaml'), 'utf8'))
    assert.ok(job, JSON.stringify(problems))
    const shown = (name: string) => code.test(name) || (schedule.test(name) && existsSync(join(folder, name)))
    const files = Object.entries(emittedFiles(job)).filter(([name]) => shown(name))
    for (const [name, text] of files) {
      const path = join(folder, name)
      if (process.env.UPDATE) writeFileSync(path, text)
      assert.ok(existsSync(path), `${path} is missing: run with UPDATE=1`)
      assert.equal(text, readFileSync(path, 'utf8'), `${name} differs from test/emit/${sample}/${name}`)
    }
    const expected = readdirSync(folder).filter(shown)
    assert.deepEqual(files.map(([name]) => name).sort(), expected.sort())
  })
