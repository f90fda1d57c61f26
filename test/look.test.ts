/** A step run again shows which instruction made the first number that is not finite, and whether bits are as they were. */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { coordinatesOf, FaultBook, hashName, parseFaults, worldOf } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { type BadNumber, syntheticData } from '../src/engine/index.js'
import { type EngineOptions, type LoweredProgram, Pool, startEngine } from '../src/engine/native/index.js'
import { markOf } from '../src/engine/native/run/look.js'
import { hashOf } from '../src/engine/native/run/replicas.js'
import { inputsOf } from '../src/geometry/index.js'
import type { HealthEvent } from '../src/health/index.js'
import type { Program } from '../src/ir/index.js'
import { startSession, syntheticOf } from '../src/train/index.js'
import { family, later, test } from './families.js'
import { jobOf } from './jobs.js'

const pool = new Pool()
after(() => pool.close())

const given = (program: Program, step: number) => ({
  ...{ inputs: syntheticData(inputsOf(program), 8, 1)(step), lr: 1e-3, step },
})

/** An engine with faults, and its lists. */
async function started(program: Program, faults: readonly string[] = [], options: Partial<EngineOptions> = {}) {
  const lowered: LoweredProgram[] = []
  const engine = await startEngine(program, {
    ...{ seed: 1, pool, faults: new FaultBook(parseFaults(faults).faults) },
    tamper: one => void lowered.push(one),
    ...options,
  })
  return { engine, lists: lowered[0].lists }
}

const sound = [
  ['llama', { cp: 2, attention: 'ring' }],
  ['gpt tied', { dp: 2, tp: 2, pp: 2, microbatches: 4, sequenceParallel: true, zero: 1 }],
  ['llama tied', { dp: 2, zero: 3, precision: 'bf16', recompute: 'full' }],
  ['gpt', { dp: 4, zero: 3, compress: { gather: 'int8' } }],
  ['mlp', { dp: 2, zero: 1, offload: { optimizer: 'host' } }],
  ['gpt', { dp: 2, compress: { reduce: 'powersgd', rank: 2 } }],
] as const
const soundStep = family('replay of sound steps', 6)
for (const [model, plan] of sound)
  soundStep(`${model} ${JSON.stringify(plan)}: a sound step shows nothing, and is then what it was to be`, async () => {
    const program = compileJob(jobOf(model, plan))
    const { engine } = await started(program)
    await engine.step(given(program, 0))
    const { before, bad, differs, result } = await engine.replay!(given(program, 1))
    assert.deepEqual([before, bad, differs], [undefined, undefined, undefined])
    const step = await engine.step(given(program, 1))
    assert.deepEqual([step.loss, step.normSquared, engine.replicas!()], [result!.loss, result!.normSquared, []])
    await engine.stop()
  })

const program = compileJob(jobOf('gpt', { dp: 2, tp: 2, pp: 2, microbatches: 2 }))

/** Numbers from 0 up to a bound, by a seed. */
function* drawn(seed: number) {
  for (let i = 0; ; i++) yield (bound: number) => hashName(`${seed} ${i}`) % bound
}

/** What the look says of a NaN that the command of a rank makes, and the instruction it came from. */
async function named(rank: number, at: number) {
  const fault = `nan:rank=${rank},step=1,at=${at}`
  const { engine, lists } = await started(program, [fault])
  await engine.step(given(program, 0))
  const look = await engine.look!(given(program, 0))
  await engine.stop()
  return { look, list: lists[rank] }
}

const instrOf = (bad: BadNumber) => program.segments[bad.call.segment].instrs.indexOf(bad.instr)

async function isNamed(rank: number, at: number): Promise<void> {
  const { look, list } = await named(rank, at)
  const where = `rank ${rank}, command ${at}`
  assert.equal(look.before, undefined, `${where}: the step was taken`)
  assert.ok(look.bad, `${where}: nothing was found`)
  assert.equal(look.bad.rank, rank, where)
  const origin = {
    step: program.streams[coordinatesOf(program.mesh, rank).pp ?? 0].steps.indexOf(look.bad.call),
    instr: instrOf(look.bad),
  }
  const next = list.origins.findIndex((one, i) => i >= at && one.step === origin.step && one.instr === origin.instr)
  assert.ok(next >= at, `${where}: ${JSON.stringify(list.origins[at])} is not ${JSON.stringify(origin)}`)
  assert.ok(
    look.bad.of.every(({ most }) => Number.isFinite(most)),
    where,
  )
}

