/** Moves, neighbours, sensitivity, scaling: the reasons behind a choice are prices like any other. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { GiB } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { type Split, splitOf } from '../src/estimate/index.js'
import { check, Job, scheduleNames } from '../src/plan/index.js'
import {
  capacityOf,
  differencesOf,
  explain,
  fit,
  jobOf,
  movesFrom,
  neighboursOf,
  plainSplit,
  priceOf,
  readingOf,
  reasonSentence,
  requestOfJob,
  type ScalePoint,
  scale,
  search,
  sensitivityOf,
  showSentence,
  whyImpossible,
} from '../src/search/index.js'
import { requestOf } from './search-requests.js'

const request = requestOf({ devices: 16, batch: 16, layers: 12 })
const split: Split = { ...plainSplit, tp: 2, pp: 4, dp: 2, zero: 1, microbatches: 8, sequenceParallel: true }

test('moves: each takes one decision differently, and uses as many devices', () => {
  const moves = movesFrom(request, split)
  for (const name of ['tp x2, dp /2', 'dp x2, pp /2', 'microbatch 2', 'zero 3', 'recompute full', 'zb-h1'])
    ok(
      moves.some(move => showSentence(move.change) === name),
      name,
    )
  for (const { splits, change } of moves)
    for (const { tp, pp, dp, microbatch, microbatches } of splits) {
      const name = showSentence(change)
      equal(tp * pp * dp, 16, name)
      equal(microbatch * microbatches * dp, 16, name)
    }
})

test('moves: what can be written down passes check', () => {
  for (const { splits } of movesFrom(request, split))
    for (const one of splits)
      deepEqual(
        check(jobOf(request, one)).filter(p => p.severity === 'error'),
        [],
      )
})

test('neighbours of the best plan: none is faster and fits', () => {
  const best = search(request, { keep: 1 }).best[0]
  for (const { move, verdict } of neighboursOf(request, best))
    ok(verdict.kind !== 'timed' || verdict.ratio >= 1 - 1e-12, showSentence(move.change))
})

test('neighbours: a ratio is that of two prices, and its changes are differences of their parts', () => {
  const from = priceOf(request, split)
  const timed = neighboursOf(request, from).filter(({ verdict }) => verdict.kind === 'timed')
  ok(timed.length > 3)
  for (const { verdict, plan } of timed) {
    if (verdict.kind !== 'timed' || !plan) continue
    equal(verdict.ratio, plan.estimate.step / from.estimate.step)
    for (const { part, seconds } of verdict.changes)
      equal(seconds, plan.estimate.parts[part] - from.estimate.parts[part])
  }
})

/** What a reader of a label would write into the job file: the fields that it names, and nothing else. */
function applied(label: string, from: Job): Job {
  const plan: Record<string, unknown> = structuredClone(from.plan)
  let microbatch = from.training.globalBatch / (from.plan.dp * from.plan.microbatches)
  const parts = label.split(', ')
  while (parts.length > 0) {
    const part = parts.shift() as string
    const [word, value, ...rest] = part.split(' ')
    const times = /^([x/])(\d+)$/.exec(value ?? '')
    if (times)
      plan[word] = times[1] === 'x' ? Number(plan[word]) * Number(times[2]) : Number(plan[word]) / Number(times[2])
    else if (word === 'microbatch') microbatch = Number(value)
    else if (word === 'zero') plan.zero = Number(value)
    else if (part.startsWith('sequence parallel')) plan.sequenceParallel = rest[0] === 'on'
    else if (part === 'layers even') delete plan.layers
    else if (word === 'layers') {
      const last = (parts.shift() as string).split(' ')[1]
      const held = (text: string) => (text === 'none' ? 0 : Number(text))
      plan.layers = { first: held(rest[0]), last: held(last) }
    } else if (word === 'attention')
      plan.attention = rest.length === 0 ? value : { ulysses: Number(rest[0]), ring: Number(rest[3]) }
    else if ((scheduleNames as readonly string[]).includes(word)) {
      plan.schedule = word
      delete plan.chunks
      if (parts[0]?.endsWith('chunks')) plan.chunks = Number.parseInt(parts.shift() as string, 10)
    } else {
      ok(['recompute', 'reduce', 'gather', 'expertCapacity'].includes(word), part)
      plan[word] = value
    }
  }
  plan.microbatches = from.training.globalBatch / (Number(plan.dp) * microbatch)
  return Job.parse({ ...from, plan })
}

