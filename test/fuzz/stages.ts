/**
 * What every job goes through, in order. A stage throws where the job fails, or returns why it does not apply. Bounds are those of
 * the tests of each feature: jobs.ts, recorded.ts, conformance.ts, resume.test.ts.
 */
import assert from 'node:assert/strict'
import { stringify } from 'yaml'
import { hasErrors } from '../../src/base/index.js'
import { boot, compare, compareRun, dataFor, startTrainer } from '../../src/engine/index.js'
import { nativeMissing, type Pool } from '../../src/engine/native/index.js'
import { parse, print, verify } from '../../src/ir/index.js'
import { Job, type JobInput, parseJob } from '../../src/plan/index.js'
import { isWhatOneRankComputes, optionsOf } from '../jobs.js'
import { isWithinBounds, type Kind, lossBounds, record } from '../recorded.js'
import type { EmittedRuns } from './emitted-runs.js'
import { exportsAndImports } from './exporting.js'
import { resumes } from './resuming.js'
import type { Phase, Subject } from './subject.js'

export interface Tools {
  readonly pool: Pool
  /** Undefined: there is no Python with torch. */
  readonly emitted: EmittedRuns | undefined
}

/** Returns why it does not apply to the job. */
type Run = (subject: Subject, tools: Tools) => Promise<string | undefined> | string | undefined

const eachPhase =
  (run: (phase: Phase) => void): Run =>
  ({ phases }) => {
    for (const phase of phases) run(phase)
    return undefined
  }

const compiles: Run = subject => {
  for (const phase of subject.phases) phase.program()
  subject.evaluation()
  return undefined
}

const isLawful = eachPhase(phase => assert.deepEqual(verify(phase.program(), phase.serial()).slice(0, 3), []))

const readsBack = eachPhase(phase => {
  const program = phase.program()
  assert.deepStrictEqual(parse(print(program)), program)
})

const equalsOneRank = eachPhase(({ job, program, expected }) =>
  isWhatOneRankComputes(compare(program(), expected(), optionsOf(job))),
)

/** In f32 the bounds of every number; where numbers are rounded on the way, those of losses. */
async function agrees({ job, program, expected }: Phase, kernels: Kind, pool: Pool): Promise<void> {
  const run = await record(program(), kernels, pool, optionsOf(job))
  const comparison = compareRun(program(), run, expected())
  if (job.plan.precision === 'f32' && !job.plan.compress) return isWithinBounds(comparison)
  const [machine, data] = [boot(program(), { seed: 1, precision: 'f32' }), dataFor(program(), optionsOf(job))]
  for (const [step, { loss, gradients }] of run.steps.entries()) {
    const interpreted = machine.step({ inputs: data(step), lr: job.training.optimizer.lr, step }).loss
    const error = Math.abs(loss / interpreted - 1)
    assert.ok(error <= lossBounds[job.plan.precision], `step ${step}: loss ${loss}, interpreted ${interpreted}`)
    for (const [name, values] of gradients)
      assert.ok(values.every(Number.isFinite), `the gradient of ${name} is not finite`)
  }
  assert.equal(comparison.spread.error, 0, `replicas of ${comparison.spread.name} differ`)
  assert.deepEqual(comparison.memory, [])
}

const inEngine =
  (kernels: Kind): Run =>
  async ({ job, phases }, { pool }) => {
    const missing = kernels === 'native' ? nativeMissing() : undefined
    if (missing) return missing
    if (job.plan.fp8) {
      const started = startTrainer(phases[0].program(), { kernels, seed: 1 })
      await assert.rejects(started, /kernels do not support FP8/)
      return 'fp8 has no kernels'
    }
    for (const phase of phases) await agrees(phase, kernels, pool)
    return undefined
  }

const emits: Run = async ({ job, phases, evaluation }, { emitted }) => {
  if (!emitted) return 'no Python with torch'
  await emitted.conform(job, { training: phases[phases.length - 1].program(), judging: evaluation() })
  return undefined
}

/** By name, in the order they are run. */
export type Stages = Readonly<Record<string, Run>>

/** What comes after `check`. */
export const stages: Stages = {
  compile: compiles,
  verify: isLawful,
  text: readsBack,
  reference: equalsOneRank,
  native: inEngine('native'),
  wasm: inEngine('wasm'),
  emitted: emits,
  resume: resumes,
  export: exportsAndImports,
}

/** The job as a file is read and checked. Undefined: refused, with reasons. Throws where a reason is missing or is our bug. */
export function checked(input: JobInput): Job | undefined {
  const { job, problems } = parseJob(stringify(input))
  for (const { path, message } of problems) {
    assert.ok(message.length > 0, `${path} has a problem without a reason`)
    assert.doesNotMatch(message, /internal:/)
  }
  assert.equal(job === undefined, hasErrors(problems), 'a job without errors, or errors without a reason')
  if (job) assert.deepEqual(job, Job.parse(input), 'the job file says something else than the job')
  return job
}
