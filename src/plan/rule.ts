/** What `check` is made of: functions of a job that yield what is wrong with it. */
import type { Problem } from '../base/index.js'
import { type ScheduleFacts, scheduleFacts } from './schedule.js'
import type { Job, Plan } from './schema.js'

export type Rule = (job: Job) => Iterable<Problem>

/** Of a schedule from a file nothing is known before it is read. */
export const scheduleFactsOf = ({ schedule }: Plan): ScheduleFacts | undefined =>
  typeof schedule === 'string' ? scheduleFacts[schedule] : undefined

/** Backward is split in input gradient and weight gradient, at times or always. */
export const splitsBackward = (plan: Plan): boolean => {
  const facts = scheduleFactsOf(plan)
  return facts !== undefined && facts.backward !== 'whole'
}

/** Of gradients and optimizer state. */
export const bytesPerNumber = ({ precision }: Plan): number => (precision === 'pure-bf16' ? 2 : 4)

/** Optimizer state is wider than the parameter, which is rounded from its master then. */
export const hasMaster = (plan: Plan): boolean => widthOfParameter(plan) < 1

/** A parameter in units of that: under bf16 it is half as wide as what belongs to it. */
export const widthOfParameter = ({ precision }: Plan): number => (precision === 'bf16' ? 0.5 : 1)
