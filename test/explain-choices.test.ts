/**
 * What `explain` says that choices cost: a line for each, of the same plan with and without it. The figures are those of two simulations or two
 * estimates, which the last tests do by hand.
 */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { finish } from '../src/base/index.js'
import { choiceCells } from '../src/cli/text/choice-text.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { estimate, placedOf } from '../src/estimate/index.js'
import { Job, type JobInput, worldOfPlan } from '../src/plan/index.js'
import {
  type ChoiceName,
  choiceNames,
  isPriced,
  type JudgedChoice,
  noteSentences,
  pricingChoices,
  showSentence,
} from '../src/search/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { family, test } from './families.js'
import { lockstep } from './memory-io.js'

const model = { family: 'llama', layers: 2, embed: 1024, heads: 8, kvHeads: 8, ffn: 4096, vocab: 16384 } as const

type Given = Pick<Partial<JobInput>, 'plan'> & { readonly training?: object }

const jobOf = ({ training, plan }: Given): Job =>
  Job.parse({
    model,
    training: { seq: 1024, globalBatch: 8, ...training },
    plan: { dp: 2, zero: 1, microbatches: 2, precision: 'bf16', ...plan },
  })

const clusterFor = (job: Job) => clusterOf('h100', worldOfPlan(job.plan))

const judgedOf = (job: Job, names: readonly ChoiceName[] = choiceNames): JudgedChoice[] =>
  finish(pricingChoices(job, clusterFor(job), names))

/** Choice, instead of, step, share of it, memory, bytes a parameter with it (without), sent, moved. */
const costs: readonly (readonly [ChoiceName, Given, string])[] = [
  ['precision', {}, 'precision bf16 | f32 | -28.2 ms | -86.4 % | -304.00 MiB | +2 | -128.01 MiB | '],
  [
    'precision',
    { plan: { precision: 'pure-bf16' } },
    'precision pure-bf16 | f32 | -28.7 ms | -87.8 % | -720.03 MiB | -8 | -256.02 MiB | ',
  ],
  [
    'gradients',
    { plan: { gradients: 'bf16' } },
    'gradients bf16 | f32 | -250 us | -5.6 % | -160.01 MiB | -2 | -128.01 MiB | ',
  ],
  [
    'lossScale',
    { training: { lossScale: { kind: 'torch' } } },
    'lossScale torch | none | +120 us | +2.7 % | +192 B | 0 |  | ',
  ],
  ['fp8', { plan: { fp8: {} } }, 'fp8 current | none | +1.23 ms | +27.7 % | +12.00 MiB | 0 | +176 B | '],
  ['fp8', { plan: { fp8: { recipe: 'blocks' } } }, 'fp8 blocks | none | -319 us | -7.2 % | +12.88 MiB | 0 |  | '],
  [
    'optimizer',
    { training: { optimizer: { kind: 'lion', lr: 0.001 } } },
    'optimizer lion | adamw | -94.3 us | -2.1 % | -128.01 MiB | -4 |  | ',
  ],
  [
    'optimizer',
    { training: { optimizer: { kind: 'muon', lr: 0.001 } } },
    'optimizer muon | adamw | +1.51 ms | +33.8 % | -64.00 MiB | -4 | +128.00 MiB | ',
  ],
  [
    'optimizer',
    { training: { optimizer: { kind: 'adafactor', lr: 0.001 } } },
    'optimizer adafactor | adamw | +1.10 ms | +24.8 % | -255.70 MiB | -8 | +320.23 KiB | ',
  ],
  ['ema', { training: { ema: {} } }, 'ema kept | none | +115 us | +2.6 % | +128.01 MiB | +4 |  | '],
  [
    'offload.optimizer',
    { plan: { offload: { optimizer: 'host' } } },
    'offload.optimizer host | device | +13.9 ms | +313.6 % | -384.03 MiB | 0 |  | +192.01 MiB',
  ],
  [
    'offload.optimizer',
    { plan: { offload: { optimizer: 'disk' } } },
    'offload.optimizer disk | device | +127 ms | +2859.5 % | -384.03 MiB | 0 |  | +960.07 MiB',
  ],
  [
    'offload.parameters',
    { plan: { zero: 3, offload: { parameters: 'host' } } },
    'offload.parameters host | device | +3.29 ms | +70.5 % | -32.00 MiB | 0 |  | +256.02 MiB',
  ],
  [
    'offload.activations',
    { plan: { offload: { activations: 'layer-inputs' } } },
    'offload.activations layer-inputs | none | +38.5 us | +0.9 % | 0 | 0 |  | +16.00 MiB',
  ],
  [
    'compress.reduce',
    { plan: { compress: { reduce: 'bf16' } } },
    'compress.reduce bf16 | none | +30.5 us | +0.7 % | 0 | 0 | -128.01 MiB | ',
  ],
  [
    'compress.reduce',
    { plan: { compress: { reduce: 'int8' } } },
    'compress.reduce int8 | none | +13.0 us | +0.3 % | 0 | 0 | -191.01 MiB | ',
  ],
  [
    'compress.reduce',
    { plan: { compress: { reduce: 'powersgd' } } },
    'compress.reduce powersgd | none | +2.10 ms | +47.3 % | +336.97 MiB | +4 | -254.75 MiB | ',
  ],
  [
    'compress.gather',
    { plan: { zero: 3, compress: { gather: 'int8' } } },
    'compress.gather int8 | none | +385 us | +8.2 % | -7.63 MiB | 0 | -189.02 MiB | ',
  ],
  ['recompute', { plan: { recompute: 'full' } }, 'recompute full | none | +953 us | +21.4 % | -156.13 MiB | 0 |  | '],
]

