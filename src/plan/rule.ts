/** What `check` is made of: functions of a job that yield what is wrong with it. */
import { bytesPer, type Problem, planPrecisionFacts } from '../base/index.js'
import { type ScheduleFacts, scheduleFacts } from './schedule.js'
import type { Job, Plan } from './schema.js'

export type Rule = (job: Job) => Iterable<Problem>

/** Undefined for a schedule from a file: nothing is known of it before it is read. */
export const scheduleFactsOf = ({ schedule }: Plan): ScheduleFacts | undefined =>
  typeof schedule === 'string' ? scheduleFacts[schedule] : undefined

/** Backward is split in input gradient and weight gradient, at times or always. */
export const splitsBackward = (plan: Plan): boolean => {
  const facts = scheduleFactsOf(plan)
  return facts !== undefined && facts.backward !== 'whole'
}

/** Whether the sequence is split in zigzag over cp: where a plan does not say, wherever it can be. */
export const isZigzag = ({ cp, zigzag }: Pick<Plan, 'cp' | 'zigzag'>, seq: number): boolean =>
  cp > 1 && (zigzag ?? seq % (2 * cp) === 0)

/** A sequence of a few tokens that is split as a longer one is, and the plan that says so. */
export function fewTokens(
  seq: number,
  plan: Plan,
  ranks: Pick<Plan, 'tp' | 'cp'>,
): { seq: number; plan: Partial<Plan> } {
  const zigzag = isZigzag(plan, seq)
  const unit = ranks.tp * ranks.cp * (zigzag ? 2 : 1)
  return { seq: Math.min(seq, unit * Math.ceil(4 / unit)), plan: plan.cp > 1 ? { zigzag } : {} }
}

/** Bytes per number of gradients and optimizer state. */
export const bytesPerNumber = ({ precision }: Plan): number => bytesPer[planPrecisionFacts[precision].state]

/** A parameter in units of that: under bf16 it is half as wide as what belongs to it. */
export const widthOfParameter = (plan: Plan): number =>
  bytesPer[planPrecisionFacts[plan.precision].token] / bytesPerNumber(plan)
