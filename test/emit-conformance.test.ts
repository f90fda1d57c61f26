/**
 * Emitted PyTorch computes what the definition computes: 2 steps (the second begins with what the first left to fly) and an
 * evaluation under gloo, every rank a process, for every feature. In f64 losses and parameters agree to 1e-10; plans on one
 * rank run in f32 too, to 2e-5 of a tensor's largest element (rounding of 2^-24 a sum, an update deep): more ranks run the same
 * lines. In bf16 losses and norms agree to 2^-7, two units in the last place. Adam's eps is 1e-5 here: it divides
 * gradients that are exactly 0 in theory (the key bias), of which rounding leaves some, by eps alone. emit-cases.ts has the jobs.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { check } from '../src/plan/index.js'
import { adamw, decayOnly, type EmitCase, emitCases, isHalf, precisionsOf, ranksOf, steps } from './emit-cases.js'
import {
  emittedFiles,
  expectedOf,
  finished,
  type Programs,
  programsOf,
  temporaryFolder,
  writeFiles,
} from './emitted.js'
import { findPython, noPython } from './python.js'
import { some } from './share.js'

const python = findPython()
const script = fileURLToPath(new URL('../../test/emit_many.py', import.meta.url))

interface Case extends EmitCase {
  readonly folder: string
  readonly programs: Programs
}

const root = temporaryFolder()
const all = (process.env.CASE ? emitCases : some(emitCases, 30, 9)).map(
  ({ job, title }, i): Case => ({ title, job, folder: join(root, `job${i}`), programs: programsOf(job) }),
)

interface Result {
  readonly records: readonly { readonly loss: number; readonly gradientNorm: number }[]
  readonly heldOut: number
  readonly parameters: Readonly<Record<string, readonly number[]>>
}

/** One Python runs all of them: loading torch takes longer than a job. The first folder has the runtime for all. */
async function runAll(): Promise<void> {
  for (const [i, { folder, job, programs }] of all.entries()) {
    const files = Object.entries(emittedFiles(job, programs))
    writeFiles(folder, Object.fromEntries(files.filter(([name]) => i === 0 || !name.startsWith('runtime/'))))
  }
  const list = all.map(({ folder, job }) => ({ folder, ranks: ranksOf(job), steps, precisions: precisionsOf(job) }))
  writeFileSync(join(root, 'list.json'), JSON.stringify(list))
  const { err } = await finished(python!, [script, join(root, 'list.json')]).done
  complaints = err.slice(-2000)
}

let complaints = ''

/** What the ranks of a job said, if it failed. */
const told = ({ folder }: Case): string =>
  readdirSync(folder)
    .filter(name => name.startsWith('failed-'))
    .map(name => readFileSync(join(folder, name), 'utf8'))[0] ?? `it was not run\n${complaints}`

/** A zero has no sign here. */
const signless = (values: ArrayLike<number>): number[] => Array.from(values, value => value + 0)

/** Relative to the largest element, or to what one update moves where a tensor is smaller than that. */
function far(actual: readonly number[], expected: ArrayLike<number>): number {
  assert.equal(actual.length, expected.length)
  let [worst, largest] = [0, adamw.lr as number]
  for (let i = 0; i < actual.length; i++) {
    // A NaN is as far as can be.
    worst = Math.max(worst, Number.isFinite(actual[i]) ? Math.abs(actual[i] - expected[i]) : Infinity)
    largest = Math.max(largest, Math.abs(expected[i]))
  }
  return worst / largest
}

describe('emitted PyTorch under gloo computes what the reference computes', { skip: python ? false : noPython }, () => {
  before(runAll)
  after(() => rmSync(root, { recursive: true, force: true }))
  for (const each of all)
    test(each.title, () => {
      assert.deepEqual(
        check(each.job).filter(problem => problem.severity === 'error'),
        [],
      )
      const file = join(each.folder, 'result.json')
      assert.ok(existsSync(file), told(each))
      const results: Record<string, Result> = JSON.parse(readFileSync(file, 'utf8'))
      const half = isHalf(each.job)
      const exact = expectedOf(each.job, steps, 'f64', each.programs)
      for (const precision of precisionsOf(each.job)) {
        const bound = precision === 'f64' ? 1e-10 : half ? 2 ** -7 : 2e-5
        const { records, heldOut, parameters } = results[precision]
        const expected = half && precision === 'plan' ? expectedOf(each.job, steps, 'f32', each.programs) : exact
        const near = (what: string, actual: readonly number[], wanted: ArrayLike<number>) => {
          const distance = far(actual, wanted)
          assert.ok(distance <= bound, `${precision}: ${what} is ${distance.toExponential(1)} off`)
        }
        near(
          'loss',
          records.map(({ loss }) => loss),
          expected.losses,
        )
        near(
          'gradient norm',
          records.map(({ gradientNorm }) => gradientNorm),
          expected.norms,
        )
        near('held-out loss', [heldOut], [expected.heldOut])
        // A sum of few bf16 digits may have another sign, and Adam then steps the other way: weights say nothing.
        if (precision === 'f64' || !half)
          for (const name of expected.names) near(name, parameters[name], expected.parameter(name))
        // Where gradients weigh nothing no sum does: what is rounded by chance is the same to the bit.
        if (precision === 'plan' && each.job.training.clip === decayOnly.clip)
          for (const name of expected.names)
            assert.deepEqual(signless(parameters[name]), signless(expected.parameter(name)), name)
      }
    })
})
