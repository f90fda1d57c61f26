/** A cluster file's value as a cluster, or everything that is wrong with it. */
import { hasErrors, type Problem, problemsOf } from '../base/index.js'
import { allDims, build } from './build.js'
import { Cluster, sliceSize } from './cluster.js'
import { deviceNames, deviceOf, findEntry, unknownDevice } from './lookup.js'
import { refused } from './phrases.js'
import { ClusterRequest } from './request.js'

export interface ParsedCluster {
  /** Present exactly if there are no problems. */
  readonly cluster?: Cluster
  readonly problems: readonly Problem[]
}

/** Reads a cluster from parsed YAML or JSON: a short request, or with `topology` a full definition. */
export function parseCluster(value: unknown): ParsedCluster {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { problems: [refused('', 'schema/type/cluster', { example: '{device: h100, devices: 64}' })] }
  return 'topology' in value ? fromDefinition(value) : fromRequest(value)
}

function fromRequest(value: object): ParsedCluster {
  const parsed = ClusterRequest.safeParse(value)
  const wrong = parsed.success ? [] : problemsOf(parsed.error.issues, ClusterRequest, value)
  // Read from the raw value: a misspelt key must not hide a misspelt device.
  const named = 'device' in value && typeof value.device === 'string' ? value.device : undefined
  const entry = named === undefined ? undefined : findEntry(named)
  const problems = [...wrong, ...(named === undefined || entry ? [] : [unknownDevice(named)])]
  if (!parsed.success || !entry || problems.length > 0) return { problems }
  const { device: _, devices, ...overrides } = parsed.data
  const built = build(entry, devices, overrides)
  return 'problems' in built ? built : { cluster: built.cluster, problems: [] }
}

/** In a full definition too a device of the catalog may be called by its name. */
function fromDefinition(value: object & { device?: unknown }): ParsedCluster {
  const named = typeof value.device === 'string' ? value.device : undefined
  const entry = named === undefined ? undefined : findEntry(named)
  const unknown = named !== undefined && !entry ? [unknownDevice(named)] : []
  // Any device stands in for one that is unknown, so that the rest can still be judged.
  const device = named === undefined ? value.device : (entry?.device ?? deviceOf(deviceNames[0]))
  const resolved = { ...value, device }
  const parsed = Cluster.safeParse(resolved)
  const problems = parsed.success ? inconsistencies(parsed.data) : problemsOf(parsed.error.issues, Cluster, resolved)
  const all = [...unknown, ...problems]
  return parsed.success && !hasErrors(all) ? { cluster: parsed.data, problems: all } : { problems: all }
}

function inconsistencies({ topology, devices }: Cluster): Problem[] {
  if (topology.kind === 'torus') {
    const { dims, slices } = topology
    const product = sliceSize(topology) * (slices?.count ?? 1)
    return product === devices
      ? []
      : [refused('topology.dims', 'cluster/dims/product', { dims: allDims(dims, slices?.count), product, devices })]
  }
  const { levels } = topology
  const shrinking = levels.flatMap(({ name, size }, i) =>
    i > 0 && size < levels[i - 1].size
      ? [
          refused(`topology.levels[${i}].size`, 'cluster/levels/shrink', {
            ...{ outer: name, size, inner: levels[i - 1].name, within: levels[i - 1].size },
          }),
        ]
      : [],
  )
  const { size } = levels[levels.length - 1]
  const outside =
    size < devices
      ? [refused(`topology.levels[${levels.length - 1}].size`, 'cluster/levels/last', { size, devices })]
      : []
  return [...shrinking, ...outside]
}
