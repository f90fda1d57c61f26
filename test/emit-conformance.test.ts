/**
 * Generated PyTorch computes what the reference computes: 2 steps (the second begins with collectives that the first left in
 * flight) and an evaluation under gloo, every rank a process, for every feature, as written and compiled, within the bounds of conformance.ts.
 * Single-rank plans run in f32 too: more ranks run the same lines. Adam's eps is 1e-5 here: it divides gradients that are exactly 0 in
 * theory (the key bias), of which rounding leaves some, by eps alone. The jobs are in emit-cases.ts; CASE=ring runs those
 * with the word in their title.
 */
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { check, type Job } from '../src/plan/index.js'
import { asked, conforms, emitMany, type Run, runsFor } from './conformance.js'
import { type EmitCase, emitCases, isHalf, ranksOf, steps } from './emit-cases.js'
import { emittedFiles, finished, type Programs, programsOf, temporaryFolder, writeFiles } from './emitted.js'
import { type Family, family } from './families.js'
import { findPython, noPython } from './python.js'

const python = findPython()

interface Case extends EmitCase {
  readonly folder: string
  /** Compiled once, when first asked for. */
  readonly programs: () => Programs
  /** What this run of the tests has of it. */
  readonly runs: Run[]
}

const root = temporaryFolder()
const cases = emitCases.map(({ job, title }, i): Case => {
  let programs: Programs | undefined
  const compiled = () => {
    programs ??= programsOf(job)
    return programs
  }
  return { title, job, folder: join(root, `job${i}`), programs: compiled, runs: [] }
})

/** One Python runs all of them: importing torch takes longer than a job. The first folder has the runtime for all. */
async function runAll(): Promise<void> {
  const taken = cases.filter(({ runs }) => runs.length > 0)
  for (const [i, { folder, job, programs }] of taken.entries()) {
    const files = Object.entries(emittedFiles(job, programs()))
    writeFiles(folder, Object.fromEntries(files.filter(([name]) => i === 0 || !name.startsWith('runtime/'))))
  }
  const list = taken.map(({ title, folder, job, runs }) => {
    return { title, folder, ranks: ranksOf(job), steps, runs: asked(runs) }
  })
  writeFileSync(join(root, 'list.json'), JSON.stringify(list))
  const { err } = await finished(python!, [emitMany, join(root, 'list.json')]).done
  complaints = err.slice(-2000)
}

let complaints = ''

/**
 * On a GPU functions are compiled in the precision of the plan. Adafactor keeps one number of a matrix, and torch.compile loses what is
 * written to a 0-dim tensor of a CPU in f64, which it takes for a Python float.
 */
const compiledRun = (job: Job): Run => ({
  precision: isHalf(job) || job.training.optimizer.kind === 'adafactor' ? 'plan' : 'f64',
  isCompiled: true,
})

describe('generated PyTorch under gloo computes what the reference computes', () => {
  before(() => (python ? runAll() : undefined))
  after(() => rmSync(root, { recursive: true, force: true }))
  const [few, fewer] = process.env.CASE ? [1, 1] : [30, 90]
  const asWritten = family('generated code, as written', few)
  const compiled = family('generated code, compiled', fewer)
  const register = (tested: Family, each: Case, title: string, runs: readonly Run[]) => {
    const isTaken = tested(title, { skip: python ? false : noPython }, () => {
      for (const run of runs) conforms({ ...each, programs: each.programs(), complaints }, run)
    })
    if (isTaken) each.runs.push(...runs)
  }
  for (const each of cases) {
    test(`${each.title}: check accepts it`, () =>
      assert.deepEqual(
        check(each.job).filter(({ severity }) => severity === 'error'),
        [],
      ))
    register(asWritten, each, each.title, runsFor(each.job))
    register(compiled, each, `${each.title}, compiled`, [compiledRun(each.job)])
  }
})
