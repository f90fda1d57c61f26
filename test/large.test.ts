/** A 126-layer model on 16,384 ranks is compiled from its distinct parts: the work does not depend on dp. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { presets } from '../src/model/index.js'
import { Job } from '../src/plan/index.js'

const compiled = (dp: number) =>
  compileJob(
    Job.parse({
      model: presets['llama3-405b'],
      training: { seq: 8192, globalBatch: 16 * dp, clip: 1 },
      plan: { tp: 8, pp: 16, dp, zero: 1, sequenceParallel: true, microbatches: 16, schedule: 'interleaved' },
    }),
  )

test('dp 2 and dp 128 give the same segments and streams, but for sizes', () => {
  const [small, large] = [compiled(2), compiled(128)]
  const shape = (program: typeof small) => ({
    segments: Object.values(program.segments).map(({ name, instrs }) => [name, instrs.map(instr => instr.kind)]),
    streams: program.streams.map(({ frames, steps }) => [frames.length, steps.length]),
  })
  deepEqual(shape(large), shape(small))
  equal(large.streams.length, 16)
  ok(Object.keys(large.segments).length < 100)
})
