import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ProblemsError } from '../src/base/index.js'
import {
  Cluster,
  clusterOf,
  Device,
  deviceNames,
  deviceOf,
  parseCluster,
  reachOf,
  type Topology,
} from '../src/cluster/index.js'

describe('the catalog', () => {
  for (const name of deviceNames)
    test(`${name} is a device by the schema, with its sources, and makes clusters of 1, 4 and 256`, () => {
      deepEqual(Device.parse(deviceOf(name)), deviceOf(name))
      ok(deviceOf(name).sources.every(source => source.length > 10))
      for (const devices of [1, 4, 256]) {
        const cluster = clusterOf(name, devices)
        deepEqual(Cluster.parse(cluster), cluster)
        deepEqual(parseCluster(JSON.parse(JSON.stringify(cluster))), { cluster, problems: [] })
        ok(name.startsWith('tpu') === (cluster.topology.kind === 'torus'))
      }
    })

  // Data sheets: what is bought is what is listed.
  const sold: [
    name: string,
    precision: 'bf16' | 'f16',
    teraflops: number,
    terabytesPerSecond: number,
    gigabytes: number,
  ][] = [
    ['v100', 'f16', 125, 0.9, 32],
    ['a100-40', 'bf16', 312, 1.555, 40],
    ['a100-80', 'bf16', 312, 2.039, 80],
    ['h100', 'bf16', 989.4, 3.35, 80],
    ['h100-pcie', 'bf16', 756, 2, 80],
    ['h200', 'bf16', 989.4, 4.8, 141],
    ['b200', 'bf16', 2250, 7.7, 180],
    ['gb200', 'bf16', 2500, 8, 186],
    ['mi300x', 'bf16', 1307.4, 5.3, 192],
    ['tpu-v5p', 'bf16', 459, 2.765, 95],
  ]
  for (const [name, precision, teraflops, terabytes, gigabytes] of sold)
    test(`${name}: ${teraflops} TFLOP/s ${precision}, ${terabytes} TB/s, about ${gigabytes} GB`, () => {
      const { peak, bandwidth, memory } = deviceOf(name)
      deepEqual([peak[precision], bandwidth / 1e12], [teraflops * 1e12, terabytes])
      ok(Math.abs(memory / 2 ** 30 / gigabytes - 1) < 0.01)
    })

  const asked: [ask: () => unknown, message: RegExp][] = [
    [() => deviceOf('h10'), /unknown device `h10`; did you mean `h100`\?/],
    [() => clusterOf('abacus', 8), /unknown device `abacus`; one of v100, a100-40/],
    [() => clusterOf('tpu-v5e', 512, { slices: 1 }), /512 devices exceed the 256 of one slice; set slices to 2/],
    [() => clusterOf('tpu-v5e', 512, { slices: 3 }), /512 devices cannot be divided into 3 equal slices/],
    [() => clusterOf('h100', 8, { dims: [2, 4] }), /connected in a tree, which has no dims/],
    [
      () => clusterOf('tpu-v4', 64, { nicsPerNode: 1, dims: [4, 4] }),
      /no nodes[\s\S]*4 x 4 = 16 devices, but the cluster has 64/,
    ],
  ]
  for (const [ask, message] of asked)
    test(`says ${message.source}`, () => throws(ask, e => e instanceof ProblemsError && message.test(e.message)))
})

const show = ({ topology: t }: Cluster): string =>
  t.kind === 'torus'
    ? `${t.slices ? `${t.slices.count} of ` : ''}${t.dims.join('x')}`
    : t.levels
        .map(
          l =>
            `${l.name} ${l.size} ${l.ports}x${l.link.bandwidth / 1e9}${l.oversubscription > 1 ? ` /${l.oversubscription}` : ''}`,
        )
        .join(', ')

