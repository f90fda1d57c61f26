/** Faults that are asked for happen where and when they were asked for, once, and nothing else does. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { FaultBook, faultProblems, parseFaults, showFault } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { syntheticData } from '../src/engine/index.js'
import { EngineError, type EngineOptions, Pool, startEngine } from '../src/engine/native/index.js'
import { inputsOf } from '../src/geometry/index.js'
import { startSession, syntheticOf } from '../src/train/index.js'
import { later } from './families.js'
import { jobOf } from './jobs.js'

const pool = new Pool()
after(() => pool.close())

const said = (...texts: string[]) => parseFaults(texts).problems.map(({ message, suggestion }) => [message, suggestion])

test('a fault that is read is shown as it was written', () => {
  const texts = [
    ...['kill:rank=3,step=5', 'kill:rank=3,step=5,at=17', 'stall:rank=0,step=1,seconds=2.5', 'lose:rank=1,step=2'],
    ...['slow:rank=2,factor=1.3,from=4,to=9', 'nan:rank=1,step=2,at=8,transient=1', 'full-disk', 'full-disk:step=4'],
    ...['flip:rank=0,step=3,parameter=layers.0.up,index=7,bit=30', 'damage:file=rank-0*,step=2'],
    'lr:factor=100,from=3',
  ]
  const { faults, problems } = parseFaults(texts)
  assert.deepEqual(problems, [])
  assert.deepEqual(faults.map(showFault), texts)
})

test('everything that is wrong with faults is said at once', () => {
  assert.deepEqual(
    said('kil:rank=1,step=2', 'kill:rnk=1,step=0,step=2', 'slow:rank=1.5,factor=0.5', 'flip:rank=0,step=1,parameter='),
    [
      ['unknown fault `kil`', 'did you mean `kill`?'],
      ['unknown key `rnk`', 'did you mean `rank`?'],
      ['step=0 is not an integer of at least 1', undefined],
      ['step is set twice', 'set it once'],
      ['rank is missing', 'write it like kill:rank=0,step=1'],
      ['rank=1.5 is not an integer', undefined],
      ['factor=0.5 is not a number of at least 1', undefined],
      ['parameter= has no value', 'write parameter=...'],
    ],
  )
})

test('ranks and parameters that a run does not have are named', () => {
  const { faults } = parseFaults(['kill:rank=4,step=1', 'flip:rank=0,step=1,parameter=wtee'])
  assert.deepEqual(
    faultProblems(faults, { ranks: 4, params: [{ name: 'wte' }] }).map(({ message }) => message),
    ['there is no rank 4: the plan has 4', 'there is no parameter wtee'],
  )
})

test('a fault happens once, a slow rank in all its steps, files at the first checkpoint from the step on', () => {
  const book = new FaultBook(
    parseFaults(['kill:rank=0,step=2', 'slow:rank=0,factor=2,from=2,to=3', 'full-disk:step=2']).faults,
  )
  const kinds = (step: number) => book.take(step, 'kill', 'slow', 'full-disk').map(({ kind }) => kind)
  assert.deepEqual([1, 2, 2, 3, 4].map(kinds), [[], ['kill', 'slow', 'full-disk'], ['slow'], ['slow'], []])
})

const job = jobOf('gpt', { dp: 2, tp: 2, pp: 2, microbatches: 2 })
const program = compileJob(job)
const given = (step: number) => ({ inputs: syntheticData(inputsOf(program), 8, 1)(step), lr: 1e-3, step })
const run = (faults: readonly string[], options: Partial<EngineOptions> = {}) =>
  startEngine(program, { seed: 1, pool, faults: new FaultBook(parseFaults(faults).faults), ...options })

/** Takes so many steps, the last of which must fail. */
async function failing(steps: number, fault: string, timeoutMs = 60_000): Promise<EngineError> {
  const engine = await run([fault], { timeoutMs })
  for (let step = 0; step < steps - 1; step++) await engine.step(given(step))
  const failure = await engine.step(given(steps - 1)).then(
    () => assert.fail('the step did not fail'),
    (e: unknown) => e,
  )
  await engine.stop()
  assert.ok(failure instanceof EngineError, String(failure))
  return failure
}

