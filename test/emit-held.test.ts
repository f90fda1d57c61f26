/** What PyTorch holds of an emitted program, worked out before it runs. test/h200 holds it to what a GPU measured. */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { heldBytes } from '../src/emit/index.js'
import { Job } from '../src/plan/index.js'

const jobWith = (plan: object, model: object = {}, globalBatch = 8) =>
  Job.parse({
    model: { family: 'llama', layers: 4, embed: 512, heads: 8, kvHeads: 8, ffn: 2048, vocab: 1024, ...model },
    training: { seq: 512, globalBatch },
    plan: { precision: 'pure-bf16', ...plan },
  })
const held = (...of: Parameters<typeof jobWith>): number => heldBytes(compileJob(jobWith(...of)))[0]

test('gradients are there from their first addend on: a second microbatch meets all of them', () => {
  const [one, two] = [held({ microbatches: 1 }, {}, 8), held({ microbatches: 2 }, {}, 16)]
  const parameters = 4 * (4 * 512 * 512 + 3 * 512 * 2048 + 2 * 512) + 2 * 1024 * 512 + 512
  ok(two - one > 0.8 * 2 * parameters, `${one} and ${two} bytes`)
  ok(two - one <= 2.2 * parameters, `${one} and ${two} bytes`)
})

test('logits beyond 1 GiB are not there at once', () => {
  // 4,096 tokens: 1 GiB of logits in bf16, and twice as many.
  const [most, more] = [131_072, 262_144].map(vocab => held({}, { vocab }))
  // Parameters, two moments and a gradient of both tables in bf16, and the sum in f32 instead of the gradient.
  ok(more - most < 131_072 * 512 * (2 * 6 + 2 + 2 * 8), `${most} and ${more} bytes`)
})

test('what is recomputed is not held, and nobody holds more than is planned but for room to work in', () => {
  const [none, cheap, full] = (['none', 'cheap', 'full'] as const).map(recompute => held({ recompute }))
  ok(none > cheap && cheap > full, [none, cheap, full].join())
  const program = compileJob(jobWith({ recompute: 'none' }))
  ok(heldBytes(program)[0] - 2 ** 25 < program.streams[0].arena)
})

test('every pipeline coordinate has its own', () => {
  const all = heldBytes(compileJob(jobWith({ pp: 2, microbatches: 4 })))
  equal(all.length, 2)
  ok(all.every(bytes => bytes > 2 ** 25))
})
