/** Prices of kernels and collectives: the formulas a reader knows come out of them. */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Cluster,
  type CollectiveKind,
  clusterOf,
  deviceOf,
  type Link,
  type Topology,
} from '../src/cluster/index.js'
import { flopsOf, hopsOf, type Kernel, priceCollective, priceKernel, trafficOf } from '../src/cost/index.js'

const close = (got: number, want: number, within = 1e-6) =>
  ok(Math.abs(got / want - 1) <= within, `${got}, expected ${want}`)

/** Links without latency: what is left is bytes over bandwidth, once the start is taken off. */
const link = (bandwidth: number): Link => ({ kind: 'nvlink', bandwidth, efficiency: 1, latency: 0, half: 0 })
const level = (name: string, size: number, bandwidth: number, ports: number) => ({
  name,
  size,
  link: link(bandwidth),
  ports,
  oversubscription: 1,
})
const joined = (topology: Topology, devices: number): Cluster => ({
  name: 'test',
  device: deviceOf('a100-80'),
  devices,
  topology,
  sources: ['this test'],
})
const [near, far] = [100e9, 10e9]
const node = joined({ kind: 'tree', levels: [level('node', 8, near, 1)] }, 8)
const nodes = (nics: number) =>
  joined({ kind: 'tree', levels: [level('node', 8, near, 1), level('fabric', 64, far, nics)] }, 64)

const start = 20e-6
const bytes = 1e9
const seconds = (kind: CollectiveKind, size: number, cluster: Cluster, stride = 1) =>
  priceCollective({ kind, bytes, group: { size, stride } }, cluster) - start

for (const [kind, factor] of [
  ['all-reduce', n => (2 * (n - 1)) / n],
  ['all-gather', n => (n - 1) / n],
  ['reduce-scatter', n => (n - 1) / n],
  ['all-to-all', n => (n - 1) / n],
  ['broadcast', () => 1],
  ['send', () => 1],
  ['reduce', () => 1],
  ['gather', n => (n - 1) / n],
  ['scatter', n => (n - 1) / n],
] as const satisfies readonly [CollectiveKind, (n: number) => number][])
  for (const n of [2, 4, 8])
    test(`${kind} of ${n}: bytes x ${factor(n)} / bandwidth, as nccl-tests counts bus bandwidth`, () =>
      close(seconds(kind, n, node), (factor(n) * bytes) / near))

test('nobody to meet, or nothing to say, takes no time', () => {
  equal(priceCollective({ kind: 'all-reduce', bytes, group: { size: 1, stride: 1 } }, node), 0)
  equal(priceCollective({ kind: 'all-reduce', bytes: 0, group: { size: 8, stride: 1 } }, node), 0)
})

test('whatever tp, the gradients of a stage leave a node through its NICs together: as many bytes, as long', () => {
  const cluster = clusterOf('a100-80', 64, { nicsPerNode: 4 })
  const of = (tp: number): number =>
    priceCollective({ kind: 'all-reduce', bytes: 64e9 / tp, group: { size: 64 / tp, stride: tp } }, cluster)
  for (const tp of [2, 4, 8]) close(of(tp), of(1), 0.13)
  const alone = (tp: number): number => of(tp) / (64e9 / tp)
  ok(alone(8) > 7 * alone(1))
})

for (const [what, size, stride, nics, share] of [
  ['64 side by side have all 8 NICs of a node', 64, 1, 8, 8 * far],
  ['64 side by side have the one NIC of a node', 64, 1, 1, far],
  ['8 that are 8 apart share 8 NICs with 7 other groups', 8, 8, 8, far],
  ['8 that are 8 apart share one NIC with 7 other groups', 8, 8, 1, far / 8],
  ['16 that are 4 apart have 2 members in a node: a fourth of its NICs', 16, 4, 8, 2 * far],
] as const)
  test(`${what}`, () => close(seconds('all-gather', size, nodes(nics), stride), ((size - 1) / size) * (bytes / share)))

test('a group inside a node does not see the network', () =>
  close(seconds('all-reduce', 8, nodes(1)), seconds('all-reduce', 8, node)))

test('two nodes behind one NIC: by tree every byte leaves a node once, by ring nearly twice', () => {
  const [inner, outer] = hopsOf({ size: 16, stride: 1 }, nodes(1))
  equal(`${inner.fan} x ${inner.inner}, ${outer.fan} x ${outer.inner}`, '8 x 1, 2 x 8')
  const time = seconds('all-reduce', 16, nodes(1))
  ok(time >= bytes / far && time < (1.2 * bytes) / far, `${time}`)
})

test('latency: a ring pays for every step, and few bytes go by tree', () => {
  const slow = joined(
    { kind: 'tree', levels: [{ ...level('node', 64, near, 1), link: { ...link(near), latency: 1e-6 } }] },
    64,
  )
  const at = (kind: CollectiveKind, size: number) =>
    priceCollective({ kind, bytes: 64, group: { size, stride: 1 } }, slow) - start
  close(at('all-gather', 64), 63e-6, 0.01)
  close(at('all-reduce', 64), 12e-6, 0.01)
})

