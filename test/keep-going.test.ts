/** Runs that go on after a failure: what is copied where, from what a run goes on, and with which plan. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { ProblemsError } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { cliquesOf, keptParts, partnerOf, shardsOf } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { EngineError } from '../src/engine/index.js'
import type { HealthEvent } from '../src/health/index.js'
import { Job, type JobInput, jobsFor, planTitle, worldOfPlan } from '../src/plan/index.js'
import {
  beginningOf,
  type KeepOptions,
  type KeptSession,
  keepGoing,
  openCheckpoints,
  openData,
  startSession,
  train,
} from '../src/train/index.js'
import { later, test } from './families.js'
import { readFixture } from './fixtures.js'

const jobOf = (plan: JobInput['plan'], training: Partial<JobInput['training']> = {}): Job =>
  Job.parse({
    model: { family: 'gpt', layers: 2, embed: 8, heads: 2, ffn: 8, vocab: 8, dropout: 0.1 },
    training: { seq: 4, globalBatch: 12, steps: 4, evalEvery: 2, evalBatches: 1, clip: 1, ...training },
    plan,
  })

const eight: JobInput['plan'] = { dp: 2, tp: 2, pp: 2, microbatches: 2, zero: 1 }

interface Run {
  readonly kept: KeptSession
  readonly events: HealthEvent[]
}

async function kept(job: Job, options: KeepOptions = {}): Promise<Run> {
  const events: HealthEvent[] = []
  const { dataset } = await openData(job, memoryFiles())
  return {
    events,
    kept: await keepGoing(job, dataset, { kernels: 'reference', heard: e => events.push(e), ...options }),
  }
}

/** The next step ends with these ranks dead, after the others have updated all they hold; what the dead held is noise. */
function failNext({ trainer, program, job }: KeptSession, dead: readonly number[]): void {
  const { step } = trainer
  trainer.step = async data => {
    await step(data)
    for (const rank of dead)
      for (const shard of shardsOf(program, rank))
        trainer.hold(
          { ...shard, first: 0 },
          Float64Array.from(trainer.held({ ...shard, first: 0 }), () => Number.NaN),
        )
    const state = (rank: number) => (dead.includes(rank) ? 'dead' : 'running')
    throw new EngineError(
      Array.from({ length: worldOfPlan(job.plan) }, (_, rank) => ({
        ...{ rank, state: state(rank), command: 0, text: 'matmul', waitsFor: [], last: [] },
      })),
    )
  }
}

const parametersOf = ({ program, trainer }: Pick<KeptSession, 'program' | 'trainer'>): number[] =>
  program.params.flatMap(({ name }) => [...trainer.parameter(name)])

/** Steps, losses and evaluations of all steps, and the parameters at the end. */
async function undisturbed(job: Job) {
  const { dataset } = await openData(job, memoryFiles())
  const session = await startSession(job, dataset, { kernels: 'reference' })
  const records = []
  for await (const { step, loss, evalLoss } of train(session)) records.push({ step, loss, evalLoss })
  return { records, parameters: parametersOf(session) }
}

/** The same of a run to which `before` a step something is done. */
async function disturbed({ kept }: Run, before: (step: number) => void | Promise<void>) {
  const records = []
  await before(1)
  for await (const { step, loss, evalLoss } of train(kept)) {
    records.push({ step, loss, evalLoss })
    await before(step + 1)
  }
  const parameters = parametersOf(kept)
  await kept.stop()
  return { records, parameters }
}

interface Elastic {
  readonly batch: number
  readonly ranks: readonly number[]
  readonly microbatches: readonly number[]
  readonly minRanks: number
}

const fixture = JSON.parse(readFixture('robust/cliques-elastic.json'))

test('cliques are those of others; a rank’s partner is in its clique, and in another node', () => {
  for (const { world, jump, factor, cliques } of fixture.cliques) deepEqual(cliquesOf(world, jump, factor), cliques)
  for (const { world, jump, factor, cliques } of fixture.cliques)
    if (factor === 2)
      for (const [a, b] of cliques) deepEqual([partnerOf(a, world, jump), partnerOf(b, world, jump)], [b, a])
  deepEqual(
    [0, 1, 2, 3, 4].map(rank => partnerOf(rank, 5, 2)),
    [2, 3, 4, 0, 1],
  )
  equal(partnerOf(0, 1, 1), 0)
})

