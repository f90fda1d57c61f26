/** The cause of each of twelve sick runs is named, most important first; healthy runs are left alone. */
import { deepEqual, ok } from 'node:assert/strict'
import { describe } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { withOthers } from '../src/doctor/diagnose.js'
import { diagnose } from '../src/doctor/index.js'
import { splitOf } from '../src/estimate/index.js'
import { type EventKind, stepOf } from '../src/health/index.js'
import { jobOf, neighboursOf, priceOf, requestOfJob, showSentence } from '../src/search/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { family, test } from './families.js'
import { type Illness, runOf } from './sick-runs.js'

const moe = { experts: 8, topK: 2, ffn: 1792 }
const scaler = { kind: 'megatron', initial: 65536, min: 1, hysteresis: 1 }

const sick: Readonly<Record<string, readonly [EventKind, Illness]>> = {
  'too small microbatches': [
    'microbatches',
    {
      model: { embed: 1024, heads: 8, ffn: 3584 },
      training: { seq: 256, globalBatch: 256 },
      plan: { microbatches: 128 },
    },
  ],
  'network bound': ['network', { model: { embed: 1024, heads: 16, kvHeads: 16, ffn: 3584 }, plan: { dp: 1, tp: 16 } }],
  'bubble bound': ['bubble', { training: { globalBatch: 8 }, plan: { dp: 1, tp: 2, pp: 4, microbatches: 4 } }],
  'memory thrash': [
    'memory',
    { lines: step => ({ allocationRetries: 2 * step, peakBytes: 79 * 2 ** 30, seconds: 3 }) },
  ],
  straggler: ['straggler', { slowRank: [5, 1.3] }],
  'divergence by lr': ['diverges', { lines: step => (step < 20 ? {} : { loss: 3 + (step - 20) / 5, lr: 3e-2 }) }],
  'stuck scaler': [
    'scaleStuck',
    { training: { lossScale: scaler }, plan: { precision: 'f16' }, lines: () => ({ scale: 1 }) },
  ],
  'imbalanced experts': [
    'imbalance',
    {
      model: { moe },
      plan: { ep: 2 },
      lines: () => ({ experts: { layer: 'layers.3', busiest: 5.1, idle: 3, busiestRank: 1.7 } }),
    },
  ],
  'data loader bound': ['dataLoader', { lines: (_, { seconds }) => ({ loading: seconds, seconds: 2 * seconds }) }],
  'wrong order of axes': ['axisOrder', { plan: { dp: 4, tp: 4, rankOrder: 'dp-tp-cp-ep-pp' } }],
  'one slow link': ['slowLink', { slowLink: [1, 6] }],
  'repeated data': ['dataRepeats', { lines: () => ({ repeated: 24, globalBatch: 64 }) }],
}

describe('sick runs', () => {
  const testSome = family('doctor: faults', 4)
  for (const [name, [cause, illness]] of Object.entries(sick))
    testSome(name, () => {
      const { findings } = diagnose(runOf(illness))
      ok(
        findings.some(({ event }) => event === cause),
        JSON.stringify(findings.map(({ event, message }) => [event, message])),
      )
    })
})

test('a change that is named for a bubble or for the network was simulated: it saves what it says, and the bubble shrinks', () => {
  const cases = [
    { training: { globalBatch: 8 }, plan: { dp: 1, tp: 2, pp: 4, microbatches: 4 } },
    { training: { globalBatch: 16 }, plan: { dp: 2, tp: 1, pp: 4, microbatches: 4, zero: 0 } },
    { model: { embed: 1024, heads: 16, kvHeads: 16, ffn: 3584 }, plan: { dp: 1, tp: 16 } },
  ]
  let checked = 0
  for (const illness of cases) {
    const patient = runOf(illness)
    const { job, program, cluster } = patient
    const simulated = (of: typeof program) => simulate(of, clusterPrices(of, cluster!), { watch: [] })
    const before = simulated(program)
    const request = requestOfJob(job, cluster!)
    const neighbours = neighboursOf(request, priceOf(request, splitOf(job, '1f1b')))
    for (const { event, message, numbers, advice = '' } of diagnose(patient).findings) {
      const label = /try (.*): -\d+ %/.exec(advice)?.[1]
      const next = neighbours.find(({ move }) => showSentence(move.change) === label)?.plan
      if ((event !== 'bubble' && event !== 'network') || !next) continue
      const { rankOrder, overlap } = job.plan
      const { plan, ...rest } = jobOf(request, next.split)
      const after = simulated(compileJob({ ...rest, plan: { ...plan, rankOrder, overlap } }))
      ok(Math.abs(1 - after.step / before.step - (numbers.gain as number)) < 1e-3, message)
      if (event === 'bubble') ok(after.parts.bubble / after.step < before.parts.bubble / before.step, message)
      checked++
    }
  }
  ok(checked >= 2, `${checked}`)
})

const healthy = [
  {},
  { dp: 8, tp: 1, microbatches: 8 },
  { dp: 4, tp: 2, microbatches: 16 },
  { dp: 8, tp: 2, microbatches: 8 },
  { dp: 2, tp: 2, pp: 2, microbatches: 32, layers: [9, 7] },
]

describe('healthy runs', () => {
  const testSome = family('doctor: sound runs', 10)
  for (const plan of healthy)
    for (const steps of [10, 40, 100, 200])
      testSome(`${JSON.stringify(plan)}, ${steps} steps`, () =>
        deepEqual(
          diagnose(runOf({ plan, steps })).findings.map(({ message }) => message),
          [],
        ),
      )
})

test('collectives of a run whose cores others had are no complaint', () => {
  const steps = (cpu: number) => {
    const line = stepOf({
      step: 1,
      loss: 1,
      seconds: 1,
      cpu,
      ranks: {
        ...{ seconds: 1, compute: [0.6, 0.6], busy: [0.6, 0.6] },
        ...{ waiting: [0.4, 0.4], late: [0, 0], network: {} },
      },
    })
    return Array.from({ length: 12 }, () => line!)
  }
  const network = { step: 0, event: 'network', severity: 'warning', message: '', numbers: {} } as const
  const bubble = { ...network, event: 'bubble' } as const
  deepEqual(
    [1.4, 0.5].map(cpu => withOthers([network, bubble], steps(cpu)).map(({ severity }) => severity)),
    [
      ['warning', 'warning'],
      ['note', 'warning'],
    ],
  )
})
