/** What searches say, code by code: every one has words, made of all its values. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { eventKinds } from '../src/health/index.js'
import {
  problemCodes,
  type Sentence,
  type SentenceCode,
  type SentenceValues,
  sentences,
  showSentence,
} from '../src/index.js'
import { eventTitlesZh, eventZh } from '../studio/text/events.zh.js'
import { glossary } from '../studio/text/glossary.js'
import { problemTitlesZh, problemZh } from '../studio/text/problems.zh.js'
import { sentenceZh } from '../studio/text/sentences.zh.js'

const GiB = 2 ** 30
const state = { parameters: 8.03e9, each: 18, bytes: 135 * GiB }
const node = { tp: 8, node: 'node', size: 8, link: 'nvlink4', sequenceParallel: true }
const shared = { ep: 8, experts: 64 }

/** Values for each code, and what is then printed. */
const said: { readonly [Code in SentenceCode]: readonly [values: SentenceValues[Code], english: string] } = {
  'fit/one-device': [state, '8.03 B parameters x 18 bytes of state = 135.00 GiB: fits on one device'],
  'fit/shared': [
    { ...state, devices: 2 },
    '8.03 B parameters x 18 bytes of state = 135.00 GiB: needs at least 2 devices',
  ],
  'tp/none': [{}, 'no tensor parallelism: no layer is split'],
  'tp/torus': [{ tp: 4, sequenceParallel: false }, 'tp 4 along the torus'],
  'tp/within-node': [node, 'tp 8 stays within the node of 8 (nvlink4), with sequence parallelism'],
  'tp/across-nodes': [{ ...node, tp: 16 }, 'tp 16 extends beyond the node of 8 (nvlink4), with sequence parallelism'],
  'cp/cut': [
    { cp: 4, tokens: 131072, each: 32768, across: 'node', attention: 'ring' },
    'cp 4 shards 131072 tokens into 32768 per rank, across nodes, attention ring',
  ],
  'ep/busiest': [
    { ...shared, times: 1.5 },
    'ep 8 shards 64 experts, 8 per rank; the busiest rank has 1.5 times the average',
  ],
  'ep/even': [shared, 'ep 8 shards 64 experts, 8 per rank; estimated for a balanced load'],
  'ep/all-rows': [
    { ...shared, times: 8 },
    'ep 8 shards 64 experts, 8 per rank; buffers for the worst case, 8 times a balanced load',
  ],
  'ep/every-row': [{ ep: 1, experts: 64 }, 'experts are not sharded; every rank has buffers for the worst case'],
  'ep/priced': [
    { ...shared, times: 2, rows: 2, worst: 8 },
    'ep 8 shards 64 experts, 8 per rank; estimated with 2 times a balanced load (expertCapacity: 2); a step above that stops before its update, expertCapacity: worst allows 8',
  ],
  'pp/none': [{}, 'no pipeline: every rank has all layers'],
  'pp/zero': [{}, 'no pipeline: ZeRO-3 shards the parameters instead'],
  'pp/shared': [
    { pp: 4, layers: 32, chunks: 2, schedule: 'interleaved', ends: { first: 7, last: 0 } },
    'pp 4 splits the 32 layers (first 7, last none), 2 virtual stages per rank, interleaved',
  ],
  'dp/none': [{}, 'no data parallelism: all devices hold one model'],
  'dp/context': [{ zero: 1 }, 'no data parallelism; the cp ranks shard instead (ZeRO 1)'],
  'dp/copies': [{ dp: 8, zero: 2 }, 'dp 8 replicas for throughput, gradients sharded too (ZeRO 2)'],
  'batch/shared': [
    { batch: 32, dp: 8, share: 4, microbatches: 2, microbatch: 2, bubble: 0.123 },
    '32 sequences / dp 8 = 4 = 2 microbatches of 2; the bubble takes 12.3 % of the step',
  ],
  'memory/spare': [
    { bytes: 70 * GiB, left: 3 * GiB, recompute: 'selective' },
    '70.00 GiB per rank, 3.00 GiB free; attention is recomputed',
  ],
  'memory/over': [
    { bytes: 80 * GiB, over: 7 * GiB, recompute: 'none' },
    '80.00 GiB per rank, 7.00 GiB too much; no recomputation',
  ],
  'fits-if/little-more': [{ share: 0.043 }, 'actual use is less than 4.3 % above the estimate'],
  'fits-if/little-fragmentation': [
    { share: 0.025, reserved: 0.05 },
    'fragmentation stays below 2.5 % of the memory (5.0 % is reserved)',
  ],
  'fits-if/small-context': [
    { bytes: 2 * GiB, reserved: 7 * GiB },
    'context and fragmentation stay below 2.00 GiB (7.00 GiB is reserved)',
  ],
  'fits-if/less': [{ share: 0.024 }, 'actual use is at least 2.4 % below the estimate'],
  'move/mesh': [{ more: 'tp', less: 'dp', by: 2 }, 'tp x2, dp /2'],
  'move/microbatch': [{ microbatch: 4 }, 'microbatch 4'],
  'move/zero': [{ zero: 3, reduce: 'step', gather: 'step' }, 'zero 3, reduce step, gather step'],
  'move/recompute': [{ recompute: 'full' }, 'recompute full'],
  'move/sequence-parallel': [{ on: false }, 'sequence parallel off'],
  'move/attention': [{ meeting: 'ulysses 2 x ring 4' }, 'attention ulysses 2 x ring 4'],
  'move/rows': [{ rows: 'worst' }, 'expertCapacity worst'],
  'move/schedule': [{ schedule: 'interleaved', chunks: 4 }, 'interleaved, 4 chunks'],
  'move/layers': [{ first: 5, last: 0 }, 'layers first 5, last none'],
  'move/layers-even': [{}, 'layers even'],
  'move/several': [
    {
      changes: [
        { code: 'move/mesh', values: { more: 'pp', less: 'dp', by: 2 } },
        { code: 'move/layers', values: { first: 5, last: 0 } },
      ],
    },
    'pp x2, dp /2, layers first 5, last none',
  ],
  'verdict/same': [{}, 'no change'],
  'verdict/slower': [{ by: 0.032 }, '3.2 % slower'],
  'verdict/faster': [{ by: 0.25 }, '25.0 % faster'],
  'verdict/may-not-fit': [{ chance: 0.42 }, 'may not fit (42%)'],
  'verdict/unfit': [{}, 'does not fit'],
  'verdict/unwanted': [{}, 'excluded by constraint'],
  'verdict/impossible': [{}, 'impossible'],
  'reason/changes': [
    {
      changes: [
        { part: 'bubble', seconds: 0.012 },
        { part: 'dp', seconds: -0.5 },
      ],
    },
    'bubble +12.0 ms, dp communication -500 ms',
  ],
  'reason/shifted': [
    { from: 'recompute', to: 'tp', seconds: 0.368 },
    'the 368 ms saved in recompute are spent waiting: tp communication',
  ],
  'reason/memory': [
    { bytes: 90 * GiB, over: 17 * GiB, grew: 'activations' },
    'needs 90.0 GiB, 17.0 GiB too much (activations)',
  ],
  'reason/constraint': [{ constraint: 'tp<=2' }, 'tp<=2'],
  'reason/refused': [
    {
      problem: {
        severity: 'error',
        code: 'plan/indivisible',
        path: 'plan.tp',
        message: 'heads = 12 cannot be split by 5',
        suggestion: 'try 4',
        phrase: 'plan/indivisible',
        values: { what: 'heads', size: 12, tp: 5, near: 4 },
      },
    },
    'heads = 12 cannot be split by 5; try 4',
  ],
  'reason/batch': [{ batch: 6, dp: 4 }, 'a batch of 6 is not divisible by dp 4'],
  'reason/stages': [{ layers: 12, stages: 16 }, '12 layers do not fill 16 stages'],
  'reason/layers': [{}, 'no layer split is possible'],
  'reason/unwritable': [{}, 'a job file cannot express it'],
  'no-plan/memory': [
    { bytes: 97 * GiB, capacity: 73 * GiB },
    'the smallest plan needs 97.00 GiB per device, but only 73.00 GiB can be used',
  ],
  'no-plan/tp': [
    { devices: 3, keeps: ['tp=3'], possible: [1] },
    'no tp divides 3 devices and the model with tp=3; otherwise tp could be 1',
  ],
  'no-plan/stages': [
    { devices: 16, stages: 34, keeps: ['pp=16', 'dp=2'], tps: [1, 2, 4] },
    'no tp x pp x dp = 16 has at most 34 stages with pp=16, dp=2; tp could be 1, 2 or 4',
  ],
  'no-plan/batch': [
    { devices: 64, batch: 7, context: true, copies: [2, 4, 8, 16, 32, 64, 128] },
    'dp = 64 / (tp x cp x pp) would be 2, 4, 8, 16, 32 or ... 128, but none divides a batch of 7',
  ],
  'no-plan/constraints': [
    { devices: 8, batch: 4, constraints: ['zero=3', 'dp=1'] },
    'no plan for 8 devices and a batch of 4 meets zero=3, dp=1',
  ],
  'instead/constraint': [{ constraint: 'tp=8' }, 'without tp=8'],
  'instead/no-constraints': [{}, 'without any constraint'],
  'instead/devices': [{ devices: 16 }, '--devices 16'],
  'instead/batch': [{ batch: 64 }, '--global-batch 64'],
  'instead/memory': [{ bytes: 12 * GiB }, '12.00 GiB more memory'],
  'order/faster': [
    { rankOrder: 'tp-cp-ep-pp-dp', step: 6.742, gain: 0.147 },
    'with rankOrder tp-cp-ep-pp-dp it takes 6.74 s, 14.7 % less (simulated)',
  ],
  'instead/offload': [{}, '--allow offload'],
  'instead/precision': [{ precision: 'pure-bf16' }, 'precision: pure-bf16'],
  'instead/lora': [{ rank: 8 }, 'LoRA of rank 8'],
  'what-if/network': [{ by: 0.5 }, 'network /2'],
  'what-if/memory': [{ by: 1.5 }, 'memory x1.5'],
  'what-if/batch': [{ by: 2 }, 'batch x2'],
  'what-if/nothing-fits': [{}, 'nothing fits'],
  'what-if/speed': [{ gain: 0.1 }, '+10.0 % tokens/s'],
  'plan/same': [{}, 'the same plan'],
  'plan/differs': [
    {
      differences: [
        { field: 'tp', from: '16', to: '8' },
        { field: 'schedule', from: '1f1b', to: 'zb-v' },
      ],
    },
    'tp 16->8, zb-v',
  ],
  'limit/arithmetic': [{ share: 0.01 }, 'compute; nothing else takes more than 1.0 %'],
  'limit/part': [
    { part: 'offload', share: 0.2, rest: 0.35 },
    'offload transfers, 20.0 % of the step; everything except compute takes 35.0 %',
  ],
  'fit/unlikely': [
    { chance: 0.3, condition: { code: 'fits-if/less', values: { share: 0.02 } } },
    'may not fit (30% probability of fitting): it fits if actual use is at least 2.0 % below the estimate',
  ],
  'fit/over': [{ over: 4 * GiB, room: 73 * GiB }, 'does not fit: 4.0 GiB more than the usable 73.0 GiB'],
  'best/none': [{}, 'no plan of this model and batch fits these devices'],
  'best/this': [{ simulated: true }, 'this one (simulated)'],
  'best/fits': [{ step: 1.5, simulated: false }, '1.50 s (estimated), the fastest that fits'],
  'best/faster': [{ step: 1.5, gain: 0.125, simulated: true }, '1.50 s, 12.5 % faster (simulated)'],
  'note/own-order': [
    { file: 'my.csv', simulated: false },
    'my.csv is estimated as 1f1b: this software cannot run its order',
  ],
  'note/own-recompute': [
    { simulated: true },
    'this plan is simulated; in alternatives a list of ops to recompute is estimated as half of the forward pass, without memory savings',
  ],
  'note/slow-compression': [
    { name: 'compress.reduce', chosen: 'powersgd', simulated: true, step: 0.3, without: 0.2 },
    'compress.reduce powersgd makes the step slower on these links: 300 ms instead of 200 ms (+50.0 %, both simulated); it pays off on slower links',
  ],
}

