/**
 * Emitted PyTorch computes what the definition computes: 2 steps (the second begins with what the first left to fly) and an
 * evaluation under gloo, every rank a process, for every feature, within the bounds of conformance.ts. Plans on one rank run in
 * f32 too: more ranks run the same lines. Adam's eps is 1e-5 here: it divides gradients that are exactly 0 in theory (the key
 * bias), of which rounding leaves some, by eps alone. emit-cases.ts has the jobs.
 */
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { check } from '../src/plan/index.js'
import { conforms, emitMany } from './conformance.js'
import { type EmitCase, emitCases, precisionsOf, ranksOf, steps } from './emit-cases.js'
import { emittedFiles, finished, type Programs, programsOf, temporaryFolder, writeFiles } from './emitted.js'
import { findPython, noPython } from './python.js'
import { some } from './share.js'

const python = findPython()

interface Case extends EmitCase {
  readonly folder: string
  readonly programs: Programs
}

const root = temporaryFolder()
const all = (process.env.CASE ? emitCases : some(emitCases, 30, 9)).map(
  ({ job, title }, i): Case => ({ title, job, folder: join(root, `job${i}`), programs: programsOf(job) }),
)

/** One Python runs all of them: loading torch takes longer than a job. The first folder has the runtime for all. */
async function runAll(): Promise<void> {
  for (const [i, { folder, job, programs }] of all.entries()) {
    const files = Object.entries(emittedFiles(job, programs))
    writeFiles(folder, Object.fromEntries(files.filter(([name]) => i === 0 || !name.startsWith('runtime/'))))
  }
  const list = all.map(({ folder, job }) => ({ folder, ranks: ranksOf(job), steps, precisions: precisionsOf(job) }))
  writeFileSync(join(root, 'list.json'), JSON.stringify(list))
  const { err } = await finished(python!, [emitMany, join(root, 'list.json')]).done
  complaints = err.slice(-2000)
}

let complaints = ''

describe('emitted PyTorch under gloo computes what the reference computes', { skip: python ? false : noPython }, () => {
  before(runAll)
  after(() => rmSync(root, { recursive: true, force: true }))
  for (const each of all)
    test(each.title, () => {
      assert.deepEqual(
        check(each.job).filter(problem => problem.severity === 'error'),
        [],
      )
      conforms(each.folder, each.job, each.programs, complaints)
    })
})
