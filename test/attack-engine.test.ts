/** The engine under attack: whatever is wrong with a program, a step or a call on a group is said before anything runs. */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { ProblemsError } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { boot, compare, runSerial, startTrainer, syntheticData } from '../src/engine/index.js'
import {
  createGroup,
  type Group,
  type GroupToken,
  joinGroup,
  nativeMissing,
  Pool,
  startEngine,
  type Tensor,
} from '../src/engine/native/index.js'
import { inputsOf } from '../src/geometry/index.js'
import { type Program, parse, print } from '../src/ir/index.js'
import { damaged } from './damage.js'
import { later, test } from './families.js'
import { jobOf } from './jobs.js'

const pool = new Pool()
after(() => pool.close())

const kernels = nativeMissing() === undefined ? (['native', 'wasm'] as const) : (['wasm'] as const)

const program = compileJob(jobOf('gpt', { dp: 2, pp: 2, microbatches: 2, schedule: '1f1b' }))
const text = print(program)

/** All that the problems of a refusal say. */
async function refusalOf(call: () => unknown): Promise<string> {
  try {
    await call()
  } catch (error) {
    assert.ok(error instanceof ProblemsError, `not refused but failed: ${error}`)
    return error.message
  }
  return assert.fail('not refused')
}

const start = (broken: Program, kind: (typeof kernels)[number] = kernels[0]) =>
  startEngine(broken, { seed: 1, kernels: kind, pool, timeoutMs: 5000 })

const once = { seed: 1, steps: 1, lr: 0.1, vocab: 7 }
const nothing = { steps: [], parameters: new Map(), largest: new Map() }

function refuses(what: string, edit: (text: string) => string, message: RegExp): void {
  test(`a program with ${what} is refused by every engine`, async () => {
    const edited = edit(text)
    assert.notEqual(edited, text)
    const broken = parse(edited)
    for (const kind of kernels) assert.match(await refusalOf(() => start(broken, kind)), message)
    const trainer = () => startTrainer(broken, { seed: 1, measure: false, kernels: 'reference' })
    assert.match(await refusalOf(trainer), message)
    for (const run of [boot, runSerial, (program: Program, options: typeof once) => compare(program, nothing, options)])
      assert.match(await refusalOf(async () => run(broken, once)), message)
  })
}

const swap = (from: RegExp, to: string) => (text: string) => text.replace(from, to)

