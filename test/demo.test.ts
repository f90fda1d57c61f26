/** `lockstep demo`: its table holds what was computed, its check marks are comparisons, and it fits one screen. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { type Checks, checksOf, comparedText, lossTolerance } from '../src/cli/text/demo-text.js'

const run = (...args: string[]): string =>
  execFileSync(process.execPath, ['bin/lockstep.mjs', 'demo', ...args], {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  })

interface Numbers {
  readonly bytes: number
  readonly seconds: number
  readonly losses: readonly number[]
}

interface Answer {
  readonly ok: boolean
  readonly predicted: Numbers
  readonly measured: Numbers
  readonly single: Numbers
  readonly checks: Checks
  readonly plan: { readonly step: number; readonly bytes: number }
}

test('four ranks keep to the planned memory and have the losses of a single rank', () => {
  const { ok: fine, predicted, measured, single, checks, plan } = JSON.parse(run('--json')) as Answer
  equal(fine, true)
  equal(measured.bytes, predicted.bytes)
  ok(single.bytes > 2 * measured.bytes, 'sharding saves memory')
  equal(single.losses.length, 10)
  const differences = single.losses.map((loss, i) => Math.abs(measured.losses[i] - loss) / loss)
  equal(checks.lossDifference, Math.max(...differences))
  ok(checks.lossDifference < lossTolerance)
  ok(single.losses[9] < single.losses[0] - 0.5, 'it learns')
  ok(predicted.seconds > 0.001 && measured.seconds > 0.001)
  equal(checks.timeDifference, measured.seconds / predicted.seconds - 1)
  ok(plan.step > 1 && plan.step < 60 && plan.bytes < 80 * 2 ** 30)
})

test('it fits one screen and names three next commands', () => {
  const lines = run().trimEnd().split('\n')
  ok(lines.length <= 40, `${lines.length} lines`)
  deepEqual(
    lines.filter(line => line.length > 100),
    [],
  )
  equal(lines.filter(line => /^ {2}step +\d+\/40 {2}loss \d/.test(line)).length, 10)
  match(lines.find(line => line.startsWith('memory per rank'))!, /✓ to the byte/)
  match(lines.find(line => line.startsWith('loss of step 10'))!, /✓/)
  match(lines.find(line => line.startsWith('time per step'))!, /[✓✗~] [+-]\d+ %/)
  match(lines.join('\n'), /Llama 3 70B on 512 x NVIDIA H100[^\n]*\n[^\n]*MFU[^\n]*\n\d+\.\d+ s /)
  equal(lines.filter(line => line.startsWith('  npx lockstep ')).length, 3)
})

test('a check mark is lost where memory, a loss or a time differs', () => {
  const one = { bytes: 100, seconds: 1, losses: [2, 1], cores: 2 }
  const of = (measured: object, asPlanned = true) => {
    const compared = { predicted: one, measured: { ...one, ...measured }, single: one, usable: 2, asPlanned }
    const checks = checksOf(compared)
    const plain = { green: (text: string) => text, red: (text: string) => text }
    const text = comparedText(compared, checks, plain)
    const marks = [...text.matchAll(/[✓✗~]/g)].map(([mark]) => mark).join('')
    return { marks, why: text.split('\n').slice(4).join(), checks: [checks.memory, checks.loss, checks.time] }
  }
  deepEqual(of({}), { marks: '✓✓✓', why: '', checks: [true, true, true] })
  deepEqual(of({ bytes: 101 }), { marks: '✗✓✓', why: '', checks: [false, true, true] })
  deepEqual(of({}, false).marks, '✗✓✓')
  deepEqual(of({ losses: [2, 1.001] }).marks, '✓✗✓')
  deepEqual(of({ losses: [Number.NaN, 1] }).marks, '✓✗✓')
  deepEqual(of({ seconds: 1.3 }).marks, '✓✓✗')
  match(of({ seconds: 1.3 }).why, /^The prediction is from small probes.*lockstep compare/)
  const busy = of({ seconds: 4, cores: 0.55 })
  deepEqual(busy.marks, '✓✓~')
  equal(busy.why, 'Other processes used 1.4 of 2 cores; on idle cores a step takes about 1.100 s (+10 %).')
  deepEqual(of({ seconds: 1.1, cores: 0.5 }).why, '')
})