test('a NaN that an instruction makes is found where it was made', async () => {
  await isNamed(5, 40)
})

later('a NaN is found wherever it was made (NANS of them)', async () => {
  const draws = drawn(7)
  for (let i = 0; i < Number(process.env.NANS ?? 4); i++) {
    const rank = draws.next().value!(worldOf(program.mesh))
    await isNamed(rank, draws.next().value!(250))
  }
})

/** The events of a run's first steps. */
async function eventsOf(
  job: ReturnType<typeof jobOf>,
  faults: readonly string[],
  steps: number,
  checks = {},
): Promise<HealthEvent[]> {
  const book = new FaultBook(parseFaults(faults).faults)
  const session = await startSession(job, syntheticOf(job), { kernels: 'auto', faults: book, ...checks })
  const events: HealthEvent[] = []
  for (let step = 0; step < steps; step++) events.push(...((await session.step()).events ?? []))
  await session.stop()
  return events
}

test('a run says where its number came from, and whether it was the hardware', async () => {
  const job = jobOf('gpt', { dp: 2, pp: 2, microbatches: 2 }, { steps: 4, evalBatches: 0 })
  const [found, gone] = await eventsOf(job, ['nan:rank=1,step=1,at=40', 'nan:rank=2,step=3,at=40,transient=1'], 3)
  assert.deepEqual([found.event, found.step, found.rank], ['notFinite', 1, 1])
  assert.match(found.message, /the first NaN or Inf is computed in \w+.* on rank 1 \(dp 1 pp 0\): \w+ gives NaN in %/)
  assert.deepEqual([gone.event, gone.step], ['notFinite', 3])
  assert.match(gone.message, /two replays of the step are finite/)
})

test('copies of which one has another bit are told from those that agree', async () => {
  const job = jobOf('gpt', { dp: 3 }, { steps: 4, globalBatch: 12, evalBatches: 0 })
  const fault = 'flip:rank=2,step=2,parameter=layers.1.mlp.up,index=5,bit=3'
  assert.deepEqual(
    (await eventsOf(job, [fault], 3, { hashEvery: 2 })).map(({ step, event, rank, message }) => [
      step,
      event,
      rank,
      message,
    ]),
    [[2, 'replicasDiffer', 2, 'layers.1.mlp.up: rank 2 differs from ranks 0 and 1, which agree']],
  )
})

test('a tied weight is compared over both stages that hold it, with all that the optimizer keeps of it', async () => {
  const tied = compileJob(jobOf('gpt tied', { dp: 2, pp: 2, microbatches: 2 }))
  const { engine } = await started(tied)
  await engine.step(given(tied, 0))
  assert.deepEqual(engine.replicas!(), [])
  const { frames } = tied.params.find(({ name }) => name === 'embed.tokens')!
  assert.deepEqual(Object.keys(frames), ['0', '1'])
  for (const rank of [0, 1, 2, 3]) {
    const { param, states } = frames[coordinatesOf(tied.mesh, rank).pp ?? 0]
    for (const [state, frame] of [[undefined, param], ...Object.entries(states)] as const) {
      const values = engine.held({ rank, frame, dtype: 'f32', first: 0 })
      const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
      bits[5] ^= 1
      assert.deepEqual(
        engine.replicas!().map(({ holders, odd, ...one }) => [one, holders.map(({ rank }) => rank), odd]),
        [[{ parameter: 'embed.tokens', ...(state !== undefined && { state }) }, [0, 1, 2, 3], [rank]]],
      )
      bits[5] ^= 1
    }
  }
  await engine.stop()
})

