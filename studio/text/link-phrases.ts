/** Messages about links, and about a server that does not respond, in English. */

export const linkPhrases = {
  'schema/value/cluster': ['`{text}` is not a cluster', 'such as {example}'],
  'schema/value/between': ['`{text}` is not a number from {least} to {most}'],
  'schema/value/slow': ['`{text}` is not a slow rank', 'such as {example}'],
  'schema/value/part': ['`{text}` is not part of a plan', 'such as {example}'],
  'schema/value/link': ['the job in this link cannot be read', 'was the full link copied?'],
  'plan/ranks/none': ['no such plan exists: {why}'],
  'plan/ranks/axis': ['{product} is not {devices} devices, and no axis can be reduced'],
  'cluster/devices/world': [
    '{product} = {ranks} ranks, but the cluster has {devices} devices',
    'set {ranks} devices, or change dp',
  ],
  'simulate/rank': ['unknown rank {rank}: the plan has ranks 0 to {last}'],
  'engine/failed/silent': ['the lockstep studio server does not respond ({why})', 'was it stopped?'],
} as const
