/** Ranks: tp, pp, cp, experts, what is left for dp, and how the batch is cut over them. */
import type { Terms } from './terms.js'

export interface Mesh {
  readonly world?: number
  readonly tp: number
  readonly pp: number
  readonly cp: number
  /** Ranks that share the batch; undefined: not known. */
  readonly dp?: number
}

/** undefined: something is refused. */
export function readMesh(t: Terms, world: number | undefined): Mesh | undefined {
  const axis = (term: string, field: string) => t.numeric(term, field, 1)
  const [tp, pp] = [axis('tensor-model-parallel-size', 'plan.tp'), axis('pipeline-model-parallel-size', 'plan.pp')]
  const cp = readContext(t)
  const given = { ...(world !== undefined && { world }), tp: tp ?? 1, pp: pp ?? 1, cp: cp ?? 1 }
  if (t.reading.refused) return undefined
  t.reading.world = world
  const open = [tp, pp, cp].includes(undefined)
  if (open) {
    if (tp === undefined) t.reading.missing('plan.tp', `${t.path('tensor-model-parallel-size')} is not in the file`)
    if (pp === undefined) t.reading.missing('plan.pp', `${t.path('pipeline-model-parallel-size')} is not in the file`)
    return given
  }
  if (world === undefined) {
    t.reading.refuse(
      'world',
      `the world size is not in the file: set --devices to a multiple of tp ${tp} x pp ${pp} x cp ${cp}`,
    )
    return undefined
  }
  const dp = readData(t, { ...given, world })
  return dp === undefined ? undefined : { ...given, dp }
}

function readData(t: Terms, { world, tp, pp, cp }: Mesh & { world: number }): number | undefined {
  const ranks = tp * pp * cp
  if (world % ranks !== 0) {
    const equation = `world ${world} % (tp ${tp} x pp ${pp} x cp ${cp} = ${ranks}) = ${world % ranks}, must be 0`
    for (const term of ['tensor-model-parallel-size', 'pipeline-model-parallel-size', 'context-parallel-size', 'world'])
      if (term === 'world' || t.has(term)) t.refuse(term, `${equation}; set the world size with --devices`)
    return undefined
  }
  const dp = world / ranks
  t.derive('world', 'plan.dp', dp, `dp ${dp} = world ${world} / (tp ${tp} x pp ${pp}${cp > 1 ? ` x cp ${cp}` : ''})`)
  readOrder(t)
  readInstances(t, dp)
  return dp
}

/** Ulysses of DeepSpeed counts as cp: it splits the sequence as well. */
function readContext(t: Terms): number | undefined {
  const exchange = t.whole('ds-sequence-parallel-size', 1) ?? 1
  if (exchange > 1) {
    t.carry('ds-sequence-parallel-size', 'plan.cp', exchange, 'Ulysses (all-to-all)')
    t.reading.set('plan.attention', 'ulysses')
    return exchange
  }
  t.read('ds-sequence-parallel-size')
  const cp = t.numeric('context-parallel-size', 'plan.cp', 1)
  if (cp === undefined || cp === 1) return cp
  readAttention(t, cp)
  return cp
}

const exchanges = { p2p: 'ring', a2a: 'ulysses', all_gather: 'gather', allgather: 'gather' } as const

function readAttention(t: Terms, cp: number): void {
  const kind = String(t.list('cp-comm-type')?.[0] ?? 'p2p')
  if (kind === 'a2a+p2p') {
    const [ulysses, ring] = (t.list('hierarchical-context-parallel-sizes') ?? []).map(Number)
    if (ulysses && ring) t.carry('cp-comm-type', 'plan.attention', { ulysses, ring }, 'a2a within, p2p between')
    else t.refuse('hierarchical-context-parallel-sizes', 'a2a+p2p needs two sizes, whose product is cp')
    t.read('hierarchical-context-parallel-sizes')
    return
  }
  const attention = exchanges[kind as keyof typeof exchanges]
  if (!attention) t.drop('cp-comm-type', `${kind} is not known; all-gather is used`)
  else if (t.has('cp-comm-type')) t.carry('cp-comm-type', 'plan.attention', attention)
  else
    t.reading.assume(
      t.path('context-parallel-size'),
      'plan.attention',
      attention,
      `cp ${cp}: keys rotate around the ring (p2p)`,
    )
}

/** Ranks that hold different experts, once it is known whether the model of the job has any. */
export function readExperts(t: Terms, { world, tp, pp, cp, dp }: Mesh): void {
  if (world === undefined || dp === undefined) return
  const term =
    ['expert-model-parallel-size', 'moe-expert-parallel-size'].find(one => t.has(one)) ?? 'expert-model-parallel-size'
  const ep = t.whole(term, 1) ?? 1
  const etp = t.whole('expert-tensor-parallel-size', 1)
  const experts = t.list('num-experts')?.map(Number)[0] ?? 0
  const family = t.reading.field('model.family')
  const isDense = family !== undefined && t.reading.field('model.moe') === undefined
  if (isDense && ep > 1) t.drop(term, `ep ${ep}: the model of the job has no experts`)
  if (isDense || (experts <= 1 && ep === 1)) {
    t.read(term, 'expert-tensor-parallel-size')
    return
  }
  const width = etp ?? tp
  if (world % (width * ep * pp) !== 0)
    t.refuse(
      term,
      `world ${world} % (etp ${width} x ep ${ep} x pp ${pp} = ${width * ep * pp}) = ${world % (width * ep * pp)}, must be 0`,
    )
  else if (experts > 1 && experts % ep !== 0)
    t.refuse(term, `experts ${experts} % ep ${ep} = ${experts % ep}, must be 0`)
  else if (ep > 1) t.carry(term, 'plan.ep', ep, `over the dp ${dp} x cp ${cp} x tp ${tp} ranks of a stage`)
  else t.read(term)
  if (etp !== undefined) t.carry('expert-tensor-parallel-size', 'plan.etp', etp)
  else if (tp > 1)
    t.reading.assume(t.path('expert-tensor-parallel-size'), 'plan.etp', tp, `as many as tp: ${t.defaults.of}`)
}

function readOrder(t: Terms): void {
  if (t.is('use-tp-pp-dp-mapping')) t.carry('use-tp-pp-dp-mapping', 'plan.rankOrder', 'tp-cp-ep-pp-dp')
  else t.read('use-tp-pp-dp-mapping')
}

/** HSDP: each instance of the distributed optimizer shards over its part of dp, which is a replica of the others. */
function readInstances(t: Terms, dp: number): void {
  const term = 'num-distributed-optimizer-instances'
  const instances = t.whole(term, 1) ?? 1
  if (instances === 1) t.read(term)
  else if (!t.is('use-distributed-optimizer')) t.drop(term, 'without --use-distributed-optimizer nothing is sharded')
  else if (dp % instances !== 0) t.refuse(term, `dp ${dp} % ${instances} instances = ${dp % instances}, must be 0`)
  else t.carry(term, 'plan.shard', dp / instances, `HSDP: ${instances} replicas of dp ${dp} / ${instances} ranks`)
}
