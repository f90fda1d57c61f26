/** Catalog entry + number of devices + differences -> cluster, or what is wrong with asking for it. */
import type { Problem } from '../base/index.js'
import type { Entry, TorusNetwork, TreeNetwork } from './catalog/entry.js'
import { type Cluster, type Level, sliceSize, type Topology, usualDisk } from './cluster.js'
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
  const count = slicesFor(network, devices, overrides)
  const dims = overrides.dims ?? sliceOf(devices / count, network.dims)
  const { sliceBandwidth: bandwidth = network.beyond.bandwidth } = overrides
  return {
    ...{ kind: 'torus', dims, link: network.link, wrapsFrom: network.wrapsFrom },
    ...(count > 1 && { slices: { count, link: { ...network.beyond, bandwidth } } }),
  }
}

/** As few as can hold all devices, each as many; of dims that are said one, unless there are said to be more. */
function slicesFor({ most }: TorusNetwork, devices: number, { slices, dims }: Overrides): number {
  if (slices !== undefined || dims) return slices ?? 1
  const least = Math.ceil(devices / most)
  for (let count = least; count < 4 * least; count++) if (devices % count === 0) return count
  return least
}

const ofTori = ['dims', 'slices', 'sliceBandwidth'] as const

const treeProblems = (overrides: Overrides): Problem[] =>
  ofTori.filter(key => overrides[key] !== undefined).map(key => refused(key, 'cluster/dims/tree', { key }))

const ofTrees = ['perNode', 'nodeBandwidth', 'nicsPerNode', 'nicBandwidth', 'oversubscription', 'pod'] as const

function torusProblems(network: TorusNetwork, devices: number, overrides: Overrides): Problem[] {
  const misplaced = ofTrees.filter(key => overrides[key] !== undefined).map(key => refused(key, 'cluster/override'))
  const { dims } = overrides
  const count = slicesFor(network, devices, overrides)
  const each = dims ? sliceSize({ dims }) : devices / count
  const product = count * each
  return [
    ...misplaced,
    ...(dims && product !== devices
      ? [refused('dims', 'cluster/dims/product', { dims: allDims(dims, count), product, devices })]
      : []),
    ...(Number.isInteger(each) ? [] : [refused('slices', 'cluster/devices/slices', { devices, slices: count })]),
    ...(dims && dims.length > network.dims
      ? [refused('dims', 'cluster/dims/many', { dims: dims.length, most: network.dims })]
      : []),
    ...(each > network.most
      ? [
          refused('devices', 'cluster/devices/slice', {
            ...{ devices: product, most: network.most, slices: Math.ceil(devices / network.most) },
          }),
        ]
      : []),
  ]
}

/** '2 x 16 x 16': of two slices. */
export const allDims = (dims: readonly number[], slices = 1): string =>
  (slices > 1 ? [slices, ...dims] : dims).join(' x ')