refuses(
  'a frame far outside its arena',
  swap(/^( {2}frame 0 .* @)\d+$/m, '$11000000000000'),
  /\[L2\].*stream 0 \(rank 0\)/,
)
refuses('an arena that is too small', swap(/^stream 0 arena=\d+/m, 'stream 0 arena=64'), /\[L2\].*the arena at 64/)
refuses('a frame at an odd byte', swap(/^( {2}frame 0 .* @)\d+$/m, '$11'), /\[L9\].*not a multiple of 4/)
refuses(
  'a parameter larger than its frame',
  swap(/ \[vocab:8 embed:8\]$/m, ' [vocab:1000000 embed:8]'),
  /\[L5\].*parameter/,
)
refuses('a buffer larger than its role', swap(/^( {2}buffer .* )\[vocab:8 /m, '$1[vocab:1000000 '), /\[L5\].*its role/)
refuses(
  'a parameter declared twice',
  swap(/^param embed\.tokens [\s\S]*?(?=^param)/m, '$&$&'),
  /\[W1\].*declared twice/,
)
refuses('a receive that is never sent', swap(/^ {2}send \d+ to=1 tag=.*\n/m, ''), /\[M1\]/)
refuses('a microbatch that is not there', swap(/microbatch=1 /, 'microbatch=7 '), /\[W1\].*microbatch 7 does not exist/)

test('a program for more ranks than any machine holds is refused at once', async () => {
  const axes = program.mesh.axes.map(axis => (axis.name === 'cp' ? { ...axis, size: 1e9 } : axis))
  assert.match(await refusalOf(() => start({ ...program, mesh: { axes } })), /all ranks together need|\[T/)
})

test('options that would wait for ever are refused', async () => {
  const refusal = await refusalOf(() => startEngine(program, { seed: 0.5, timeoutMs: Number.NaN, pool }))
  assert.match(refusal, /seed: 0.5 is not an integer/)
  assert.match(refusal, /timeoutMs: NaN is not between 0/)
})

later('programs with slips in them (seed 5) are refused, or run and stop: no crash, no hang', async () => {
  const counts = { refused: 0, ran: 0 }
  for (const slipped of fc.sample(damaged(text), { seed: 5, numRuns: 150 }))
    counts[(await survives(slipped)) ? 'ran' : 'refused']++
  assert.ok(counts.refused > 100 && counts.ran > 2, JSON.stringify(counts))
})

/** False: it was refused. Anything that is neither a refusal nor two steps is a failure. */
async function survives(slipped: string): Promise<boolean> {
  const engine = await Promise.resolve()
    .then(() => start(parse(slipped)))
    .catch((error: Error) => {
      assert.ok(error instanceof ProblemsError || error.name === 'RefusalError', `${error.stack}\n${slipped}`)
      return undefined
    })
  if (!engine) return false
  try {
    const data = syntheticData(inputsOf(parse(slipped)), 8, 1)
    for (const step of [0, 1]) await engine.step({ inputs: data(step), lr: 0.01, step })
    return true
  } finally {
    await engine.stop()
  }
}

test('a step says everything that is wrong with its data, and the next one goes on', async () => {
  const data = syntheticData(inputsOf(program), 8, 1)
  for (const kind of [...kernels, 'reference'] as const) {
    const trainer = await startTrainer(program, { seed: 1, measure: false, kernels: kind })
    const bad = (name: string) => data(0)(name).map((id, i) => (i === 3 ? (name === 'tokens' ? 8 : 1.5) : id))
    const refusal = await refusalOf(() => trainer.step({ inputs: bad, lr: Number.NaN, step: -1 }))
    assert.match(refusal, /lr: NaN is not a finite number of at least 0/)
    assert.match(refusal, /step: -1 is not an integer of at least 0/)
    assert.match(refusal, /inputs.tokens: 8 at 3 is outside vocab 8: ids are 0 to 7/)
    assert.match(refusal, /inputs.labels: 1.5 at 3 is outside vocab 8/)
    for (const lr of [-1, Number.POSITIVE_INFINITY])
      assert.match(await refusalOf(() => trainer.step({ inputs: data(0), lr, step: 0 })), /lr/)
    assert.match(await refusalOf(() => trainer.step({ inputs: data(0), lr: 0, step: 2.5 })), /step: 2.5/)
    const short = (name: string) => data(0)(name).subarray(1)
    assert.match(
      await refusalOf(() => trainer.step({ inputs: short, lr: 0, step: 0 })),
      /inputs.tokens: 63 values, not 64/,
    )
    const negative = (name: string) => data(0)(name).map(id => (name === 'tokens' ? -1 : id))
    const many = await refusalOf(() => trainer.step({ inputs: negative, lr: 0, step: 0 }))
    assert.match(many, /-1 at 0 \(and 63 more like it\) is outside vocab 8/)
    assert.ok(Number.isFinite((await trainer.step({ inputs: data(0), lr: 0.01, step: 0 })).loss))
    await trainer.stop()
  }
})

async function withGroup(ranks: number, use: (group: Group) => Promise<void>): Promise<void> {
  const group = await createGroup(ranks, { bytes: 1024, kernels: kernels[0], pool, timeoutMs: 5000 })
  try {
    await use(group)
  } finally {
    await group.stop()
  }
}

for (const [ranks, message] of [
  [0, /createGroup: ranks is 0, not an integer of at least 1/],
  [-3, /ranks is -3/],
  [2.5, /ranks is 2.5/],
  [Number.NaN, /ranks is NaN/],
  [1e6, /1000000 ranks, but a group has at most 1024/],
] as const)
  test(`a group of ${ranks} ranks is refused`, async () => {
    assert.match(await refusalOf(() => createGroup(ranks)), message)
  })

test('a group says everything that is wrong with its options', async () => {
  const refusal = await refusalOf(() => createGroup(0, { bytes: -1, timeoutMs: Number.NaN }))
  for (const part of [/ranks is 0/, /bytes is -1/, /timeoutMs is NaN/]) assert.match(refusal, part)
  assert.match(await refusalOf(() => createGroup(1024, { bytes: 2 ** 40 })), /but this machine has/)
  await assert.rejects(() => createGroup(2, { kernels: 'gpu' as 'native' }), /there are no gpu kernels/)
})

test('tensors that cannot be are refused', () =>
  withGroup(2, async group => {
    const made = (dtype: string, length: number) => refusalOf(() => group.tensor(dtype as 'f32', length))
    assert.match(await made('f32', -5), /length is -5/)
    assert.match(await made('f32', 2.5), /length is 2.5/)
    const both = await made('f8', Number.NaN)
    assert.match(both, /dtype is f8, not one of f32, f64, bf16, f16, i32, i8/)
    assert.match(both, /length is NaN/)
  }))

test('calls with forged tensors, ranks and counts are refused, all at once, and the group goes on', () =>
  withGroup(2, async group => {
    const [x, out, double] = [group.tensor('f32', 4), group.tensor('f32', 4), group.tensor('f64', 4)]
    const far: Tensor = { ...x, offset: 1e12 }
    const forged = [
      far,
      { ...x, offset: -64 },
      { ...x, offset: 2 },
      { ...x, length: 1e9 },
      { ...x, dtype: 'f8' as 'f32' },
    ]
    const calls: readonly [string, (tensor: Tensor) => unknown][] = [
      ['broadcast', tensor => group.broadcast(tensor)],
      ['scatter', tensor => group.scatter(tensor, tensor)],
      ['gather', tensor => group.gather(tensor, tensor)],
      ['reduce', tensor => group.reduce(tensor, out)],
      ['allGather', tensor => group.allGather(x, tensor)],
      ['reduceScatter', tensor => group.reduceScatter(tensor, out)],
      ['allReduce', tensor => group.allReduce(tensor)],
      ['allToAll', tensor => group.allToAll(tensor, out)],
      ['allToAllUneven', tensor => group.allToAllUneven(x, tensor, [])],
      ['sendRecv', tensor => group.sendRecv(tensor, out, { from: 0, to: 1 })],
      ['view', tensor => group.view(0, tensor)],
      ['view', tensor => group.read(0, tensor)],
      ['view', tensor => group.write(0, tensor, [1, 2, 3, 4])],
    ]
    for (const [name, call] of calls)
      for (const tensor of forged) assert.match(await refusalOf(() => call(tensor)), new RegExp(`error ${name}: `))
    const counts = (...rows: number[][]) => refusalOf(() => group.allToAllUneven(x, out, rows))
    assert.match(await counts([-1, 2], [1, 1.5]), /counts\[0\]\[0\] is -1[\s\S]*counts\[1\]\[1\] is 1.5/)
    assert.match(await counts([1, 1]), /counts must have 2 rows of 2/)
    const crowded = await counts([4, 1], [4, 0])
    assert.match(crowded, /member 0 has 4 elements, not 5 to send/)
    assert.match(crowded, /member 0 has room for 4 elements, not 8/)
    const mixed = await refusalOf(() => group.reduce(x, double, { root: 7, combine: 'median' as 'sum' }))
    for (const part of [/no member 7/, /combine is median, not one of sum/, /x is f32, but out is f64/])
      assert.match(mixed, part)
    const message = await refusalOf(() => group.sendRecv(x, double, { from: 0, to: 5 }))
    for (const part of [/x is f32, but out is f64/, /there is no rank 5/]) assert.match(message, part)
    assert.match(await refusalOf(() => group.sendRecv(x, out, { from: 1, to: 1 })), /rank 1 cannot send to itself/)
    const circle = await refusalOf(() => group.subgroup([0, 0, 9, 0.5]))
    for (const part of [/no rank 9/, /no rank 0.5/, /rank 0 is a member twice/]) assert.match(circle, part)
    assert.match(await refusalOf(() => group.subgroup([])), /a group needs a member/)
    assert.match(await refusalOf(() => group.write(0, x, [1])), /1 values for 4 elements/)
    for (const rank of [0, 1]) group.write(rank, x, [1, 2, 3, rank])
    await group.allReduce(x)
    assert.deepEqual(group.read(1, x), [2, 4, 6, 1])
  }))

/** Runs a body in a thread per rank, and gives what each reported. */
async function inThreads(bodies: readonly string[], timeoutMs: number): Promise<string[]> {
  const group = await createGroup(bodies.length, { bytes: 1024, kernels: kernels[0], threads: false, timeoutMs })
  const engine = new URL('../src/engine/native/index.js', import.meta.url).href
  const workers = bodies.map((body, rank) => {
    const source = `const { parentPort, workerData } = require('node:worker_threads')
      import(${JSON.stringify(engine)}).then(({ joinGroup }) => {
        const me = joinGroup(workerData.token, ${rank})
        try { ${body}; parentPort.postMessage('done') } catch (error) { parentPort.postMessage(error.message) }
      })`
    return new Worker(source, { eval: true, workerData: { token: group.token } })
  })
  const said = await Promise.all(workers.map(worker => new Promise<string>(resolve => worker.once('message', resolve))))
  await Promise.all(workers.map(worker => worker.terminate()))
  await group.stop()
  return said
}

test('ranks that both send first are named when the time they may wait is over', async () => {
  const body = (peer: number) => `me.send(me.tensor('f32', 2), ${peer})`
  const said = await inThreads([body(1), body(0)], 1000)
  assert.match(said.join('\n'), /rank \d is waiting for rank \d: it did not arrive in time/)
  for (const text of said) assert.match(text, /rank \d waits for rank \d/)
})

test('a send and a receive of different shapes are refused at both ends', async () => {
  const said = await inThreads([`me.send(me.tensor('f32', 100), 1)`, `me.recv(me.tensor('f32', 2), 0)`], 5000)
  for (const text of said) assert.match(text, /rank 0 sends f32\[100\], rank 1 takes f32\[2\]/)
  const types = await inThreads([`me.send(me.tensor('f32', 2), 1)`, `me.recv(me.tensor('i32', 2), 0)`], 5000)
  for (const text of types) assert.match(text, /rank 0 sends f32\[2\], rank 1 takes i32\[2\]/)
})

test('who joins a group that is not, or as a rank it does not have, is refused', async () => {
  const { token, stop } = await createGroup(2, { bytes: 1024, threads: false })
  assert.match(await refusalOf(() => joinGroup(token, 2)), /there is no rank 2 in a group of 2/)
  const forged: GroupToken = { ...token, heaps: [0, 1e12] }
  assert.match(await refusalOf(() => joinGroup(forged, 0)), /the token is not one of a group/)
  await stop()
})