later('a fault that is injected between steps happens in the next; what ranks hold goes on to the bit', async () => {
  const losses = async (...texts: string[]) => {
    const session = await startSession(job, syntheticOf(job), { pool })
    try {
      const of = [(await session.step()).loss]
      for (const fault of parseFaults(texts).faults) await session.inject(fault)
      for (let i = 0; i < 2; i++) of.push((await session.step()).loss)
      return of
    } finally {
      await session.stop()
    }
  }
  const sound = await losses()
  assert.deepEqual(await losses('slow:rank=1,factor=1.1'), sound)
  const raised = await losses('lr:factor=100,from=2,to=2')
  assert.deepEqual([raised[1], raised[2] !== sound[2]], [sound[1], true])
  await assert.rejects(losses('kill:rank=3,step=2'), /step 2: rank 3 failed/)
  await assert.rejects(losses('kill:rank=8,step=2'), /there is no rank 8/)
})

test('a rank that is killed ends before its command, and all know', async () => {
  const { ranks } = await failing(2, 'kill:rank=3,step=2,at=17')
  assert.deepEqual([ranks[3].state, ranks[3].command], ['dead', 17])
  assert.ok(ranks.every(({ rank, state }) => rank === 3 || state !== 'dead'))
})

later('a rank can be killed at every boundary of its commands', async () => {
  for (let at = 0; at < Number(process.env.KILLS ?? 6); at++) {
    const { ranks } = await failing(1, `kill:rank=1,step=1,at=${at}`)
    assert.deepEqual([ranks[1].state, ranks[1].command], ['dead', at])
  }
})

test('a step that stands still is given up after many times what its commands take, and says so', async () => {
  const engine = await run(['stall:rank=2,step=3,at=30'], { measure: true, patienceMs: 1500 })
  for (const step of [0, 1]) await engine.step(given(step))
  const failure = await engine.step(given(2)).catch((e: unknown) => e)
  await engine.stop()
  assert.ok(failure instanceof EngineError)
  assert.match(failure.message, /^no progress for 1\.\d s\n/)
  const { state, command, reason } = failure.ranks[2]
  assert.deepEqual([state, command], ['running', 30])
  assert.match(reason ?? '', /^no progress for 1\.\d s, although it never took more than [\d.]+ m?s before$/)
})

test('a rank that is late, and computes, is waited for', async () => {
  const engine = await run(['stall:rank=1,step=1,at=30,seconds=0.3', 'slow:rank=1,factor=50'], { patienceMs: 1000 })
  assert.ok((await engine.step(given(0))).loss > 0)
  await engine.stop()
})

test('a rank that stalls is waited for by name, and one that goes on in time changes no bit', async () => {
  const { ranks } = await failing(1, 'stall:rank=2,step=1,at=30', 1500)
  assert.deepEqual([ranks[2].state, ranks[2].command], ['running', 30])
  assert.ok(ranks.some(({ waitsFor }) => waitsFor.includes(2)))
  const [still, free] = [await run(['stall:rank=2,step=1,at=30,seconds=0.05']), await run([])]
  assert.equal((await still.step(given(0))).loss, (await free.step(given(0))).loss)
  await still.stop()
  await free.stop()
})

test('a message that is lost is waited for by who should have it', async () => {
  const { ranks } = await failing(1, 'lose:rank=0,step=1', 1500)
  assert.ok(ranks.some(({ state, waitsFor }) => state === 'waiting' && waitsFor.includes(0)))
  assert.ok(ranks.every(({ state }) => state !== 'dead'))
})

test('a NaN that is put into a result makes the step a skipped one, and the next is as ever', async () => {
  const engine = await run(['nan:rank=5,step=1,at=40'])
  const [first, second] = [await engine.step(given(0)), await engine.step(given(1))]
  await engine.stop()
  assert.deepEqual([first.skipped, second.skipped, second.taken], [true, false, 1])
})

test('a slow rank computes longer and nothing else', async () => {
  const busy = async (faults: string[]) => {
    const engine = await run(faults, { measure: true })
    const results = [await engine.step(given(0)), await engine.step(given(1))]
    const spans = engine.spans.filter(({ rank, lane }) => rank === 1 && lane === 'compute')
    await engine.stop()
    return { results: results.map(({ loss }) => loss), spans: spans.length }
  }
  assert.deepEqual(await busy(['slow:rank=1,factor=3']), await busy([]))
})

test('a bit is flipped in the copy of one rank', async () => {
  const engine = await run(['flip:rank=1,step=1,parameter=layers.0.mlp.up,index=3,bit=22'])
  await engine.step(given(0))
  const spreads = program.params.map(({ name }) => [name, engine.spread(name) > 0])
  await engine.stop()
  assert.deepEqual(
    spreads.filter(([, spread]) => spread),
    [['layers.0.mlp.up', true]],
  )
})

test('a command that a rank does not have is refused before the first step', async () => {
  await assert.rejects(run(['kill:rank=0,step=1,at=99999']), /rank 0 has \d+ commands per step; use at=0 to \d+/)
})
