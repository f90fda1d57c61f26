/**
 * Data parallelism: flights are drawn, ZeRO on any number of ranks computes what one rank computes, its parts add up to
 * hardly more than the whole, and a checkpoint of one dp is read by any other.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { coordinatesOf, heldElements, localDims, worldOf } from '../src/base/index.js'
import { loadCheckpoint, printCheckpoint, readCheckpoint } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { boot, dataFor } from '../src/engine/index.js'
import { type DataCall, type DataPolicy, planFlights } from '../src/schedule/index.js'
import { family, later, test } from './families.js'
import { computesWhatOneRankComputes, jobOf, optionsOf } from './jobs.js'

const counts = [3, 6, 7, 10, 24, 48]

/** `F0` reads the parameters of block 0, `B0` reads them and makes their gradients. Every block has one, of 10 bytes. */
function draws(calls: string, policy: Partial<DataPolicy>, picture: string): void {
  const names = calls.split(' ')
  const all = names.map((name): DataCall => {
    const param = `p${name.slice(1)}`
    return { reads: [param], makes: name.startsWith('B') ? [param] : [] }
  })
  const usual: DataPolicy = { gather: 'never', reduce: 'never', bucket: 10, prefetch: 1, waits: false }
  const plan = planFlights(all, { ...usual, ...policy }, () => 10)
  const show = (events: typeof plan.begin) =>
    events.map(({ event, flight }) => {
      const sign = { lift: '^', start: flight.kind === 'gather' ? '<' : '>', wait: '.', add: '+' }[event]
      return `${sign}${flight.params.map(param => param.slice(1)).join('')}`
    })
  const drawn = names.flatMap((name, i) => [...show(plan.before[i]), name, ...show(plan.after[i])])
  equal([...show(plan.begin), ...drawn, ...show(plan.end)].join(' '), picture)
}

test('ZeRO 0: a gradient leaves with the last backward that adds to it', () =>
  draws('F0 F1 B1 B0 F0 F1 B1 B0', { reduce: 'step' }, 'F0 F1 B1 B0 F0 F1 B1 >1 B0 >0 .1 .0'))

test('buckets of 20 bytes hold two blocks', () =>
  draws('F0 F1 F2 B2 B1 B0', { reduce: 'step', bucket: 20 }, 'F0 F1 F2 B2 B1 >21 B0 >0 .21 .0'))

test('ZeRO 1: gathers leave at the start, and are waited for by whoever reads first', () =>
  draws('F0 F1 B1 B0', { gather: 'step', reduce: 'step' }, '<0 <1 .0 F0 .1 F1 B1 >1 B0 >0 .1 .0'))

test('ZeRO 3: one block ahead; what the call before read is still there', () =>
  draws('F0 F1 B1 B0', { gather: 'use' }, '<0 .0 <1 F0 .1 <0 F1 B1 .0 B0'))

test('ZeRO 3: two blocks ahead', () =>
  draws('F0 F1 F2 F3', { gather: 'use', prefetch: 2 }, '<0 .0 <1 <2 F0 .1 <3 F1 .2 F2 .3 F3'))

test('ZeRO 2: what a call makes travels until the next has left', () =>
  draws('F0 F1 B1 B0', { reduce: 'call' }, 'F0 F1 B1 >1 B0 >0 .1 +1 .0 +0'))

test('without overlap everything is waited for at once', () => {
  draws(
    'F0 F1 B1 B0',
    { gather: 'use', reduce: 'call', waits: true },
    '<0 .0 F0 <1 .1 F1 B1 >1 .1 +1 <0 .0 B0 >0 .0 +0',
  )
  draws('F0 B0', { gather: 'step', reduce: 'step', waits: true }, '<0 .0 F0 B0 >0 .0')
})

const jobFor = (dp: number, zero: number) => jobOf('llama tied', { dp, zero, microbatches: 2 }, { globalBatch: 2 * dp })

const many = family('ZeRO and data parallelism', 12)
for (const zero of [1, 2, 3])
  for (const dp of counts) {
    const tested = dp > 6 ? many : test
    tested(`ZeRO ${zero} on ${dp} ranks computes what one rank computes`, () =>
      computesWhatOneRankComputes(jobFor(dp, zero)),
    )
  }

test('parts of all ranks hold every element, and fewer zeros behind them than there are ranks', () => {
  for (const dp of counts) {
    const { mesh, params } = compileJob(jobFor(dp, 3))
    for (const { dims, state } of params) {
      const local = localDims(mesh, dims, state)
      const whole = local.reduce((n, { size }) => n * size, 1)
      const all = dp * heldElements(mesh, local, state)
      ok(all >= whole && all - whole < dp, `${all} for ${whole} elements on ${dp} ranks`)
    }
  }
})

later('a checkpoint of one dp is read by every other, to the bit', () => {
  const run = '00000000-0000-4000-8000-000000000000'
  const job = jobOf('gpt', { dp: 6, zero: 1 }, { globalBatch: 48 })
  const program = compileJob(job)
  const options = optionsOf(job)
  const { seed } = options
  const trained = boot(program, { seed })
  trained.step({ inputs: dataFor(program, options)(0), lr: 0.01, step: 0 })
  const files = new Map(printCheckpoint(program, { run, job, step: 1, seed }, shard => trained.held(shard)))
  const bytesOf = (content: string | Uint8Array) =>
    typeof content === 'string' ? new TextEncoder().encode(content) : content
  const checkpoint = readCheckpoint((file, begin, end) => bytesOf(files.get(file)!).subarray(begin, end))
  for (const [dp, zero] of counts.map((dp, i) => [dp, 1 + (i % 3)] as const)) {
    const other = compileJob(jobOf('gpt', { dp, zero }, { globalBatch: dp }))
    const runner = boot(other, { seed: seed + 1 })
    deepEqual(
      loadCheckpoint(other, checkpoint, 'everything', (shard, values) => runner.hold(shard, values)),
      [],
    )
    for (const { name } of program.params) {
      deepEqual(runner.parameter(name), trained.parameter(name), `${name}, ZeRO ${zero} on ${dp} ranks`)
      deepEqual(runner.states(name), trained.states(name))
    }
    equal(coordinatesOf(other.mesh, worldOf(other.mesh) - 1).dp, dp - 1)
  }
})