later('of two copies nobody can tell which is right', async () => {
  const two = jobOf('gpt', { dp: 2 }, { steps: 4, evalBatches: 0 })
  const [event] = await eventsOf(two, ['flip:rank=1,step=1,parameter=head.norm.weight'], 1, { hashEvery: 1 })
  assert.equal(event.rank, undefined)
  assert.match(event.message, /head\.norm\.weight: ranks 0 and 1 should be equal and differ/)
})

later('one flipped bit of any copy of any parameter is found (FLIPS of them a parameter)', async () => {
  const { engine } = await started(program)
  const draws = drawn(11)
  const each = Number(process.env.FLIPS ?? 1)
  for (const { name, frames } of program.params)
    for (let i = 0; i < each; i++) {
      const holders = Array.from({ length: worldOf(program.mesh) }, (_, rank) => rank).filter(
        rank => frames[coordinatesOf(program.mesh, rank).pp ?? 0] !== undefined,
      )
      const rank = holders[draws.next().value!(holders.length)]
      const frame = frames[coordinatesOf(program.mesh, rank).pp ?? 0].param
      const values = engine.held({ rank, frame, dtype: 'f32', first: 0 })
      const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
      const [index, bit] = [draws.next().value!(bits.length), draws.next().value!(32)]
      bits[index] ^= 1 << bit
      const found = engine.replicas!()
      assert.deepEqual(
        found.map(({ parameter }) => parameter),
        [name],
        `${name} on rank ${rank}, bit ${bit} of ${index}`,
      )
      assert.ok(found[0].holders.some(holder => holder.rank === rank) && (found[0].odd ?? [rank]).includes(rank))
      bits[index] ^= 1 << bit
    }
  assert.deepEqual(engine.replicas!(), [])
  await engine.stop()
})

later('a step that is run twice, and is the same, is said nothing of', async () => {
  const job = jobOf('llama', { dp: 2, tp: 2 }, { steps: 4, evalBatches: 0 })
  assert.deepEqual(await eventsOf(job, [], 2, { replayEvery: 2 }), [])
})

test('of results that are not finite every NaN is the same, and of others every bit counts', () => {
  const buffer = new SharedArrayBuffer(24)
  const [words, halves] = [new Uint32Array(buffer, 0, 4), new Uint16Array(buffer, 16, 4)]
  const marks = () => [
    markOf(1, { at: 0, n: 4, dtype: 'f32' }, buffer),
    markOf(1, { at: 16, n: 4, dtype: 'bf16' }, buffer),
    markOf(1, { at: 16, n: 4, dtype: 'f16' }, buffer),
  ]
  words.set([0x3f800000, 0x7fc00000, 0xff800000, 0x80000000])
  halves.set([0x3f80, 0x7fc0, 0xffff, 0x8000])
  const seen = marks()
  ;[words[1], halves[1]] = [0xffc00001, 0xffc1]
  assert.deepEqual(marks(), seen)
  for (const [i, bits] of [0x3f800001, 0x7f800000, 0x7f800000, 0].entries()) {
    const was = words[i]
    words[i] = bits
    assert.notEqual(marks()[0], seen[0], `word ${i}`)
    words[i] = was
  }
})

test('a run whose lr is absurd is not said to be the fault of the machine, on WebAssembly either', async () => {
  const { training, ...rest } = jobOf('gpt', { dp: 2 }, { steps: 4, evalBatches: 0 })
  const job = { ...rest, training: { ...training, optimizer: { ...training.optimizer, lr: 1e30 } } }
  const [event] = await eventsOf(job, [], 2, { kernels: 'wasm', hashEvery: 1 })
  assert.equal(event.event, 'notFinite')
  assert.match(event.message, /^the first NaN or Inf is computed in /)
})

test('every bit changes the hash, and pairs that cancel out elsewhere do not here', () => {
  const numbers = () => new Float32Array(new SharedArrayBuffer(4 * 9)).map((_, i) => i / 3)
  const plain = hashOf(numbers())
  const [swapped, twice] = [numbers(), numbers()]
  ;[swapped[2], swapped[7]] = [swapped[7], swapped[2]]
  const bits = new Uint32Array(twice.buffer)
  for (const i of [3, 4]) bits[i] ^= 1 << 9
  assert.equal(new Set([plain, hashOf(swapped), hashOf(twice)]).size, 3)
})
