/** Units and experts without a gradient are found from what optimizers keep, in whatever parts that lies; in runs that learn there are none. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { worldOf } from '../src/base/index.js'
import { elementsIn } from '../src/checkpoint/box.js'
import { shardsOf } from '../src/checkpoint/shards.js'
import { foundIn, type HealthEvent, type StepLine, watchRun } from '../src/health/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { type Session, startSession, syntheticOf } from '../src/train/index.js'
import { expertModels } from './expert-models.js'
import { later, test } from './families.js'
import { jobOf } from './jobs.js'

type Optimizer = NonNullable<NonNullable<JobInput['training']>['optimizer']>

const steps = 50
const training = { steps, evalBatches: 0, optimizer: { kind: 'adamw', lr: 1e-3, weightDecay: 0.1 } } as const

/** What is said of units of a run whose parameters somebody changed before its first step. */
async function deadIn(job: Job, change: (session: Session) => void = () => {}): Promise<HealthEvent[]> {
  const session = await startSession(job, syntheticOf(job), { kernels: 'reference' })
  change(session)
  const lines: StepLine[] = []
  for (let i = 0; i < steps; i++) lines.push(await session.step())
  await session.stop()
  return foundIn(watchRun({ path: 'run', job }), lines).filter(({ event }) => event === 'deadUnits')
}

/** Puts a number into the first elements of a vector, on every rank that holds some of them. */
function fill({ program, trainer }: Session, name: string, count: number, value: number): void {
  for (let rank = 0; rank < worldOf(program.mesh); rank++)
    for (const shard of shardsOf(program, rank).filter(({ tensor }) => tensor === `param.${name}`)) {
      const first = shard.start[0] + (shard.line?.[0] ?? 0)
      const values = trainer.held(shard).slice(0, elementsIn(shard))
      trainer.hold(
        shard,
        values.map((before, i) => (first + i < count ? value : before)),
      )
    }
}

/** The first units of a layer are pushed so far that GELU and its gradient are zero whatever comes. */
const kill = (units: number) => (session: Session) => fill(session, 'layers.1.up.bias', units, -1e3)

const plans: readonly NonNullable<JobInput['plan']>[] = [{}, { tp: 2, pp: 2 }, { dp: 2, zero: 1 }]
for (const plan of plans)
  test(`${JSON.stringify(plan)}: dead units are counted, once, with their layer`, async () => {
    const events = await deadIn(jobOf('mlp', plan, training), kill(5))
    equal(events.length, 1)
    deepEqual([events[0].where, events[0].numbers.units], ['layers.1', 5])
    match(events[0].message, /^5 of \d+ units have had no gradient for 40 steps/)
    equal(events[0].command, 'lockstep check run/job.json')
  })

test('momentum without decay tells as well; with decay, or by Adafactor, nobody can', async () => {
  const by = (optimizer: Optimizer) => deadIn(jobOf('mlp', {}, { ...training, optimizer }), kill(3))
  const momentum = { kind: 'sgd', lr: 1e-3, momentum: 0.9 } as const
  equal((await by(momentum)).length, 1)
  equal((await by({ ...momentum, weightDecay: 0.1 })).length, 0)
  equal((await by({ kind: 'adafactor', lr: 1e-3 })).length, 0)
})

later('an expert that no token reaches is named; where all are reached, none is', async () => {
  const model = expertModels.deepseek
  const job = Job.parse({ model, training: { seq: 4, globalBatch: 8, ...training }, plan: { dp: 2, ep: 2 } })
  const events = await deadIn(job, session => {
    const name = session.program.params.find(param => param.name.endsWith('mlp.bias'))!.name
    fill(session, name, 1, -1e3)
  })
  equal(events.length, 1)
  // The choice is by groups: who shares one with it may starve beside it.
  match(events[0].message, /^no token is routed to expert 0( and \d)?: no gradient for 40 steps/)
  deepEqual(await deadIn(job), [])
})
