/** Ranks that are threads of one machine: who shares a core takes turns, and who carries bytes does nothing else. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { worldOf } from '../src/base/index.js'
import { type Cluster, type CollectivePoint, clusterOf } from '../src/cluster/index.js'
import { priceCollective } from '../src/cost/index.js'
import { clusterPrices, simulate, simulateInTurns } from '../src/simulate/index.js'
import { layersOn, taskPrices } from './toy-prices.js'

const prices = taskPrices({ F: 1, I: 1, W: 1, C: 0 })
const cases: [plan: Parameters<typeof layersOn>[0], cores: number, step: number, why: string][] = [
  [{ dp: 4 }, 4, 3, 'a core each'],
  [{ dp: 4 }, 8, 3, 'cores to spare'],
  [{ dp: 4 }, 2, 6, 'two on each core'],
  [{ pp: 2, microbatches: 4 }, 2, 15, 'a pipeline with its bubble'],
  [{ pp: 2, microbatches: 4 }, 1, 24, 'one core has no bubble: it does all the work'],
  [{ pp: 4, microbatches: 1 }, 2, 12, 'only one of four works at a time: two cores are as good as four'],
  [{ pp: 2, dp: 2, microbatches: 4 }, 2, 24, 'two pipelines fill each other'],
]
for (const [plan, cores, step, why] of cases)
  test(`${JSON.stringify(plan)} on ${cores} cores takes ${step}: ${why}`, () => {
    const program = layersOn(plan)
    const simulation = simulateInTurns(program, prices, cores, { watch: [0] })
    ok(Math.abs(simulation.step - step) < 1e-9, `it took ${simulation.step}`)
    ok(cores < worldOf(program.mesh) || simulation.step === simulate(program, prices).step)
  })

const measured: CollectivePoint[] = [2, 4].map(ranks => ({
  kind: 'all-reduce',
  ranks,
  bytes: 1024,
  seconds: ranks * 1e-6,
}))
const machine = (devices: number): Cluster => {
  const { device, sources } = clusterOf('h100', 1)
  const link = { kind: 'memory', bandwidth: 1e9, efficiency: 1, latency: 1e-6, half: 0 } as const
  const level = { name: 'machine', size: devices, link, ports: 1, oversubscription: 1, measured }
  return { name: 'machine', device, devices, cores: 2, topology: { kind: 'tree', levels: [level] }, sources }
}

test('a collective of more threads than cores is priced as the work of one of them: turns come later', () => {
  const price = (size: number) =>
    priceCollective({ kind: 'all-reduce', bytes: 1024, group: { size, stride: 1 } }, machine(4))
  deepEqual([price(2), price(4)], [2e-6, 2e-6])
})

test('nothing is hidden on a machine whose ranks carry their own bytes', () => {
  const program = layersOn({ tp: 2 })
  const onMachine = clusterPrices(program, machine(2))
  const { step, parts } = simulate(program, onMachine)
  const busy = parts.compute + parts.optimizer + parts.other
  const hidden = simulate(program, { ...onMachine, contention: { compute: 0, network: 0 } })
  ok(step >= hidden.step)
  equal(parts.bubble, 0)
  ok(busy + parts.tp > 0.999 * step)
})
