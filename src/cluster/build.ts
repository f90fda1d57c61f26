/** Catalog entry + number of devices + differences -> cluster, or what is wrong with asking for it. */
import type { Problem } from '../base/index.js'
import type { Entry, TorusNetwork, TreeNetwork } from './catalog/entry.js'
import { type Cluster, type Level, type Topology, usualDisk } from './cluster.js'
import { refused } from './phrases.js'
import type { Overrides } from './request.js'
import { sliceOf } from './torus.js'

export type Built = { readonly cluster: Cluster } | { readonly problems: readonly Problem[] }

export function build(entry: Entry, devices: number, overrides: Overrides = {}): Built {
  const { network } = entry
  const problems = [
    ...(devices >= 1 ? [] : [refused('devices', 'cluster/devices/least', { devices })]),
    ...(network.kind === 'tree' ? treeProblems(overrides) : torusProblems(network, devices, overrides)),
  ]
  if (problems.length > 0) return { problems }
  const { memory = entry.device.memory, pricePerHour = entry.device.pricePerHour } = overrides
  const changed = Object.keys(overrides).filter(key => key !== 'name')
  return {
    cluster: {
      name: overrides.name ?? entry.device.name,
      device: { ...entry.device, memory, ...(pricePerHour !== undefined && { pricePerHour }) },
      devices,
      topology: network.kind === 'tree' ? tree(network, devices, overrides) : torus(network, devices, overrides),
      ...(entry.host && { host: entry.host }),
      ...disk(overrides),
      sources: [...entry.sources, ...(changed.length > 0 ? [`given: ${changed.join(', ')}`] : [])],
    },
  }
}

/** Nothing is said of disks that are as usual. */
const disk = ({ diskRead: read, diskWrite: write }: Overrides): Pick<Cluster, 'disk'> =>
  read === undefined && write === undefined
    ? {}
    : { disk: { ...usualDisk, ...(read !== undefined && { read }), ...(write !== undefined && { write }) } }

function tree(network: TreeNetwork, devices: number, overrides: Overrides): Topology {
  const { perNode = network.perNode, nodeBandwidth = network.near.bandwidth } = overrides
  const { nicsPerNode = scaled(network, perNode), nicBandwidth = network.nic.bandwidth } = overrides
  const { oversubscription = 1, pod = network.pod } = overrides
  const nic = { ...network.nic, bandwidth: nicBandwidth }
  const node: Level = {
    name: network.domain,
    size: Math.min(perNode, devices),
    link: { ...network.near, bandwidth: nodeBandwidth },
    ports: 1,
    oversubscription: 1,
  }
  if (devices <= perNode) return { kind: 'tree', levels: [node] }
  const fabric = (name: string, size: number, ports: number, over = 1): Level => ({
    name,
    size,
    link: nic,
    ports,
    oversubscription: over,
  })
  const nodesOfPod = Math.max(1, Math.floor(pod / perNode))
  // A pod is a level of its own only where leaving it costs something.
  if (oversubscription === 1 || devices <= nodesOfPod * perNode)
    return { kind: 'tree', levels: [node, fabric('fabric', devices, nicsPerNode)] }
  return {
    kind: 'tree',
    levels: [
      node,
      fabric('pod', nodesOfPod * perNode, nicsPerNode, oversubscription),
      fabric('spine', devices, nodesOfPod * nicsPerNode),
    ],
  }
}

/** Half a node has half the network cards, unless it was said. */
const scaled = (network: TreeNetwork, perNode: number): number =>
  Math.max(1, Math.round((network.nicsPerNode * perNode) / network.perNode))

function torus(network: TorusNetwork, devices: number, overrides: Overrides): Topology {
  const dims = overrides.dims ?? sliceOf(devices, network.dims)
  return { kind: 'torus', dims, link: network.link, wrapsFrom: network.wrapsFrom }
}

function treeProblems(overrides: Overrides): Problem[] {
  return overrides.dims === undefined ? [] : [refused('dims', 'cluster/dims/tree')]
}

const ofTrees = ['perNode', 'nodeBandwidth', 'nicsPerNode', 'nicBandwidth', 'oversubscription', 'pod'] as const

function torusProblems(network: TorusNetwork, devices: number, overrides: Overrides): Problem[] {
  const misplaced = ofTrees.filter(key => overrides[key] !== undefined).map(key => refused(key, 'cluster/override'))
  const { dims } = overrides
  const product = dims?.reduce((n, size) => n * size, 1)
  return [
    ...misplaced,
    ...(dims && product !== undefined && product !== devices
      ? [refused('dims', 'cluster/dims/product', { dims: dims.join(' x '), product, devices })]
      : []),
    ...(dims && dims.length > network.dims
      ? [refused('dims', 'cluster/dims/many', { dims: dims.length, most: network.dims })]
      : []),
    ...(devices > network.most ? [refused('devices', 'cluster/devices/slice', { devices, most: network.most })] : []),
  ]
}
