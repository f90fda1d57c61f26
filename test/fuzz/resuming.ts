/** A run that is saved and resumed: the same bits under the same plan, the same numbers under another. */
import assert from 'node:assert/strict'
import { memoryFiles } from '../../src/base/memory-files.js'
import { type Job, jobsFor } from '../../src/plan/index.js'
import { beginningOf, openCheckpoints, openData, type Session, startSession } from '../../src/train/index.js'
import { lossBounds } from '../recorded.js'
import type { Subject } from './subject.js'

const steps = 3
const savedAfter = 2

interface Numbers {
  readonly losses: readonly number[]
  readonly norms: readonly number[]
  readonly states: ReadonlyMap<string, unknown>
}

/** The steps that are left, and what they leave. */
async function rest(session: Session): Promise<Numbers> {
  const records = []
  while (session.behind < steps) records.push(await session.step())
  const { trainer, program } = session
  return {
    losses: records.map(({ loss }) => loss),
    norms: records.map(({ gradientNorm }) => gradientNorm),
    states: new Map(program.params.map(({ name }) => [name, trainer.parameter(name)])),
  }
}

async function withSession<T>(
  job: Job,
  files: ReturnType<typeof memoryFiles>,
  resume: string | undefined,
  use: (session: Session) => Promise<T>,
) {
  const { dataset } = await openData(job, files)
  const beginning = beginningOf(resume === undefined ? {} : { resume }, files)
  const session = await startSession(job, dataset, { kernels: 'reference', beginning })
  try {
    return await use(session)
  } finally {
    await session.stop()
  }
}

/** Errors are fed back, codes and 8-bit blocks are cut, as the ranks of a plan cut them: another plan has other numbers. */
const dependsOnPlan = ({ plan }: Job): boolean =>
  plan.compress?.reduce !== undefined || plan.compress?.gather !== undefined || plan.fp8 !== undefined

/** The plan that is most like the job's and cuts parameters otherwise. A balance loss per microbatch wants the same microbatches. */
function anotherPlan(job: Job): Job | undefined {
  const { model, plan } = job
  const perMicrobatch = model.family === 'llama' && (model.moe?.loss?.microbatch ?? 0) > 0
  return [4, 2, 1]
    .flatMap(ranks => jobsFor(job, ranks))
    .find(
      ({ plan: other }) =>
        (['dp', 'tp', 'pp'] as const).some(axis => other[axis] !== plan[axis]) &&
        (!perMicrobatch || other.microbatches === plan.microbatches),
    )
}

export async function resumes({ job }: Subject): Promise<undefined> {
  const files = memoryFiles()
  const expected = await withSession(job, files, undefined, async session => {
    const checkpoints = openCheckpoints('saved', session, { files, run: 'fuzz' })
    for (let step = 0; step < savedAfter; step++) await session.step()
    checkpoints.save()
    checkpoints.close()
    return rest(session)
  })
  assert.deepEqual(await withSession(job, files, 'saved', rest), expected, 'under the same plan it has other bits')
  const other = anotherPlan(job)
  if (!other) return undefined
  const resumed = await withSession(other, files, 'saved', rest)
  const most = dependsOnPlan(job) ? Infinity : job.plan.precision === 'f32' ? 1e-10 : lossBounds[job.plan.precision]
  const { dp, tp, pp, microbatches } = other.plan
  const near = (what: string, actual: readonly number[], wanted: readonly number[]) => {
    for (const [i, value] of actual.entries()) {
      const far = Math.abs(value - wanted[i]) / Math.max(1, Math.abs(wanted[i]))
      assert.ok(
        far <= most,
        `dp ${dp} tp ${tp} pp ${pp} microbatches ${microbatches}: ${what} ${value}, not ${wanted[i]}`,
      )
    }
  }
  near('loss', resumed.losses, expected.losses)
  if (job.plan.precision === 'f32') near('gradient norm', resumed.norms, expected.norms)
  return undefined
}
