/** What is said of links and of a server that is silent, in English. */

export const linkPhrases = {
  'schema/value/cluster': ['`{text}` is no cluster', 'such as {example}'],
  'schema/value/between': ['`{text}` is no number from {least} to {most}'],
  'schema/value/slow': ['`{text}` is no slow rank', 'such as {example}'],
  'schema/value/part': ['`{text}` is no part of a plan', 'such as {example}'],
  'schema/value/link': ['the job within this link cannot be read', 'was all of the link copied?'],
  'plan/ranks/none': ['there is no such plan: {why}'],
  'plan/ranks/axis': ['{product} is not {devices} devices, and no axis can give'],
  'cluster/devices/world': [
    '{product} = {ranks} ranks, but the cluster has {devices} devices',
    'take {ranks} devices, or change dp',
  ],
  'simulate/rank': ['there is no rank {rank}: the plan has ranks 0 to {last}'],
  'engine/failed/silent': ['the server of lockstep studio does not answer ({why})', 'has it ended?'],
} as const