describe('a cluster of', () => {
  const shapes: [cluster: Cluster, shape: string][] = [
    [clusterOf('h100', 4), 'node 4 1x450'],
    [clusterOf('H100', 16_384), 'node 8 1x450, fabric 16384 8x50'],
    [clusterOf('a100', 64, { nicsPerNode: 1 }), 'node 8 1x300, fabric 64 1x25'],
    [clusterOf('h100', 64, { perNode: 4 }), 'node 4 1x450, fabric 64 4x50'],
    [
      clusterOf('h100', 24_576, { pod: 3072, oversubscription: 7 }),
      'node 8 1x450, pod 3072 8x50 /7, spine 24576 3072x50',
    ],
    [clusterOf('h100', 2048, { pod: 3072, oversubscription: 7 }), 'node 8 1x450, fabric 2048 8x50'],
    [clusterOf('gb200-nvl72', 576), 'rack 72 1x900, fabric 576 72x50'],
    [clusterOf('tpu-v4', 64), '4x4x4'],
    [clusterOf('tpu-v5p', 2048), '16x16x8'],
    [clusterOf('tpu-v5e', 256), '16x16'],
    [clusterOf('tpu-v5e', 32), '8x4'],
    [clusterOf('tpu-v4', 32, { dims: [2, 4, 4] }), '2x4x4'],
    [clusterOf('tpu-v5e', 1024), '4 of 16x16'],
    [clusterOf('tpu-v5p', 128, { slices: 2 }), '2 of 4x4x4'],
  ]
  for (const [cluster, shape] of shapes)
    test(`${cluster.devices} ${cluster.device.name} is ${shape}`, () => equal(show(cluster), shape))
})

describe('a cluster file', () => {
  const link = { kind: 'nvlink', bandwidth: 1e9, efficiency: 1, latency: 0 }
  const level = (name: string, size: number) => ({ name, size, link, ports: 1 })
  const full = (device: unknown, devices: number, ...levels: object[]) => ({
    name: 'mine',
    device,
    devices,
    topology: { kind: 'tree', levels },
    sources: ['mine'],
  })
  test('may say what differs from the catalog', () => {
    const { cluster, problems } = parseCluster({
      device: 'h100',
      devices: 64,
      nicsPerNode: 1,
      nicBandwidth: 25e9,
      pod: 16,
      oversubscription: 2,
      memory: 94e9,
      pricePerHour: 2,
    })
    deepEqual(problems, [])
    equal(cluster && show(cluster), 'node 8 1x450, pod 16 1x25 /2, spine 64 2x25')
    deepEqual([cluster?.device.memory, cluster?.device.pricePerHour], [94e9, 2])
  })
  test('may be a full definition with a device by name', () =>
    deepEqual(parseCluster(full('h100', 4, level('node', 4))).cluster?.device, deviceOf('h100')))

  const wrong: [value: unknown, problems: RegExp[]][] = [
    [7, [/a cluster is a mapping; such as/]],
    [{}, [/device: is missing: a device of the catalog/, /devices: is missing/]],
    [
      { device: 'h100', devices: 0, perNod: 4 },
      [/devices: must be at least 1/, /perNod: unknown key `perNod`; did you mean `perNode`/],
    ],
    [{ device: 'h300', devices: -1 }, [/devices: must/, /device: unknown device `h300`; did you mean `h100`/]],
    [{ device: 'tpu-v4', devices: 64, perNode: 4, pod: 16 }, [/perNode: .* no nodes/, /pod: .* no nodes/]],
    [
      full('x100', 8, level('node', 4)),
      [/device: unknown device/, /levels\[0\].size: the last level has 4 devices, but the cluster has 8/],
    ],
    [
      full('h100', 8, level('node', 8), level('rack', 4)),
      [/a rack of 4 devices cannot hold a node of 8/, /last level has 4/],
    ],
    [
      { ...full('h100', 8), topology: { kind: 'torus', dims: [4, 4], link } },
      [/4 x 4 = 16 devices, but the cluster has 8/],
    ],
  ]
  for (const [value, expected] of wrong)
    test(`${JSON.stringify(value).slice(0, 60)} has ${expected.length} problems`, () => {
      const { cluster, problems } = parseCluster(value)
      equal(cluster, undefined)
      const said = problems.map(p => `${p.path}: ${p.message}; ${p.suggestion}`)
      equal(said.length, expected.length, said.join('\n'))
      for (const [i, pattern] of expected.entries()) match(said[i], pattern)
    })
})

/** 'node 8 ... | fabric 2 ...': per level the parts that meet, the groups that share their ports, and GB/s for each of them. */
const crosses = (topology: Topology, size: number, stride: number): string => {
  const reach = reachOf(topology, { size, stride })
  return reach.kind === 'tree'
    ? reach.levels
        .filter(({ parts }) => parts > 1)
        .map(r => `${r.level.name} ${r.parts} of ${r.groups} at ${Number((r.bandwidth / 1e9).toFixed(2))}`)
        .join(', ')
    : [
        ...reach.sides.map(
          s => `${s.members}/${s.length}${s.spacing > 1 ? ` by ${s.spacing}` : ''}${s.ring ? ' ring' : ''}`,
        ),
        ...(reach.beyond
          ? [`${reach.beyond.parts} slices at ${Number((reach.beyond.bandwidth / 1e9).toFixed(2))}`]
          : []),
      ].join(', ')
}

