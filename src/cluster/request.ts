/**
 * A cluster in the few words people use: a device of the catalog, how many, and where this cluster differs from the
 * one its maker would build. A cluster file holds either this or a full definition (`Cluster`).
 */
import { z } from 'zod'

const rate = z.number().positive()

export const ClusterRequest = z.strictObject({
  name: z.string().optional().describe('name of the cluster'),
  device: z.string().describe('a device of the catalog, such as h100'),
  devices: z.int().min(1).describe('number of devices'),
  perNode: z.int().min(1).optional().describe('devices per node, or per NVLink rack'),
  nodeBandwidth: rate.optional().describe('bandwidth per direction between the devices of a node, in bytes per second'),
  nicsPerNode: z.int().min(1).optional().describe('network cards (NICs) per node'),
  nicBandwidth: rate.optional().describe('bytes per second one way of one network card'),
  oversubscription: z
    .number()
    .min(1)
    .optional()
    .describe('oversubscription ratio of the network above a pod: 2 is 2:1'),
  pod: z.int().min(1).optional().describe('devices of a pod; within it the network is never oversubscribed'),
  dims: z.array(z.int().min(1)).min(1).max(3).optional().describe('size of one slice (torus), such as [8, 8, 16]'),
  slices: z
    .int()
    .min(1)
    .optional()
    .describe('number of tori connected by a network; default: the fewest that hold all devices'),
  sliceBandwidth: rate
    .optional()
    .describe('network bandwidth between slices per device and direction, in bytes per second'),
  memory: rate.optional().describe('bytes of one device'),
  diskRead: rate.optional().describe('disk read bandwidth per device, in bytes per second'),
  diskWrite: rate.optional().describe('disk write bandwidth per device, in bytes per second'),
  pricePerHour: z.number().min(0).optional().describe('US dollars for one device'),
})
export type ClusterRequest = z.output<typeof ClusterRequest>
export type Overrides = Omit<ClusterRequest, 'device' | 'devices'>
