/** A rank that dies before any of its commands: the run goes on, loses nothing but the step, and ends with the same bits. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { type Fault, FaultBook, uniform } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { compileJob } from '../src/compile/index.js'
import { kernelsFor } from '../src/engine/index.js'
import { Pool, startEngine } from '../src/engine/native/index.js'
import type { HealthEvent } from '../src/health/index.js'
import type { Program } from '../src/ir/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { keepGoing, openData, type Session, startSession, train } from '../src/train/index.js'
import { later } from './families.js'

const pool = new Pool()
after(() => pool.close())

const kernels = kernelsFor('auto')
const eight: JobInput['plan'] = { dp: 2, tp: 2, pp: 2, microbatches: 2, zero: 1 }
const four: JobInput['plan'] = { dp: 2, pp: 2, microbatches: 2, zero: 1 }
const jobOf = (plan: JobInput['plan'], steps: number): Job =>
  Job.parse({
    model: { family: 'gpt', layers: 2, embed: 8, heads: 2, ffn: 8, vocab: 8, dropout: 0.1 },
    training: { seq: 4, globalBatch: 12, steps, clip: 1 },
    plan,
  })

const bits = ({ program, trainer }: Session): string[] =>
  program.params.map(({ name }) => `${name} ${Buffer.from(trainer.parameter(name).buffer).toString('hex')}`)

const dataOf = async (job: Job) => (await openData(job, memoryFiles())).dataset

interface Case {
  readonly job: Job
  readonly program: Program
}
const caseOf = (plan: JobInput['plan']): Case => ({ job: jobOf(plan, 1), program: compileJob(jobOf(plan, 1)) })
const ofSteps = ({ job }: Case, steps: number): Job => ({ ...job, training: { ...job.training, steps } })

async function followed(session: Session) {
  const losses: number[] = []
  for await (const { loss } of train(session)) losses.push(loss)
  const parameters = bits(session)
  await session.stop()
  return { losses, parameters }
}

/** Losses and parameters of a run to which nothing happens. */
async function undisturbed(of: Case, steps: number) {
  const job = ofSteps(of, steps)
  return followed(await startSession(job, await dataOf(job), { kernels, pool, measure: false, program: of.program }))
}

async function kept(of: Case, steps: number, faults: readonly Fault[]) {
  const events: HealthEvent[] = []
  const job = ofSteps(of, steps)
  const session = await keepGoing(job, await dataOf(job), {
    ...{ kernels, pool, measure: false, program: of.program, faults: new FaultBook(faults) },
    heard: event => events.push(event),
  })
  return { ...(await followed(session)), events }
}

/** How many commands each rank has. */
async function commandsOf({ program }: Case): Promise<number[]> {
  let counts: number[] = []
  const engine = await startEngine(program, {
    ...{ seed: 1, pool, kernels: kernels === 'reference' ? 'auto' : kernels },
    tamper: ({ lists }) => {
      counts = lists.map(({ starts }) => starts.length)
    },
  })
  await engine.stop()
  return counts
}

interface Kill {
  readonly rank: number
  readonly at: number
}

/** One kill a step; a rank knows of 31 faults at a time. */
const mostSteps = 30

/** Returns the seconds from the start of each step to its failure. */
async function survives(of: Case, kills: readonly Kill[]): Promise<number[]> {
  const noticed: number[] = []
  for (let first = 0; first < kills.length; first += mostSteps) {
    const some = kills.slice(first, first + mostSteps)
    const faults = some.map(({ rank, at }, i): Fault => ({ kind: 'kill', rank, at, step: i + 1 }))
    const { events, ...told } = await kept(of, some.length, faults)
    deepEqual(told, await undisturbed(of, some.length))
    deepEqual(
      events.map(({ event, rank, numbers: { repeated, lost } }) => [event, rank, repeated, lost]),
      some.map(({ rank }) => ['restart', rank, 0, 1]),
    )
    noticed.push(...events.map(({ numbers: { after } }) => after ?? Number.NaN))
  }
  return noticed
}

const seed = Number(process.env.SEED ?? 7)

later('a rank dies in the middle of a step, and another before its updates: the same bits', async () => {
  const of = caseOf(four)
  const counts = await commandsOf(of)
  await survives(of, [
    { rank: 1, at: Math.floor(counts[1] / 2) },
    { rank: 2, at: counts[2] - 2 },
  ])
})

/** Those of one rank, and 20 of the others; of all of them so many. */
const most = Number(process.env.KILLS ?? (process.env.LOCKSTEP_TESTS === 'all' ? Number.POSITIVE_INFINITY : 4))

later(`rank 3 dies before every command, the others before some (seed ${seed}): the same bits`, async () => {
  const of = caseOf(eight)
  const counts = await commandsOf(of)
  const random = uniform({ seed, name: 'kills' })
  const others = Array.from({ length: 20 }, (_, i) => {
    const rank = (4 + Math.floor(7 * random(2 * i))) % 8
    return { rank, at: Math.floor(counts[rank] * random(2 * i + 1)) }
  })
  const all = [...others, ...Array.from({ length: counts[3] }, (_, at) => ({ rank: 3, at }))]
  const every = Math.max(1, Math.ceil(all.length / most))
  const noticed = await survives(
    of,
    all.filter((_, i) => i % every === 0),
  )
  const sorted = noticed.map(seconds => 1000 * seconds).sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(0)
  process.stderr.write(
    `# ${noticed.length} kills; from the start of the step to the failure: median ${at(0.5)} ms, 99 % ${at(0.99)} ms, most ${at(1)} ms\n`,
  )
  equal(noticed.length > 0, true)
})

later('8 -> 4 -> 6 ranks on fast kernels: the same data, losses and parameters to 1e-6', async () => {
  const job = jobOf(eight, 6)
  const faults = [1, 2, 4, 6].map((rank): Fault => ({ kind: 'kill', rank, step: 3 }))
  const session = await keepGoing(job, await dataOf(job), {
    kernels,
    pool,
    faults: new FaultBook(faults),
    shrink: true,
  })
  const losses: number[] = []
  for await (const { loss, step } of train(session)) {
    losses.push(loss)
    if (step === 4) await session.resize(6)
  }
  const expected = await startSession(job, await dataOf(job), { kernels, pool })
  const wanted: number[] = []
  for await (const { loss } of train(expected)) wanted.push(loss)
  const worst = (a: ArrayLike<number>, b: ArrayLike<number>) =>
    Array.from(a).reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0)
  ok(worst(losses, wanted) < 1e-6)
  for (const { name } of session.program.params)
    ok(worst(session.trainer.parameter(name), expected.trainer.parameter(name)) < 1e-6, name)
  equal(session.failures, 1)
  for (const one of [session, expected]) await one.stop()
})