describe('what a group crosses:', () => {
  const h100 = clusterOf('h100', 1024).topology
  const oneNic = clusterOf('a100-80', 64, { nicsPerNode: 1 }).topology
  const pods = clusterOf('h100', 6144, { pod: 3072, oversubscription: 7 }).topology
  const racks = clusterOf('gb200', 288).topology
  const v5p = clusterOf('tpu-v5p', 512).topology
  const v5e = clusterOf('tpu-v5e', 32).topology
  const slices = clusterOf('tpu-v5e', 512).topology
  const cases: [topology: Topology, size: number, stride: number, crosses: string][] = [
    // tp inside the node: nobody else on the device's NVLink
    [h100, 8, 1, 'node 8 of 1 at 450'],
    [h100, 2, 4, 'node 2 of 1 at 450'],
    // dp over nodes: the 8 groups of a node share its 8 NICs
    [h100, 128, 8, 'fabric 128 of 8 at 50'],
    // one NIC a node: the same groups share it
    [oneNic, 8, 8, 'fabric 8 of 8 at 3.13'],
    // tp 16: 8 inside each of two nodes, which it has to itself
    [h100, 16, 1, 'node 8 of 1 at 450, fabric 2 of 1 at 400'],
    // dp next to tp 4: 2 members a node, 4 groups on its NICs
    [h100, 256, 4, 'node 2 of 1 at 450, fabric 128 of 4 at 100'],
    // leaving a pod costs its oversubscription
    [pods, 768, 8, 'pod 384 of 8 at 50, spine 2 of 8 at 2742.86'],
    [pods, 2, 3072, 'spine 2 of 3072 at 7.14'],
    // 72 is no multiple of 16: some group lies across two racks
    [racks, 16, 1, 'rack 8 of 1 at 900, fabric 2 of 9 at 400'],
    [racks, 8, 1, 'rack 8 of 1 at 900'],
    [racks, 1, 1, ''],
    // a torus of 8 x 8 x 8
    [v5p, 8, 1, '8/8 ring'],
    [v5p, 16, 1, '8/8 ring, 2/8'],
    [v5p, 64, 8, '8/8 ring, 8/8 ring'],
    [v5p, 4, 2, '4/8 by 2 ring'],
    [v5p, 2, 1, '2/8'],
    [v5p, 4, 16, '4/8 by 2 ring'],
    // a slice of 8 x 4: too short to wrap
    [v5e, 4, 1, '4/4'],
    [v5e, 32, 1, '4/4, 8/8'],
    // two slices of 16 x 16: what leaves one goes through the ports of the group's own members
    [slices, 16, 1, '16/16 ring'],
    [slices, 512, 1, '16/16 ring, 16/16 ring, 2 slices at 800'],
    [slices, 32, 16, '16/16 ring, 2 slices at 50'],
    [slices, 2, 256, '2 slices at 3.13'],
  ]
  for (const [topology, size, stride, expected] of cases)
    test(`${size} ranks ${stride} apart: ${expected || 'nothing'}`, () =>
      equal(crosses(topology, size, stride), expected))

  test('no group touches more domains than is said, and some group as many (all shapes on 24 devices, nodes of 6)', () => {
    const { topology } = clusterOf('h100', 24, { perNode: 6 })
    for (const [size, stride] of [2, 3, 4, 6, 8, 12].flatMap(n => [1, 2, 3, 4, 6, 12].map(s => [n, s]))) {
      if (24 % (size * stride) !== 0) continue
      const starts = Array.from({ length: 24 }, (_, r) => r).filter(r => r % (size * stride) < stride)
      const touched = starts.map(
        start => new Set(Array.from({ length: size }, (_, k) => Math.floor((start + k * stride) / 6))).size,
      )
      const reach = reachOf(topology, { size, stride })
      equal(reach.kind === 'tree' && reach.levels[0].domains, Math.max(...touched), `${size} ranks ${stride} apart`)
    }
  })
})