const tested = family('explain', 4)
for (const [name, given, line] of costs)
  tested(`explain: ${line}`, () => {
    const [found] = judgedOf(jobOf(given), [name])
    ok(isPriced(found) && found.taken && found.simulated)
    equal(choiceCells(found).slice(0, 8).join(' | '), line)
  })

test('every choice has a line', () =>
  deepEqual(
    choiceNames.filter(name => !costs.some(([of]) => of === name)),
    [],
  ))

test('what a job has is simulated with and without it, each as its own program', () => {
  const job = jobOf({ training: { ema: {} } })
  const [found] = judgedOf(job, ['ema'])
  ok(isPriced(found))
  for (const [cost, ema] of [
    [found.with, {}],
    [found.without, undefined],
  ] as const) {
    const program = compileJob(jobOf({ training: { ema } }))
    const { step, memory } = simulate(program, clusterPrices(program, clusterFor(job)), { watch: [] })
    deepEqual([cost.step, cost.bytes], [step, memory.arena])
  }
})

test('what a job has not is estimated, and what check or the device refuses says why', () => {
  const job = jobOf({ plan: { zero: 3 } })
  const judged = judgedOf(job, ['compress.gather', 'offload.activations', 'fp8'])
  ok(judged.every(one => !one.taken))
  for (const one of judged.filter(isPriced))
    equal(one.without.step, estimate({ ...placedOf(job)!, cluster: clusterFor(job) }).step)
  const [refused] = judgedOf(jobOf({ plan: { precision: 'f16' }, training: { lossScale: 1024 } }), ['lossScale'])
  ok(!isPriced(refused))
  match(showSentence(refused.why), /lossScale|scale/)
  const [onOld] = finish(pricingChoices(jobOf({ plan: { precision: 'f32' } }), clusterOf('v100', 2), ['fp8']))
  ok(!isPriced(onOld))
  match(showSentence(onOld.why), /FP8/)
})

test('explain prices a job by what it stores and updates: its own bytes of state, and choices in its JSON', async () => {
  const text = (precision: string, optimizer: string) =>
    `{ model: { family: llama, layers: 2, embed: 512, heads: 8, ffn: 1024, vocab: 4096 }, training: { seq: 512, globalBatch: 2, optimizer: { kind: ${optimizer}, lr: 1e-3 } }, plan: { dp: 2, precision: ${precision} } }`
  for (const [precision, optimizer, bytes] of [
    ['f32', 'adamw', 16],
    ['pure-bf16', 'adamw', 8],
    ['bf16', 'lion', 14],
  ] as const) {
    const files = { 'job.yaml': text(precision, optimizer) }
    const { out } = await lockstep(['explain', 'job.yaml', '--cluster', 'h100', '--json'], files)
    const { reading, choices, plan } = JSON.parse(out)
    match(reading[0].text, new RegExp(`parameters x ${bytes} bytes of state`))
    equal(plan.precision, precision)
    deepEqual(
      choices.filter((one: JudgedChoice) => one.taken).map((one: JudgedChoice) => one.chosen),
      [precision, optimizer].filter(word => word !== 'f32' && word !== 'adamw'),
    )
  }
})

test('compression that makes a step longer over NVLink is noted with both times, and not over a slow network', () => {
  const job = jobOf({ plan: { compress: { reduce: 'powersgd' } } })
  const notesOn = (cluster: ReturnType<typeof clusterFor>) => {
    const choices = finish(pricingChoices(job, cluster, ['compress.reduce']))
    return noteSentences({ job, simulated: false, choices }).map(showSentence)
  }
  const fast = clusterFor(job)
  match(
    notesOn(fast).join(),
    /^compress.reduce powersgd makes the step slower on these links: 6\.\d+ ms instead of 4\.\d+ ms \(\+4\d\.\d %, both simulated\)/,
  )
  const { topology } = fast
  ok(topology.kind === 'tree')
  const levels = topology.levels.map(level => ({
    ...level,
    link: { ...level.link, bandwidth: level.link.bandwidth / 200 },
  }))
  deepEqual(notesOn({ ...fast, topology: { ...topology, levels } }), [])
})
