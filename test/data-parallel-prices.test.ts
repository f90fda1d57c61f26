/**
 * What data parallelism costs, compiled and simulated: any dp shards any tensor nearly as well as it could be sharded, and
 * most of what the data axes move is hidden behind compute.
 */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import type { Program } from '../src/ir/index.js'
import { presets } from '../src/model/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices, type Simulation, simulate } from '../src/simulate/index.js'

type Preset = 'llama3-8b' | 'gpt2-xl'

const programOf = (name: Preset, seq: number, globalBatch: number, plan: JobInput['plan']): Program =>
  compileJob(Job.parse({ model: presets[name], training: { seq, globalBatch }, plan: { precision: 'bf16', ...plan } }))

/** Bytes of an element on one rank: a parameter in bf16, its gradient in f32, master and two moments in f32. */
const idealBytes = (zero: number, dp: number): number => 2 / (zero === 3 ? dp : 1) + 4 / (zero >= 2 ? dp : 1) + 12 / dp

/** What lives from step to step, but for the results. */
const residentBytes = ({ streams: [{ frames, resident }] }: Program): number =>
  resident.filter(frame => frames[frame].kind !== 'workspace').reduce((sum, frame) => sum + frames[frame].bytes, 0)

const elementsOf = ({ params }: Program): number =>
  params.reduce((sum, { dims }) => sum + dims.reduce((product, { size }) => product * size, 1), 0)

for (const name of ['llama3-8b', 'gpt2-xl'] as const)
  for (const zero of [1, 2, 3])
    test(`${name}, zero ${zero}, dp 3 6 7 10 24 48: what a rank keeps is within 2 % of an ideal split`, () => {
      for (const dp of [3, 6, 7, 10, 24, 48]) {
        const program = programOf(name, 64, dp, { dp, zero })
        const over = residentBytes(program) / (idealBytes(zero, dp) * elementsOf(program)) - 1
        ok(Math.abs(over) <= 0.02, `dp ${dp}: ${(100 * over).toFixed(2)} %`)
      }
    })

const onCluster = (program: Program, device: string, devices: number): Simulation =>
  simulate(program, clusterPrices(program, clusterOf(device, devices)), { watch: [] })

for (const globalBatch of [32, 128])
  test(`gpt2-xl on 32 A100, batch ${globalBatch}: a step of ZeRO-1, and what it waits for the data axes, is at most 3 % longer than of ZeRO-0`, () => {
    const [plain, split] = [0, 1].map(zero =>
      onCluster(programOf('gpt2-xl', 1024, globalBatch, { dp: 32, zero }), 'a100', 32),
    )
    ok(split.step <= 1.03 * plain.step, `${split.step} s, ${plain.step} s`)
    ok(split.parts.dp <= 1.03 * plain.parts.dp, `${split.parts.dp} s, ${plain.parts.dp} s`)
  })

for (const zero of [0, 1, 2, 3])
  test(`llama3-8b on 8 H100, zero ${zero}: less than 15 % of what the data axes move is waited for`, () => {
    const waited = (overlap: boolean) =>
      onCluster(programOf('llama3-8b', 8192, 8, { dp: 8, zero, overlap }), 'h100', 8).parts.dp
    const share = waited(true) / waited(false)
    ok(share < 0.15, `${(100 * share).toFixed(1)} %`)
  })
