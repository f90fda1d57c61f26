/**
 * Compilation as callers of the API have it: the input is checked, and the program is verified. `compileJob` and `compile`
 * of the compiler run the passes alone, for callers that check and verify themselves, or compile too many programs for that.
 */
import { axisFacts, batchRanks, error, meshAxes, type Problem, ProblemsError } from '../base/index.js'
import {
  type CompileInput,
  compile,
  compileJob,
  scheduleOf,
  serialJob,
  serialPlan,
  type Watch,
} from '../compile/index.js'
import { type Program, requireLawful } from '../ir/index.js'
import type { Model } from '../model/index.js'
import { check, type Job, type Plan, type Training } from '../plan/index.js'
import { makeSchedule, type Schedule } from '../schedule/index.js'

/** Options of `compileJob` and `compile`. */
export interface CompileOptions {
  /** Whether the program is checked against the invariants of SPEC.md, which takes about twice as long as compiling it. Default: true. */
  readonly verify?: boolean
  /** Called after each pass of the compiler with its name and result; `passes` lists the names. */
  readonly watch?: Watch | undefined
}

/**
 * Compiles the training step of a job for every rank. Throws the errors that `check` finds in the job, and any violated
 * invariant of the program. `schedule` is the parsed file of a plan that names one.
 */
export function compileVerified(job: Job, schedule?: Schedule, options: CompileOptions = {}): Program {
  required(check(job))
  const { verify = true, watch } = options
  const program = compileJob(job, schedule ?? scheduleOf(job.plan), { watch })
  const serial = () => compileJob(serialJob(job, job.plan.microbatches), undefined, { placing: 'none' })
  if (verify) requireLawful(program, serial())
  return program
}

/** The input of `compile`: a model of one microbatch, a plan, the training and the pipeline schedule. */
export interface ModelToCompile extends CompileOptions, Pick<CompileInput, 'model' | 'plan' | 'schedule'> {
  readonly training: Training
}

/**
 * Compiles a model of your own for every rank. Throws if sizes of model, plan, training and schedule contradict each other, and
 * any violated invariant of the program.
 */
export function compileModel({ verify = true, ...input }: ModelToCompile): Program {
  required(inputProblems(input))
  const program = compile(input)
  if (verify) requireLawful(program, serialOf(input))
  return program
}

function required(problems: readonly Problem[]): void {
  const errors = problems.filter(({ severity }) => severity === 'error')
  if (errors.length > 0) throw new ProblemsError(errors)
}

/** One rank, microbatch by microbatch. What ranks compress depends on which they are: there is no one rank to compare with. */
function serialOf({ model, plan, training }: ModelToCompile): Program | undefined {
  if (plan.compress) return undefined
  const { microbatches } = plan
  const schedule = makeSchedule('gpipe', { ranks: 1, chunks: 1, microbatches })
  return compile({ model, plan: serialPlan(plan, microbatches), training, schedule, placing: 'none' })
}

const inputProblems = (input: ModelToCompile): Problem[] => [
  ...batchProblems(input),
  ...scheduleProblems(input),
  ...axisProblems(input.model, input.plan),
]

function* batchProblems({ model: { dims }, plan, training: { globalBatch, seq } }: ModelToCompile): Iterable<Problem> {
  const { microbatches } = plan
  const ranks = batchRanks(plan)
  if (dims.batch !== undefined && dims.batch * microbatches !== globalBatch)
    yield error(
      'model/dims',
      'model.dims.batch',
      `batch ${dims.batch} x microbatches ${microbatches} = ${dims.batch * microbatches}, but globalBatch is ${globalBatch}`,
      `the batch of a model is that of one microbatch: ${globalBatch / microbatches}`,
    )
  else if (dims.batch !== undefined && dims.batch % ranks !== 0)
    yield error('plan/batch', 'plan.dp', `batch ${dims.batch} of a microbatch % dp ${ranks} = ${dims.batch % ranks}`)
  if (dims.seq !== undefined && dims.seq !== seq)
    yield error('model/dims', 'model.dims.seq', `seq ${dims.seq}, but training.seq is ${seq}`)
}

function* scheduleProblems({ plan, schedule }: ModelToCompile): Iterable<Problem> {
  const { pp, chunks, microbatches } = plan
  const wanted = { ranks: pp, stages: pp * chunks, microbatches }
  const found = { ranks: schedule.rows.length, stages: schedule.stages, microbatches: schedule.microbatches }
  for (const name of ['ranks', 'stages', 'microbatches'] as const)
    if (found[name] !== wanted[name])
      yield error('plan/schedule', 'schedule', `the schedule has ${found[name]} ${name}, the plan ${wanted[name]}`)
}

/** Ranks of an axis that splits nothing would all compute the same. */
function* axisProblems({ dims }: Model, plan: Plan): Iterable<Problem> {
  for (const axis of meshAxes) {
    const ranks = plan[axis]
    const names = axisFacts[axis].dims
    if (axis === 'dp' || ranks === 1 || names.length === 0) continue
    const there = names.filter(name => dims[name] !== undefined)
    if (there.some(name => dims[name] % ranks === 0)) continue
    const sizes = there.map(name => `${name} ${dims[name]}`).join(', ')
    yield error(
      'plan/indivisible',
      `plan.${axis}`,
      there.length === 0 ? `the model has no dim that ${axis} splits` : `${axis} ${ranks} divides none of ${sizes}`,
      `${axis} splits ${names.join(', ')}`,
    )
  }
}
