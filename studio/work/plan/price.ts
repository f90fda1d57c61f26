/** Numbers at once: what a plan costs in closed form, in a millisecond or two. Marked as estimates wherever they are shown. */
import { capacityOf, type Part, partNames, priceOf, ratesOfPlan, requestOfJob, runOf, splitOf } from 'lockstep'
import { type Asked, type Link, readLink } from './link.js'

/** A step and a rank in figures: of an estimate, or of the program itself. */
export interface Numbers {
  readonly exact: boolean
  readonly step: number
  /** Seconds, by part: they add up to the step. */
  readonly parts: readonly (readonly [name: string, seconds: number])[]
  readonly mfu: number
  readonly tokensPerSecond: number
  /** Bytes of the heaviest rank, and what may be used. */
  readonly bytes: number
  readonly capacity: number
  /** Bytes of ranks, by kind. An estimate knows the heaviest alone. */
  readonly ranks: readonly RankBytes[]
  readonly run: { readonly tokens: number; readonly days: number; readonly dollars?: number }
  /** Useful seconds of each second, where devices fail. */
  readonly goodput?: number
}

export interface RankBytes {
  readonly label: string
  readonly kinds: readonly (readonly [kind: string, bytes: number])[]
  readonly bytes: number
}

export interface PriceAnswer {
  /** What was asked. */
  readonly link: Link
  readonly numbers: Numbers
}

/** Refused where the model has no closed form. */
export async function price(link: Link): Promise<PriceAnswer> {
  const { job, cluster, whatIf } = await readLink(link)
  const request = requestOfJob(job, cluster)
  const plan = priceOf(request, splitOf(job, '1f1b'))
  const { estimate, bytes } = plan
  const { mfu, tokensPerSecond } = ratesOfPlan(request, plan)
  const numbers: Numbers = {
    ...{ exact: false, step: estimate.step, mfu, bytes, tokensPerSecond, capacity: capacityOf(request) },
    parts: partsOf(estimate.parts),
    ranks: [{ label: '', kinds: shown(Object.entries(estimate.memory)), bytes }],
    run: runFor({ job, cluster, whatIf }, estimate.step),
  }
  return { link, numbers }
}

/** In one order, so that bars keep theirs. */
export const partsOf = (parts: Readonly<Partial<Record<Part, number>>>): Numbers['parts'] =>
  partNames.flatMap(name => (parts[name] ? [[name, parts[name]] as const] : []))

export const shown = (kinds: readonly (readonly [string, number])[]) => kinds.filter(([, bytes]) => bytes > 0)

export function runFor({ job, cluster, whatIf }: Pick<Asked, 'job' | 'cluster' | 'whatIf'>, step: number) {
  const { tokens } = whatIf
  const { pricePerHour } = cluster.device
  const work = { devices: cluster.devices, tokens: job.training.globalBatch * job.training.seq }
  const { days, dollars } = runOf(step, work, { tokens, ...(pricePerHour !== undefined && { price: pricePerHour }) })
  return { tokens, days, ...(dollars !== undefined && { dollars }) }
}