test('neighbours: a plan with the fields that its label names written into the job, and no others, is the one predicted', () => {
  const ask = { devices: 16, batch: 64, layers: 12 }
  const plain = requestOf({ ...ask, software: 'lockstep' })
  const long = requestOf({ ...ask, software: 'lockstep', seq: 32768 })
  const from: [typeof request, Partial<Split>][] = [
    [plain, { dp: 16, zero: 1, microbatches: 4 }],
    [plain, { dp: 16, zero: 3, reduce: 'step', gather: 'step', microbatches: 4 }],
    [plain, { dp: 8, tp: 2, zero: 2, reduce: 'step', microbatches: 4, microbatch: 2, recompute: 'full' }],
    [plain, { dp: 2, tp: 2, pp: 4, zero: 1, microbatches: 16, microbatch: 2, sequenceParallel: true }],
    [plain, { dp: 4, pp: 4, microbatches: 16, schedule: 'interleaved', chunks: 3 }],
    [plain, { dp: 4, pp: 4, microbatches: 16, layers: [2, 4, 4, 2] }],
    [long, { dp: 4, cp: 4, zero: 1, microbatches: 16, ring: true }],
  ]
  let compared = 0
  for (const [request, fields] of from) {
    const now = { ...plainSplit, ...fields }
    const job = jobOf(request, now)
    for (const { move, plan } of neighboursOf(request, priceOf(request, now))) {
      if (!plan) continue
      const label = showSentence(move.change)
      const split = splitOf(applied(label, job), '1f1b')
      const { estimate, bytes } = priceOf(request, split)
      deepEqual([label, estimate.step, bytes], [label, plan.estimate.step, plan.bytes])
      compared++
    }
  }
  ok(compared > 100, `${compared}`)
})

test('neighbours: zero 3 that gathers once per step says so', () => {
  const gpt = requestOf({ devices: 32, batch: 256, software: 'lockstep' })
  const from = priceOf(gpt, { ...plainSplit, dp: 32, zero: 1, microbatches: 8 })
  const three = neighboursOf(gpt, from).find(({ plan }) => plan?.split.zero === 3)
  equal(three?.plan?.split.gather, 'step')
  match(showSentence(three!.move.change), /^zero 3, (reduce step, )?gather step$/)
})

test('neighbours: what a constraint forbids is said to be unwanted', () => {
  const bound = requestOf({ devices: 16, batch: 16, layers: 12, constraints: ['tp<=2', 'zero=1'] })
  const verdicts = new Map(
    neighboursOf(bound, priceOf(bound, split)).map(one => [showSentence(one.move.change), one.verdict]),
  )
  deepEqual(verdicts.get('tp x2, dp /2'), { kind: 'unwanted', constraint: 'tp<=2' })
  deepEqual(verdicts.get('zero 0'), { kind: 'unwanted', constraint: 'zero=1' })
})

test('a batch that a neighbour cannot share makes it impossible, with the reason', () => {
  const odd = requestOf({ devices: 16, batch: 6, layers: 12 })
  const from = priceOf(odd, { ...split, microbatches: 3 })
  const doubled = neighboursOf(odd, from).find(({ move }) => showSentence(move.change) === 'dp x2, tp /2')
  deepEqual(doubled?.verdict, { kind: 'impossible', why: { code: 'reason/batch', values: { batch: 6, dp: 4 } } })
  equal(showSentence(reasonSentence(doubled!)), 'a batch of 6 is not divisible by dp 4')
})