for (const [plan, sent] of [
  [{ dp: 4 }, 'nothing: the others hold the same'],
  [{ dp: 4, zero: 3 }, 'm param v'],
  [{ tp: 2, pp: 2 }, 'm param v'],
] as const)
  test(`${planTitle(jobOf(plan).plan)}: what goes to a partner is ${sent}`, () => {
    const parts = keptParts(compileJob(jobOf(plan)))
    ok(parts.every(({ keepers: [a, b] }) => a !== b))
    const states = new Set(
      parts.flatMap(({ shard, sentTo }) => (sentTo === undefined ? [] : [shard.tensor.split('.')[0]])),
    )
    equal([...states].sort().join(' ') || 'nothing: the others hold the same', sent)
  })

test('the numbers of data-parallel ranks that keep a batch are those of others', () => {
  const most = 8
  for (const { batch, ranks, microbatches, minRanks } of fixture.elastic as readonly Elastic[]) {
    const job = Job.parse({
      model: { family: 'mlp', layers: 1, embed: 7, ffn: 7 },
      training: { seq: 1, globalBatch: batch, steps: 1 },
      plan: {},
    })
    const found = jobsFor(job, most).map(({ plan }) => plan)
    // Theirs are also limited to some sizes of a microbatch; of ours each has any.
    const isTheirs = (dp: number) => dp >= minRanks && microbatches.some(size => batch % (size * dp) === 0)
    deepEqual(
      found
        .filter(({ tp, pp }) => tp * pp === 1)
        .map(({ dp }) => dp)
        .filter(isTheirs)
        .sort((a, b) => a - b),
      ranks.filter(n => n <= most),
      `${batch}`,
    )
  }
})

test('plans for fewer ranks are like the one before, and keep the batch', () => {
  const titles = [7, 6, 5, 4, 2, 1].map(ranks => planTitle(jobsFor(jobOf(eight), ranks)[0].plan))
  const six = 'tp 2 x dp 3, zero 1, 1 microbatch'
  const four = 'tp 2 x dp 2, zero 1, 2 microbatches'
  deepEqual(titles, [six, six, four, four, 'tp 2, zero 1, 4 microbatches', 'one rank, zero 1, 4 microbatches'])
})

for (const [plan, lost, title] of [
  [{ dp: 2, zero: 1 }, [1], 'one rank of two'],
  [{ dp: 2, pp: 2, microbatches: 2, zero: 1 }, [2], 'one rank of four'],
  [eight, [0, 1, 2, 3], 'one of two nodes'],
  [{ dp: 2, compress: { reduce: 'topk', ratio: 0.1 } }, [1], 'one rank of two with residuals'],
] as const)
  (title === 'one rank of two' ? test : later)(
    `${title} lost in a step: the same bits, each step once, none repeated`,
    async () => {
      const run = await kept(jobOf(plan, { globalBatch: 4 }))
      const told = await disturbed(run, step => {
        if (step === 1 || step === 3) failNext(run.kept, lost)
      })
      deepEqual(told, await undisturbed(jobOf(plan, { globalBatch: 4 })))
      deepEqual(
        run.events.map(({ event, rank, numbers }) => [event, rank, numbers.from, numbers.repeated]),
        [
          ['restart', lost[0], 0, 0],
          ['restart', lost[0], 2, 0],
        ],
      )
      match(run.events[1].message, /^step 3: rank \d failed: .*; resumes after step 2, from memory of the ranks$/)
    },
  )

