/**
 * What emitted PyTorch computed against the reference: emit_many.py's result.json. In f64 losses, gradient norms and parameters
 * agree to 1e-10; plans in f32 to 2e-5 of a tensor's largest element (rounding of 2^-24 per sum, an update deep); in 16 bits losses
 * and norms to 2^-7, two units in the last place.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Job } from '../src/plan/index.js'
import { adamw, decayOnly, isHalf, precisionsOf, steps } from './emit-cases.js'
import { expectedOf, type Programs } from './emitted.js'

/** The Python program that runs a list of emitted folders. */
export const emitMany = fileURLToPath(new URL('../../test/emit_many.py', import.meta.url))

/** How emit_many.py is to run a folder. */
export interface Run {
  readonly precision: 'f64' | 'plan'
  readonly isCompiled: boolean
}

interface Result {
  readonly records: readonly { readonly loss: number; readonly gradientNorm: number }[]
  readonly heldOut: number
  readonly parameters: Readonly<Record<string, readonly number[]>>
}

/** Why a folder has no result. */
function failureIn(folder: string): string | undefined {
  const file = join(folder, 'failure.txt')
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

function resultIn(folder: string, { precision, isCompiled }: Run, complaints: string): Result {
  const file = join(folder, 'result.json')
  const results: Record<string, Result> = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}
  const result = results[isCompiled ? `${precision} compiled` : precision]
  assert.ok(result, failureIn(folder) ?? `it was not run\n${complaints}`)
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

/** What any job may be compared by; the cases of emit-cases.ts, whose gradients are known to be large enough, by more. */
export const anyJob: Compared = { f32: false, norms16: false }

interface Compared {
  /** In f32 too. Where gradients are small beside Adam's eps, as those of adapters, the interpreter is as far off in f32. */
  readonly f32: boolean
  /** Gradient norms in 16 bits: norms over the few numbers of a narrow head make per cents of what is rounded. */
  readonly norms16: boolean
}

/** The runs of a job as written. */
export const runsFor = (job: Job, { f32 }: Pick<Compared, 'f32'> = { f32: true }): Run[] =>
  (f32 || isHalf(job) ? precisionsOf(job) : (['f64'] as const)).map(precision => ({ precision, isCompiled: false }))

/** As emit_many.py reads it. */
export const asked = (runs: readonly Run[]) => runs.map(({ precision, isCompiled }) => [precision, isCompiled])

interface Emitted {
  readonly folder: string
  readonly job: Job
  readonly programs: Programs
  /** What the Python that ran it wrote to its stderr. */
  readonly complaints: string
}

/** The emitted folder was run so, and agrees with the reference. */
export function conforms(
  { folder, job, programs, complaints }: Emitted,
  run: Run,
  { norms16 }: Pick<Compared, 'norms16'> = { norms16: true },
): void {
  const { precision } = run
  const { records, heldOut, parameters } = resultIn(folder, run, complaints)
  const half = isHalf(job)
  const bound = precision === 'f64' ? 1e-10 : half ? 2 ** -7 : 2e-5
  const expected = expectedOf(job, steps, half && precision === 'plan' ? 'f32' : 'f64', programs)
  const near = (what: string, actual: readonly number[], wanted: ArrayLike<number>) => {
    const distance = far(actual, wanted)
    assert.ok(distance <= bound, `${precision}: ${what} is ${distance.toExponential(1)} off`)
  }
  near(
    'loss',
    records.map(({ loss }) => loss),
    expected.losses,
  )
  if (precision === 'f64' || norms16)
    near(
      'gradient norm',
      records.map(({ gradientNorm }) => gradientNorm),
      expected.norms,
    )
  if (job.training.evalBatches > 0) near('validation loss', [heldOut], [expected.heldOut])
  // A sum of few bf16 digits may have another sign, and Adam then steps the other way: weights say nothing.
  if (precision === 'f64' || !half)
    for (const name of expected.names) near(name, parameters[name], expected.parameter(name))
  // Where gradients weigh nothing no sum does: stochastic rounding gives the same bits.
  if (precision === 'plan' && job.training.clip === decayOnly.clip)
    for (const name of expected.names)
      assert.deepEqual(signless(parameters[name]), signless(expected.parameter(name)), name)
}
