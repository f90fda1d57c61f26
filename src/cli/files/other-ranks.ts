/** Plans of one job for other numbers of ranks: what an emitted folder holds beside its own. */
import { error, hasErrors, ProblemsError } from '../../base/index.js'
import { compileJob, memoryProblems } from '../../compile/index.js'
import { type Job, jobsFor, worldOfPlan } from '../../plan/index.js'
import type { Ranks } from '../text/ranks.js'

/** For each number of ranks but the job's own the plan that is most like it. */
export function jobsOfRanks(job: Job, { numbers, each }: Ranks): Job[] {
  const others = [...new Set(numbers)]
    .filter(ranks => ranks !== worldOfPlan(job.plan))
    .map(ranks => ({ ranks, found: jobOf(job, ranks) }))
  const missing = others.filter(({ found }) => !found).map(({ ranks }) => ranks)
  if (each && missing.length > 0) throw new ProblemsError(missing.map(ranks => unplanned(job, ranks)))
  return others.flatMap(({ found }) => (found ? [found] : []))
}

/** What a run that loses ranks can go on with: the most below its own that there is a plan for, and below every half. */
export function fewerRanks(job: Job): Job[] {
  const fewer = new Map<number, Job>()
  for (let most = worldOfPlan(job.plan) - 1; most >= 1; most >>= 1) {
    const found = mostBelow(job, most)
    if (found) fewer.set(worldOfPlan(found.plan), found)
  }
  return [...fewer.values()]
}

function mostBelow(job: Job, most: number): Job | undefined {
  for (let ranks = most; ranks >= 1; ranks--) {
    const found = jobOf(job, ranks)
    if (found) return found
  }
  return undefined
}

/** Plans that `check` has nothing against may still not fit; of so many the first that does. */
const mostTried = 6

function jobOf(job: Job, ranks: number): Job | undefined {
  const candidates = jobsFor(job, ranks).filter(({ plan }) => worldOfPlan(plan) === ranks)
  return candidates.slice(0, mostTried).find(one => fits(one))
}

function fits(job: Job): boolean {
  try {
    return !hasErrors(memoryProblems(compileJob(job), job))
  } catch (e) {
    if (e instanceof ProblemsError) return false
    throw e
  }
}

const unplanned = ({ training: { globalBatch } }: Job, ranks: number) =>
  error(
    'emit/ranks',
    '--also',
    `there is no plan for ${ranks} ranks with a global batch of ${globalBatch}`,
    'a range (4..8) takes what there is',
  )
