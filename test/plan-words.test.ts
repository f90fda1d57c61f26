/** What plan, explain and validate say: numbers a reader can trust, and nothing that a framework did not have. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { showSeconds, showTime } from '../src/base/index.js'
import type { frameworks } from '../src/estimate/index.js'
import {
  abilitiesOf,
  keeps,
  movesFrom,
  neighboursOf,
  plainSplit,
  priceOf,
  showSentence,
  zeroName,
} from '../src/search/index.js'
import { lockstep } from './memory-io.js'
import { requestOf } from './search-requests.js'

for (const show of [showSeconds, showTime])
  test(`${show.name}: no exponents, whatever the time, and no 1000 of a unit`, () => {
    for (let seconds = 1e-7; seconds < 1e6; seconds *= 1.0713)
      for (const time of [
        seconds,
        -seconds,
        Number(seconds.toPrecision(1)),
        0.99996 * 10 ** Math.round(Math.log10(seconds)),
      ]) {
        doesNotMatch(show(time), /e[+-]/)
        if (Math.abs(time) < 999) ok(Math.abs(Number.parseFloat(show(time))) < 1000, show(time))
        match(show(time), time < 0 ? /^-\d/ : /^\d/)
      }
  })

test('a framework has what its time had: no selective recomputation in 2021', () => {
  const has = (name: keyof typeof frameworks, recompute: 'none' | 'selective' | 'full') =>
    keeps({ recompute }, abilitiesOf(name))
  deepEqual(
    (['none', 'selective', 'full'] as const).map(recompute => has('megatron-2021', recompute)),
    [true, false, true],
  )
  for (const name of ['megatron-deepspeed', 'megatron-deepspeed-2023'] as const) ok(!has(name, 'selective'))
  for (const name of ['megatron-2022', 'megatron-2024', 'lockstep'] as const) ok(has(name, 'selective'))
})

test('another ZeRO stage means the best of its variants: what moves once a step among them', () => {
  const request = requestOf({ software: 'lockstep', devices: 8, batch: 128 })
  const from = { ...plainSplit, dp: 8, zero: 1, microbatches: 16, recompute: 'full' } as const
  const two = neighboursOf(request, priceOf(request, from)).find(({ move }) => showSentence(move.change) === 'zero 2')
  deepEqual(two?.move.splits.map(zeroName), ['zero 2', 'zero 2, reduce step'])
  const steps = (two?.move.splits ?? []).map(split => priceOf(request, split).estimate.step)
  equal(two?.plan?.estimate.step, Math.min(...steps))
})

const llama = [
  'plan',
  '--model',
  'llama3-8b',
  '--cluster',
  'h100',
  '--seq',
  '4096',
  '--global-batch',
  '32',
  '--devices',
  '16',
]

test('the bubble of the reading is the bubble of the step that is shown', async () => {
  const cut = ['--constraint', 'pp=8', 'zero=0', 'schedule=1f1b|interleaved', '--top', '1', '--simulate', '3']
  const { out, err } = await lockstep([...llama, ...cut])
  const [, said] = /the bubble takes ([\d.]+ %) of the step/.exec(out) ?? []
  const [, shown] = /^ +bubble +[\d.]+ m?s +([\d.]+ %)/m.exec(out) ?? []
  ok(said !== undefined, out + err)
  equal(said, shown)
})

test('stages without layers are said to have none', () => {
  const split = { ...plainSplit, pp: 6, dp: 2, tp: 1, microbatches: 8, layers: [1, 2, 3, 3, 2, 1] }
  const names = movesFrom(requestOf({ devices: 12, layers: 4 }), split).map(({ change }) => showSentence(change))
  ok(
    names.some(name => name === 'layers first none, last none'),
    names.join('; '),
  )
  for (const name of names) doesNotMatch(name, /\.\./)
})