test('a torus: any two devices have a way between them', () => {
  for (const devices of [8, 16, 64])
    for (let stride = 1; stride < devices; stride++) {
      const collective = { kind: 'all-reduce', bytes, group: { size: 2, stride } } as const
      const price = priceCollective(collective, clusterOf('tpu-v5p', devices))
      ok(price > 0 && Number.isFinite(price), `${devices} devices, ${stride} apart: ${price}`)
    }
})

test('a torus: rings along both dims and both ways', () => {
  const torus = (wrapsFrom: number) => joined({ kind: 'torus', dims: [4, 4], link: link(far), wrapsFrom }, 16)
  close(seconds('all-gather', 16, torus(1)), ((15 / 16) * bytes) / (4 * far))
  close(seconds('all-gather', 16, torus(8)), ((15 / 16) * bytes) / (2 * far))
  close(seconds('all-gather', 4, torus(1)), ((3 / 4) * bytes) / (2 * far))
})

const product = (m: number, n: number, k: number, batch = 1): Kernel => ({
  kind: 'matmul',
  m,
  n,
  k,
  batch,
  precision: 'bf16',
  resultBytes: 2,
})
const a100 = deviceOf('a100-80')
const rate = (kernel: Kernel) => flopsOf(kernel) / priceKernel(kernel, a100) / 312e12

test('a product has 2mnk FLOPs and moves each matrix once', () => {
  equal(flopsOf(product(3, 5, 7, 11)), 2 * 3 * 5 * 7 * 11)
  equal(trafficOf(product(3, 5, 7, 11)), 11 * 2 * (3 * 7 + 7 * 5 + 3 * 5))
})

test('large products reach the efficiency of the catalog, small ones the floor', () => {
  const { efficiency } = a100.curves.matmul
  ok(rate(product(16384, 16384, 65536)) > 0.98 * (efficiency.bf16 ?? 0))
  ok(rate(product(16384, 16384, 16384)) <= (efficiency.bf16 ?? 0))
  equal(priceKernel(product(1, 8, 8), a100), a100.curves.floor)
})

test('a wave that is not full costs a whole one', () => {
  const full = product(128 * 12, 256 * 9, 8192) // 108 tiles, one for each unit
  const over = product(128 * 12, 256 * 9 + 8, 8192)
  ok(priceKernel(over, a100) > 1.2 * priceKernel(full, a100))
})

test('rows that are no multiple of 16 bytes are slow', () =>
  ok(rate(product(4096, 50257, 4096)) < 0.5 * rate(product(4096, 50304, 4096))))

test('a thin product is bound by memory', () => {
  const thin = product(16, 8192, 8192)
  close(priceKernel(thin, a100), trafficOf(thin) / (a100.bandwidth * a100.curves.memory.efficiency))
})

test('few columns, few rows, few terms: no tiles, in any precision; a few more have tiles again', () => {
  const inF32 = (m: number, n: number, k: number) =>
    ({ ...product(m, n, k), precision: 'f32', resultBytes: 4 }) as const
  const byBytes = (kernel: Kernel) =>
    (trafficOf(kernel) + a100.curves.memory.half) / (a100.bandwidth * a100.curves.memory.efficiency)
  for (const thin of [inF32(8192, 4, 8192), inF32(4, 8192, 8192), inF32(8192, 8192, 4), product(8192, 8, 8192)])
    close(priceKernel(thin, a100), byBytes(thin))
  const tiled = inF32(8192, 17, 8192)
  ok(priceKernel(tiled, a100) > 1.5 * byBytes(tiled))
})

test('attention: 4 sequence^2 x width forward, 2.5 times that backward, half of it under a causal mask', () => {
  const of = (pass: 'forward' | 'backward', causal: boolean): number =>
    flopsOf({
      kind: 'attention',
      pass,
      batch: 2,
      heads: 8,
      kvHeads: 8,
      queries: 1024,
      keys: 1024,
      headDim: 64,
      causal,
      precision: 'bf16',
      generation: 'flash-2',
    })
  equal(of('forward', false), 4 * 2 * 1024 ** 2 * 8 * 64)
  equal(of('forward', true), of('forward', false) / 2)
  equal(of('backward', true), 2.5 * of('forward', true))
})

test('every device of the catalog has a price for a product and for a collective', () => {
  for (const name of [
    'v100',
    'a100-40',
    'a100-80',
    'h100',
    'h100-500w',
    'h200',
    'b200',
    'gb200',
    'mi300x',
    'tpu-v5p',
  ]) {
    const cluster = clusterOf(name, 16)
    ok(priceKernel(product(4096, 4096, 4096), cluster.device) > 0, name)
    ok(priceCollective({ kind: 'all-reduce', bytes, group: { size: 16, stride: 1 } }, cluster) > 0, name)
  }
})
