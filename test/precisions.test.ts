/** What a precision means in bytes is said once: programs, prices and memory agree on it. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { activationBytes, isCast, isOwnPrecision, planPrecisions, precisions, uncast } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { estimate, frameworks, placedOf, planInput, timesOf, totalBytes } from '../src/estimate/index.js'
import { Job } from '../src/plan/index.js'
import { plainSplit } from '../src/search/index.js'
import { jobOf } from './jobs.js'

test('bytes of an activation, what is cast, and what a program multiplies by itself', () => {
  const row = (p: (typeof precisions)[number]) => [p, activationBytes(p), isCast(p), uncast(p), isOwnPrecision(p)]
  deepEqual(precisions.map(row), [
    ['f32', 4, false, 'f32', true],
    ['tf32', 4, false, 'tf32', false],
    ['f16', 2, false, 'f16', true],
    ['bf16', 2, false, 'bf16', true],
    ['fp8', 2, true, 'bf16', true],
  ])
})

const gpt = { family: 'gpt', layers: 8, embed: 1024, heads: 16, ffn: 4096, vocab: 50304 } as const
const placed = (precision: 'f32' | 'bf16') =>
  placedOf(
    Job.parse({ model: gpt, training: { seq: 1024, globalBatch: 8 }, plan: { tp: 4, dp: 2, zero: 3, precision } }),
  )!

test('tf32 multiplies faster than f32 and moves and keeps as many bytes', () => {
  const cluster = clusterOf('h100', 8)
  // Nothing is hidden: all that is moved is seen.
  const f32 = { ...placed('f32'), cluster, software: frameworks['megatron-2021'] }
  const tf32 = { ...f32, precision: 'tf32' as const }
  const [wide, fast] = [timesOf(f32).parts, timesOf(tf32).parts]
  ok(fast.compute < wide.compute)
  for (const part of ['tp', 'pp', 'optimizer'] as const) equal(fast[part], wide[part], part)
  equal(totalBytes(estimate(tf32).memory), totalBytes(estimate(f32).memory))
})

test('what is multiplied in fewer bits than programs store is stored in the fewest they do', () => {
  deepEqual(
    precisions.map(precision => planInput(plainSplit, precision).precision),
    [undefined, undefined, 'f16', 'bf16', 'bf16'],
  )
})

for (const precision of planPrecisions)
  for (const kind of ['adamw', 'sgd'] as const)
    test(`parameters, gradients and states of ${kind} in ${precision} take the bytes of the estimate`, () => {
      const job = jobOf('gpt', { precision }, { optimizer: { kind, lr: 0.1 } })
      const [{ frames, resident }] = compileJob(job).streams
      const held = (of: string) => resident.reduce((sum, i) => sum + (frames[i].kind === of ? frames[i].bytes : 0), 0)
      const { memory } = estimate({ ...placedOf(job)!, cluster: clusterOf('h100', 1) })
      const of = ({ parameters, gradients, optimizer }: typeof memory) => [
        gradients / parameters,
        optimizer / parameters,
      ]
      deepEqual([held('gradients') / held('parameters'), held('optimizer') / held('parameters')], of(memory))
    })
