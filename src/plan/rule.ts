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

/** Bytes per number of gradients and optimizer state. */
export const bytesPerNumber = ({ precision }: Plan): number => bytesPer[planPrecisionFacts[precision].state]

/** A parameter in units of that: under bf16 it is half as wide as what belongs to it. */
export const widthOfParameter = (plan: Plan): number =>
  bytesPer[planPrecisionFacts[plan.precision].token] / bytesPerNumber(plan)
