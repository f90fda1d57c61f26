/** Any job that `check` finds sound compiles to a lawful program that computes what one rank computes. */
import { hasErrors } from '../src/base/index.js'
import { Compression, check, type Fp8Recipe, type Job } from '../src/plan/index.js'
import { family, test } from './families.js'
import { computesWhatOneRankComputes } from './jobs.js'
import { randomJob } from './random-job.js'

const seeds = process.env.SEED
  ? [Number(process.env.SEED)]
  : Array.from({ length: Number(process.env.SEEDS ?? 20) }, (_, i) => i + 1)
/** The same job, some of whose traffic travels in fewer bits. */
function compressed(job: Job): Job {
  const { zero, microbatches } = job.plan
  const compress = Compression.parse({
    ...(microbatches % 2 === 0 && { reduce: 'bf16' }),
    ...(zero === 3 && { gather: 'int8', run: 1 + microbatches }),
  })
  return { ...job, plan: { ...job.plan, compress } }
}

/** The same job, whose products read codes where tokens are kept in bf16 and the seed is even: of blocks where none is cut. */
function coded(job: Job, seed: number): Job {
  if (!job.plan.precision.endsWith('bf16') || seed % 2 !== 0) return job
  const usual = { block: 2, scales: 'powers', experts: true, history: 3, algo: 'max', margin: 0 } as const
  const by = (recipe: Fp8Recipe): Job => ({ ...job, plan: { ...job.plan, fp8: { recipe, ...usual } } })
  return hasErrors(check(by('blocks')))
    ? by(seed % 4 === 0 ? 'current' : 'delayed')
    : by(seed % 4 === 0 ? 'mx' : 'blocks')
}

const tested = seeds.length > 1 ? family('random jobs', 6) : test
for (const seed of seeds)
  tested(`any sound job computes what one rank computes (SEED=${seed})`, () =>
    computesWhatOneRankComputes(coded(compressed(randomJob(seed)), seed)),
  )
