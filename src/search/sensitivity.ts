/** What would change the choice: the same search on a machine, or with a batch, that is a little different. */
import type { Cluster, Topology } from '../cluster/index.js'
import type { Split } from '../estimate/index.js'
import { usualRows } from '../plan/index.js'
import { searchAll } from './allowed.js'
import type { Request } from './request.js'
import type { Priced } from './search.js'
import type { Difference, Sentence } from './sentences.js'
import { searchedAxes } from './space.js'

/** The best plan on a slightly different cluster, such as one with twice the network bandwidth. */
export interface Sensitivity {
  /** 'network x2'. */
  readonly change: Sentence
  /** Absent: nothing fits. */
  readonly best?: Priced
  /** The factor by which tokens/s change. */
  readonly speedup?: number
  readonly differences: readonly Difference[]
}

type WhatIf = readonly [change: Sentence, request: (from: Request) => Request]

const changes: readonly WhatIf[] = [
  ...[2, 0.5].map(
    (by): WhatIf => [
      { code: 'what-if/network', values: { by } },
      request => ({ ...request, cluster: networkTimes(request.cluster, by) }),
    ],
  ),
  [
    { code: 'what-if/memory', values: { by: 1.5 } },
    request => ({ ...request, cluster: memoryTimes(request.cluster, 1.5) }),
  ],
  [{ code: 'what-if/batch', values: { by: 2 } }, request => ({ ...request, globalBatch: 2 * request.globalBatch })],
]

/** How many there are. */
export const sensitivities: number = changes.length

/** How the best plan changes on slightly different clusters, one at a time, so that a caller can show progress. */
export function* sensitivityOf(request: Request, chosen: Priced): Generator<Sensitivity> {
  for (const [change, changed] of changes) {
    const asked = changed(request)
    const best = searchAll(asked, { keep: 1, front: false }).best[0]
    if (!best) yield { change, differences: [] }
    else {
      const rate = (r: Request, { estimate }: Priced) => r.globalBatch / estimate.step
      const speedup = rate(asked, best) / rate(request, chosen)
      yield { change, best, speedup, differences: differencesOf(chosen.split, best.split) }
    }
  }
}

/** The same cluster with this many times the memory per device. */
export const memoryTimes = (cluster: Cluster, by: number): Cluster => ({
  ...cluster,
  device: { ...cluster.device, memory: cluster.device.memory * by },
})

/** The same cluster with this many times the bandwidth between nodes or slices; if there is only one, within it. */
export function networkTimes(cluster: Cluster, by: number): Cluster {
  const faster = <L extends { readonly link: { readonly bandwidth: number } }>(level: L): L => ({
    ...level,
    link: { ...level.link, bandwidth: level.link.bandwidth * by },
  })
  const { topology } = cluster
  const changed: Topology =
    topology.kind === 'torus'
      ? topology.slices
        ? { ...topology, slices: faster(topology.slices) }
        : faster(topology)
      : {
          ...topology,
          levels: topology.levels.map((level, i) => (i > 0 || topology.levels.length === 1 ? faster(level) : level)),
        }
  return { ...cluster, topology: changed }
}

const fields = [
  ...searchedAxes,
  'ep',
  'etp',
  'rows',
  'zero',
  'reduce',
  'gather',
  'microbatch',
  'schedule',
  'chunks',
  'recompute',
] as const

const unsaid: Readonly<Record<string, string>> = {
  reduce: 'microbatch',
  gather: 'use',
  etp: '1',
  rows: String(usualRows),
}

/** The fields in which two plans differ. Microbatches are left out, since they follow from the rest. */
export function differencesOf(a: Split, b: Split): Difference[] {
  // Chunks are those of a schedule, and a schedule is that of a pipeline.
  const told = (field: (typeof fields)[number]) =>
    (field !== 'chunks' || a.schedule === b.schedule) && (field !== 'schedule' || b.pp > 1)
  const plain = fields
    .filter(field => a[field] !== b[field] && told(field))
    .map(field => ({ field, from: String(a[field] ?? unsaid[field]), to: String(b[field] ?? unsaid[field]) }))
  const all = [...plain, ...groupsOf(a, b)]
  if (a.sequenceParallel === b.sequenceParallel || a.tp === 1 || b.tp === 1) return all
  const word = (on: boolean) => (on ? 'on' : 'off')
  return [...all, { field: 'sequence parallel', from: word(a.sequenceParallel), to: word(b.sequenceParallel) }]
}

/** HSDP: how many ranks of dp ZeRO shards over, where one of the plans sets that. */
function groupsOf(a: Split, b: Split): Difference[] {
  const shard = ({ dp, cp, zero, sharded = dp * cp }: Split): number => (zero > 0 ? sharded / cp : dp)
  const isSet = (a.sharded ?? b.sharded) !== undefined
  return isSet && shard(a) !== shard(b) ? [{ field: 'shard', from: String(shard(a)), to: String(shard(b)) }] : []
}

/** What differs between two plans, as a message. */
export const differenceSentence = (differences: readonly Difference[]): Sentence =>
  differences.length === 0 ? { code: 'plan/same', values: {} } : { code: 'plan/differs', values: { differences } }

/** The speedup of a change, as a message. */
export const speedSentence = ({ speedup }: Sensitivity): Sentence =>
  speedup === undefined
    ? { code: 'what-if/nothing-fits', values: {} }
    : { code: 'what-if/speed', values: { gain: speedup - 1 } }
