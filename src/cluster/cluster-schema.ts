/** The schemas of cluster files as JSON schema, for editors, and field by field, for people. */
import { z } from 'zod'
import { type FieldReference, fieldsOfSchema, type JsonSchema, schemaAsJson } from '../base/index.js'
import { Cluster } from './cluster.js'
import { clusterOf, deviceNames } from './lookup.js'
import { ClusterRequest } from './request.js'

/** The JSON schema of a cluster file: a short request, or with `topology` a full definition. */
export function clusterSchema(): JsonSchema {
  const request = schemaAsJson(ClusterRequest, z.toJSONSchema)
  const definition = schemaAsJson(Cluster, z.toJSONSchema)
  const device = { type: 'string', enum: deviceNames, description: 'a device of the catalog' }
  const described = definition.properties?.device ?? {}
  return {
    ...{ $id: 'lockstep-cluster', title: 'A cluster of Lockstep' },
    anyOf: [
      { ...request, properties: { ...request.properties, device: { ...device, examples: ['h100'] } } },
      {
        ...definition,
        properties: { ...definition.properties, device: { ...described, anyOf: [device, { ...described }] } },
      },
    ],
  }
}

/** Every field of a cluster file: first those of short requests, then those of full definitions. */
export function clusterFields(): readonly FieldReference[] {
  const whole = [clusterOf('h200', 64), clusterOf('tpu-v5p', 128, { slices: 2 })]
  const full = fieldsOfSchema(schemaAsJson(Cluster, z.toJSONSchema), [...whole, sample])
  return [
    ...fieldsOfSchema(schemaAsJson(ClusterRequest, z.toJSONSchema), [request]),
    ...full.map(field => ({ ...field, of: field.of ?? 'topology' })),
  ]
}

const request = {
  ...{
    name: 'ours',
    device: 'h100',
    devices: 64,
    perNode: 8,
    nodeBandwidth: 450e9,
    nicsPerNode: 8,
    nicBandwidth: 50e9,
  },
  ...{ oversubscription: 2, pod: 256, memory: 80e9, diskRead: 6e9, diskWrite: 4e9, pricePerHour: 2.5 },
  ...{ slices: 2, sliceBandwidth: 6.25e9 },
}
const sample = { cores: 8, disk: { read: 6e9, write: 4e9, memory: 1e12 }, host: { bandwidth: 100e9 } }
