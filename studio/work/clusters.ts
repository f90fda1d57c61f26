/** The catalog: what every device and its usual cluster are said to be, and by whom. */
import { clusterOf, deviceNames, ProblemsError } from 'lockstep'

export interface LinkFacts {
  readonly name: string
  /** How many devices one of it joins. */
  readonly size: number
  readonly kind: string
  /** Bytes a second, one way. */
  readonly bandwidth: number
  readonly latency: number
}

export interface ClusterFacts {
  readonly name: string
  readonly title: string
  readonly memory: number
  readonly bandwidth: number
  /** FLOP/s by what is multiplied. */
  readonly peak: Readonly<Record<string, number>>
  readonly price?: number
  readonly shape: 'tree' | 'torus'
  readonly links: readonly LinkFacts[]
  readonly sources: readonly string[]
}

/** As many devices as show all levels of a cluster. */
const shown = 64

function factsOf(name: string): ClusterFacts {
  const { device, topology, sources } = clusterOf(name, shown)
  const links = topology.kind === 'tree' ? topology.levels : [{ name: 'torus', size: shown, link: topology.link }]
  return {
    ...{ name, title: device.title, memory: device.memory, bandwidth: device.bandwidth },
    peak: Object.fromEntries(
      Object.entries(device.peak).filter((entry): entry is [string, number] => entry[1] !== undefined),
    ),
    ...(device.pricePerHour !== undefined && { price: device.pricePerHour }),
    shape: topology.kind === 'tree' ? 'tree' : 'torus',
    links: links.map(({ name, size, link }) => ({
      name,
      size,
      kind: link.kind,
      bandwidth: link.bandwidth,
      latency: link.latency,
    })),
    sources: [...device.sources, ...sources],
  }
}

export const catalog = (_: object): ClusterFacts[] => deviceNames.map(factsOf)

/** One of them, or what is wrong with the name. */
export function one({ name }: { readonly name: string }): ClusterFacts {
  if (!deviceNames.some(known => known === name))
    throw new ProblemsError([
      {
        severity: 'error',
        code: 'cluster/device',
        path: 'cluster',
        message: `there is no device ${name}`,
        suggestion: `try ${deviceNames.join(', ')}`,
      },
    ])
  return factsOf(name)
}
