/** What `check` is made of: functions of a job that yield what is wrong with it. */
import { bytesPer, gcd, gradientIn, type Problem, planPrecisionFacts } from '../base/index.js'
import { type ScheduleFacts, scheduleFacts } from './schedule.js'
import type { Data, Job, Plan } from './schema.js'

export type Rule = (job: Job) => Iterable<Problem>

/** Undefined for a schedule from a file: nothing is known of it before it is read. */
export const scheduleFactsOf = ({ schedule }: Plan): ScheduleFacts | undefined =>
  typeof schedule === 'string' ? scheduleFacts[schedule] : undefined

/** Backward is split in input gradient and weight gradient, at times or always. */
export const splitsBackward = (plan: Plan): boolean => {
  const facts = scheduleFactsOf(plan)
  return facts !== undefined && facts.backward !== 'whole'
}

/** cp = outer x ulysses: ranks of `outer` have different queries in attention, those of `ulysses` different heads. */
export interface ContextRanks {
  readonly outer: number
  readonly ulysses: number
  /** Keys go round among the ranks of `outer`; else they are gathered. */
  readonly ring: boolean
}

export function contextOf({ cp, attention }: Pick<Plan, 'cp' | 'attention'>): ContextRanks {
  if (typeof attention === 'object')
    return { outer: attention.ring, ulysses: attention.ulysses, ring: attention.ring > 1 }
  const ulysses = attention === 'ulysses'
  return { outer: ulysses ? 1 : cp, ulysses: ulysses ? cp : 1, ring: attention === 'ring' && cp > 1 }
}

/** dp = shard x groups (HSDP): ZeRO shards over the ranks of a group, and the groups are replicas. */
export interface DataGroups {
  readonly shard: number
  readonly groups: number
}

/** One group where a plan does not set `shard`, or on so few ranks that one is enough; a size that does not divide dp is refused. */
export function dataGroups({ dp, shard = dp }: Pick<Plan, 'dp' | 'shard'>): DataGroups {
  return shard < dp && dp % shard === 0 ? { shard, groups: dp / shard } : { shard: dp, groups: 1 }
}

/** How heads are split in attention: over tp first, then over the ranks of ulysses; first those of keys, then groups of queries. */
export interface HeadSplit {
  readonly tp: { readonly kvHeads: number; readonly group: number }
  readonly ulysses: { readonly kvHeads: number; readonly group: number }
}

export function headSplit(tp: number, ulysses: number, kvHeads: number | undefined): HeadSplit {
  if (kvHeads === undefined) return { tp: { kvHeads: tp, group: 1 }, ulysses: { kvHeads: ulysses, group: 1 } }
  const byTp = gcd(tp, kvHeads)
  const byUlysses = gcd(ulysses, kvHeads / byTp)
  return {
    tp: { kvHeads: byTp, group: tp / byTp },
    ulysses: { kvHeads: byUlysses, group: ulysses / byUlysses },
  }
}

/**
 * What is split in zigzag over cp, if anything: where a plan does not say, the sequence wherever it can be. Ranks that exchange
 * sequence for heads see all of it, so their cut is in order.
 */
export function zigzagOf(
  plan: Pick<Plan, 'cp' | 'zigzag' | 'attention'>,
  seq: number,
): 'sequence' | 'documents' | undefined {
  const { outer } = contextOf(plan)
  if (outer === 1) return undefined
  if (plan.zigzag === 'documents') return 'documents'
  return (plan.zigzag ?? seq % (2 * outer) === 0) ? 'sequence' : undefined
}

/** Documents have a multiple of so many tokens: where each is cut by itself, two chunks for each rank. */
export const documentUnit = (plan: Pick<Plan, 'cp' | 'zigzag' | 'attention'>): number =>
  plan.zigzag === 'documents' && contextOf(plan).outer > 1 ? 2 * contextOf(plan).outer : 1

/** A sequence of a few tokens that is split as a longer one is, the plan that says so, and data whose documents fit in. */
export interface FewTokens {
  readonly seq: number
  readonly plan: Partial<Plan>
  readonly data: Data | undefined
}

/** Where documents are cut one by one, a sequence has room for two of them. */
export function fewTokens(job: Job, ranks: Pick<Plan, 'tp' | 'cp' | 'attention'>): FewTokens {
  const { plan, data } = job
  const zigzag = zigzagOf(plan, job.training.seq)
  const unit = ranks.tp * ranks.cp * (zigzag === undefined ? 1 : zigzag === 'documents' ? 4 : 2)
  const seq = Math.min(job.training.seq, unit * Math.ceil(4 / unit))
  const said = zigzag === 'documents' ? zigzag : zigzag !== undefined
  const documents = data?.documents
  const pad = zigzag === 'documents' ? documentUnit({ ...ranks, zigzag }) : gcd(documents?.pad ?? 1, seq)
  return {
    ...{ seq, plan: plan.cp > 1 ? { zigzag: said } : {} },
    data: documents ? { ...data, documents: { ...documents, pad } } : data,
  }
}

/** Bytes per number of optimizer state. */
export const bytesPerNumber = ({ precision }: Plan): number => bytesPer[planPrecisionFacts[precision].state]

/** A parameter, and its gradient, in units of that: under bf16 a parameter is half as wide as its state. */
export const widthOfParameter = (plan: Plan): number =>
  bytesPer[planPrecisionFacts[plan.precision].token] / bytesPerNumber(plan)
export const widthOfGradient = (plan: Plan): number => bytesPer[gradientIn(plan)] / bytesPerNumber(plan)