const codes = Object.keys(said) as SentenceCode[] // the keys of the table

const sentenceOf = (code: SentenceCode): Sentence => ({ code, values: said[code][0] }) as Sentence // the values are its own

test('every code of a sentence has a sample, and no other has', () =>
  deepEqual([...codes].sort(), Object.keys(sentences).sort()))

for (const code of codes) test(`${code} in English`, () => equal(showSentence(sentenceOf(code)), said[code][1]))

const isSound = (text: string): void => {
  ok(text.length > 0)
  doesNotMatch(text, /undefined|NaN|\[object|Infinity|\$\{/)
}

const numbersIn = (value: unknown): string[] => (JSON.stringify(value).match(/\d+/g) ?? []).sort()

for (const code of codes)
  test(`${code} in Chinese`, () => {
    const text = sentenceZh(sentenceOf(code))
    isSound(text)
    // A constraint and the sizes of axes are said as they are written.
    if (code !== 'move/mesh' && code !== 'plan/differs') match(text, /\p{Script=Han}/u)
    // Whatever is a number in English is one in Chinese, but for parameters, which are counted in other units, and for suggestions.
    if (!code.startsWith('fit/') && code !== 'reason/refused')
      for (const n of numbersIn(showSentence(sentenceOf(code)))) ok(text.includes(n), `${n}: ${text}`)
  })

test('every problem has a Chinese title, and one that is a phrase is said word for word', () => {
  deepEqual(Object.keys(problemTitlesZh).sort(), Object.keys(problemCodes).sort())
  for (const title of Object.values(problemTitlesZh)) match(title, /\p{Script=Han}/u)
  const values = { heads: 12, kvHeads: 5, rest: 2, near: [4, 6] }
  equal(
    problemZh({ code: 'model/heads', phrase: 'model/heads/kv', values }),
    'heads 12 % kvHeads 5 = 2，必须为 0；试试 4 或 6',
  )
  equal(problemZh({ code: 'plan/batch' }), problemTitlesZh['plan/batch'])
})

test('no term of the glossary is told twice, and each has a line in both languages', () => {
  const terms = Object.values(glossary)
  for (const one of ['en', 'zh'] as const) equal(new Set(terms.map(term => term[one])).size, terms.length)
  for (const { meaning } of terms) {
    match(meaning.zh, /\p{Script=Han}/u)
    doesNotMatch(meaning.en, /\p{Script=Han}/u)
  }
})

test('every kind of event has a Chinese title, and an event says where it happened', () => {
  deepEqual(Object.keys(eventTitlesZh).sort(), Object.keys(eventKinds).sort())
  for (const title of Object.values(eventTitlesZh)) match(title, /\p{Script=Han}/u)
  const event = { step: 12, event: 'dataLoader', severity: 'warning' } as const
  equal(
    eventZh({ ...event, rank: 3, where: 'layers.1 ffn' }),
    '警告（第 12 步，rank 3，layers.1 ffn）：各 rank 在等数据',
  )
  equal(eventZh({ ...event, step: 0 }), '警告：各 rank 在等数据')
})
