/** The plan's memory is the memory everybody knows: bytes per parameter by ZeRO stage, activations by schedule. */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { finish } from '../src/base/index.js'
import { compileJob, compilingJob, heaviest } from '../src/compile/index.js'
import { parametersOf } from '../src/model/index.js'
import { jobOf } from './jobs.js'
import { lockstep } from './memory-io.js'

/** Every size of this model divides by 4, so nothing is left whole. */
const job = (plan: Parameters<typeof jobOf>[1]) => {
  const made = jobOf('llama', plan)
  return { ...made, model: { ...made.model, embed: 16, ffn: 16, vocab: 16 } }
}

const perParameter = (plan: Parameters<typeof jobOf>[1]) => {
  const { peak } = compileJob(job(plan)).streams[0]
  const parameters = parametersOf(job(plan).model, 4)
  return (kind: 'parameters' | 'gradients' | 'optimizer') => peak[kind] / parameters
}

test('one rank: 4 bytes of parameter, 4 of gradient (and the one being made), 8 of AdamW', () => {
  const bytes = perParameter({})
  equal(bytes('parameters'), 4)
  equal(bytes('optimizer'), 8)
  ok(bytes('gradients') > 4 && bytes('gradients') < 4.5)
})

for (const [zero, parameters, optimizer] of [
  [1, 4, 8 / 4],
  [2, 4, 8 / 4],
  [3, 1, 8 / 4],
] as const)
  test(`ZeRO ${zero} on 4 ranks: at least ${parameters} bytes of parameter, ${optimizer} of AdamW`, () => {
    const bytes = perParameter({ dp: 4, zero, prefetch: 0 })
    equal(bytes('optimizer'), optimizer)
    // What is gathered for one layer comes on top.
    ok(bytes('parameters') >= parameters && bytes('parameters') < parameters + 1.2, String(bytes('parameters')))
  })

const activations = (plan: Parameters<typeof jobOf>[1]) =>
  compileJob(job(plan)).streams.map(({ peak }) => peak.activations)

test('1F1B holds fewer activations on later ranks, GPipe as many as there are microbatches', () => {
  const [first, second, third, fourth] = activations({ pp: 4, microbatches: 8, schedule: '1f1b' })
  ok(first > second && second > third && third > fourth)
  ok(activations({ pp: 4, microbatches: 8, schedule: 'gpipe' })[0] > 1.8 * first)
})

test('recomputation costs less memory the more it repeats', () => {
  const [none, selective, full] = (['none', 'selective', 'full'] as const).map(
    recompute => activations({ pp: 2, microbatches: 4, recompute })[0],
  )
  ok(none > selective && selective > full)
})

test('sequence parallelism splits what tensor parallelism leaves whole', () => {
  ok(activations({ tp: 4, sequenceParallel: true })[0] < activations({ tp: 4 })[0])
})

const text = `model: llama3-8b\ntraining: { seq: 8192, globalBatch: 8 }\nplan: { dp: 8, zero: 1, deviceMemory: 80GiB }\n`

test('a plan that does not fit says who needs what, and what would help', async () => {
  for (const command of ['check', 'compile']) {
    const { code, out, err } = await lockstep([command, 'job.yaml'], { 'job.yaml': text })
    equal(code, 1)
    for (const word of [
      'pipeline stage 0',
      'activations 76.36 GiB',
      'optimizer 7.48 GiB',
      'a device has 80.00 GiB',
      'try ',
    ])
      ok((out + err).includes(word), `${command}: ${word} in ${out}${err}`)
  }
})

test('a plan that fits passes', async () => {
  const fitting = text.replace('zero: 1,', 'zero: 3, recompute: full,')
  equal((await lockstep(['check', 'job.yaml'], { 'job.yaml': fitting })).code, 0)
})

for (const schedule of ['1f1b', 'interleaved-zb', 'zb-v', 'dualpipe-v'] as const)
  for (const zero of [0, 3] as const)
    test(`where only the heaviest rank counts, it is the same one, and as heavy: ${schedule}, ZeRO ${zero}`, () => {
      const asked = job({
        pp: 4,
        dp: 2,
        zero,
        microbatches: 8,
        schedule,
        ...(schedule === 'interleaved-zb' && { chunks: 2 }),
      })
      const [each, some] = (['each', 'heaviest'] as const).map(
        placing => finish(compilingJob(asked, undefined, { placing })).streams,
      )
      equal(heaviest(some), heaviest(each))
      equal(some[heaviest(some)].arena, each[heaviest(each)].arena)
      ok(some.every(({ arena }, i) => arena >= each[i].arena))
    })
