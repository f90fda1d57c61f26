/** Traces keep to the rules of their format: simulated and measured steps, several of them, and two programs in one file. */
import { deepEqual, ok } from 'node:assert/strict'
import { seconds } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { batchAt } from '../src/data/index.js'
import { startTrainer } from '../src/engine/index.js'
import type { PlanInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { chromeEvents, printEvents, type Span } from '../src/trace/index.js'
import { syntheticOf } from '../src/train/index.js'
import { family, test } from './families.js'
import { jobOf } from './jobs.js'
import { brokenRules, type TraceEvent } from './trace-rules.js'

const events = (given: readonly object[]): TraceEvent[] => JSON.parse(printEvents(given as never)).traceEvents // as a reader finds them

const named = { ph: 'M', name: 'process_name', pid: 1, args: { name: 'rank 0' } }
const thread = { ph: 'M', name: 'thread_name', pid: 1, tid: 65, args: { name: 'compute' } }
const slice = { ph: 'X', name: 'a', pid: 1, tid: 65, ts: 1, dur: 2 }
const broken: readonly (readonly [string, readonly TraceEvent[]])[] = [
  ['takes no time', [{ ...slice, dur: 0 }]],
  ['overlaps', [slice, { ...slice, ts: 2, dur: 2 }]],
  ['no name', [{ ...slice, tid: 66 }]],
  ['a thread of two processes', [slice, { ...slice, ts: 5, pid: 2 }, { ...named, pid: 2 }]],
  ['in no slice', [slice, { ph: 's', cat: 'm', id: 1, name: 'x', pid: 1, tid: 65, ts: 9 }]],
  ['never ends', [{ ph: 'b', cat: 'm', id: 1, name: 'x', pid: 1, ts: 1 }]],
  ['back in time', [5, 4].map(ts => ({ ph: 'C', name: 'memory', pid: 1, ts, args: { all: 1 } }))],
]
for (const [rule, wrong] of broken)
  test(`a trace that breaks a rule is found: ${rule}`, () => {
    const found = brokenRules([named, thread, ...wrong])
    ok(
      found.some(one => one.startsWith(rule)),
      found.join('\n'),
    )
  })

const plans: readonly PlanInput[] = [
  { pp: 2, dp: 2, zero: 1, microbatches: 2 },
  { tp: 2, dp: 2, zero: 3 },
  { pp: 2, tp: 2, sequenceParallel: true, schedule: 'interleaved', chunks: 2, microbatches: 4 },
]

const simulated = family('traces', plans.length)
for (const plan of plans)
  simulated(`simulated twice in one file: ${JSON.stringify(plan)}`, () => {
    const program = compileJob(jobOf('gpt', plan))
    const ranks = [0, 1, 2, 3]
    const { spansOf, step } = simulate(program, clusterPrices(program, clusterOf('h100', 4)), { watch: ranks })
    const once = ranks.flatMap(spansOf)
    const later = (span: Span): Span => ({ ...span, start: seconds(span.start + step), end: seconds(span.end + step) })
    const first = chromeEvents(program, [...once, ...once.map(later)], { word: 'predicted' })
    const both = events([...first, ...chromeEvents(program, once, { first: 5, word: 'measured' })])
    deepEqual(brokenRules(both).slice(0, 3), [])
    const has = (ph: string, cat?: string) =>
      both.some(event => event.ph === ph && (cat === undefined || event.cat === cat))
    ok(has('s', 'collective') && has('C') && both.some(({ name }) => name === 'network (GB/s)'))
    ok(plan.pp === undefined || has('s', 'message'))
  })

test('measured on the engine', async () => {
  const job = jobOf('gpt', { pp: 2, dp: 2, zero: 1, microbatches: 2 })
  const program = compileJob(job)
  const data = syntheticOf(job)
  const trainer = await startTrainer(program, { kernels: 'auto', seed: 1, measure: true })
  try {
    const spans: Span[] = []
    for (let step = 0; step < 2; step++) {
      await trainer.step({ inputs: batchAt(data.train, job.training, step), lr: 1e-3, step })
      spans.push(...trainer.spans)
    }
    deepEqual(brokenRules(events(chromeEvents(program, spans))).slice(0, 3), [])
  } finally {
    await trainer.stop()
  }
})
