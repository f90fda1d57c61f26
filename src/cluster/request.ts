/**
 * A cluster in the few words people use: a device of the catalog, how many, and where this cluster differs from the
 * one its maker would build. A cluster file holds either this or a full definition (`Cluster`).
 */
import { z } from 'zod'

const rate = z.number().positive()

export const ClusterRequest = z.strictObject({
  name: z.string().optional().describe('what to call it'),
  device: z.string().describe('a device of the catalog, such as h100'),
  devices: z.int().min(1).describe('number of devices'),
  perNode: z.int().min(1).optional().describe('devices per node, or per NVLink rack'),
  nodeBandwidth: rate.optional().describe('bandwidth per direction between the devices of a node, in bytes per second'),
  nicsPerNode: z.int().min(1).optional().describe('network cards (NICs) per node'),
  nicBandwidth: rate.optional().describe('bytes per second one way of one network card'),
  oversubscription: z.number().min(1).optional().describe('bytes into the top of a pod for each byte out of it'),
  pod: z.int().min(1).optional().describe('devices of a pod; within it the network is never oversubscribed'),
  dims: z.array(z.int().min(1)).min(1).max(3).optional().describe('of a torus, such as [8, 8, 16]; of one slice'),
  slices: z
    .int()
    .min(1)
    .optional()
    .describe('tori that a network joins: as few as hold all devices where it is not said'),
  sliceBandwidth: rate.optional().describe('bytes per second one way that a device has of the network between slices'),
  memory: rate.optional().describe('bytes of one device'),
  diskRead: rate.optional().describe('bytes per second that one device’s share of the node’s disks is read with'),
  diskWrite: rate.optional().describe('bytes per second that it is written with'),
  pricePerHour: z.number().min(0).optional().describe('US dollars for one device'),
})
export type ClusterRequest = z.output<typeof ClusterRequest>
export type Overrides = Omit<ClusterRequest, 'device' | 'devices'>