test('where nothing fits: each setting that is offered instead fits, by the price of a job that has it', () => {
  const small = requestOf({ devices: 4, batch: 16, layers: 40, memory: 24, software: 'lockstep' })
  equal(search(small, { keep: 1 }).best.length, 0)
  const { cause, instead } = whyImpossible(small, devices => clusterOf('h100', devices, { memory: GiB(24) }))
  equal(cause, 'memory')
  const kinds = instead.map(({ kind }) => kind)
  for (const kind of ['offload', 'lora', 'devices', 'memory'] as const) ok(kinds.includes(kind), `${kind}: ${kinds}`)
  for (const { kind, best, said } of instead) {
    if (kind !== 'offload' && kind !== 'lora') continue
    const job = jobOf({ ...small, ...(said && { said }) }, best.split)
    const priced = priceOf(requestOfJob(job, small.cluster), splitOf(job, '1f1b'))
    ok(priced.bytes <= capacityOf(small), kind)
    equal(priced.estimate.step, best.estimate.step, kind)
  }
  const explained = explain(small, jobOf(small, { ...plainSplit, dp: 4, microbatches: 4 }))
  equal(explained.best, undefined)
  ok(explained.impossible?.instead.some(({ kind }) => kind === 'offload'))
})

test('sensitivity: more memory and a faster network are never slower', () => {
  const best = search(request, { keep: 1 }).best[0]
  const found = new Map([...sensitivityOf(request, best)].map(one => [showSentence(one.change), one.speedup ?? 0]))
  ok(found.get('network x2')! >= 1 - 1e-12 && found.get('network /2')! <= 1 + 1e-12)
  ok(found.get('memory x1.5')! >= 1 - 1e-12)
})

test('differences are in the words of a plan', () =>
  deepEqual(differencesOf(split, { ...split, tp: 4, dp: 1, zero: 0 }), [
    { field: 'tp', from: '2', to: '4' },
    { field: 'dp', from: '2', to: '1' },
    { field: 'zero', from: '1', to: '0' },
  ]))

test('the rule of thumb has a sentence for each decision', () =>
  deepEqual(
    readingOf(request, priceOf(request, split)).map(({ topic }) => topic),
    ['fit', 'tp', 'pp', 'dp', 'batch', 'memory'],
  ))

const pointOf = (devices: number, step: number): ScalePoint => {
  const best = priceOf(request, split)
  return {
    devices,
    globalBatch: 1,
    best: { ...best, estimate: { ...best.estimate, step: step as typeof best.estimate.step } },
  }
}

test("Amdahl: a law's own points give its constants back", () => {
  const law = fit([8, 16, 64, 256].map(n => pointOf(n, 0.5 + 32 / n)))!
  ok(Math.abs(law.serial - 0.5) < 1e-9 && Math.abs(law.parallel - 32) < 1e-9)
  ok(Math.abs(law.fraction - 0.5 / 4.5) < 1e-9 && Math.abs(law.limit - 9) < 1e-9)
})

test('Amdahl: perfect scaling has no limit, and one point no law', () => {
  equal(fit([8, 16].map(n => pointOf(n, 32 / n)))?.serial, 0)
  equal(fit([pointOf(8, 1)]), undefined)
})

test('scaling: speedups are against the first size that has a plan', () => {
  const clusterAt = (devices: number) => clusterOf('h100', devices)
  const { strong } = scale({ request, devices: [32, 8, 16], clusterAt })
  deepEqual(
    strong.map(({ devices }) => devices),
    [8, 16, 32],
  )
  equal(strong[0].speedup, 1)
  for (const { speedup = 0, efficiency = 0, devices } of strong)
    ok(Math.abs((efficiency * devices) / 8 / speedup - 1) < 1e-12)
})
