/** Messages about clusters, in English. */
import { type ProblemPhrases, phrasing, schemaPhrases } from '../base/index.js'

const leaveOut = 'leave it out'

export const clusterPhrases = {
  ...schemaPhrases,
  'schema/type/cluster': ['a cluster is a mapping', 'such as {example}'],
  'cluster/device': ['unknown device `{name}`', '{instead}'],
  'cluster/devices/least': ['must be at least 1, got {devices}'],
  'cluster/devices/slice': ['{devices} devices exceed the {most} of one slice', 'set slices to {slices} or more'],
  'cluster/devices/slices': ['{devices} devices cannot be divided into {slices} equal slices'],
  'cluster/precision': ['{device} does not support {precision} matmuls', 'it supports {precisions}'],
  'cluster/dims/tree': ['these devices are connected in a tree, which has no {key}', leaveOut],
  'cluster/dims/product': ['{dims} = {product} devices, but the cluster has {devices}'],
  'cluster/dims/many': ['{dims} dims, but the torus of these devices has at most {most}'],
  'cluster/override': ['these devices are connected in a torus, which has no nodes', leaveOut],
  'cluster/levels/shrink': [
    'a {outer} of {size} devices cannot hold a {inner} of {within}',
    'list levels from the innermost outward; each size counts all devices inside',
  ],
  'cluster/levels/last': [
    'the last level has {size} devices, but the cluster has {devices}',
    'the last level must include all devices',
  ],
} as const satisfies ProblemPhrases

export const { refused } = phrasing(clusterPhrases)
