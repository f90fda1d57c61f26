/** Whether a plan fits: a chance by the spread of prices, and what it depends on near the edge. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { GiB } from '../src/base/index.js'
import { deviceOf } from '../src/cluster/index.js'
import {
  capacityOf,
  certainly,
  chanceOf,
  edgesOf,
  type Fit,
  fitOf,
  frameworks,
  memoryProfileOf,
  roomOf,
  usual,
} from '../src/estimate/index.js'
import { showSentence } from '../src/search/index.js'
import { classifyLayouts, compareMemory, rowsOf } from '../src/validate/index.js'
import { lockstep } from './memory-io.js'

const device = deviceOf('a100-80')
const room = capacityOf(device)
const megatron = frameworks['megatron-2022'] // a spread of 5 %
const near = (got: number, want: number, within: number) =>
  ok(Math.abs(got - want) <= within, `${got}, expected ${want}`)

for (const [deviations, chance] of [
  [-3, 0.00135],
  [-1, 0.158655],
  [0, 0.5],
  [1, 0.841345],
  [2, 0.97725],
] as const)
  test(`room for ${deviations} standard deviations more than the price: a chance of ${chance}`, () =>
    near(chanceOf(1e9, 1e9 * Math.exp(deviations * usual.spread), usual), chance, 1e-5))

test('surely, possibly and surely not: at 95 and 5 %', () => {
  const [surely, possibly] = edgesOf(room, memoryProfileOf(megatron))
  const verdictOf = (bytes: number) => fitOf(bytes, room, device, megatron).verdict
  deepEqual([0.999 * surely, 1.001 * surely, 0.999 * possibly, 1.001 * possibly].map(verdictOf), [
    ...['fits', 'fits if', 'fits if', 'does not fit'],
  ])
  deepEqual(certainly(true), { verdict: 'fits', chance: 1 })
  equal(certainly(false).chance, 0)
})

const said = ({ condition }: Fit): string => (condition ? showSentence(condition) : '')

for (const [gib, condition] of [
  [70, /^actual use is less than 4\.3 % above the estimate$/],
  [75, /^fragmentation stays below 2\.5 % of the memory \(5\.0 % is reserved\)$/],
  [78, /^context and fragmentation stay below 2\.00 GiB \(7\.00 GiB is reserved\)$/],
] as const)
  test(`a price of ${gib} GiB on a device of 80: what it takes to fit`, () =>
    match(said(fitOf(GiB(gib), room, device, megatron)), condition))

test('where a user allows less than the device has, only the estimate can be wrong', () =>
  match(said(fitOf(GiB(41), GiB(40), device, megatron)), /^actual use is at least 2\.4 % below the estimate$/))

test('a profile that counts the context needs no reserve for it', () => {
  equal(roomOf(device, megatron), room)
  near(roomOf(device, frameworks['megatron-deepspeed']) / GiB(79.3), 1, 1e-9)
})

const rows = (name: string) => rowsOf(readFileSync(`validation/${name}.csv`, 'utf8'))
const { classified } = classifyLayouts(rows('layouts'))

test('published layouts: none that surely fits ran out of memory, none that surely does not fit ran', () => {
  const sure = classified.filter(({ chance }) => chance >= 0.95 || chance <= 0.05)
  ok(sure.length > 240)
  deepEqual(
    sure.filter(({ chance, ranOut }) => chance >= 0.95 === ranOut),
    [],
  )
})

test('published layouts near the edge: about as many ran as chances say', () => {
  const between = classified.filter(({ chance }) => chance > 0.05 && chance < 0.95)
  const expected = between.reduce((sum, { chance }) => sum + chance, 0)
  near(between.filter(({ ranOut }) => !ranOut).length, expected, 9)
})

test('the spreads of profiles are those of their rows', () => {
  const { compared } = compareMemory(['zero-bubble', 'bloom', 'torchtitan'].flatMap(rows))
  for (const [origin, name] of [
    ['zero bubble', 'megatron-2021'],
    ['bigscience', 'megatron-deepspeed'],
    ['torchtitan', 'torchtitan'],
  ] as const) {
    const logs = compared
      .filter(one => one.origin === origin && !one.fitted)
      .map(({ predicted, measured }) => Math.log(predicted / measured))
    const spread = Math.sqrt(logs.reduce((sum, x) => sum + x * x, 0) / logs.length)
    near(memoryProfileOf(frameworks[name]).spread, spread, 0.002)
  }
})

const asked = [
  '--model',
  'gpt3-175b',
  '--cluster',
  'a100-80',
  '--devices',
  '64',
  '--seq',
  '2048',
  '--global-batch',
  '64',
]
const plan = (...more: string[]) => lockstep(['plan', ...asked, '--software', 'megatron-2022', '--no-why', ...more])

test('plan: those that surely fit, and apart the faster ones with their chance and what it depends on', async () => {
  const { out, code } = await plan('--json')
  equal(code, 0)
  const { best, possible, surely, capacity } = JSON.parse(out)
  ok(surely < capacity && possible.length > 0)
  for (const one of best) ok(one.fit.verdict === 'fits' && one.fit.chance >= 0.95 && one.bytes <= surely)
  for (const one of possible) {
    ok(one.fit.verdict === 'fits if' && one.fit.condition.length > 0 && one.bytes > surely)
    ok(one.step < best[0].step)
  }
  const chances = possible.map((one: { fit: { chance: number } }) => one.fit.chance)
  deepEqual(
    chances,
    chances.toSorted((a: number, b: number) => a - b),
  )
  const text = (await plan()).out
  match(text, /Faster, may fit\n.*chance/)
  match(text, /1 fits if (actual use|fragmentation|context)/)
  for (const line of text.split('\n')) ok(line.length <= 110, `${line.length}: ${line}`)
})

test('plan: where nothing surely fits, what may is shown and written with its condition', async () => {
  const tight = await plan('--constraint', 'memory<=43GiB', '--json')
  const { best, possible } = JSON.parse(tight.out)
  deepEqual([best.length, tight.code], [0, 0])
  ok(possible.length > 0)
  const { out, written } = await plan('--constraint', 'memory<=43GiB', '--out', 'job.yaml')
  match(out, /No plan fits with certainty\.\n\nMay fit\n/)
  match(written['job.yaml'], /# It fits if actual use is /)
})

test('plan: a compiled program fits for certain', async () => {
  const small = ['--model', 'gpt2', '--cluster', 'a100', '--seq', '1024', '--global-batch', '8', '--devices', '2']
  const cut = ['--constraint', 'pp=1', 'zero<=1', '--simulate', '1', '--no-why', '--json']
  const { best, possible } = JSON.parse((await lockstep(['plan', ...small, ...cut])).out)
  deepEqual(possible, [])
  for (const { fit } of best) deepEqual(fit, { verdict: 'fits', chance: 1 })
})
