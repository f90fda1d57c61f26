/**
 * Generated PyTorch computes what the reference computes: 2 steps (the second begins with collectives that the first left in
 * flight) and an evaluation under gloo, every rank a process, for every feature, as written and compiled. In f64 losses and parameters agree to
 * 1e-10; single-rank plans run in f32 too, to 2e-5 of a tensor's largest element (rounding of 2^-24 per sum, an update deep): more
 * ranks run the same lines. In bf16 losses and norms agree to 2^-7, two units in the last place. Adam's eps is 1e-5 here: it
 * divides gradients that are exactly 0 in theory (the key bias), of which rounding leaves some, by eps alone.
 * The jobs are in emit-cases.ts; CASE=ring runs those with the word in their title.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { check, type Job } from '../src/plan/index.js'
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
import { type Family, family } from './families.js'
import { findPython, noPython } from './python.js'

const python = findPython()
const script = fileURLToPath(new URL('../../test/emit_many.py', import.meta.url))

type Precision = 'f64' | 'plan'

interface Case extends EmitCase {
  readonly folder: string
  /** The same for both kinds of runs. */
  readonly programs: () => Programs
  /** What this run of the tests has of it: a precision, and whether functions are compiled. */
  readonly runs: [Precision, boolean][]
}

interface Result {
  readonly records: readonly { readonly loss: number; readonly gradientNorm: number }[]
  readonly heldOut: number
  readonly parameters: Readonly<Record<string, readonly number[]>>
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
  const list = taken.map(({ title, folder, job, runs }) => ({ title, folder, ranks: ranksOf(job), steps, runs }))
  writeFileSync(join(root, 'list.json'), JSON.stringify(list))
  const { err } = await finished(python!, [script, join(root, 'list.json')]).done
  complaints = err.slice(-2000)
}

let complaints = ''

/** Why a job has no result. */
function failureOf({ folder }: Case): string {
  const file = join(folder, 'failure.txt')
  return existsSync(file) ? readFileSync(file, 'utf8') : `it was not run\n${complaints}`
}

function resultOf(each: Case, precision: Precision, isCompiled: boolean): Result {
  const file = join(each.folder, 'result.json')
  const results: Record<string, Result> = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}
  const result = results[isCompiled ? `${precision} compiled` : precision]
  assert.ok(result, failureOf(each))
  return result
}

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

function agrees(each: Case, precision: Precision, isCompiled: boolean): void {
  const { records, heldOut, parameters } = resultOf(each, precision, isCompiled)
  const half = isHalf(each.job)
  const bound = precision === 'f64' ? 1e-10 : half ? 2 ** -7 : 2e-5
  const rounding = half && precision === 'plan' ? 'f32' : 'f64'
  const expected = expectedOf(each.job, steps, rounding, each.programs())
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
  near('validation loss', [heldOut], [expected.heldOut])
  // A sum of few bf16 digits may have another sign, and Adam then steps the other way: weights say nothing.
  if (precision === 'f64' || !half)
    for (const name of expected.names) near(name, parameters[name], expected.parameter(name))
  // Where gradients weigh nothing no sum does: stochastic rounding gives the same bits.
  if (precision === 'plan' && each.job.training.clip === decayOnly.clip)
    for (const name of expected.names)
      assert.deepEqual(signless(parameters[name]), signless(expected.parameter(name)), name)
}

/**
 * On a GPU functions are compiled in the precision of the plan. Adafactor keeps one number of a matrix, and torch.compile loses what is
 * written to a 0-dim tensor of a CPU in f64, which it takes for a Python float.
 */
const compiledIn = (job: Job): Precision =>
  isHalf(job) || job.training.optimizer.kind === 'adafactor' ? 'plan' : 'f64'

describe('generated PyTorch under gloo computes what the reference computes', () => {
  before(() => (python ? runAll() : undefined))
  after(() => rmSync(root, { recursive: true, force: true }))
  const skip = python ? false : noPython
  const few = process.env.CASE ? 1 : 30
  const asWritten = family('generated code, as written', few)
  const compiled = family('generated code, compiled', few)
  const run = (tested: Family, each: Case, precisions: readonly Precision[], isCompiled: boolean) => {
    const title = `${each.title}${isCompiled ? ', compiled' : ''}`
    const isTaken = tested(title, { skip }, () => {
      for (const precision of precisions) agrees(each, precision, isCompiled)
    })
    if (isTaken) each.runs.push(...precisions.map((precision): [Precision, boolean] => [precision, isCompiled]))
  }
  for (const each of cases) {
    test(`${each.title}: check accepts it`, () =>
      assert.deepEqual(
        check(each.job).filter(({ severity }) => severity === 'error'),
        [],
      ))
    run(asWritten, each, precisionsOf(each.job), false)
    run(compiled, each, [compiledIn(each.job)], true)
  }
})
