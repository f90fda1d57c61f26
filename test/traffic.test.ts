/** What goes over the network in a step, by axis and link. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { clusterPrices, trafficOf } from '../src/simulate/index.js'
import { jobOf } from './jobs.js'
import { lockstep } from './memory-io.js'

test('messages and collectives are counted by axis, with the price of one', () => {
  const program = compileJob(jobOf('mlp', { pp: 2, tp: 2, microbatches: 2 }))
  const prices = clusterPrices(program, clusterOf('h100', 4))
  const sent = trafficOf(program, prices, 0)
  const messages = sent.find(({ what }) => what === 'messages pp')!
  const sends = program.streams[0].steps.filter(({ kind }) => kind === 'send')
  deepEqual([messages.count, messages.link], [sends.length, 'nvlink'])
  ok(sent.some(({ what }) => what === 'all-reduce tp'))
  for (const { count, bytes, seconds } of sent) ok(count > 0 && bytes > 0 && seconds > 0)
  deepEqual(trafficOf(compileJob(jobOf('mlp', {})), prices, 0), [])
})

test('simulate prints it', async () => {
  const job = '{ model: gpt-tiny, training: { seq: 8, globalBatch: 8 }, plan: { dp: 2, tp: 2 } }'
  const { out, code } = await lockstep(['simulate', 'job.yaml', '--cluster', 'h100'], { 'job.yaml': job })
  equal(code, 0)
  ok(/network, a rank of pp 0 +link +count +bytes +each alone +together\n.*nvlink/.test(out), out)
})

test('memory prints what a block keeps for its backward, term by term', async () => {
  const job = '{ model: gpt-tiny, training: { seq: 8, globalBatch: 8 }, plan: { tp: 2 } }'
  const told = async (...more: string[]) => (await lockstep(['memory', 'job.yaml', ...more], { 'job.yaml': job })).out
  ok(
    /kept for the backward of one microbatch[\s\S]*layers\.F +gelu +batch 8 x seq 8 x ffn 32 +f32 +8\.00 KiB/.test(
      await told(),
    ),
  )
  const { kept } = JSON.parse(await told('--json')) as { kept: { term: string; bytes: number }[] }
  equal(kept.find(({ term }) => term === 'gelu')!.bytes, 8 * 8 * 32 * 4)
})
