/** What goes wrong ends soon, everywhere, and says who, where and why. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { compileJob } from '../src/compile/index.js'
import { syntheticData } from '../src/engine/index.js'
import {
  commands,
  createGroup,
  EngineError,
  type EngineOptions,
  joinGroup,
  type LoweredProgram,
  opcodes,
  Pool,
  startEngine,
} from '../src/engine/native/index.js'
import { inputsOf } from '../src/geometry/index.js'
import type { Program } from '../src/ir/index.js'
import { later, test } from './families.js'
import { jobOf } from './jobs.js'

const pool = new Pool()
const folder = mkdtempSync(join(tmpdir(), 'lockstep-'))
after(async () => {
  await pool.close()
  rmSync(folder, { recursive: true })
})

const program = compileJob(jobOf('gpt', { dp: 2, pp: 2, microbatches: 2 }))
const given = (of: Program) => ({ inputs: syntheticData(inputsOf(of), 8, 1)(0), lr: 1e-3, step: 0 })
/** Long beside what ranks of a busy machine take to come to where they wait. */
const timeoutMs = 1500
const stuck = fileURLToPath(new URL('stuck-rank.js', import.meta.url))

/** A step that must fail; what it says, by rank. */
async function failure(options: Omit<EngineOptions, 'seed'>): Promise<EngineError> {
  const engine = await startEngine(program, { seed: 1, timeoutMs, pool, ...options })
  try {
    const step = engine.step(given(program))
    await assert.rejects(step, EngineError)
    await assert.rejects(engine.step(given(program)), EngineError, 'an engine that failed stays failed')
    return (await step.catch((error: unknown) => error)) as EngineError // rejected with it above
  } finally {
    await engine.stop()
  }
}

/** Replaces the first command of a rank that is called so. */
const replace =
  (rank: number, name: keyof typeof opcodes, word: number) =>
  ({ lists, listAt }: LoweredProgram, memory: SharedArrayBuffer) => {
    const { words, starts } = lists[rank]
    const start = starts.find(at => words[at] === opcodes[name])!
    new Float64Array(memory, listAt[rank], words.length)[start] = word
  }

test('a rank that never comes to a collective is waited for by name', async () => {
  const { message, ranks } = await failure({ tamper: replace(1, 'start', opcodes.end) })
  assert.equal(ranks[1].state, 'finished')
  assert.match(
    message,
    /rank 0 waiting in wait\w+ of step \d+ call reduce .*: \[0\] all-reduce of \d+ tensors, .*, waiting for rank 1/,
  )
})

test('a rank that never sends is waited for by its receiver', async () => {
  const { ranks } = await failure({ tamper: replace(0, 'send', opcodes.end) })
  assert.deepEqual([ranks[2].state, ranks[2].waitsFor], ['waiting', [0]])
  assert.match(ranks[2].text, /waitRecv of step \d+ wait F0/)
})

test('a rank that is stalled in the middle of its work is waited for by name', async () => {
  const sleeps = ({ lists, listAt, map }: LoweredProgram, memory: SharedArrayBuffer) => {
    const { words, starts } = lists[1]
    const list = new Float64Array(memory, listAt[1], words.length)
    const start = starts.find(at => [opcodes.matmul, opcodes.matmulWith].includes(words[at]))!
    list[start] = opcodes.waitRecv
    list[start + 2] = map.ranks[1].workspace // a message that nobody sends
    list[start + 3] = 1
    list[2 + commands.config.indexOf('timeoutMs')] = 60_000
  }
  const { ranks } = await failure({ tamper: sleeps })
  assert.match(ranks[1].text, /matmul\w* of step \d+ call layers\.F microbatch 0/)
  assert.ok(ranks.some(({ state, waitsFor }) => state === 'waiting' && waitsFor.includes(1)))
})

test('an engine that is stopped during a step ends it', async () => {
  const tamper = replace(1, 'start', opcodes.end)
  const engine = await startEngine(program, { seed: 1, timeoutMs: 60_000, pool, tamper })
  const step = engine.step(given(program))
  const stopped = new Promise(resolve => setTimeout(() => resolve(engine.stop()), 50))
  await assert.rejects(step, /the engine was stopped during the step/)
  await stopped
})

test('a command no kernel knows names its rank, and the others stop', async () => {
  const { message } = await failure({ tamper: replace(3, 'matmul', 4321), timeoutMs: 60_000 })
  assert.match(message, /^rank 3 failed: a command that no kernel implements/)
  assert.match(message, /rank 3 failed in matmul of step \d+ call/)
})

test('the flight record has the last commands of every rank', async () => {
  const path = join(folder, 'flight.txt')
  await failure({ tamper: replace(1, 'start', opcodes.end), flightRecord: path })
  const text = readFileSync(path, 'utf8')
  for (let rank = 0; rank < 4; rank++) assert.match(text, new RegExp(`^rank ${rank} `, 'm'))
  assert.match(text, / {4}\w+ of step \d+ call .*\n {2}> /)
})

test('a thread that dies mid-step ends the step', async () => {
  const own = new Pool()
  // Rank 1 is held up long enough to be ended while the others wait for it.
  const threads = own.take(4)
  own.give(threads)
  const engine = await startEngine(program, {
    seed: 1,
    timeoutMs: 60_000,
    pool: own,
    tamper: replace(1, 'start', opcodes.end),
  })
  const step = engine.step(given(program))
  setTimeout(() => void threads[1].end(), 50)
  await assert.rejects(step, /rank 1 failed: its thread exited[\s\S]*rank 0 waiting in .*waiting for rank 1/)
  await engine.stop()
  await own.close()
})

later('a rank that does not come back from native code is left behind, and the process can end', () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [stuck], { encoding: 'utf8', timeout: 60_000 })
  assert.equal(status, 7, stderr)
  const [failed, stopped, again] = stdout.trim().split('\n')
  assert.match(failed, /^nothing moved for/)
  assert.ok(Number(stopped) < 3000, `stopping took ${stopped} ms`)
  assert.equal(again, 'goes on')
})

test('a rank that needs more memory than it may have is named before anything starts', async () => {
  await assert.rejects(
    startEngine(program, { seed: 1, memoryLimit: 1000 }),
    /rank 0 needs .* \(parameters .*, gradients .*\), but the limit is 1000 B; the largest category is \w+: try /,
  )
})

test('data of the wrong size is refused', async () => {
  const engine = await startEngine(program, { seed: 1, pool })
  await assert.rejects(engine.step({ ...given(program), inputs: () => [1] }), /inputs.tokens: 1 values, not 64/)
  await engine.stop()
})

test('two steps at once are refused, and the first goes on', async () => {
  const engine = await startEngine(program, { seed: 1, pool })
  const first = engine.step(given(program))
  await assert.rejects(engine.step(given(program)), /a step is under way/)
  assert.ok((await first).loss > 0)
  await engine.stop()
  await assert.rejects(engine.step(given(program)), /the engine was stopped/)
})

test('a group whose member does not come says who waits for whom', async () => {
  const { token } = await createGroup(3, { timeoutMs: 100, threads: false })
  const me = joinGroup(token, 1)
  assert.throws(() => me.barrier(), /rank 1 is waiting for rank 0: it did not arrive in time/)
})

test('a member that died fails the collective of all', async () => {
  const own = new Pool()
  const threads = own.take(2)
  own.give(threads)
  const group = await createGroup(2, { timeoutMs: 60_000, pool: own })
  await threads[1].end()
  await assert.rejects(group.barrier(), /a collective failed: rank 1 is dead/)
  await group.stop()
  await own.close()
})
