/** What is said of clusters, in English. */
import { type ProblemPhrases, phrasing, schemaPhrases } from '../base/index.js'

const leaveOut = 'leave it out'

export const clusterPhrases = {
  ...schemaPhrases,
  'schema/type/cluster': ['a cluster is a mapping', 'such as {example}'],
  'cluster/device': ['unknown device `{name}`', '{instead}'],
  'cluster/devices/least': ['must be at least 1, got {devices}'],
  'cluster/devices/slice': [
    '{devices} devices are more than the {most} of one slice',
    'set slices to {slices} or more',
  ],
  'cluster/devices/slices': ['{devices} devices cannot be {slices} slices of as many each'],
  'cluster/precision': ['{device} does not multiply in {precision}', 'it has {precisions}'],
  'cluster/dims/tree': ['these devices are joined by a tree, which has no {key}', leaveOut],
  'cluster/dims/product': ['{dims} = {product} devices, but there are {devices}'],
  'cluster/dims/many': ['{dims} dims, but the torus of these devices has {most}'],
  'cluster/override': ['these devices are joined by a torus, which has no nodes', leaveOut],
  'cluster/levels/shrink': [
    'a {outer} of {size} devices cannot hold a {inner} of {within}',
    'levels go from the innermost out, sizes count all devices within',
  ],
  'cluster/levels/last': [
    'the last level holds {size} devices, but there are {devices}',
    'the last level holds them all',
  ],
} as const satisfies ProblemPhrases

export const { refused } = phrasing(clusterPhrases)