later('copies every three steps: what is repeated is told once', async () => {
  const run = await kept(jobOf({ dp: 2 }, { steps: 5 }), { snapshotEvery: 3 })
  const told = await disturbed(run, step => {
    if (step === 3 || step === 5) failNext(run.kept, [])
  })
  deepEqual(told, await undisturbed(jobOf({ dp: 2 }, { steps: 5 })))
  deepEqual(
    run.events.map(({ numbers: { from, repeated } }) => [from, repeated]),
    [
      [0, 2],
      [3, 1],
    ],
  )
})

for (const plan of [{ zero: 3 }, { compress: { reduce: 'topk', ratio: 0.1 } }] satisfies JobInput['plan'][])
  test(`both keepers of a part lost: the newest checkpoint on disk, and its steps are repeated to the bit, ${Object.keys(plan)}`, async () => {
    const files = memoryFiles()
    const job = jobOf({ dp: 2, ...plan }, { globalBatch: 4 })
    const run = await kept(job, { onDisk: () => beginningOf({ resume: 'saved' }, files) })
    const folder = openCheckpoints('saved', run.kept, { files, run: 'a' })
    const told = await disturbed(run, step => {
      if (step === 2) folder.save()
      if (step === 4) failNext(run.kept, [0, 1])
    })
    deepEqual(told, await undisturbed(job))
    deepEqual(
      run.events.map(({ event }) => event),
      ['checkpointDamaged', 'restart'],
    )
    match(
      run.events[0].message,
      /memory of the ranks: a shard of .* was held only by ranks 0 and 1, and was lost with them/,
    )
    match(run.events[1].message, /resumes after step 1, from saved\/step-00000001, and repeats 2 steps$/)
  })

test('three failures without a step of progress end the run, and the reason is said', async () => {
  const run = await kept(jobOf({ dp: 2 }, { globalBatch: 2 }), { snapshotEvery: 1 })
  await run.kept.step()
  const heard = run.events
  const fail = () => failNext(run.kept, [1])
  fail()
  const going = run.kept.step()
  heard.push = (...events) => {
    fail()
    return Array.prototype.push.apply(heard, events)
  }
  await rejects(going, (e: unknown) => {
    ok(e instanceof ProblemsError)
    match(e.message, /3 failures without a completed step; the last: step 2: rank 1 failed/)
    return true
  })
  equal(heard.length, 2)
})

later(
  'steps that are skipped are no failure of the engine: the run ends as it would have, also where it was restarted between',
  async () => {
    const job = jobOf({ dp: 2 }, { skipAbove: 1e-9, mostSkips: 3 })
    const run = await kept(job)
    await rejects(
      disturbed(run, step => {
        if (step === 2 || step === 3) failNext(run.kept, [1])
      }),
      /steps 1 to 3 were skipped/,
    )
  },
)

later('8 -> 4 -> 6 ranks: the plan changes, the data and the result do not, to 1e-12', async () => {
  const job = jobOf(eight, { steps: 6 })
  const run = await kept(job, { shrink: true })
  const told = await disturbed(run, async step => {
    if (step === 3) failNext(run.kept, [1, 2, 4, 6])
    if (step === 5) await run.kept.resize(6)
  })
  const expected = await undisturbed(job)
  near(
    told.records.flatMap(({ step, loss, evalLoss = 0 }) => [step, loss, evalLoss]),
    expected.records.flatMap(({ step, loss, evalLoss = 0 }) => [step, loss, evalLoss]),
  )
  near(told.parameters, expected.parameters)
  deepEqual(
    run.events.flatMap(({ event, message }) => (event === 'replanned' ? [message] : [])),
    [
      '4 ranks are available: tp 2 x dp 2, zero 1, 2 microbatches, instead of tp 2 x pp 2 x dp 2, zero 1, 1f1b, 2 microbatches',
      '6 ranks are available: tp 2 x dp 3, zero 1, 1 microbatch, instead of tp 2 x dp 2, zero 1, 2 microbatches',
    ],
  )
})

function near(actual: readonly number[], expected: readonly number[], bound = 1e-12): void {
  equal(actual.length, expected.length)
  for (const [i, value] of actual.entries())
    ok(Math.abs(value - expected[i]) <= bound * Math.max(1, Math.abs(expected[i])), `${value} and ${expected[i]}`)
}
